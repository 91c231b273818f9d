"""From a table to encoded rows and back, by a schema.

An encoded row is a float32 vector: standardised numbers first, then category codes. NaN is a missing cell, infinity a
cell that cannot be read as a number, and -1 a category that training did not see.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from nptad.errors import InputError
from nptad.tables.frames import RawColumns, read_columns, texts
from nptad.tables.layout import LARGEST_STANDARDISED, UNREADABLE, UNSEEN
from nptad.tables.moments import LAST_SECOND, duration_text, time_text
from nptad.tables.readings import Reading, reading_of
from nptad.tables.schema import Category, Column, Schema, listed


@dataclass(frozen=True)
class Cells:
    """The cells of the used columns of a table, as values of the columns' content."""

    values: dict[str | int, np.ndarray]
    """Floats (NaN = missing, :data:`~nptad.tables.readings.UNREADABLE`) or Python values (None = missing)."""
    written: dict[str | int, np.ndarray]
    """The cells as they were in the table, where they were read from something else, such as text."""
    n_rows: int

    def take(self, rows: slice) -> Cells:
        """Some of the rows."""
        values, written = ({name: part[rows] for name, part in kind.items()} for kind in (self.values, self.written))
        return Cells(values, written, len(range(self.n_rows)[rows]))

    def shown(self, column: Column, row: int) -> Category | None:
        """A cell as a person reads it: as it was written, otherwise as :func:`readable` makes it."""
        if column.name in self.written:
            return plain_cell(self.written[column.name][row])
        return readable(column, plain_cell(self.values[column.name][row]))


def encode(schema: Schema, table: Any) -> np.ndarray:
    """Encode the rows of a table, columns matched by name (by position for arrays)."""
    return encode_cells(schema, match(schema, read_columns(table)))


def encode_cells(schema: Schema, cells: Cells) -> np.ndarray:
    """Encode the cells that :func:`match` has found."""
    columns = [_encode_column(column, cells.values[column.name]) for column in schema.used]
    return np.column_stack(columns).astype(np.float32)


def check_columns(schema: Schema, raw: RawColumns, strict: bool = False) -> list[str]:
    """What is to be said about missing and unknown columns; an InputError if the table has too few of them.

    Columns that were set aside in training may be missing. With ``strict``, all others must be there, and no others.
    """
    _renamed(schema, raw)
    if not (schema.named and raw.named):
        return []
    needed = [c.name for c in schema.used]
    missing = [name for name in needed if name not in raw.cells]
    extra = [name for name in raw.cells if name not in {c.name for c in schema.columns}]
    if len(missing) > len(needed) / 2 or (strict and (missing or extra)):
        lacks = f" is missing {listed(missing)}" if missing else ""
        has = f" has the unknown column(s) {listed(extra)}" if extra else ""
        raise InputError(
            "The feature names should match those that were passed during fit: the table"
            + " and".join(part for part in (lacks, has) if part)
            + ("; leave out (--ignore) what training did not have." if extra else ".")
        )
    notes = []
    if missing:
        notes.append(f"the table has no column {listed(missing)}, whose cells count as missing")
    if extra:
        notes.append(f"the model does not know the column(s) {listed(extra)}, which are ignored")
    return notes


def require_all_columns(schema: Schema, raw: RawColumns) -> None:
    """Refuse rows that lack a column: its cells would count as missing among the rows that the model knows."""
    missing = [c.name for c in schema.used if schema.named and raw.named and c.name not in raw.cells]
    if missing:
        raise InputError(
            f"The table lacks the column(s) {listed(missing)}; rows for a model to learn from or to remember need all "
            "columns of its training table (the table that was scored, or scores with --all-columns)."
        )


def match(schema: Schema, raw: RawColumns) -> Cells:
    """The cells of every used column, in the form that it had in training; see :func:`check_columns`."""
    renamed = _renamed(schema, raw)
    values, written = {}, {}
    for column in schema.used:
        name = renamed[column.name]
        if name not in raw.cells:
            nothing = None if column.content in ("text", "boolean") else np.nan
            values[column.name] = np.full(raw.n_rows, nothing)
            continue
        values[column.name] = _as_learnt(column, raw, name)
        if raw.content[name] != column.content:
            written[column.name] = _as_written(raw, name, raw.zones.get(name, ""))
    return Cells(values, written, raw.n_rows)


def _renamed(schema: Schema, raw: RawColumns) -> dict[str | int, str | int]:
    """The name that each known column has in a table: its own, or its position if one of the two has no names."""
    known = [c.name for c in schema.columns]
    if schema.named and raw.named:
        return {name: name for name in known}
    if len(raw.cells) != len(known):
        raise InputError(f"X has {len(raw.cells)} features, but NPTAD is expecting {len(known)} features as input.")
    return dict(zip(known, raw.cells, strict=True))


