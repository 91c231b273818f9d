"""From a table to encoded rows and back, by a schema.

An encoded row is a float32 vector: standardised numbers first, then category codes; NaN is a missing cell and -1 a
category that training did not see.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from nptad.errors import InputError
from nptad.tables.cells import looks_like
from nptad.tables.frames import RawColumns, read_columns, texts
from nptad.tables.layout import UNSEEN
from nptad.tables.schema import Category, Column, Schema, listed

LARGEST_STANDARDISED = 1e6  # standard deviations at which a number is cut off: its square must fit into a float32


_LAST_SECOND = 2.0**62
"""Seconds from 1970 beyond which there is no calendar; a network may expect any number."""


def encode(schema: Schema, table: Any) -> np.ndarray:
    """Encode the rows of a table, columns matched by name (by position for arrays)."""
    return encode_cells(schema, match(schema, read_columns(table)))


def encode_cells(schema: Schema, cells: dict[str | int, np.ndarray]) -> np.ndarray:
    """Encode the cells that :func:`match` has found."""
    columns = [_encode_column(column, cells[column.name]) for column in schema.used]
    return np.column_stack(columns).astype(np.float32)


def match(schema: Schema, raw: RawColumns) -> dict[str | int, np.ndarray]:
    """The cells of every known column; clear errors for missing, extra and ill-typed ones."""
    known = [c.name for c in schema.columns]
    if schema.named and raw.named:
        missing = [name for name in known if name not in raw.cells]
        extra = [name for name in raw.cells if name not in set(known)]
        if missing or extra:
            lacks = f" is missing {listed(missing)}" if missing else ""
            has = f" has the unknown column(s) {listed(extra)}" if extra else ""
            raise InputError(
                "The feature names should match those that were passed during fit: the table"
                + " and".join(part for part in (lacks, has) if part)
                + ("; leave out (--ignore) what training did not have." if extra else ".")
            )
        renamed = {name: name for name in known}
    else:
        if len(raw.cells) != len(known):
            raise InputError(f"X has {len(raw.cells)} features, but NPTAD is expecting {len(known)} features as input.")
        renamed = dict(zip(known, raw.cells, strict=True))
    return {c.name: _as_learnt(c, raw, renamed[c.name]) for c in schema.columns}


def _as_learnt(column: Column, raw: RawColumns, name: str | int) -> np.ndarray:
    """Cells in the form the column had in training; a different kind of content is an error."""
    cells, content = raw.cells[name], raw.content[name]
    empty = all(v is None for v in cells) if cells.dtype == object else bool(np.isnan(cells).all())
    if column.content == content or column.kind == "ignored":
        return cells
    if empty:
        nothing = None if column.content in ("text", "boolean") else np.nan
        return np.full(len(cells), nothing)
    if column.content == "text" and content in ("number", "boolean"):
        return texts(cells.tolist())
    if column.content == "number" and content == "boolean":
        return np.array([np.nan if v is None else float(v) for v in cells])
    if column.content == "boolean" and content == "number" and np.isin(cells[~np.isnan(cells)], (0, 1)).all():
        return np.array([None if np.isnan(v) else bool(v) for v in cells], dtype=object)
    present = [row for row, v in enumerate(cells) if v is not None and v == v]
    other = (row for row in present if content != "text" or not looks_like(cells[row], column.content))
    row = next(other, present[0])
    shown = readable(Column(name, "numeric", raw.content[name]), cells[row])
    raise InputError(
        f"Column {column.name!r} held {column.content} cells in training but now holds {content}, "
        f"such as {str(shown)[:40]!r} in row {raw.first_row + row}."
    )


def _encode_column(column: Column, cells: np.ndarray) -> np.ndarray:
    if column.kind == "numeric":
        with np.errstate(over="ignore"):
            return ((cells - column.mean) / column.scale).clip(-LARGEST_STANDARDISED, LARGEST_STANDARDISED)
    pool = len(column.categories)
    unknown = pool if column.open_vocabulary else UNSEEN
    if cells.dtype == object:
        position = {category: code for code, category in enumerate(column.categories)}
        position |= dict.fromkeys(column.pooled, pool)
        if column.content == "text":  # exact matches come last, so that they win
            others: dict[Category, int] = {_other_spelling(str(known)): code for known, code in position.items()}
            position = others | position
        return np.array([np.nan if v is None else position.get(v, unknown) for v in cells], dtype=np.float32)
    categories = np.array(column.categories, dtype=np.float64)
    codes = np.full(len(cells), float(unknown))
    spellings = [(categories, cells)]
    if column.content == "number":  # a float32 file rounds them; exact matches come last, so that they win
        spellings = [(categories, _rounded(cells)), (_rounded(categories), cells), *spellings]
    for known, met in spellings if column.categories else ():
        place = np.searchsorted(known, met).clip(max=len(known) - 1)
        same = known[place] == met
        codes[same] = place[same]
    codes[np.isin(cells, np.array(column.pooled, dtype=np.float64))] = pool
    codes[np.isnan(cells)] = np.nan
    return codes


def _other_spelling(category: str) -> str:
    """The spelling of a text after some program read it as a number or a truth value: 7.0 for 7, True for true."""
    if whole := re.fullmatch(r"(-?\d+)(\.0)?", category):
        return whole[1] if whole[2] else f"{category}.0"
    return category.capitalize() if category.lower() in ("true", "false") else category


def _rounded(values: np.ndarray) -> np.ndarray:
    """Numbers rounded to float32, except where it cannot distinguish whole numbers, such as identifiers."""
    with np.errstate(over="ignore"):
        return np.where(np.abs(values) < 2**24, values.astype(np.float32), values)


def decode_cell(column: Column, encoded: float) -> Category | None:
    """The value of a cell in the units of the table; None for a missing or unseen one."""
    if encoded != encoded:
        return None
    if column.kind == "numeric":
        digits = 6 - math.floor(math.log10(column.scale))  # what a float32 holds of it
        return round(float(encoded) * column.scale + column.mean, digits)
    code = int(encoded)
    return column.categories[code] if 0 <= code < len(column.categories) else None


def plain_cell(cell: Category | None) -> Category | None:
    """A cell of a table as a plain Python value; None for a missing one."""
    return None if cell is None or cell != cell else cell.item() if isinstance(cell, np.generic) else cell


def readable(column: Column, value: Category | None) -> Category | None:
    """The value as a person reads it: times as ISO text (UTC), durations as days and a clock, all else as it is.

    >>> readable(Column("from", "numeric", "time"), 1.7e9), readable(Column("lasts", "numeric", "duration"), -90061.5)
    ('2023-11-14T22:13:20', '-1 d 01:01:01.500000')
    """
    if value is None or column.content not in ("time", "duration") or not abs(float(value)) < _LAST_SECOND:
        return value
    micros = round(float(value) * 1e6)
    seconds, rest = divmod(micros if column.content == "time" else abs(micros), 10**6)
    fraction = f".{rest:06d}" if rest else ""
    if column.content == "time":
        # NumPy's calendar knows years beyond 9999, which an anomaly may reach.
        moment = str(np.datetime64(seconds, "s")) + fraction
        return moment.removesuffix("T00:00:00")
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    sign, day = "-" if micros < 0 else "", f"{days} d " if days else ""
    return f"{sign}{day}{hour:02d}:{minute:02d}:{second:02d}{fraction}"
