"""The explanation of rows, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

from nptad.tables.frames import build_frame
from nptad.tables.identity import Identity
from nptad.tables.schema import Category
from nptad.tables.selection import named_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes
from nptad.explain.display import SHOWN_ROWS, encodable, plot_row, rows_html

EXPLAINED_ROWS = 10
"""Rows with the highest scores that are explained if fewer are flagged."""


@dataclass(frozen=True)
class SimilarValues:
    """What most of the similar training rows have in one column."""

    low: Category
    """The smallest of their numbers or times; their category."""
    high: Category
    """The largest; their category."""
    n_inside: int
    """How many of the similar rows have it: all of them, if the value seen lies outside; else at least four fifths of
    them for numbers, in the shortest interval, and the most frequent category."""
    n_rows: int
    """How many similar rows have a value in the column."""
    has_seen: bool
    """Whether the value seen is one of these, so that the similar rows are no reason."""


@dataclass(frozen=True)
class CellReason:
    """One cell of a row and its part in the row's score."""

    column: str | int
    seen: Category | None
    """The value in the table, times as ISO text with the offset of their column; None if it is missing."""
    expected: Category | None
    """What most of the similar training rows have, a value that occurs; with a network, what the model expected from
    the rest of the row and the training rows. None for a gap or a rare category (see
    :data:`nptad.tables.schema.MAX_CATEGORIES`)."""
    contribution: float
    """The cell's share of the row's score; the shares add up to the score. In each view, a cell's share is in
    proportion to how much less odd the row would be without it. With a network, the part of the score that is due to
    losses is divided in proportion to the fall of the row's loss (without the logarithm) when the cell is ignored, 0 if
    it does not fall: a corrupted cell also distorts the expected values of the others. The part that is due to the
    distance from the nearest training row is divided in proportion to the fall of that distance (the mean over the
    nearest three) when the cell is ignored."""
    probability: float | None = None
    """Share of the similar rows that have the seen category; with a network, the probability that the model gave to it.
    None for numbers."""
    nearest: Category | None = None
    """The value in the training row that is nearest when this cell is ignored. None if that value is the same, or if
    most of the contribution is not due to the distance. Always None without a network."""
    suspicious: bool = False
    """Whether the cell is one of those without which the row would be ordinary; always False with a network."""
    similar: SimilarValues | None = None
    """What the similar training rows have. None with a network, for a rare category, or if they have no value."""
    view: str | None = None
    """The view of the row to which the cell contributes most; None with a network, or without a contribution."""
    oddity: str | None = None
    """What is odd about a suspicious cell: the view of single cells that says so, such as "values never seen", or "does
    not fit the other cells". None if it is only the most likely one, or not suspicious."""
    normal: tuple[Category, Category] | None = None
    """The values between which 99 of 100 training rows lie; None with a network, for a category or a constant."""
    above: bool | None = None
    """Whether the number or time is above ``expected``, also if it is written as text; None if they are equal, one of
    them is missing or unreadable, or they are categories."""


@dataclass(frozen=True)
class TrainingRow:
    """A training row that the model attended to."""

    row: int
    """Its position in the training table."""
    weight: float
    """Its share of the attention between rows."""


@dataclass(frozen=True)
class NearestRow:
    """The most similar training row."""

    row: int
    """Its position in the training table."""
    distance: float
    """How far it is, in units of the median of the same distance over training rows; with a network, of its root mean
    square."""


