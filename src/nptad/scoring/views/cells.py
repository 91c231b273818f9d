"""Single cells that no ordinary row has: values never seen, numbers outside the range, gaps where gaps are rare.

A cell that cannot be read as a number is a value never seen; other views take it for a gap.

Each of these views is a sum over the cells of a row. Its out-of-fold scores leave out exactly one row, and the terms of
the sum are its explanation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from nptad.scoring.arrays import LARGEST, require_array
from nptad.scoring.views.base import View
from nptad.tables.layout import CellLayout, without_unreadable


class CellView(View):
    """A view that is a sum over the cells of a row."""

    @abstractmethod
    def explain(self, x: np.ndarray) -> np.ndarray:
        """What each cell adds, (m, D)."""

    def of_rows(self, rows: np.ndarray, layout: CellLayout) -> View:
        """The view of these rows; it is quickly fitted."""
        return self.fit(rows, layout, np.zeros((1, len(rows)), dtype=bool))[0]

    def score(self, x: np.ndarray) -> np.ndarray:
        """The sum over the cells of each row."""
        return self.explain(x).sum(axis=1, keepdims=True)

    def knowing(self, values: Sequence[np.ndarray]) -> CellView:
        """The view as if it had also seen these values of each column, ascending; to some views it does not matter."""
        return self


@dataclass(frozen=True)
class UnseenValues(CellView):
    """Values that the column never had.

    The chance that the next value is a new one is about the share of values that occurred once (Good, Biometrika 40,
    1953, after Turing). A cell with a new value adds minus the log of that chance: nothing in a column of measurements,
    where every value is new, and much in a column of codes. A training row's value is new if no other row has it.
    Values are compared as encoded: float32 distinguishes about ten million numbers in a column.
    """

    values: np.ndarray
    """The different values of each column, ascending, column after column, (V,); infinity is none of them."""
    starts: np.ndarray
    """Where the values of each column start, (D + 1,)."""
    costs: np.ndarray
    """What a new value in each column adds, (D,)."""
    unreadable_costs: np.ndarray
    """What a cell that cannot be read adds in each column, (D,): minus the log of the share of such cells."""
    name: ClassVar[str] = "values never seen"

    @classmethod
    def fit(cls, x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[View, np.ndarray]:
        """Collect the values of each column."""
        scores = np.zeros(len(x))
        unreadable = np.isinf(x)
        observed, n_unreadable = (~np.isnan(x)).sum(axis=0), unreadable.sum(axis=0)
        scores += (unreadable * -np.log(np.maximum(n_unreadable, 1) / np.maximum(observed, 1))).sum(axis=1)
        values, costs = [], np.zeros(x.shape[1])
        for j, column in enumerate(x.T):
            known = np.flatnonzero(np.isfinite(column))
            different, which, counts = np.unique(column[known], return_inverse=True, return_counts=True)
            once = (counts == 1).sum()
            values.append(different)
            costs[j] = -np.log((once + 1) / (len(known) + 1))
            if once:
                scores[known[counts[which] == 1]] -= np.log(once / len(known))
        starts = np.concatenate([[0], np.cumsum([len(part) for part in values])]).astype(np.int64)
        return cls(np.concatenate(values), starts, costs, -np.log((n_unreadable + 1) / (observed + 1))), scores

    def knowing(self, values: Sequence[np.ndarray]) -> UnseenValues:
        """The view as if it had also seen these values of each column."""
        seen = [np.union1d(*pair) for pair in zip(np.split(self.values, self.starts[1:-1]), values, strict=True)]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in seen])]).astype(np.int64)
        return replace(self, values=np.concatenate(seen), starts=starts)

    def require_sound(self, layout: CellLayout) -> None:
        """See :class:`View`."""
        require_array("values", self.values, "f4", (None,))
        require_array("starts", self.starts, "i8", (layout.n_features + 1,), least=0, ascending=True)
        if self.starts[0] != 0 or self.starts[-1] != len(self.values):
            raise ValueError("starts are those of other values")
        require_array("costs", self.costs, "f8", (layout.n_features,))
        require_array("unreadable_costs", self.unreadable_costs, "f8", (layout.n_features,))

    def explain(self, x: np.ndarray) -> np.ndarray:
        """What each new value adds."""
        shares = np.zeros(x.shape)
        for j in np.flatnonzero(self.costs > 0):  # 0 in a column where every value is new
            known, cells = self.values[self.starts[j] : self.starts[j + 1]], x[:, j]
            nearest = known[np.searchsorted(known, cells).clip(max=len(known) - 1)]
            shares[np.isfinite(cells) & (nearest != cells), j] = self.costs[j]
        return np.where(np.isinf(x), self.unreadable_costs, shares)


@dataclass(frozen=True)
class OutsideRange(CellView):
    """Numbers below the smallest or above the largest of their column.

    A cell adds log(1 + excess). The unit of the excess is the distance between that end of the range and the quantile
    that cuts off the twentieth of the rows next to it. So a number far beyond a long tail can be less odd than one just
    beyond a sharp end.
    """

    ends: np.ndarray
    """Smallest and largest number of each column, (2, D1)."""
    units: np.ndarray
    """Their units, (2, D1)."""
    name: ClassVar[str] = "outside the range"

    @classmethod
    def fit(cls, x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[View, np.ndarray]:
        """Find the ends of each column; a row at an end is compared with the range of the other rows."""
        numbers = without_unreadable(x[:, : layout.n_numeric]).astype(np.float64)
        view = cls(np.empty((2, numbers.shape[1])), np.empty((2, numbers.shape[1])))
        scores = np.zeros(len(x))
        for j, column in enumerate(numbers.T):
            rows = np.flatnonzero(~np.isnan(column))
            rows = rows[np.argsort(column[rows], kind="stable")]
            view.ends[:, j], view.units[:, j] = ends_and_units(column[rows])
            if len(rows) > 2:
                for row, others in ((rows[0], rows[1:]), (rows[-1], rows[:-1])):
                    scores[row] += _excess(column[row : row + 1], *ends_and_units(column[others]))[0]
        return view, scores

    def knowing(self, values: Sequence[np.ndarray]) -> OutsideRange:
        """The view as if it had also seen these values of each column."""
        ends = self.ends.copy()
        for j, numbers in enumerate(values[: ends.shape[1]]):
            if len(numbers):
                ends[:, j] = min(ends[0, j], numbers[0]), max(ends[1, j], numbers[-1])
        return replace(self, ends=ends)

    def require_sound(self, layout: CellLayout) -> None:
        """See :class:`View`."""
        n_numeric = layout.n_numeric
        require_array("ends", self.ends, "f8", (2, n_numeric), least=-np.inf, most=np.inf)
        require_array("units", self.units, "f8", (2, n_numeric), least=1 / LARGEST)
        without = np.isinf(self.ends).any(axis=0)  # columns without numbers
        require_array("ends", self.ends[:, ~without], "f8", (2, int((~without).sum())))
        if (self.ends[0] > self.ends[1]).any() or not np.isinf(self.ends[:, without]).all():
            raise ValueError("ends are not in order")

    def explain(self, x: np.ndarray) -> np.ndarray:
        """What each number outside its range adds."""
        n_numeric = self.ends.shape[1]
        shares = np.zeros(x.shape)
        numbers = without_unreadable(x[:, :n_numeric]).astype(np.float64)
        shares[:, :n_numeric] = np.nan_to_num(_excess(numbers, self.ends, self.units))
        return shares


@dataclass(frozen=True)
class RareGaps(CellView):
    """Missing cells in columns where cells are rarely missing; each adds minus the log of the share of gaps."""

    costs: np.ndarray
    """What a gap in each column adds, (D,)."""
    name: ClassVar[str] = "missing cells"

    @classmethod
    def fit(cls, x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[View, np.ndarray]:
        """Count the gaps of each column."""
        missing = np.isnan(x)
        gaps, n = missing.sum(axis=0), len(x)
        scores = (missing * -np.log(np.maximum(gaps, 1) / n)).sum(axis=1)
        return cls(-np.log((gaps + 1) / (n + 1))), scores

    def require_sound(self, layout: CellLayout) -> None:
        """See :class:`View`."""
        require_array("costs", self.costs, "f8", (layout.n_features,))

    def explain(self, x: np.ndarray) -> np.ndarray:
        """What each gap adds."""
        return np.isnan(x) * self.costs


def ends_and_units(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of ordered numbers and their units; a unit is at least a twentieth of the range."""
    if not len(ordered):
        return np.array([-np.inf, np.inf]), np.ones(2)
    low, high = ordered[0], ordered[-1]
    inner = np.quantile(ordered, [0.05, 0.95])
    least = (high - low) / 20 or 1.0
    return np.array([low, high]), np.array([max(inner[0] - low, least), max(high - inner[1], least)])


def _excess(numbers: np.ndarray, ends: np.ndarray, units: np.ndarray) -> np.ndarray:
    outside = np.maximum((ends[0] - numbers) / units[0], (numbers - ends[1]) / units[1])
    return np.log1p(np.maximum(outside, 0.0))
