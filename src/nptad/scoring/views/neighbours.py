"""Exact nearest rows among mixed columns with gaps.

The squared distance of a row from a neighbour is the mean over the row's observed cells. Numbers differ by the square
of their difference, categories by 0 or 1. A gap in the row does not count. A gap in the neighbour counts as the average
difference from the known cells of its column.

Rows are compared by a matrix product, in blocks. Its rounding would give equal rows a distance above 0, so the distance
from the nearest row is computed again. In few columns, or among very many neighbours, rows without gaps are searched
with a tree instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nptad.scoring.views.tree import Tree
from nptad.training.parallel import threads_for

MANY_ROWS = 20_000
"""Neighbours up to which all pairs are compared."""

_PAIRS_AT_ONCE = 2**21
"""Pairs of rows compared at once."""

_TREE_COORDINATES = 6
"""Coordinates up to which a tree is faster than comparing all pairs, whatever the rows are."""

_MOST_COORDINATES = 64
"""Coordinates up to which a tree is tried at all."""

_MOST_COMPARED = 1000
"""Rows that a search by tree may compare with on average: as fast as a matrix product with about 40,000 rows."""

_MOST_GAPS = 0.02
"""Share of rows with gaps, which a tree cannot search for, up to which it pays."""

_SEARCHES_BEFORE_TREE = 500
"""Searches that cost as much as making the tree."""


@dataclass(frozen=True)
class Cells:
    """Rows in a space: numbers in its units, and category codes."""

    numbers: np.ndarray
    """(n, D1), float64; NaN is a gap."""
    codes: np.ndarray
    """(n, D2), float64; NaN is a gap, -1 an unseen category."""

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: slice | np.ndarray) -> Cells:
        return Cells(self.numbers[rows], self.codes[rows])

    def columns(self, numbers: np.ndarray, codes: np.ndarray) -> Cells:
        """The same rows with these columns only."""
        return Cells(self.numbers[:, numbers], self.codes[:, codes])


class Neighbours:
    """Rows that others are compared with."""

    def __init__(self, rows: Cells) -> None:
        self.rows = rows
        self._gaps = np.isnan(rows.numbers)
        known = np.maximum((~self._gaps).sum(axis=0), 1)
        self._mean = np.where(self._gaps, 0.0, rows.numbers).sum(axis=0) / known
        self._variance = (self._centred**2).sum(axis=0) / known
        self._levels = [np.unique(column[column >= 0]) for column in rows.codes.T]
        self._searches = 0

    def nearest(
        self, x: Cells, self_index: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Distance of each row of ``x`` from its nearest neighbour and the place of that one, both (n,).

        Parameters
        ----------
        x : Cells
            The rows.
        self_index : ndarray of shape (n,), optional
            The place of each row itself among the neighbours, which is left out.
        weights : ndarray of shape (n, D1), optional
            Weight of each squared difference of numbers for a row; 1 by default.
        """
        place = np.empty(len(x), dtype=np.int64)
        tree = np.full(len(x), weights is None and self._has_tree(len(x)))
        if tree.any():
            tree &= ~np.isnan(x.numbers).any(axis=1)
            if self_index is None:
                place[tree] = self._tree.nearest(self._coordinates(x[tree]))
            else:
                tree &= ~np.isnan(x.codes).any(axis=1)
                place[tree] = self._tree.nearest_other(self_index[tree])
        rest = np.flatnonzero(~tree)
        at_once = max(1, _PAIRS_AT_ONCE // len(self.rows))
        blocks = [rest[start : start + at_once] for start in range(0, len(rest), at_once)]

        def find(block: np.ndarray) -> np.ndarray:
            totals = self._totals(x[block], 1.0 if weights is None else weights[block])
            if self_index is not None:
                totals[np.arange(len(block)), self_index[block]] = np.inf
            return totals.argmin(axis=1)

        with threads_for(len(blocks)) as run:
            for block, found in zip(blocks, run(find, blocks), strict=True):
                place[block] = found
        return self._distances(x, place, 1.0 if weights is None else weights), place

    def several_nearest(self, x: Cells, n_nearest: int) -> np.ndarray:
        """Places of the ``n_nearest`` neighbours of each row, (n, n_nearest), nearest first; of all if they are fewer.

        Distances are as exact as their matrix product: equal neighbours may change places. For few rows.
        """
        n_nearest = min(n_nearest, len(self.rows))
        at_once = max(1, _PAIRS_AT_ONCE // len(self.rows))
        found = np.empty((len(x), n_nearest), dtype=np.int64)
        for start in range(0, len(x), at_once):
            totals = self._totals(x[start : start + at_once], 1.0)
            few = np.argpartition(totals, n_nearest - 1, axis=1)[:, :n_nearest]
            order = np.take_along_axis(totals, few, axis=1).argsort(axis=1, kind="stable")
            found[start : start + at_once] = np.take_along_axis(few, order, axis=1)
        return found

    def tree_pays(self) -> bool:
        """Whether searching all neighbours by tree is fast, however many neighbours of the same kind are added."""
        n_gaps = (self._gaps.any(axis=1) | np.isnan(self.rows.codes).any(axis=1)).sum()
        if self._n_coordinates > _MOST_COORDINATES or n_gaps > _MOST_GAPS * len(self.rows):
            return False
        return self._tree.points_compared() <= _MOST_COMPARED

    def _has_tree(self, n_searches: int) -> bool:
        """Whether to search with a tree: a few searches are not worth making one."""
        self._searches += n_searches
        few = 0 < self._n_coordinates <= _TREE_COORDINATES and len(self.rows) > 1
        return (few or len(self.rows) > MANY_ROWS) and self._searches >= _SEARCHES_BEFORE_TREE

    @property
    def _n_coordinates(self) -> int:
        return self.rows.numbers.shape[1] + sum(len(levels) for levels in self._levels)

    @cached_property
    def _tree(self) -> Tree:
        """The neighbours as points whose distances from points of rows are in the order of the rows' distances.

        A neighbour with gaps has average cells there; one more coordinate, which is 0 for rows, adds what an average
        cell differs more than its average does.
        """
        shares = self._agreement / np.sqrt(2)
        more = (self._gaps * self._variance).sum(axis=1) + self.rows.codes.shape[1] / 2 - (shares**2).sum(axis=1)
        points = np.hstack([np.where(self._gaps, self._mean, self.rows.numbers), shares])
        return Tree(np.hstack([points, np.sqrt(more.clip(min=0))[:, None]]) if self._has_gaps else points)

    def _coordinates(self, x: Cells) -> np.ndarray:
        """Rows without gaps in numbers as points; a gap in a category is equally far from all neighbours."""
        points = np.hstack([x.numbers, self._indicators(x.codes) / np.sqrt(2)])
        return np.hstack([points, np.zeros((len(x), 1))]) if self._has_gaps else points

    @cached_property
    def _has_gaps(self) -> bool:
        return bool(self._gaps.any() or np.isnan(self.rows.codes).any())

    def _totals(self, x: Cells, weights: np.ndarray | float) -> np.ndarray:
        """Squared distances without the terms that are the same for all neighbours, (n, N)."""
        observed = ~np.isnan(x.numbers) * weights
        centred = np.where(np.isnan(x.numbers), 0.0, x.numbers - self._mean) * observed
        totals = np.hstack([centred, self._indicators(x.codes)]) @ self._products.T
        totals += self._square_sums if (observed == 1).all() else observed @ self._squares.T
        return totals

    @property
    def _centred(self) -> np.ndarray:
        return np.where(self._gaps, 0.0, self.rows.numbers - self._mean)

    @cached_property
    def _squares(self) -> np.ndarray:
        return self._centred**2 + self._gaps * self._variance

    @cached_property
    def _square_sums(self) -> np.ndarray:
        return self._squares.sum(axis=1)

    @cached_property
    def _products(self) -> np.ndarray:
        return np.hstack([-2 * self._centred, -self._agreement])

    @property
    def _agreement(self) -> np.ndarray:
        """Whether each neighbour has each category; for a gap, the share of the known ones that have it."""
        agreement = self._indicators(self.rows.codes)
        start = 0
        for levels, column in zip(self._levels, self.rows.codes.T, strict=True):
            part = agreement[:, start : start + len(levels)]
            part[np.isnan(column)] = part.sum(axis=0) / max(1, (~np.isnan(column)).sum())
            start += len(levels)
        return agreement

    def _indicators(self, codes: np.ndarray) -> np.ndarray:
        parts = [column[:, None] == levels for levels, column in zip(self._levels, codes.T, strict=True)]
        return np.hstack([np.empty((len(codes), 0)), *parts])

    def _distances(self, x: Cells, place: np.ndarray, weights: np.ndarray | float) -> np.ndarray:
        """Distance of each row of ``x`` from the neighbour at ``place``; 0 for a row without any observed cell.

        In single precision, so that neighbours at equal distances give equal ones: which of them is found depends on
        rounding, and scores count how many distances are at least as large.
        """
        other = self.rows[place]
        difference = np.where(self._gaps[place], (x.numbers - self._mean) ** 2 + self._variance, 0.0)
        difference += np.where(self._gaps[place], 0.0, x.numbers - other.numbers) ** 2
        difference *= weights
        differs = (x.codes != other.codes).astype(float)
        for j in np.flatnonzero(np.isnan(other.codes).any(axis=0)):
            column = self.rows.codes[:, j]
            known = np.sort(column[~np.isnan(column)])
            equal = np.searchsorted(known, x.codes[:, j], "right") - np.searchsorted(known, x.codes[:, j], "left")
            differs[:, j] = np.where(np.isnan(other.codes[:, j]), 1 - equal / max(1, len(known)), differs[:, j])
        differs[np.isnan(x.codes)] = 0.0
        observed = (~np.isnan(x.numbers)).sum(axis=1) + (~np.isnan(x.codes)).sum(axis=1)
        squared = (np.nansum(difference, axis=1) + differs.sum(axis=1)) / np.maximum(observed, 1)
        return np.sqrt(squared).astype(np.float32).astype(np.float64)
