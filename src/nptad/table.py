"""What was learnt about the columns of a table, and the way from a table to encoded rows.

An encoded row is a float32 vector: standardised numbers first, then category codes; NaN is a missing cell and -1 a
category that training did not see. The schema is plain data that fits into JSON.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nptad.errors import InputError, TableWarning
from nptad.loss import UNSEEN, CellLayout
from nptad.rawtable import Holds, RawColumns, read_columns, texts
from nptad.sniff import looks_like

MAX_CATEGORIES = 100
"""A column keeps at most this many categories; the rarest are pooled beyond it."""

OPEN_SHARE = 0.05
"""Share of cells with a category of their own above which a column with many categories counts as open to new ones."""

MOSTLY_NUMBERS = 0.9
"""Share of numbers among the cells of a text column from which on the others are taken for mistakes, and told."""

LARGEST_STANDARDISED = 1e6
"""Standard deviations at which a number is cut off, so that its square still fits into a float32."""

Kind = Literal["numeric", "categorical", "ignored"]
Category = str | float | bool


@dataclass(frozen=True)
class Column:
    """What was learnt about one column."""

    name: str | int
    """Column name, or position in an array."""
    kind: Kind
    """How the column is used; "ignored" if training had no value in it."""
    holds: Holds
    """What its cells are."""
    mean: float = 0.0
    """Mean of the training cells (numeric)."""
    scale: float = 1.0
    """Standard deviation of the training cells (numeric)."""
    categories: tuple[Category, ...] = ()
    """Known categories; the code of a category is its position (categorical)."""
    pooled: tuple[Category, ...] = ()
    """Rare categories that share one more code (categorical)."""
    open: bool = False
    """True if new categories keep coming, as in a column of names; they share that code too (categorical)."""
    missing: int = 0
    """Missing cells in training."""

    @property
    def cardinality(self) -> int:
        """Number of category codes."""
        return len(self.categories) + bool(self.pooled or self.open)


@dataclass(frozen=True)
class Schema:
    """All columns of the training table, in its order."""

    columns: tuple[Column, ...]
    n_rows: int
    """Training rows."""
    named: bool
    """True if columns are known by name, False if by position."""

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns of an encoded row, in its order: numeric, then categorical."""
        return tuple(c for kind in ("numeric", "categorical") for c in self.columns if c.kind == kind)

    @property
    def layout(self) -> CellLayout:
        """Shape of an encoded row."""
        cardinalities = tuple(c.cardinality for c in self.used if c.kind == "categorical")
        return CellLayout(len(self.used) - len(cardinalities), cardinalities)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that held text, which a file to be scored must not be read as anything else."""
        return tuple(str(c.name) for c in self.columns if self.named and c.holds == "text")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; :meth:`from_dict` gives the schema back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Schema:
        """Rebuild a schema from :meth:`to_dict`."""
        tuples = ("categories", "pooled")
        columns = tuple(Column(**{**c, **{name: tuple(c[name]) for name in tuples}}) for c in values["columns"])
        return cls(columns, values["n_rows"], values["named"])


def learn_schema(table: Any, categorical_features: Sequence[str | int] | None = None) -> Schema:
    """Learn the columns of a training table.

    Parameters
    ----------
    table : DataFrame, pyarrow.Table or 2-D array
        The training rows.
    categorical_features : sequence of names or positions, optional
        The columns that are categories, besides those that hold text or truth values; no other number column is
        one. By default every number column with at most two different values is: as a standardised number, a rare
        flag would drown the score.

    Examples
    --------
    >>> import numpy as np
    >>> schema = learn_schema(np.array([[0.5, 1], [1.5, 0], [2.5, 1], [3.5, np.nan]]))
    >>> [(c.kind, c.categories) for c in schema.columns]
    [('numeric', ()), ('categorical', (0.0, 1.0))]
    """
    raw = read_columns(table)
    if raw.n_rows < 2:
        raise InputError(f"The table has {raw.n_rows} row(s) (n_samples={raw.n_rows}); fitting needs at least 2.")
    names = list(raw.cells)
    if isinstance(categorical_features, str) or not isinstance(categorical_features, Iterable | None):
        raise InputError(
            f"categorical_features must be a list of column names or positions, got {categorical_features!r}."
        )
    chosen = None if categorical_features is None else {_find(names, feature) for feature in categorical_features}
    columns = tuple(_learn_column(raw, name, chosen) for name in names)
    _report_columns(columns, raw)
    schema = Schema(columns, raw.n_rows, raw.named)
    if not schema.used:
        raise InputError("No column of the table has a value; there is nothing to learn from.")
    return schema


def encode(schema: Schema, table: Any, first_row: int = 0) -> np.ndarray:
    """Encode the rows of a table, columns matched by name (by position for arrays).

    ``first_row`` is the number of the first row in error messages, for a table that is a part of a larger one.
    """
    raw = read_columns(table, first_row)
    cells = match(schema, raw)
    encoded = np.empty((raw.n_rows, len(schema.used)), dtype=np.float32)
    for j, column in enumerate(schema.used):
        encoded[:, j] = _encode_column(column, cells[column.name])
    return encoded


def _find(names: list[str | int], feature: str | int) -> str | int:
    if not isinstance(feature, bool):  # True == 1, but means no position
        for name in (feature, str(feature)):  # a frame's label 2 is the name "2", wherever that column stands
            if name in names:
                return name
        if isinstance(feature, numbers.Integral) and -len(names) <= int(feature) < len(names):
            return names[int(feature)]
    raise InputError(f"categorical_features names {feature!r}, which is not a column of the table.")


def _learn_column(raw: RawColumns, name: str | int, chosen: set[str | int] | None) -> Column:
    cells, holds = raw.cells[name], raw.holds[name]
    is_float = cells.dtype.kind == "f"
    present = cells[~np.isnan(cells)] if is_float else cells[[v is not None for v in cells]]
    missing = len(cells) - len(present)
    if not len(present):
        return Column(name, "ignored", holds, missing=missing)
    if is_float:
        distinct = np.unique(present)
        is_category = name in chosen if chosen is not None else len(distinct) <= 2 and holds == "number"
        if not is_category and len(distinct) > 1:
            with np.errstate(over="ignore"):
                mean, scale = float(present.mean()), float(present.std())
            if not (np.isfinite(mean) and np.isfinite(scale)):
                raise InputError(f"The numbers in column {name!r} are too large to average; rescale the column.")
            if scale > 0:
                return Column(name, "numeric", holds, mean=mean, scale=scale, missing=missing)
    values, counts = np.unique(present, return_counts=True)
    if len(values) > MAX_CATEGORIES:
        # Good and Turing: the next cell is a new category about as often as a category occurred just once.
        is_open = (counts == 1).sum() / len(present) >= OPEN_SHARE
        order = np.argsort(-counts, kind="stable")
        # Of categories that occurred once some would be kept by chance, and seem rarer than the others.
        n_kept = min(MAX_CATEGORIES - 1, (counts > 1).sum()) if is_open else MAX_CATEGORIES - 1
        kept, rare = (tuple(values[np.sort(part)].tolist()) for part in np.split(order, [n_kept]))
        pooled = () if is_open else rare
        return Column(name, "categorical", holds, categories=kept, pooled=pooled, open=bool(is_open), missing=missing)
    return Column(name, "categorical", holds, categories=tuple(values.tolist()), missing=missing)


def _report_columns(columns: tuple[Column, ...], raw: RawColumns) -> None:
    """Say once, in one warning, what is unusual about the columns."""
    notes: list[tuple[str, Callable[[Column], bool]]] = [
        ("have no value in training and are ignored", lambda c: c.kind == "ignored"),
        (
            "are constant in training and only tell whether a cell differs from that one value",
            lambda c: c.kind == "categorical" and c.cardinality == 1 and not c.open,
        ),
        (f"have more than {MAX_CATEGORIES} categories; the rarest are pooled", lambda c: bool(c.pooled)),
        (
            f"have more than {MAX_CATEGORIES} categories, many only once: the rarest and new ones are pooled (leave "
            "out a column that only names the row)",
            lambda c: c.open,
        ),
    ]
    found = [note for column in columns if (note := _stray_texts(column, raw.cells[column.name]))]
    for text, applies in notes:
        names = [c.name for c in columns if applies(c)]
        if names:
            found.append(f"{len(names)} column(s) ({_listed(names)}) {text}")
    if found:
        warnings.warn("; ".join(found) + ".", TableWarning, stacklevel=4)


def _stray_texts(column: Column, cells: np.ndarray) -> str:
    """What to say of texts that keep a column from being one of numbers; empty if there are none, or many."""
    likely = [looks_like(str(category), "number") for category in column.categories]
    if column.holds != "text" or sum(likely) <= len(likely) / 2:  # which spares most columns the look at every cell
        return ""
    n_cells = len(cells) - column.missing
    stray = [row for row, cell in enumerate(cells) if cell is not None and not looks_like(cell, "number")]
    if not 0 < len(stray) <= (1 - MOSTLY_NUMBERS) * n_cells:
        return ""
    such_as, are = ("", "is no number") if len(stray) == 1 else ("such as ", "are no numbers")
    first = f"{such_as}{cells[stray[0]][:40]!r} in row {stray[0]}"
    return (
        f"{len(stray):,} of {n_cells:,} cells of column {column.name!r} {are} ({first}), so that all of them count as "
        "categories; correct or empty what is wrong to have numbers"
    )


def match(schema: Schema, raw: RawColumns) -> dict[str | int, np.ndarray]:
    """The cells of every known column; clear errors for missing, extra and ill-typed ones."""
    known = [c.name for c in schema.columns]
    if schema.named and raw.named:
        missing = [name for name in known if name not in raw.cells]
        extra = [name for name in raw.cells if name not in set(known)]
        if missing or extra:
            lacks = f" is missing {_listed(missing)}" if missing else ""
            has = f" has the unknown column(s) {_listed(extra)}" if extra else ""
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


def _listed(names: Sequence[str | int]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _as_learnt(column: Column, raw: RawColumns, name: str | int) -> np.ndarray:
    """Cells in the form the column had in training; a different kind of content is an error."""
    cells, holds = raw.cells[name], raw.holds[name]
    empty = all(v is None for v in cells) if cells.dtype == object else bool(np.isnan(cells).all())
    if column.holds == holds or column.kind == "ignored":
        return cells
    if empty:
        nothing = None if column.holds in ("text", "boolean") else np.nan
        return np.full(len(cells), nothing)
    if column.holds == "text" and holds in ("number", "boolean"):
        return texts(cells.tolist())
    if column.holds == "number" and holds == "boolean":
        return np.array([np.nan if v is None else float(v) for v in cells])
    if column.holds == "boolean" and holds == "number" and np.isin(cells[~np.isnan(cells)], (0, 1)).all():
        return np.array([None if np.isnan(v) else bool(v) for v in cells], dtype=object)
    present = [row for row, v in enumerate(cells) if v is not None and v == v]
    other = (row for row in present if holds != "text" or not looks_like(cells[row], column.holds))
    row = next(other, present[0])
    shown = readable(Column(name, "numeric", raw.holds[name]), cells[row])
    raise InputError(
        f"Column {column.name!r} held {column.holds} cells in training but now holds {holds}, "
        f"such as {str(shown)[:40]!r} in row {raw.first_row + row}."
    )


def _encode_column(column: Column, cells: np.ndarray) -> np.ndarray:
    if column.kind == "numeric":
        with np.errstate(over="ignore"):
            return ((cells - column.mean) / column.scale).clip(-LARGEST_STANDARDISED, LARGEST_STANDARDISED)
    pool = len(column.categories)
    unknown = pool if column.open else UNSEEN
    if cells.dtype == object:
        position = {category: code for code, category in enumerate(column.categories)}
        position |= dict.fromkeys(column.pooled, pool)
        if column.holds == "text":  # exact matches come last, so that they win
            others: dict[Category, int] = {_other_spelling(str(known)): code for known, code in position.items()}
            position = others | position
        return np.array([np.nan if v is None else position.get(v, unknown) for v in cells], dtype=np.float32)
    categories = np.array(column.categories, dtype=np.float64)
    codes = np.full(len(cells), float(unknown))
    spellings = [(categories, cells)]
    if column.holds == "number":  # which a float32 file spells differently; exact matches come last, so that they win
        spellings = [(categories, _rounded(cells)), (_rounded(categories), cells), *spellings]
    for known, met in spellings if column.categories else ():
        place = np.searchsorted(known, met).clip(max=len(known) - 1)
        same = known[place] == met
        codes[same] = place[same]
    codes[np.isin(cells, np.array(column.pooled, dtype=np.float64))] = pool
    codes[np.isnan(cells)] = np.nan
    return codes


def _other_spelling(category: str) -> str:
    """How a text is spelt where it was taken for a number or a truth value on its way: 7.0 for 7, True for true."""
    if whole := re.fullmatch(r"(-?\d+)(\.0)?", category):
        return whole[1] if whole[2] else f"{category}.0"
    return category.capitalize() if category.lower() in ("true", "false") else category


def _rounded(values: np.ndarray) -> np.ndarray:
    """Numbers as float32 has them, except where it cannot tell whole numbers, such as identifiers, apart."""
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


def readable(column: Column, value: Category | None) -> Category | None:
    """The value as a person reads it: times as ISO text (UTC), durations as days and a clock, all else as it is.

    Examples
    --------
    >>> readable(Column("from", "numeric", "time"), 1.7e9), readable(Column("lasts", "numeric", "duration"), -90061.5)
    ('2023-11-14T22:13:20', '-1 d 01:01:01.500000')
    """
    if value is None or column.holds not in ("time", "duration"):
        return value
    micros = round(float(value) * 1e6)
    seconds, rest = divmod(micros if column.holds == "time" else abs(micros), 10**6)
    fraction = f".{rest:06d}" if rest else ""
    if column.holds == "time":
        # NumPy's calendar knows years beyond 9999, which an anomaly may reach.
        moment = str(np.datetime64(seconds, "s")) + fraction
        return moment.removesuffix("T00:00:00")
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    sign, day = "-" if micros < 0 else "", f"{days} d " if days else ""
    return f"{sign}{day}{hour:02d}:{minute:02d}:{second:02d}{fraction}"
