"""What was learnt about the columns of a training table: plain data that fits into JSON."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nptad.errors import InputError, warn
from nptad.tables.cells import looks_like
from nptad.tables.frames import Content, RawColumns, read_columns
from nptad.tables.layout import CellLayout

MAX_CATEGORIES = 100  # a column keeps at most this many categories; the rarest are pooled beyond it

OPEN_SHARE = 0.05
"""A column with many categories has an open vocabulary if at least this share of its cells has a unique category."""

MOSTLY_NUMBERS = 0.9
"""If at least this share of the cells of a text column are numbers, a warning names the others as likely mistakes."""

Kind = Literal["numeric", "categorical", "ignored"]
Category = str | float | bool


@dataclass(frozen=True)
class Column:
    """What was learnt about one column."""

    name: str | int  # the position if the table is an array
    kind: Kind  # how the column is used; "ignored" if training had no value in it
    content: Content
    mean: float = 0.0  # of the training cells (numeric)
    scale: float = 1.0  # standard deviation of the training cells (numeric)
    categories: tuple[Category, ...] = ()  # known ones; the code of a category is its position (categorical)
    pooled: tuple[Category, ...] = ()  # rare categories that share one more code (categorical)
    open_vocabulary: bool = False
    """True if new categories keep coming, as in a column of names; they share the code of ``pooled`` (categorical)."""
    missing: int = 0  # missing cells in training

    @property
    def cardinality(self) -> int:
        """Number of category codes."""
        return len(self.categories) + bool(self.pooled or self.open_vocabulary)


@dataclass(frozen=True)
class Schema:
    """All columns of the training table, in its order."""

    columns: tuple[Column, ...]
    n_rows: int
    named: bool  # true if columns are known by name, false if by position

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
        """The columns that held text; in a file to be scored they must be read as text too."""
        return tuple(str(c.name) for c in self.columns if self.named and c.content == "text")

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
    """Learn the columns of a training table: a DataFrame, a pyarrow table or a 2-D array.

    ``categorical_features`` are the names or positions of all number columns that are categories; columns of text or
    truth values always are. By default every number column with at most two different values is categorical: as a
    standardised number, a rare flag would dominate the score.

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


def _find(names: list[str | int], feature: str | int) -> str | int:
    if not isinstance(feature, bool):  # True == 1, but means no position
        for name in (feature, str(feature)):  # a frame's label 2 is the name "2", wherever that column stands
            if name in names:
                return name
        if isinstance(feature, numbers.Integral) and -len(names) <= int(feature) < len(names):
            return names[int(feature)]
    raise InputError(f"categorical_features names {feature!r}, which is not a column of the table.")


def _learn_column(raw: RawColumns, name: str | int, chosen: set[str | int] | None) -> Column:
    cells, content = raw.cells[name], raw.content[name]
    is_float = cells.dtype.kind == "f"
    present = cells[~np.isnan(cells)] if is_float else cells[[v is not None for v in cells]]
    missing = len(cells) - len(present)
    if not len(present):
        return Column(name, "ignored", content, missing=missing)
    if is_float:
        distinct = np.unique(present)
        is_category = name in chosen if chosen is not None else len(distinct) <= 2 and content == "number"
        if not is_category and len(distinct) > 1:
            with np.errstate(over="ignore"):
                mean, scale = float(present.mean()), float(present.std())
            if not (np.isfinite(mean) and np.isfinite(scale)):
                raise InputError(f"The numbers in column {name!r} are too large to average; rescale the column.")
            if scale > 0:
                return Column(name, "numeric", content, mean=mean, scale=scale, missing=missing)
    values, counts = np.unique(present, return_counts=True)
    if len(values) <= MAX_CATEGORIES:
        return Column(name, "categorical", content, categories=tuple(values.tolist()), missing=missing)
    # Good and Turing: the next cell is a new category about as often as a category occurred just once.
    is_open = bool((counts == 1).sum() / len(present) >= OPEN_SHARE)
    order = np.argsort(-counts, kind="stable")
    # Categories that occurred once are all pooled: a few kept by chance would seem rarer than the others.
    n_kept = min(MAX_CATEGORIES - 1, (counts > 1).sum()) if is_open else MAX_CATEGORIES - 1
    kept, rare = (tuple(values[np.sort(part)].tolist()) for part in np.split(order, [n_kept]))
    learnt = Column(name, "categorical", content, categories=kept, open_vocabulary=is_open, missing=missing)
    return learnt if is_open else dataclasses.replace(learnt, pooled=rare)


def _report_columns(columns: tuple[Column, ...], raw: RawColumns) -> None:
    """Say once, in one warning, what is unusual about the columns."""
    notes: list[tuple[str, Callable[[Column], bool]]] = [
        ("have no value in training and are ignored", lambda c: c.kind == "ignored"),
        (
            "are constant in training and only tell whether a cell differs from that one value",
            lambda c: c.kind == "categorical" and c.cardinality == 1 and not c.open_vocabulary,
        ),
        (f"have more than {MAX_CATEGORIES} categories; the rarest are pooled", lambda c: bool(c.pooled)),
        (
            f"have more than {MAX_CATEGORIES} categories, many only once: the rarest and new ones are pooled (leave "
            "out a column that only names the row)",
            lambda c: c.open_vocabulary,
        ),
    ]
    found = [note for column in columns if (note := _stray_texts(column, raw.cells[column.name]))]
    for text, applies in notes:
        names = [c.name for c in columns if applies(c)]
        if names:
            found.append(f"{len(names)} column(s) ({listed(names)}) {text}")
    if found:
        warn("; ".join(found) + ".")


def _stray_texts(column: Column, cells: np.ndarray) -> str:
    """A message about the few texts in a column that otherwise holds numbers; empty if there are none, or many."""
    likely = [looks_like(str(category), "number") for category in column.categories]
    if column.content != "text" or sum(likely) <= len(likely) / 2:  # avoids reading every cell of most columns
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


def listed(names: Sequence[str | int]) -> str:
    """Some names for a message."""
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
