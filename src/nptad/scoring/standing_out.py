"""How many rows of one table stand out from the rest.

The surprises of normal rows fall off about exponentially. How steeply is told by rows that are hardly anomalies: first
those below a high quantile of the table, so that the sample is truncated. Rows of which there are far more than this
slope predicts stand out, at a false discovery rate. All others are normal after all, also those beyond the quantile,
and the slope is estimated again from them, until nothing changes. So the tail of the normal rows is followed upwards as
far as it is unbroken, and anomalies beyond a gap do not flatten it.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import brentq

FALSE_DISCOVERY_RATE = 0.05
"""The share of rows that stand out by chance among those that are said to stand out, on average."""

_FIRST = 0.85
"""The share of the table that is taken to be normal without a look: no more than the others can stand out."""

_STARTS = (0.5, 0.7, 0.85)
"""Quantiles of the normal rows from which on the slope is measured. The flattest counts: a tail that gets flatter is
heavy, and its rows are normal."""

_FLATTEST = 1.5
"""How much flatter than from the first quantile on the slope can be: few rows determine it poorly."""

_FEWEST = 20
"""Rows that a slope needs."""


def standing_out(scores: Float[np.ndarray, " N"], rate: float = FALSE_DISCOVERY_RATE) -> Bool[np.ndarray, " N"]:
    """Which rows stand out.

    Parameters
    ----------
    scores : ndarray of shape (N,)
        Surprise of each row of the table, higher = more odd.
    rate : float
        The false discovery rate.

    Examples
    --------
    >>> scores = np.random.default_rng(0).exponential(size=1000)
    >>> int(standing_out(scores).sum())
    0
    >>> scores[:30] += 20
    >>> int(standing_out(scores)[:30].sum()), int(standing_out(scores)[30:].sum())
    (30, 2)
    """
    n, ordered = len(scores), np.sort(scores)
    as_high = n - np.searchsorted(ordered, ordered, "left")
    n_normal, n_odd = max(1, int(_FIRST * n)), 0
    while True:
        expected = _expected(ordered, n_normal)
        odd = np.flatnonzero((expected <= rate * as_high) & (ordered > ordered[n_normal - 1]))
        n_odd = n - odd[0] if len(odd) else 0
        if n - n_odd <= n_normal:
            return scores > ordered[n - n_odd - 1]
        n_normal = n - n_odd


def _expected(ordered: Float[np.ndarray, " N"], n_normal: int) -> Float[np.ndarray, " N"]:
    """How many normal rows are expected from each score on, if the lowest ``n_normal`` rows are normal."""
    normal, highest = ordered[:n_normal], ordered[n_normal - 1]
    expected, flattest = np.zeros(len(ordered)), np.inf
    for share in _STARTS:
        start = np.quantile(normal, share)
        excess = normal[normal > start] - start
        if len(excess) >= _FEWEST:
            n_others = len(ordered) - n_normal
            scale = min(_truncated_scale(excess, highest - start), _censored_scale(excess, highest - start, n_others))
            scale = min(scale, flattest)
            flattest = _FLATTEST * scale if np.isinf(flattest) else flattest
            n_beyond = len(excess) / -np.expm1(-(highest - start) / scale)  # were the sample not truncated
            expected = np.maximum(expected, n_beyond * np.exp(-(ordered - start).clip(min=0) / scale))
    return expected if expected.any() else np.full(len(ordered), np.inf)


def _censored_scale(excess: Float[np.ndarray, " n"], end: float, n_others: int) -> float:
    """The likeliest scale if ``n_others`` further rows, anomalies or not, lie beyond ``end``; no slope is flatter."""
    return float((excess.sum() + n_others * end) / len(excess))


def _truncated_scale(excess: Float[np.ndarray, " n"], end: float) -> float:
    """The likeliest scale of an exponential distribution that is cut off at ``end``; huge if it does not fall off."""
    mean, largest = float(excess.mean()), 100 * end

    def surplus(scale: float) -> float:
        return scale - end / np.expm1(end / scale) - mean

    return float(brentq(surplus, end / 500, largest)) if surplus(largest) > 0 else largest
