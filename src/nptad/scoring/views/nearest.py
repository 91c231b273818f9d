"""Distance from the nearest training row: in ranges, in normal quantiles, and in parts of the columns.

Each training row is compared with all other training rows, a new row with all training rows, so that their distances
are comparable and no row is set aside. With ranges this is exact: a row at the end of a column is compared in units of
the range of the other rows. With quantiles, a training row affects its own rank, so that new rows seem nearer by up to
one rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from nptad.scoring.arrays import require_array, require_count
from nptad.scoring.surprise import Surprise, combine, require_surprises, surprise_among_others
from nptad.scoring.views.base import View
from nptad.scoring.views.neighbours import Cells, Neighbours
from nptad.tables.layout import CellLayout

_PARTS = 10
"""Parts of each size."""


@dataclass(frozen=True)
class NearestInRanges(View):
    """Distance from the nearest training row, numbers in units of the range of their column."""

    rows: np.ndarray
    """Encoded training rows, (n, D)."""
    n_numeric: np.ndarray
    """Number of numeric cells, ()."""
    name: ClassVar[str] = "nearest row"

    @classmethod
    def fit(cls, x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[View, np.ndarray]:
        """Remember the training rows; each leaves out itself."""
        view = cls(x, np.array(layout.n_numeric))
        return view, _others_in_ranges(view._cells(x))

    def of_rows(self, rows: np.ndarray, layout: CellLayout) -> View:
        """The distances from these rows."""
        return replace(self, rows=rows)

    def require_sound(self, layout: CellLayout) -> None:
        """See :class:`View`."""
        require_count("n_numeric", self.n_numeric, layout.n_numeric)

    def score(self, x: np.ndarray) -> np.ndarray:
        """Distance of each row from the nearest training row."""
        return self._neighbours.nearest(self._cells(x))[0][:, None]

    def score_others(self, places: np.ndarray) -> np.ndarray:
        """Distance of some of the training rows from the nearest other one, (n,)."""
        return self._neighbours.nearest(self._neighbours.rows[places], places)[0]

    def similar(self, x: np.ndarray, n_similar: int) -> np.ndarray:
        """The nearest training rows of each row, (m, n_similar) or fewer, nearest first."""
        return self._neighbours.several_nearest(self._cells(x), n_similar)

    def tree_pays(self) -> bool:
        """Whether a tree searches these rows fast, and would search more rows of the same kind fast."""
        return self._neighbours.tree_pays()

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self._cells(self.rows))

    def _cells(self, x: np.ndarray) -> Cells:
        return in_ranges(self.rows, x, int(self.n_numeric))


@dataclass(frozen=True)
class NearestInQuantiles(NearestInRanges):
    """Distance from the nearest training row, numbers as the normal quantiles of their rank in the column."""

    name: ClassVar[str] = "nearest row by ranks"

    @classmethod
    def fit(cls, x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[View, np.ndarray]:
        """Remember the training rows; each leaves out itself."""
        view = cls(x, np.array(layout.n_numeric))
        return view, view._neighbours.nearest(view._neighbours.rows, np.arange(len(x)))[0]

    def _cells(self, x: np.ndarray) -> Cells:
        n_numeric = int(self.n_numeric)
        numbers = np.full((len(x), n_numeric), np.nan)
        for j, (values, quantiles) in enumerate(self._quantiles):
            if len(values):  # of a column that is nearly always missing, the sample may have no value
                known = ~np.isnan(x[:, j])
                numbers[known, j] = np.interp(x[known, j], values, quantiles)
        return Cells(numbers, x[:, n_numeric:].astype(np.float64))

    @cached_property
    def _quantiles(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [normal_quantiles(column) for column in self.rows[:, : int(self.n_numeric)].T]


@dataclass(frozen=True)
class NearestInParts(View):
    """How far a row is from all training rows in some of its columns: one, two, or half of them, drawn at random.

    In a distance over all columns, an odd value, pair or group of cells is lost among many ordinary ones. Every part is
    calibrated separately; the most surprising parts get the most weight in the score.
    """

    rows: np.ndarray
    """Encoded training rows, (n, D)."""
    n_numeric: np.ndarray
    """Number of numeric cells, ()."""
    parts: np.ndarray
    """Which columns belong to each of P parts, (P, D)."""
    distances: np.ndarray
    """Distances of the training rows from the others, ascending, (P, n)."""
    tails: np.ndarray
    """The tail of each part's distances, (P, 4)."""
    name: ClassVar[str] = "nearest row in some columns"

    @classmethod
    def fit(cls, x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[View, np.ndarray]:
        """Draw the parts and compare the training rows in each of them; a row leaves out itself."""
        n_numeric, parts = layout.n_numeric, draw_parts(x.shape[1])
        cells = in_ranges(x, x, n_numeric)
        distances = [_others_in_ranges(_part(cells, part, n_numeric)) for part in parts]
        surprises = [Surprise.fit(scores) for scores in distances]
        found = np.stack([surprise_among_others(scores) for scores in distances])
        view = cls(
            x,
            np.array(n_numeric),
            parts,
            np.stack([surprise.scores for surprise in surprises]),
            np.stack([surprise.tail for surprise in surprises]),
        )
        return view, combine(found)

    def of_rows(self, rows: np.ndarray, layout: CellLayout) -> View:
        """The distances from these rows, calibrated as before."""
        return replace(self, rows=rows)

    def require_sound(self, layout: CellLayout) -> None:
        """See :class:`View`."""
        require_count("n_numeric", self.n_numeric, layout.n_numeric)
        require_array("parts", self.parts, "b1", (None, layout.n_features))
        if not self.parts.any(axis=1).all():
            raise ValueError("parts have no column")
        require_surprises("parts", self.distances, self.tails, len(self.parts))

    def score(self, x: np.ndarray) -> np.ndarray:
        """The surprises of the parts, combined."""
        return combine(self._surprises(x, np.arange(len(self.parts))))[:, None]

    def explain(self, x: np.ndarray) -> np.ndarray:
        """How much less odd each row would be without each cell; only the parts with the cell are compared again."""
        whole = self._surprises(x, np.arange(len(self.parts)))
        falls = np.empty(x.shape)
        for j in range(x.shape[1]):
            changed = np.flatnonzero(self.parts[:, j])
            without, surprises = x.copy(), whole.copy()
            without[:, j] = np.nan
            surprises[changed] = self._surprises(without, changed)
            falls[:, j] = combine(whole) - combine(surprises)
        return falls.clip(min=0)

    def _surprises(self, x: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """The surprise of each row in some of the parts, (parts, m)."""
        n_numeric = int(self.n_numeric)
        cells = in_ranges(self.rows, x, n_numeric)
        found = np.empty((len(parts), len(x)))
        for place, p in enumerate(parts):
            distances = self._neighbours[p].nearest(_part(cells, self.parts[p], n_numeric))[0]
            found[place] = Surprise(self.distances[p], self.tails[p]).apply(distances)
        return found

    @cached_property
    def _neighbours(self) -> list[Neighbours]:
        n_numeric = int(self.n_numeric)
        cells = in_ranges(self.rows, self.rows, n_numeric)
        return [Neighbours(_part(cells, part, n_numeric)) for part in self.parts]


def normal_quantiles(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different values of a column, ascending, and their normal quantiles; equal values share their mean rank."""
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    return values, ndtri((np.cumsum(counts) - counts / 2) / counts.sum())


def usual_distance(distances: np.ndarray) -> float:
    """The median of the training rows' distances from the nearest other one, or the mean of those above 0."""
    median = float(np.median(distances))
    return median if median > 0 else float(distances[distances > 0].mean()) if distances.any() else 1.0


def draw_parts(n_columns: int) -> np.ndarray:
    """Up to ten different parts of one, two and half of the columns, (P, D); the same for all tables of this width."""
    random = np.random.default_rng(0)
    parts: dict[bytes, np.ndarray] = {}
    for size in (1, 2, max(2, -(-n_columns // 2))):
        for _ in range(_PARTS):
            part = np.zeros(n_columns, dtype=bool)
            part[random.permutation(n_columns)[:size]] = True
            parts[part.tobytes()] = part
    return np.stack(list(parts.values()))


def in_ranges(rows: np.ndarray, x: np.ndarray, n_numeric: int) -> Cells:
    """Encoded rows ``x`` with numbers in units of their range among the training ``rows``.

    Encoded numbers have a standard deviation of 1, so that only the range of a column without any number is 0.
    """
    numbers = rows[:, :n_numeric]
    span = np.fmax.reduce(numbers, axis=0) - np.fmin.reduce(numbers, axis=0)
    return Cells(
        x[:, :n_numeric] / np.where(span > 0, span, 1.0).astype(np.float64), x[:, n_numeric:].astype(np.float64)
    )


def _part(cells: Cells, part: np.ndarray, n_numeric: int) -> Cells:
    return cells.columns(part[:n_numeric], part[n_numeric:])


def _others_in_ranges(rows: Cells) -> np.ndarray:
    """Distance of each row from the nearest other one, in ranges of the other rows; ranges of all rows are 1."""
    neighbours, everyone = Neighbours(rows), np.arange(len(rows))
    distances = neighbours.nearest(rows, everyone)[0]
    numbers = rows.numbers
    if len(rows) > 2:
        low, high = np.sort(numbers, axis=0)[:2], -np.sort(-numbers, axis=0)[:2]  # NaN come last
        lost = np.where(numbers == low[0], low[1] - low[0], 0.0) + np.where(numbers == high[0], high[0] - high[1], 0.0)
        ends = np.flatnonzero((lost > 0).any(axis=1))
        unit = np.where(lost[ends] < 1, 1 - lost[ends], 1.0)
        distances[ends] = neighbours.nearest(rows[ends], ends, 1 / unit**2)[0]
    return distances
