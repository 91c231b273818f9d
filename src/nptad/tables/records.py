"""Rows one by one, as a service gets them: each cell is read by itself, so that a row is the same in any company.

A file is read column by column: how most cells of a column are written decides how all are read. Rows that come one by
one, from different clients, must not change one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nptad.tables.frames import RawColumns, texts
from nptad.tables.layout import UNREADABLE
from nptad.tables.readings import Reading, reading_of
from nptad.tables.schema import Category, Column, Schema
from nptad.wording import plural

Record = Mapping[str | int, Any]
"""A row: its cells by column, as JSON has them. A cell that is not there is missing."""


def record_problem(schema: Schema, record: Record) -> str | None:
    """Why a record cannot be scored, as a sentence; None if it can. Cells that cannot be read are no reason.

    >>> schema = Schema((Column("x", "numeric", "number"), Column("y", "numeric", "number")), 9, True)
    >>> record_problem(schema, {"x": [1], "y": 2})
    "The row has a list or an object in column 'x'; give each of its values a column of its own."
    >>> record_problem(schema, {"x": "many"})
    """
    names = [column.name for column in schema.used]
    nested = next((name for name in names if isinstance(record.get(name), list | dict)), None)
    if nested is not None:
        return f"The row has a list or an object in column {nested!r}; give each of its values a column of its own."
    there = sum(name in record for name in names)
    if there < len(names) / 2:
        which = ", ".join(str(name) for name in names if name not in record)
        return (
            f"The row has {there:,} of the {plural(len(names), 'column')} of the model, which needs half of them; add "
            f"{which[:200]}."
        )
    return None


def read_records(schema: Schema, records: Sequence[Record]) -> RawColumns:
    """The columns of records without a problem, with all cells in the form that they had in training.

    >>> schema = Schema((Column("x", "numeric", "number"), Column("c", "categorical", "text")), 9, True)
    >>> raw = read_records(schema, [{"x": "1.5", "c": 7}, {"x": "many"}])
    >>> raw.cells["x"].tolist(), raw.cells["c"].tolist()
    ([1.5, inf], ['7', None])
    """
    nothing = np.full(len(records), np.nan)
    cells: dict[str | int, np.ndarray] = {
        column.name: nothing if column.kind == "ignored" else _read(column, [r.get(column.name) for r in records])
        for column in schema.columns
    }
    return RawColumns(cells, {c.name: c.content for c in schema.columns}, len(records), schema.named, "pyarrow")


def _read(column: Column, values: list[Any]) -> np.ndarray:
    kinds = set(map(type, values)) - {type(None)}
    if column.content in ("text", "boolean"):
        cells = np.empty(len(values), dtype=object)
        cells[:] = values if kinds <= {str} and column.content == "text" else [_value(column, v) for v in values]
        return cells
    if column.content == "number" and kinds <= {float}:
        return np.array(values, dtype=np.float64)
    return np.array([_value(column, value) for value in values], dtype=np.float64)


def _value(column: Column, value: Any) -> Category | None:
    """One cell, as :func:`nptad.tables.encode.match` reads a column of such cells."""
    content = column.content
    if value is None:
        return None
    if isinstance(value, str):
        if content == "text":
            return value
        # If training had no text, this cell shows how it is written.
        reading = Reading(content, column.convention) if column.convention else reading_of(content, [value])
        return reading.value(value)
    if content == "text":
        text: str | None = texts([value])[0]
        return text
    if content == "boolean":
        return bool(value) if value in (0, 1) else UNREADABLE
    if content == "number":
        try:
            return float(value)
        except OverflowError:
            return UNREADABLE
    return UNREADABLE
