"""The nearest of many points by a k-d tree: exact, and the faster the fewer directions the points spread in.

A search in tables of few columns, or of columns that depend on one another, compares with some tens or hundreds of
points however many there are. In other tables it compares with a large part of them and is slower than comparing all
pairs by a matrix product. :meth:`Tree.points_compared` tells which it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy.spatial import KDTree

_FEWEST_FOR_THREADS = 1000
"""Searches from which several threads are worth starting."""

_TRIAL_SEARCHES = 200
"""Searches whose cost is counted."""


class Tree:
    """Points of which the nearest is wanted.

    Equal points enter once: many copies would end up in one leaf, where all of them are compared.

    Examples
    --------
    >>> tree = Tree(np.array([[0.0], [1.0], [1.0], [5.0]]))
    >>> tree.nearest(np.array([[4.0], [0.9]])).tolist(), tree.nearest_other(np.array([0, 1, 2, 3])).tolist()
    ([3, 1], [1, 2, 1, 1])
    """

    def __init__(self, points: np.ndarray) -> None:
        self._first, self._copy_of = different_rows(points)
        self._last = np.empty_like(self._first)
        self._last[self._copy_of] = np.arange(len(points))
        self._tree = KDTree(points[self._first])

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """The place of the point nearest to each row of ``x``, the first of equal ones, (n,)."""
        return self._first[self._tree.query(x, workers=_threads(len(x)))[1]]

    def nearest_other(self, places: np.ndarray) -> np.ndarray:
        """The place of the other point nearest to each of these points, (n,): an equal one if there is one."""
        own = self._copy_of[places]
        first, last = self._first[own], self._last[own]
        result = np.where(first == places, last, first)
        alone = np.flatnonzero(first == last)
        if len(alone):
            found = self._two_nearest(own[alone])[1]
            other = np.where(found[:, 0] == own[alone], found[:, 1], found[:, 0])
            result[alone] = self._first[other.clip(max=len(self._first) - 1)]
        return result

    def points_compared(self) -> float:
        """Different points in the leaves that a search for the nearest other point has to visit, on average."""
        data, chosen = self._tree.data, np.linspace(0, len(self._first) - 1, _TRIAL_SEARCHES).astype(np.int64)
        distances = self._two_nearest(chosen)[0][:, 1]
        leaves = list(_leaves(self._tree.tree))
        low, high = (np.stack([end(data[leaf], axis=0) for leaf in leaves]) for end in (np.min, np.max))
        sizes, compared = np.array([len(leaf) for leaf in leaves]), 0.0
        for point, distance in zip(data[chosen], distances, strict=True):
            outside = np.maximum(np.maximum(low - point, point - high), 0.0)
            compared += sizes[(outside**2).sum(axis=1) <= distance**2].sum() / _TRIAL_SEARCHES
        return compared

    def _two_nearest(self, different: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._tree.query(self._tree.data[different], k=2, workers=_threads(len(different)))


def different_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first place of each different row, and for every row its position among the different ones.

    Sorting one number for each row, a weighted sum of its cells, is many times faster than sorting rows.

    Examples
    --------
    >>> first, copy_of = different_rows(np.array([[2.0, 1.0], [1.0, 2.0], [2.0, 1.0]]))
    >>> first[copy_of].tolist()
    [0, 1, 0]
    """
    sums = (rows * np.random.default_rng(0).random(rows.shape[1])).sum(axis=1)
    _, first, copy_of = np.unique(sums, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first][copy_of], rows):  # different rows with equal sums
        _, first, copy_of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, copy_of.ravel()  # NumPy 2.0 gives it a second axis


def _threads(n_searches: int) -> int:
    return torch.get_num_threads() if n_searches >= _FEWEST_FOR_THREADS else 1


def _leaves(root: Any) -> Iterator[np.ndarray]:
    """The places of the points in each leaf."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if isinstance(node, KDTree.leafnode):
            yield node.idx
        else:
            nodes += [node.less, node.greater]
