"""How odd the rows of one table are, seen in ways that a small group of equal anomalies cannot fool.

Anomalies that are alike are near one another, so that none of them is far from its nearest row. But they are far from a
fifth of the table, and few cuts isolate them. These measures are coarse. They say which rows the finer views should
learn from (:mod:`nptad.scoring.core`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri
from sklearn.ensemble import IsolationForest

from nptad.scoring.views.nearest import draw_parts
from nptad.tables.layout import CellLayout

MEASURES = (
    "far from a fifth of the rows",
    "far from a fifth of the rows by ranks",
    "far from a fifth of the rows in some columns",
    "isolated by few cuts",
    "wrong in single cells",
)
"""What the measures find, in the order of :func:`first_pass`; the last one is :mod:`nptad.scoring.gross_errors`."""

_COMPARED_ROWS, _COMPARED_IN_PARTS = 1000, 400
"""Rows that all rows are compared with: in all columns, and in some of them."""

_SHARE = 0.2
"""Share of them whose mean distance counts: groups of half this share are still far from most of them."""

_TREES = 200

_PAIRS_AT_ONCE = 2**21
"""Pairs of rows compared at once."""


def first_pass(x: Float[np.ndarray, "N D"], layout: CellLayout, seed: int) -> Float[np.ndarray, "4 N"]:
    """The four measures of each row, higher = more odd.

    Three are the mean distance from the nearest fifth of some rows drawn at random: in units of the columns' ranges, in
    normal quantiles of ranks, and in one, two or half of the columns (of whose surprises the largest count most). The
    fourth is the depth of a row in an isolation forest (Liu, Ting and Zhou, ICDM 2008). Categories are equal or
    different, for the forest rare or frequent. A gap counts as the middle of its column.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    >>> x[:20] = 5 + 0.01 * x[:20]  # a group that is far away
    >>> measures = first_pass(x, CellLayout(2, ()), seed=0)
    >>> bool((measures[:, :20].mean(axis=1) > np.quantile(measures, 0.9, axis=1)).all())
    True
    """
    random = np.random.default_rng(seed)
    compared = random.permutation(len(x))[:_COMPARED_ROWS]
    n_numeric = layout.n_numeric
    numbers, codes = _without_gaps(x[:, :n_numeric]), x[:, n_numeric:]
    quantiles = np.stack([_quantiles(column) for column in numbers.T], axis=1) if n_numeric else numbers
    span = np.ptp(numbers, axis=0)
    ranges = numbers / np.where(span > 0, span, 1.0)

    in_parts = np.zeros(len(x))
    parts = draw_parts(x.shape[1])
    for part in parts:
        for space in (ranges, quantiles):
            chosen = space[:, part[:n_numeric]], codes[:, part[n_numeric:]]
            in_parts += np.exp(_surprise(_mean_distance(*chosen, compared[:_COMPARED_IN_PARTS])) / 2)
    rarity = [_rarity(column) for column in codes.T]
    forest = IsolationForest(n_estimators=_TREES, random_state=int(random.integers(2**31)))
    cells = np.column_stack([numbers, *rarity]).astype(np.float32)
    return np.stack(
        [
            _mean_distance(ranges, codes, compared),
            _mean_distance(quantiles, codes, compared),
            2 * np.log(in_parts / (2 * len(parts))),
            -forest.fit(cells).score_samples(cells),
        ]
    )


def _mean_distance(
    numbers: Float[np.ndarray, "N D1"], codes: Float[np.ndarray, "N D2"], compared: Int[np.ndarray, " M"]
) -> Float[np.ndarray, " N"]:
    """Mean distance of each row from the nearest fifth of the compared rows, itself left out."""
    n_nearest = max(1, int(_SHARE * len(compared)))
    squares, found = (numbers**2).sum(axis=1), np.empty(len(numbers))
    place_of = np.full(len(numbers), -1)
    place_of[compared] = np.arange(len(compared))
    for rows in _blocks(len(numbers), len(compared)):
        squared = squares[rows, None] + squares[compared] - 2 * numbers[rows] @ numbers[compared].T
        for column in codes.T:
            squared += column[rows, None] != column[compared]
        own = np.flatnonzero(place_of[rows] >= 0)
        squared[own, place_of[rows][own]] = np.inf
        nearest = np.partition(squared, min(n_nearest, len(compared)) - 1, axis=1)[:, :n_nearest]
        nearest[np.isinf(nearest)] = 0.0  # a single row
        found[rows] = np.sqrt(nearest.clip(min=0)).mean(axis=1)
    return found


def _blocks(n_rows: int, n_compared: int) -> Iterator[slice]:
    at_once = max(1, _PAIRS_AT_ONCE // n_compared)
    return (slice(start, start + at_once) for start in range(0, n_rows, at_once))


def _surprise(scores: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Minus the log of the share of rows that score at least as high."""
    return np.log(len(scores) / (len(scores) - np.searchsorted(np.sort(scores), scores, "left")))


def _without_gaps(numbers: np.ndarray) -> Float[np.ndarray, "N D1"]:
    filled = numbers.astype(np.float64)
    for column in filled.T:
        missing = np.isnan(column)
        column[missing] = 0.0 if missing.all() else np.median(column[~missing])
    return filled


def _quantiles(column: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """The normal quantile of each number's rank; equal numbers share their mean rank."""
    _, which, counts = np.unique(column, return_inverse=True, return_counts=True)
    return ndtri((np.cumsum(counts) - counts / 2) / counts.sum())[which]


def _rarity(codes: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Minus the log of the share of each category; gaps count as a category."""
    _, which, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return -np.log(counts / len(codes))[which]
