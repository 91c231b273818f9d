"""Which cells of a row are suspicious: contradicted by the other cells, or odd by themselves, found as a set.

Those cells are suspicious that, hidden together, leave a likely row and are less likely beside it than as wrong values.
Sets of up to four cells are compared by this gain, less a price for each cell: the gain of a single cell that only a
tenth of the training rows reach. So every cell of the set is needed. A value never seen and a number outside the range
gain what the views of single cells say. A cell without a value is suspicious if such cells are rare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nptad.explain.density import KernelDensity
from nptad.scoring.surprise import Surprise
from nptad.scoring.view_score import ViewScore
from nptad.scoring.views import OutsideRange, RareGaps
from nptad.scoring.views.cells import CellView

MISFIT = "does not fit the other cells"
"""What is odd about a cell that the other cells contradict."""

GROSS_ERROR = "a gross error"
"""What is odd about a cell that alone gives its row away (:mod:`nptad.scoring.gross_errors`)."""

UNREADABLE = "cannot be read"
"""What is odd about a cell that is no number, time or truth value, as its column holds."""

_MOST_CELLS = 4
"""Suspicious cells of a row at most, gaps aside; two others must remain to contradict them."""

_RARE = 0.01
"""What a view says about single cells counts if fewer normal rows than this share have as odd cells."""

_LARGE_PART = 0.5
"""Of several cells without a value, those are suspicious that add at least this share of what the rarest one adds."""

_TRAINING_ROWS = 1000
"""Training rows that contradict; of more, evenly spaced ones."""

_JUDGED_ROWS = 200
"""Training rows that say how large the gains of normal rows are."""

_NORMAL_ROWS = 0.9
"""Share of them of which no cell reaches the price."""

_LEAST_PRICE = 2.5
"""The smallest price of a cell: its value is 12 times likelier as a wrong one."""

_BEAM = 4
"""Sets of each size that are tried with one more cell."""

_CANDIDATES = 20
"""Cells with the largest gains that sets are made of."""


@dataclass(frozen=True)
class SuspiciousCells:
    """Finds the suspicious cells of rows."""

    score: ViewScore

    def find(self, x: np.ndarray, training_row: np.ndarray) -> list[dict[int, str | None]]:
        """The suspicious cells of each encoded row (m, D): column numbers and what is odd, in a few words.

        None if nothing says that a cell is odd, but it is the most likely one of its row. ``training_row`` are the
        training rows that they are, -1 for none; these contradict none of them.
        """
        without = np.isin(self._kept, training_row)
        score = self.score.without(training_row) if (training_row >= 0).any() else self.score
        places = [place for place, view in enumerate(score.views) if isinstance(view, CellView)]
        parts = np.stack([score.views[place].explain(x) for place in places], axis=1)
        surprises = [score.surprise.views[place] for place in places]
        oddities = [*(score.views[place].name for place in places), MISFIT if x.shape[1] > 1 else None]
        found: list[dict[int, str | None]] = []
        for row, parts_of_row in zip(x, parts, strict=True):
            known = np.isfinite(row)
            lacking = _odd_by_themselves(np.where(known, 0.0, parts_of_row), surprises)
            alone = _odd_by_themselves(np.where(known, parts_of_row, 0.0), surprises)
            cells, gain = self._contradicted(row, alone.sum(axis=0), without)
            # The view that says most about a cell, if that would be enough.
            what = np.vstack([alone, np.full(len(row), _LEAST_PRICE)]).argmax(axis=0)
            odd = {j: (oddities[what[j]] if gain > 0 else None) for j in cells if gain > 0 or not lacking.any()}
            rare = ((lacking > 0) & (lacking >= _LARGE_PART * lacking.max(axis=1, keepdims=True))).any(axis=0)
            without_value = {
                j: RareGaps.name if np.isnan(row[j]) else UNREADABLE for j in np.flatnonzero(rare).tolist()
            }
            found.append(without_value | odd)
        return found

    def _contradicted(self, row: np.ndarray, alone: np.ndarray, without: np.ndarray) -> tuple[list[int], float]:
        """The best set of cells of a row, and its gain less prices, given how odd each cell is by itself."""
        observed = np.flatnonzero(np.isfinite(row))
        if not len(observed):
            return [], 0.0
        contradiction = self._density.gains(row, observed, without)
        alone, most = alone[observed], max(1, min(_MOST_CELLS, len(observed) - 2))
        places, gain = best_set(
            lambda sets: contradiction(sets) + alone[sets].sum(axis=1), len(observed), most, self._price
        )
        return observed[places].tolist(), gain

    @cached_property
    def _kept(self) -> np.ndarray:
        """The training rows of the density."""
        return self.score.kept[:: -(-len(self.score.kept) // _TRAINING_ROWS)]

    @cached_property
    def _density(self) -> KernelDensity:
        return KernelDensity(self.score.rows[:: -(-len(self.score.kept) // _TRAINING_ROWS)], self.score.layout)

    @cached_property
    def _price(self) -> float:
        """The gain of a cell from which it is suspicious."""
        largest = [0.0]
        for place in np.unique(np.linspace(0, len(self._kept) - 1, _JUDGED_ROWS).astype(np.int64)):
            row = self._density.rows[place]
            observed = np.flatnonzero(~np.isnan(row))
            if len(observed) and len(self._kept) > 1:
                gains = self._density.gains(row, observed, np.arange(len(self._kept)) == place)
                largest.append(gains(np.arange(len(observed))[:, None]).max())
        return max(_LEAST_PRICE, float(np.quantile(largest, _NORMAL_ROWS)))


def outside_range(score: ViewScore, x: np.ndarray) -> list[dict[int, str | None]]:
    """The numbers of each row outside their ranges, the furthest four, if few rows have such; as ``find`` says it."""
    found: list[dict[int, str | None]] = [{} for _ in x]
    for view, surprise in zip(score.views, score.surprise.views, strict=True):
        if isinstance(view, OutsideRange):
            for i, cells in enumerate(view.explain(x)):
                far = _odd_by_themselves(cells[None], [surprise])[0]
                most = np.argsort(-far, kind="stable")[:_MOST_CELLS].tolist()
                found[i] = {j: view.name for j in most if far[j] > 0}
    return found


def _odd_by_themselves(parts: np.ndarray, surprises: list[Surprise]) -> np.ndarray:
    """What views of single cells say about the cells of a row, (V, D); 0 unless few normal rows have as odd ones."""
    sums = parts.sum(axis=1, keepdims=True)
    odd = [surprise.apply(total)[0] > -np.log(_RARE) for total, surprise in zip(sums, surprises, strict=True)]
    return parts * np.array(odd)[:, None]


def best_set(
    gains: Callable[[np.ndarray], np.ndarray], n_cells: int, most: int, price: float
) -> tuple[list[int], float]:
    """The set of at most ``most`` cells with the largest gain less prices, and that.

    Sets are made cell by cell from the best smaller ones, several of each size: cells that agree with one another gain
    little one by one. ``tests/explain`` compares it with all sets.
    """
    alone = gains(np.arange(n_cells)[:, None])
    order = np.argsort(-alone, kind="stable")
    candidates = np.sort(order[:_CANDIDATES]).tolist()
    best, largest = [int(order[0])], float(alone[order[0]]) - price
    extended = [(j,) for j in order[:_BEAM].tolist()]
    for size in range(2, most + 1):
        sets = sorted({tuple(sorted((*cells, j))) for cells in extended for j in candidates if j not in cells})
        if not sets:
            break
        found = gains(np.array(sets))
        order = np.argsort(-found, kind="stable")
        if found[order[0]] - size * price > largest:
            best, largest = list(sets[order[0]]), float(found[order[0]]) - size * price
        extended = [sets[place] for place in order[:_BEAM]]
    return best, largest
