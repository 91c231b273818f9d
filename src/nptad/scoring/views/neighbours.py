"""Exact nearest rows among mixed columns with gaps.

The squared distance of a row from a neighbour is the mean over the row's observed cells. Numbers differ by the square
of their difference, categories by 0 or 1. A gap in the row does not count. A gap in the neighbour counts as the average
difference from the known cells of its column.

Tables of few columns, all numbers without gaps, are searched with a k-d tree. All others use a matrix product, in
blocks. Its rounding would give equal rows a distance above 0, so the distance from the nearest row is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import KDTree

_PAIRS_AT_ONCE = 2**21
"""Pairs of rows compared at once."""

_TREE_COLUMNS = 6
"""Columns up to which a tree is faster than comparing all pairs."""


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
        self._centred = np.where(self._gaps, 0.0, rows.numbers - self._mean)
        self._variance = (self._centred**2).sum(axis=0) / known
        self._levels = [np.unique(column[column >= 0]) for column in rows.codes.T]

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
        small = 0 < self.rows.numbers.shape[1] <= _TREE_COLUMNS and not self.rows.codes.shape[1] and len(self.rows) > 1
        tree = ~np.isnan(x.numbers).any(axis=1) & (small and weights is None and not self._gaps.any())
        if tree.any():
            place[tree] = self._by_tree(x[tree], None if self_index is None else self_index[tree])
        rest = np.flatnonzero(~tree)
        at_once = max(1, _PAIRS_AT_ONCE // len(self.rows))
        for start in range(0, len(rest), at_once):
            block = rest[start : start + at_once]
            totals = self._totals(x[block], 1.0 if weights is None else weights[block])
            if self_index is not None:
                totals[np.arange(len(block)), self_index[block]] = np.inf
            place[block] = totals.argmin(axis=1)
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

    def _by_tree(self, x: Cells, self_index: np.ndarray | None) -> np.ndarray:
        tree, first, last, copy_of = self._tree
        if self_index is None:
            return first[tree.query(x.numbers)[1]]
        # Another copy of the row if there is one, else the nearest of the other different rows.
        found = tree.query(x.numbers, k=2)[1]
        own = copy_of[self_index]
        other = first[np.where(found[:, 0] == own, found[:, 1], found[:, 0]).clip(max=len(first) - 1)]
        copy = np.where(first[own] == self_index, last[own], first[own])
        return np.where(first[own] == last[own], other, copy)

    @cached_property
    def _tree(self) -> tuple[KDTree, np.ndarray, np.ndarray, np.ndarray]:
        """A tree of the different rows, the first and last place of each, and for every row its position among them.

        Equal rows enter once: many copies would end up in one leaf, where all of them are compared.
        """
        different, first, copy_of = np.unique(self.rows.numbers, axis=0, return_index=True, return_inverse=True)
        copy_of = copy_of.ravel()  # NumPy 2.0 gives it a second axis
        last = np.empty_like(first)
        last[copy_of] = np.arange(len(copy_of))
        return KDTree(different), first, last, copy_of

    def _totals(self, x: Cells, weights: np.ndarray | float) -> np.ndarray:
        """Squared distances without the terms that are the same for all neighbours, (n, N)."""
        observed = ~np.isnan(x.numbers) * weights
        centred = np.where(np.isnan(x.numbers), 0.0, x.numbers - self._mean) * observed
        totals = np.hstack([centred, self._indicators(x.codes)]) @ self._products.T
        totals += self._squares.sum(axis=1) if (observed == 1).all() else observed @ self._squares.T
        return totals

    @cached_property
    def _squares(self) -> np.ndarray:
        return self._centred**2 + self._gaps * self._variance

    @cached_property
    def _products(self) -> np.ndarray:
        agreement = self._indicators(self.rows.codes)
        start = 0
        for levels, column in zip(self._levels, self.rows.codes.T, strict=True):
            part = agreement[:, start : start + len(levels)]
            part[np.isnan(column)] = part.sum(axis=0) / max(1, (~np.isnan(column)).sum())
            start += len(levels)
        return np.hstack([-2 * self._centred, -agreement])

    def _indicators(self, codes: np.ndarray) -> np.ndarray:
        parts = [column[:, None] == levels for levels, column in zip(self._levels, codes.T, strict=True)]
        return np.hstack([np.empty((len(codes), 0)), *parts])

    def _distances(self, x: Cells, place: np.ndarray, weights: np.ndarray | float) -> np.ndarray:
        """Distance of each row of ``x`` from the neighbour at ``place``; 0 for a row without any observed cell."""
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
        return np.sqrt((np.nansum(difference, axis=1) + differs.sum(axis=1)) / np.maximum(observed, 1))