def _as_learnt(column: Column, raw: RawColumns, name: str | int) -> np.ndarray:
    """Cells in the form the column had in training; a cell of another kind is unreadable, or a text never seen."""
    cells, content = raw.cells[name], raw.content[name]
    if column.content == content:
        return cells
    gaps = np.isnan(cells) if cells.dtype.kind == "f" else np.array([v is None for v in cells], dtype=bool)
    if column.content == "text":
        return texts(_as_written(raw, name, zone="").tolist())
    if content == "text":
        # If training had no text, these cells show how they are written.
        reading = Reading(column.content, column.convention) if column.convention else reading_of(column.content, cells)
        return reading.values(cells)
    if column.content == "boolean":
        flags = [bool(v) if content == "number" and v in (0, 1) else UNREADABLE for v in cells]
        return np.array([None if gap else flag for gap, flag in zip(gaps, flags, strict=True)], dtype=object)
    if column.content == "number" and content == "boolean":
        return np.array([np.nan if v is None else float(v) for v in cells])
    return np.where(gaps, np.nan, UNREADABLE)


def _as_written(raw: RawColumns, name: str | int, zone: str) -> np.ndarray:
    """The cells of a column as plain values; times as text."""
    as_read = Column(name, "numeric", raw.content[name], zone=zone)
    return np.array([readable(as_read, plain_cell(v)) for v in raw.cells[name]], dtype=object)


def _encode_column(column: Column, cells: np.ndarray) -> np.ndarray:
    if column.kind == "numeric":
        with np.errstate(over="ignore"):
            cut_off = ((cells - column.mean) / column.scale).clip(-LARGEST_STANDARDISED, LARGEST_STANDARDISED)
        return np.where(np.isinf(cells), UNREADABLE, cut_off)
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
    order = np.argsort(categories)  # those that an update has added come last
    categories = categories[order]
    codes = np.full(len(cells), float(unknown))
    spellings = [(categories, cells)]
    if column.content == "number":  # a float32 file rounds them; exact matches come last, so that they win
        spellings = [(categories, _rounded(cells)), (_rounded(categories), cells), *spellings]
    for known, met in spellings if column.categories else ():
        place = np.searchsorted(known, met).clip(max=len(known) - 1)
        same = known[place] == met
        codes[same] = order[place[same]]
    codes[np.isin(cells, np.array(column.pooled, dtype=np.float64))] = pool
    codes[np.isnan(cells)] = np.nan
    codes[np.isinf(cells)] = UNSEEN
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
    """The value of a cell in the units of the table, a possible one; None for a missing or unseen one."""
    if not math.isfinite(encoded):
        return None
    if column.kind == "numeric":
        value = float(encoded) * column.scale + column.mean
        if column.low is not None and column.high is not None:
            value = min(max(value, column.low), column.high)
        digits = 6 - math.floor(math.log10(column.scale))  # what a float32 holds of it
        if column.step:
            value, digits = round(value / column.step) * column.step, max(0, -math.floor(math.log10(column.step)))
        return round(value, digits) + 0.0  # no -0
    code = int(encoded)
    return column.categories[code] if 0 <= code < len(column.categories) else None


def plain_cell(cell: Category | None) -> Category | None:
    """A cell of a table as a plain Python value; None for a missing one."""
    return None if cell is None or cell != cell else cell.item() if isinstance(cell, np.generic) else cell


def is_above(seen: float, expected: float) -> bool | None:
    """Whether an encoded number is above another; None if one of them is missing or unreadable.

    >>> is_above(2.0, 1.0), is_above(np.nan, 1.0)
    (True, None)
    """
    return bool(seen > expected) if np.isfinite(seen) and np.isfinite(expected) and seen != expected else None


def readable(column: Column, value: Category | None) -> Category | None:
    """The value as a person reads it.

    Times are ISO text, with an offset if the column has a time zone; durations are days and a clock; truth values that
    were read from text are these words; all else is as it is.

    >>> readable(Column("from", "numeric", "time"), 1.7e9), readable(Column("lasts", "numeric", "duration"), -90061.5)
    ('2023-11-14T22:13:20', '-1 d 01:01:01.500000')
    >>> readable(Column("from", "numeric", "time", zone="Asia/Tokyo"), 1.7e9)
    '2023-11-15T07:13:20+09:00'
    """
    if isinstance(value, bool):
        return column.convention.split("/")[value] if column.convention else value
    if value is None or column.content not in ("time", "duration") or not abs(float(value)) < LAST_SECOND:
        return value
    return time_text(float(value), column.zone) if column.content == "time" else duration_text(float(value))