@dataclass(frozen=True)
class RowExplanation:
    """Why one row has its score."""

    row: int
    """Position in the explained table."""
    score: float
    """Anomaly score, higher = more anomalous: minus ``score_samples``."""
    reasons: tuple[CellReason, ...]
    """All cells, the suspicious ones first, then by contribution; with a network by contribution and loss."""
    attended_rows: tuple[TrainingRow, ...]
    """The training rows with the largest weights, largest first: attention between rows averaged over members, heads,
    layers and masks. Attended rows need not be the most similar ones. Empty if the model has no attention between
    rows."""
    training_share: float
    """Weight of all training rows together; the rest of the attention went to the row itself."""
    nearest: NearestRow | None
    """The nearest of the training rows that the row was compared with; None if the distance is not part of the score,
    or if the row has no values."""
    similar_rows: tuple[int, ...] = ()
    """The training rows that are nearest in the cells that are not suspicious, nearest first; empty with a network."""
    by_view: dict[str, float] = field(default_factory=dict)
    """What each view of the row contributes to the score, largest first; empty with a network."""
    usual_gaps: int | None = None
    """The median number of missing cells of a training row; None if missing cells are no reason, or with a network."""
    unlike: bool = False
    """Whether the row would be odd without its suspicious cells too: it is unlike any training row as a whole."""
    known_anomaly: int | None = None
    """The record (``feedback_``) of the rejected row that the row is like; None if it is like none."""
    label: int | str | None = None
    """What the table calls the row: its label in the index of a frame of pandas, or its number."""
    key: dict[str, Any] = field(default_factory=dict)
    """The cells of the row in the columns that were set aside, such as IDs; three at most."""

    @property
    def called(self) -> int | str:
        """The label, or the position."""
        return self.row if self.label is None else self.label


@dataclass(frozen=True)
class Explanation(Sequence[RowExplanation]):
    """Explained rows: a sequence of :class:`RowExplanation` that can be shown as a frame, a plot or a page."""

    rows: tuple[RowExplanation, ...]
    backend: str
    """Library of the frame that :meth:`frame` makes."""
    training: Identity = field(repr=False, default_factory=Identity)
    """What the training rows are called where the explanation is shown."""

    @overload
    def __getitem__(self, index: int) -> RowExplanation: ...
    @overload
    def __getitem__(self, index: slice) -> Explanation: ...
    def __getitem__(self, index: int | slice) -> RowExplanation | Explanation:
        return replace(self, rows=self.rows[index]) if isinstance(index, slice) else self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def identified(self, identity: Identity) -> Explanation:
        """The same with what the table calls the rows, given by their positions."""
        rows = (replace(why, label=identity.label(why.row), key=identity.key(why.row)) for why in self.rows)
        return replace(self, rows=tuple(rows))

    def frame(self) -> Any:
        """One line for each cell, as a frame of the kind that was explained.

        Columns: row (its label or number), the key columns, column, contribution, seen, expected, probability, nearest.
        Values of the table are text, since its columns differ in type; :attr:`RowExplanation.reasons` has the values
        themselves.
        """
        cells = [(row, reason) for row in self.rows for reason in row.reasons]
        called = [row.called for row, _ in cells]
        numbered = all(isinstance(name, int) for name in called)
        key_names = list(self.rows[0].key) if self.rows else []
        columns: dict[str, tuple[type, list[Any]]] = {
            "row": (int, called) if numbered else (str, [encodable(name) for name in called]),
            "column": (str, [encodable(reason.column) for _, reason in cells]),
            "contribution": (float, [reason.contribution for _, reason in cells]),
            "seen": (str, [encodable(reason.seen) for _, reason in cells]),
            "expected": (str, [encodable(reason.expected) for _, reason in cells]),
            "probability": (float, [reason.probability for _, reason in cells]),
            "nearest": (str, [encodable(reason.nearest) for _, reason in cells]),
        }
        columns = named_beside(key_names, columns)
        first = next(iter(columns))
        keys = {name: (str, [encodable(row.key[name]) for row, _ in cells]) for name in key_names}
        return build_frame(self.backend, {first: columns.pop(first), **keys, **columns})

    def plot(self, row: int = 0) -> Axes:
        """Draw the contributions of one row's cells, with seen and expected values; needs matplotlib.

        Parameters
        ----------
        row : int
            Which of the explained rows.
        """
        return plot_row(self.rows[row] if self.rows else None)

    def html(self) -> str:
        """A self-contained piece of HTML, without scripts; all names and cells are escaped."""
        return rows_html(self.rows, self.training)

    def _repr_html_(self) -> str:
        more = len(self) - SHOWN_ROWS
        return rows_html(self.rows[:SHOWN_ROWS], self.training, f"... and {more:,} more rows" if more > 0 else "")
