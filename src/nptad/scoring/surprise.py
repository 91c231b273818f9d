"""From the scores of a view to surprise: minus the log of the share of normal rows that look at least as odd.

The share comes from out-of-fold scores of n training rows. Up to the largest of them it is the conformal p-value
(1 + rows that score at least as high) / (1 + n). Beyond the largest score there are no rows to count, and the share
comes from a fitted tail: a generalised Pareto distribution fitted to the highest tenth of the scores, as extreme value
theory suggests (Pickands, Annals of Statistics 3, 1975). The guarantee of a p-value is that a normal row gets a value
of at most ``a`` with a probability of at most ``a``. For every ``a`` of at least 1 / (n + 1) it rests on
exchangeability alone, ties and discrete scores included; for smaller ``a`` it rests on the tail as well.

A tail with a finite end is replaced by an exponential one, so that surprise keeps growing and is rather too low than
too high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nptad.scoring.arrays import LARGEST, require_array

_TAIL = 0.1
"""Share of the scores that the tail is fitted to."""

_FEWEST = 10
"""Smallest number of scores that a tail is fitted to, if that is no more than half of them."""

_ROUNDING = 1e-6
"""Scores that differ by less than this share of the largest are equal but for rounding. As the excess of a tail, such
differences would make every score beyond it infinitely surprising."""

_PRIOR_SHAPE = 0.5
"""The shape that estimates are shrunk towards, that of a heavy tail: a few scores determine a shape poorly, and too
light a tail gives normal rows a share of nearly 0."""

_PRIOR_ROWS = 10
"""Strength of this shrinkage, in rows."""


@dataclass(frozen=True)
class Surprise:
    """How surprising a score is, in natural logarithms: 4.6 is one normal row in 100, 9.2 one in 10,000.

    Examples
    --------
    >>> surprise = Surprise.fit(np.random.default_rng(0).exponential(size=1000))
    >>> surprise.apply(np.array([0.0, 1.0, 5.0, 20.0])).round(1).tolist()
    [0.0, 1.0, 5.0, 11.6]
    """

    scores: np.ndarray
    """Out-of-fold scores of training rows, ascending, (n,)."""
    tail: np.ndarray
    """Where the tail starts, the share of rows beyond, its scale and its shape, (4,)."""

    @classmethod
    def fit(cls, scores: np.ndarray) -> Surprise:
        """Learn from out-of-fold scores of training rows, (n,), higher = more odd."""
        ordered = np.sort(np.asarray(scores, dtype=np.float64))
        n = len(ordered)
        n_tail = max(int(_TAIL * n), min(_FEWEST, n // 2))  # 0 for a single row
        start = ordered[n - 1 - n_tail]
        beyond = ordered[ordered > start + _ROUNDING * np.abs(ordered).max()] - start
        scale, shape = fit_tail(beyond)
        return cls(ordered, np.array([start, len(beyond) / (n + 1), scale, shape]))

    def require_sound(self) -> None:
        """Raise a ValueError unless every finite score has a finite surprise."""
        require_surprises("scores", self.scores[None], self.tail[None], 1)

    def apply(self, scores: np.ndarray) -> np.ndarray:
        """The surprise of each score, in the shape of ``scores``; at least 0."""
        n = len(self.scores)
        empirical = np.log((n + 1) / (1 + n - np.searchsorted(self.scores, scores, "left")))
        if self.tail[2] == 0:
            return empirical
        return np.where(self.extrapolates(scores), np.maximum(empirical, self.tail_surprise(scores)), empirical)

    def tail_surprise(self, scores: np.ndarray) -> np.ndarray:
        """The surprise under the fitted tail alone, for scores beyond its start; that of one in all without a tail."""
        start, share, scale, shape = self.tail
        if scale == 0:
            return np.full(np.shape(scores), np.log(len(self.scores) + 1))
        excess = np.maximum(scores - start, 0.0) / scale
        return (np.log1p(shape * excess) / shape if shape > 0 else excess) - np.log(share)

    def smooth(self, scores: np.ndarray) -> np.ndarray:
        """Like :meth:`apply` without steps, so that different scores have different surprises.

        Between two training scores the share is interpolated from above: it is at least that of :meth:`apply`, and the
        guarantee of the p-value holds.

        Examples
        --------
        >>> np.exp(-Surprise.fit(np.arange(9.0)).smooth(np.array([1.0, 1.5, 2.0]))).round(2).tolist()
        [0.9, 0.85, 0.8]
        """
        n, values = len(self.scores), np.unique(self.scores)
        shares = (1 + n - np.searchsorted(self.scores, values, "left")) / (n + 1)
        inside = -np.log(np.interp(scores, values, shares))
        return np.where(self.extrapolates(scores), self.apply(scores), inside)

    def extrapolates(self, scores: np.ndarray) -> np.ndarray:
        """Where the scores lie beyond all training rows, so that the share comes from the fitted tail alone."""
        return scores > self.scores[-1]


def surprise_among_others(scores: np.ndarray) -> np.ndarray:
    """The surprise of each training row's score, (n,), under a :class:`Surprise` fitted to all the others.

    New rows' surprises are compared with these, and they are combined with those of other views. A row must not be
    compared with itself: otherwise no training row could lie beyond all rows, as some new rows do.

    Examples
    --------
    >>> surprise_among_others(np.array([3.0, 1.0, 2.0, 2.0])).round(2).tolist()
    [1.39, 0.0, 0.29, 0.29]
    """
    scores = np.asarray(scores, dtype=np.float64)
    ordered = np.sort(scores)
    surprise = np.log(len(scores) / (len(scores) - np.searchsorted(ordered, scores, "left")))
    if len(scores) > 2 and ordered[-1] > ordered[-2]:
        surprise[scores.argmax()] = Surprise.fit(ordered[:-1]).apply(ordered[-1:])[0]
    return surprise


def require_surprises(name: str, scores: np.ndarray, tails: np.ndarray, count: int) -> None:
    """Raise a ValueError unless these are the scores (count, n) and tails (count, 4) of sound surprises."""
    require_array(name, scores, "f8", (count, None), ascending=True)
    require_array(f"tails of {name}", tails, "f8", (count, 4))
    _, share, scale, shape = tails.T
    if (scale < 0).any() or (shape < 0).any() or ((scale > 0) & ~((scale > 1 / LARGEST**4) & (share > 0))).any():
        raise ValueError(f"the tails of {name} are none")


@dataclass(frozen=True)
class CombinedSurprise:
    """From the scores of several views to one score, whose exponential with a minus is its p-value.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> combined, _ = CombinedSurprise.fit([random.normal(size=500), random.exponential(size=500)])
    >>> ordinary_and_odd = [np.array([[0.0], [6.0]]), np.array([[1.0], [2.0]])]
    >>> np.exp(-combined.score(ordinary_and_odd)).round(3).tolist()
    [0.473, 0.0]
    """

    views: tuple[Surprise, ...]
    """The surprise of each view."""
    whole: Surprise
    """The surprise of the combined score."""

    @classmethod
    def fit(cls, out_of_fold: Sequence[np.ndarray]) -> tuple[CombinedSurprise, np.ndarray]:
        """Learn from out-of-fold scores of the training rows under each view, (n,); also returns their scores, (n,)."""
        combined = combine(np.stack([surprise_among_others(view) for view in out_of_fold]))
        fitted = cls(tuple(Surprise.fit(view) for view in out_of_fold), Surprise.fit(combined))
        return fitted, surprise_among_others(combined)

    def by_view(self, scores: Sequence[np.ndarray]) -> np.ndarray:
        """The surprise of new rows under each view and member, (V, m, K), from scores (m, K), or (m, 1) for all."""
        return np.stack(np.broadcast_arrays(*(s.apply(view) for s, view in zip(self.views, scores, strict=True))))

    def score(self, scores: Sequence[np.ndarray]) -> np.ndarray:
        """The score of new rows, (m,): minus the log of the share of normal rows that are at least as odd.

        Each member is compared with the training rows; the score is the mean over members.
        """
        return self.whole.smooth(combine(self.by_view(scores))).mean(axis=1)


def combine(surprises: np.ndarray) -> np.ndarray:
    """One surprise from several, (V, ...) -> (...): a mean that gives the largest the most weight.

    Minus the log of the shares' power mean of order -1/2 (Vovk and Wang, Combining p-values via averaging, Biometrika
    107, 2020). Views of different kinds detect different anomalies. In the plain mean, the views that detect nothing
    hide the one that does; the maximum follows the noisiest view.

    Examples
    --------
    >>> combine(np.array([[1.0, 0.0], [1.0, 9.0]])).round(1).tolist()
    [1.0, 7.6]
    """
    largest = surprises.max(axis=0)
    combined = largest + 2 * np.log(np.exp((surprises - largest) / 2).mean(axis=0))
    return combined.round(9)  # equal rows must be equal whatever their company


def fit_tail(excess: np.ndarray, standard_errors: float = 0.0) -> tuple[float, float]:
    """Scale and shape of a generalised Pareto distribution from an ascending sample; scale 0 for an empty sample.

    The estimator of Zhang and Stephens (Technometrics 51, 2009): a mean over a grid, weighted by the likelihood. Its
    shape is shrunk towards that of a heavy tail as if by a few more rows (as in Vehtari et al., Pareto smoothed
    importance sampling, JMLR 25, 2024), raised by so many standard errors, and at least 0, that of the exponential.

    Examples
    --------
    >>> scale, shape = fit_tail(np.sort(np.random.default_rng(0).pareto(2, size=2000)))  # scale 1/2, shape 1/2
    >>> round(scale, 1), round(shape, 1)
    (0.5, 0.5)
    """
    n = len(excess)
    if n == 0:
        return 0.0, 0.0
    n_grid = 20 + int(np.sqrt(n))
    quartile = max(excess[max(0, int(n / 4 + 0.5) - 1)], 1e-6 * excess[-1])
    grid = 1 / excess[-1] + (1 - np.sqrt(n_grid / (np.arange(n_grid) + 0.5))) / (3 * quartile)
    shapes, rates = _shape_and_rate(grid, excess)
    likelihood = n * (np.log(rates) - shapes - 1)
    weights = np.exp(likelihood - likelihood.max())
    shape, rate = _shape_and_rate((grid * weights).sum(keepdims=True) / weights.sum(), excess)
    drawn = (n * shape[0] + _PRIOR_ROWS * _PRIOR_SHAPE) / (n + _PRIOR_ROWS)
    drawn += standard_errors * max(0.0, 1 + drawn) / np.sqrt(n)
    return float(1 / rate[0]), float(max(0.0, drawn))


def _shape_and_rate(theta: np.ndarray, excess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest shape and 1 / scale if minus their product is ``theta``; an exponential tail if ``theta`` is 0."""
    shape = np.log1p(-theta[:, None] * excess).mean(axis=1)
    flat = np.abs(theta) * excess[-1] < 1e-9
    return shape, np.where(flat, 1 / excess.mean(), -theta / np.where(flat, 1.0, shape))
