"""The columns of a table, described in words for the page."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from nptad.errors import InputError
from nptad.io.text import fits_text_file
from nptad.tables.frames import read_columns
from nptad.tables.roles import Role
from nptad.tables.schema import MAX_CATEGORIES, Column, learn_columns
from nptad.tables.selection import split_label
from nptad.wording import FEW_LETTERS, cell, percent, plural, shorten

LABEL_VALUES = 10  # a column with at most this many different values can be the label

_SAMPLES = 4
_SAMPLED_ROWS = 1000

_NUMERIC = {"number": "numbers", "time": "times", "duration": "durations"}

_ASIDE: dict[Role, tuple[str, str]] = {
    "nested": ("lists or objects", "Give each of their values a column of its own to use them."),
    "identifier": ("row identifier", "The values differ in every row."),
    "sequence": ("row sequence", "The values go up with the rows."),
    "names": ("names", "Most values occur only once."),
    "free text": ("free text", "Most texts occur only once."),
}
"""Columns that are set aside: what they are, and why."""


def describe_columns(table: pa.Table) -> list[dict[str, Any]]:
    """Describe every column for the page; a table that cannot be used as a whole is an InputError.

    A description has ``name``, ``shown`` (the name, shortened), ``kind`` (of the schema), ``understood`` and ``note``
    for people, ``missing`` and ``samples`` as text, ``values`` that can mark anomalies if the column is the label,
    ``uses`` (the possible ones), ``use`` (the proposed one), and ``word``: what the use "number" means here, such as
    time.
    """
    names = table.column_names
    if not names or table.num_rows < 2:
        size = f"{plural(table.num_rows, 'row')} and {plural(len(names), 'column')}"
        raise InputError(f"The table has {size}; at least two rows and one column are needed.")
    described = [_describe(table, place, set(names)) for place in range(len(names))]
    if all(column["uses"] == ["ignore"] for column in described):
        reason = next((column["note"] for column in described if column["note"]), "")
        raise InputError(f"No column of the table can be used. {reason}".strip())
    return described


def _describe(table: pa.Table, place: int, names: set[str]) -> dict[str, Any]:
    name, cells = table.column_names[place], table.column(place)
    described: dict[str, Any] = {
        "name": name,
        "shown": shorten(name),
        "kind": "ignored",
        "understood": "empty",
        "note": "",
        "missing": "all" if cells.null_count == len(cells) else "none",
        "samples": [],
        "values": [],
        "word": "number",
        "uses": ["ignore"],
        "use": "ignore",
    }
    if described["missing"] == "all":
        return described
    try:
        (column,) = learn_columns(read_columns(table.select([place])))
    except InputError as error:
        return {**described, "missing": "", "understood": "not usable", "note": str(error)}
    sampled = [] if column.role == "nested" else _distinct(cells[:_SAMPLED_ROWS])
    ordered = ["number"] if column.content in _NUMERIC else []
    return {
        **described,
        "kind": column.kind,
        "missing": percent(column.missing / len(cells)) if column.missing else "none",
        "samples": [cell(value, FEW_LETTERS) for value in sampled[:_SAMPLES]],
        "values": _label_values(cells, name, names),
        "understood": _understood(column),
        "note": _note(column),
        "word": column.content,
        "uses": ["ignore"] if column.role == "nested" else [*ordered, "category", "ignore"],
        "use": {"numeric": "number", "categorical": "category", "ignored": "ignore"}[column.kind],
    }


def _understood(column: Column) -> str:
    if column.role in _ASIDE:
        return _ASIDE[column.role][0]
    if column.kind == "numeric":
        return _NUMERIC[column.content]
    count = len(column.categories) + len(column.pooled)
    if column.open_vocabulary:
        return "very many categories"
    if count == 1:
        return "one value only"
    return "true or false" if column.content == "boolean" else f"{count:,} categories"


def _note(column: Column) -> str:
    if column.role in _ASIDE:
        kept = "" if column.role == "nested" else " Results include it."
        return f"{_ASIDE[column.role][1]} The column is ignored.{kept}"
    if column.unreadable:
        return f"{plural(column.unreadable, 'cell')} cannot be read; each counts as an oddity of its row."
    if column.open_vocabulary:
        return "Many values occur only once. Ignore the column if it only identifies the rows."
    if column.pooled:
        return f"The {MAX_CATEGORIES - 1} most frequent categories are kept; the others are merged into one."
    if column.kind == "categorical" and column.cardinality == 1:
        return "The column only shows whether a cell differs from this value."
    return ""


def _label_values(cells: pa.ChunkedArray, name: str, names: set[str]) -> list[str]:
    """The values that can mark anomalies, spelt as ``select_columns`` compares them."""
    if not fits_text_file(cells.type) or len(_distinct(cells[:_SAMPLED_ROWS])) > LABEL_VALUES:
        return []
    values = [str(value) for value in _distinct(cells)]
    if not 2 <= len(values) <= LABEL_VALUES:
        return []
    # "name=value" must not be the name of another column.
    return [value for value in values if value and split_label(f"{name}={value}", names) == (name, value)]


def _distinct(cells: pa.ChunkedArray) -> list[Any]:
    return [value for value in cells.unique().to_pylist() if value is not None and value == value]
