"""What was learnt about the columns of a training table: plain data that fits into JSON."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from nptad.errors import InputError, warn
from nptad.tables.frames import Content, RawColumns, read_columns
from nptad.tables.layout import CellLayout
from nptad.tables.readings import Reading, find_reading
from nptad.tables.roles import ROLE_NOTES, Role, role_of_numbers, role_of_texts, role_of_times

MAX_CATEGORIES = 100  # a column keeps at most this many categories; the rarest are pooled beyond it

OPEN_SHARE = 0.05
"""A column with many categories has an open vocabulary if at least this share of its cells has a unique category."""

_STEPS: dict[str, tuple[float, ...]] = {
    "number": (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6),
    "time": (86400.0, 3600.0, 60.0, 1.0, 1e-3),
    "duration": (86400.0, 3600.0, 60.0, 1.0, 1e-3),
}
"""Steps in which the values of a column may go, the largest first."""

LARGEST_TIME = 2.0**43
"""Largest mean and scale of a column of times, in seconds: encoded times must become dates again."""

Kind = Literal["numeric", "categorical", "ignored"]
Use = Literal["number", "category", "ignore"]
"""What a user can choose for a column; "number" also stands for times and durations."""
Category = str | float | bool


@dataclass(frozen=True)
class Column:
    """What was learnt about one column."""

    name: str | int  # the position if the table is an array
    kind: Kind  # how the column is used
    content: Content
    mean: float = 0.0  # of the training cells (numeric)
    scale: float = 1.0  # standard deviation of the training cells (numeric)
    categories: tuple[Category, ...] = ()  # known ones; the code of a category is its position (categorical)
    pooled: tuple[Category, ...] = ()  # rare categories that share one more code (categorical)
    open_vocabulary: bool = False
    """True if new categories keep coming, as in a column of names; they share the code of ``pooled`` (categorical)."""
    missing: int = 0  # missing cells in training
    unreadable: int = 0  # cells in training that could not be read as the column's content
    role: Role = ""  # why the column is ignored; empty if it is used
    convention: str = ""  # how cells of text are read as the content (:class:`nptad.tables.readings.Reading`)
    zone: str = ""  # in which times are shown; empty for times that were read without one
    low: float | None = None  # the smallest training cell (numeric)
    high: float | None = None  # the largest training cell (numeric)
    step: float = 0.0  # all training cells are multiples of it; 0 if they are of none (numeric)

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
        used = self.used
        cardinalities = tuple(c.cardinality for c in used if c.kind == "categorical")
        times = tuple((j, c.mean, c.scale) for j, c in enumerate(used) if c.kind == "numeric" and c.content == "time")
        return CellLayout(len(used) - len(cardinalities), cardinalities, times)

    @property
    def zeros(self) -> np.ndarray:
        """What 0 is encoded as in each number column, (D1,)."""
        return np.array([-c.mean / c.scale for c in self.used if c.kind == "numeric"], dtype=np.float32)

    @property
    def ignored(self) -> tuple[str | int, ...]:
        """The columns that are set aside, except empty ones."""
        return tuple(c.name for c in self.columns if c.kind == "ignored" and c.role != "empty")

    @property
    def keys(self) -> tuple[str | int, ...]:
        """The columns that are set aside and can tell rows apart, those that name every row first."""
        order: dict[Role, int] = {"chosen": 0, "identifier": 0, "sequence": 1, "names": 2, "free text": 3}
        found = [c for c in self.columns if c.kind == "ignored" and c.role in order]
        return tuple(c.name for c in sorted(found, key=lambda c: order[c.role]))

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


def learn_schema(table: Any, uses: Mapping[str | int, Use] | None = None) -> Schema:
    """Learn the columns of a training table: a DataFrame, a pyarrow table or a 2-D array.

    ``uses`` says how columns, by name or position, are used. By default text is read as numbers, truth values or times
    if it can be; a number column with at most two different values is categorical, since as a standardised number, a
    rare flag would dominate the score; and in a table with column names, columns that only identify a row are ignored.

    >>> schema = learn_schema(np.array([[0.5, 1], [1.5, 0], [2.5, 1], [3.5, np.nan]]))
    >>> [(c.kind, c.categories) for c in schema.columns]
    [('numeric', ()), ('categorical', (0.0, 1.0))]
    """
    raw = read_columns(table)
    if raw.n_rows == 0:  # the message that scikit-learn expects
        raise InputError("Found array with 0 sample(s): the table has no rows; fitting needs at least 2.")
    if raw.n_rows < 2:
        raise InputError(f"The table has {raw.n_rows} row(s) (n_samples={raw.n_rows}); fitting needs at least 2.")
    columns = learn_columns(raw, uses)
    schema = Schema(columns, raw.n_rows, raw.named)
    _report_columns(schema, raw)
    if not schema.used:
        raise InputError(
            "No column of the table is left to learn from: the others have no value, are chosen to be ignored or only "
            "identify the row; choose the use of a column, such as columns={'name': 'category'}."
        )
    return schema


def learn_columns(raw: RawColumns, uses: Mapping[str | int, Use] | None = None) -> tuple[Column, ...]:
    """Learn all columns, without a warning; perhaps none can be used."""
    names = list(raw.cells)
    allowed = ", ".join(map(repr, get_args(Use)))
    if not isinstance(uses, Mapping | None) or any(use not in get_args(Use) for use in (uses or {}).values()):
        raise InputError(f"columns must be a dict from names or positions of columns to {allowed}, got {uses!r:.60}.")
    chosen = {_find(names, name): use for name, use in (uses or {}).items()}
    return tuple(_learn_column(raw, name, chosen.get(name)) for name in names)


def _find(names: list[str | int], key: str | int) -> str | int:
    if not isinstance(key, bool):  # True == 1, but means no position
        for name in (key, str(key)):  # a frame's label 2 is the name "2", wherever that column stands
            if name in names:
                return name
        if isinstance(key, numbers.Integral) and -len(names) <= int(key) < len(names):
            return names[int(key)]
    raise InputError(f"columns names {key!r}, which is not a column of the table.")


def _learn_column(raw: RawColumns, name: str | int, use: Use | None) -> Column:
    cells, content, convention = raw.cells[name], raw.content[name], ""
    if content == "nested" or use == "ignore":
        return Column(name, "ignored", content, role="nested" if use is None else "chosen")
    if content == "boolean" and use == "number":
        cells, content = np.array([np.nan if v is None else float(v) for v in cells]), "number"
    if content == "text" and use != "category" and name not in raw.declared:
        reading = find_reading(cells, must_read=use == "number")
        if reading is not None:
            cells, (content, convention) = reading.values(cells), reading
    if content == "text" and use == "number":
        raise InputError(f"Column {name!r} holds text that cannot be read as numbers or times; use it as a category.")
    is_float = cells.dtype.kind == "f"
    gaps = np.isnan(cells) if is_float else np.array([v is None for v in cells])
    present = cells[np.isfinite(cells)] if is_float else cells[~gaps]
    missing = int(gaps.sum())
    learnt = Column(
        name,
        "ignored",
        content,
        missing=missing,
        unreadable=len(cells) - missing - len(present),
        convention=convention,
        zone=raw.zones.get(name, "UTC" if convention.endswith(" zone") else ""),
    )
    if not len(present):
        return dataclasses.replace(learnt, role="empty")
    if use is None and raw.named and (role := _role(name, content, present)):
        return dataclasses.replace(learnt, role=role)
    if is_float:
        distinct = np.unique(present)
        is_category = use == "category" or (use is None and len(distinct) <= 2 and content == "number")
        if not is_category and len(distinct) > 1:
            with np.errstate(over="ignore"):
                mean, scale = float(present.mean()), float(present.std())
            if not (np.isfinite(mean) and np.isfinite(scale)):
                raise InputError(f"The numbers in column {name!r} are too large to average; rescale the column.")
            if scale > 0:
                learnt = dataclasses.replace(learnt, kind="numeric", mean=mean, scale=scale)
                low, high = float(distinct[0]), float(distinct[-1])
                return dataclasses.replace(learnt, low=low, high=high, step=step_of(distinct, content))
    learnt = dataclasses.replace(learnt, kind="categorical")
    values, counts = np.unique(present, return_counts=True)
    if len(values) <= MAX_CATEGORIES:
        return dataclasses.replace(learnt, categories=tuple(values.tolist()))
    # Good and Turing: the next cell is a new category about as often as a category occurred just once.
    is_open = bool((counts == 1).sum() / len(present) >= OPEN_SHARE)
    order = np.argsort(-counts, kind="stable")
    # Categories that occurred once are all pooled: a few kept by chance would seem rarer than the others.
    n_kept = min(MAX_CATEGORIES - 1, (counts > 1).sum()) if is_open else MAX_CATEGORIES - 1
    kept, rare = (tuple(values[np.sort(part)].tolist()) for part in np.split(order, [n_kept]))
    return dataclasses.replace(learnt, categories=kept, open_vocabulary=is_open, pooled=() if is_open else rare)


def _role(name: str | int, content: Content, present: np.ndarray) -> Role:
    if content == "text":
        return role_of_texts(present)
    if content == "time":
        return role_of_times(present)
    return role_of_numbers(name, present) if content == "number" else ""


def step_of(values: np.ndarray, content: Content) -> float:
    """The largest step of which all values are multiples, 0 if there is none."""
    for step in _STEPS[content]:
        steps = values / step
        if (np.abs(steps - np.rint(steps)) <= 1e-9 + 1e-12 * np.abs(steps)).all():
            return step
    return 0.0


def _report_columns(schema: Schema, raw: RawColumns) -> None:
    """Say once, in one warning, what is unusual about the columns."""
    columns = schema.columns
    found = [_unreadable_text(column, raw) for column in columns if column.unreadable]
    notes = [(text, [c for c in columns if c.role == role]) for role, text in ROLE_NOTES.items()]
    notes += [
        (
            "are constant in training and only tell whether a cell differs from that one value",
            [c for c in columns if c.kind == "categorical" and c.cardinality == 1 and not c.open_vocabulary],
        ),
        (f"have more than {MAX_CATEGORIES} categories; the rarest are pooled", [c for c in columns if c.pooled]),
        (
            f"have more than {MAX_CATEGORIES} categories, many only once: the rarest and new ones are pooled (leave "
            "out a column that only names the row)",
            [c for c in columns if c.open_vocabulary],
        ),
    ]
    aside = False
    for text, named in notes:
        if named:
            names = [c.name for c in named]
            found.append(f"{len(names)} column(s) ({listed(names)}) {text}")
            if named[0].role not in ("", "empty", "nested"):
                found[-1] += (
                    " and are set aside"
                    if aside
                    else (
                        f" and are set aside (to use one: --as NAME=category, or columns={{{names[0]!r}: 'category'}})"
                    )
                )
                aside = True
    if found:
        warn("; ".join(found) + ".")


def _unreadable_text(column: Column, raw: RawColumns) -> str:
    """What a warning says about the cells of a column that cannot be read."""
    cells = raw.cells[column.name]
    values = cells if cells.dtype.kind == "f" else Reading(column.content, column.convention).values(cells)
    row = int(np.isinf(values).argmax())
    return (
        f"{column.unreadable:,} of {len(cells) - column.missing:,} cells of column {column.name!r} cannot be read as "
        f"{column.content}s, such as {str(cells[row])[:40]!r} in row {raw.identity.label(row)}; each is an oddity of "
        "its cell"
    )


def listed(names: Sequence[str | int]) -> str:
    """Some names for a message."""
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
