"""The density of rows of which some cells are hidden.

A kernel density: the mean over training rows of how well each agrees with the cells of a row. Numbers enter as normal
quantiles. The kernel has the shape of their covariance, so that columns that depend on one another count once, and it
shrinks the training rows towards their mean as it widens, so that the density keeps that covariance. Categories are
equal or different. To hide cells is to leave them out of the kernel, a matter of small matrices: the same training rows
stay, weighted by the cells that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp
from sklearn.covariance import ledoit_wolf

from nptad.scoring.views.cells import ends_and_units
from nptad.scoring.views.nearest import normal_quantiles
from nptad.tables.layout import CellLayout, without_unreadable

_WIDTHS = (0.3, 0.45, 0.6, 0.75, 0.9)
"""Widths of the kernel to choose from; at 1 it would be a single Gaussian."""

_SLIPS = (0.01, 0.1, 0.5)
"""Chances to choose from that a row has another category than a row that is like it."""

_JUDGED_ROWS = 200
"""Training rows that choose among these."""

_SMALLEST_VARIANCE = 1e-3
"""Added to the variance of each column."""

_WRONG_SPREAD = 1.5
"""Half of the wrong numbers are within this many standard deviations of the column."""


@dataclass(frozen=True)
class KernelDensity:
    """The density around training rows.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 1)).astype(np.float32)
    >>> density = KernelDensity(np.hstack([x, x, x]), CellLayout(3, ()))
    >>> gains = density.gains(np.array([1.0, -1.0, 1.0]), np.arange(3))
    >>> gains(np.array([[0], [1], [2]])).argmax().item()
    1
    """

    rows: np.ndarray
    """Encoded training rows, (n, D), NaN for a gap."""
    layout: CellLayout

    def gains(
        self, row: np.ndarray, observed: np.ndarray, without: np.ndarray | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        """How much likelier the rest of a row is without some cells than the row, if their values may be wrong ones.

        Parameters
        ----------
        row : ndarray of shape (D,)
            An encoded row.
        observed : ndarray of shape (d,)
            Its cells that count, ascending; none of them is a gap.
        without : ndarray of shape (n,), optional
            Training rows that do not count.

        Returns
        -------
        callable
            From sets of cells, places in ``observed`` of shape (sets, size), to the gain of each set, the log of a
            likelihood ratio: the values are wrong, against the values belong to the row.
        """
        n_numeric, (width, slip) = self.layout.n_numeric, self._kernel
        numbers, categories = observed[observed < n_numeric], observed[observed >= n_numeric] - n_numeric
        values = np.nan_to_num(self._quantiles_of(without_unreadable(row[None]))[0])
        difference = (values - np.sqrt(1 - width**2) * self._numbers)[:, numbers]
        pull = (values @ self._precision - np.sqrt(1 - width**2) * self._pulled) / width**2
        # The precision of some of the columns is their block less what the other columns explain.
        others = np.setdiff1d(np.arange(n_numeric), numbers)
        explained = np.linalg.solve(self._precision[np.ix_(others, others)], self._precision[np.ix_(others, numbers)])
        block = self._precision[np.ix_(numbers, numbers)] - self._precision[np.ix_(numbers, others)] @ explained
        pull = pull[:, numbers] - pull[:, others] @ explained
        # A category enters like a number of its own whose squared distance is -2 log of its agreement.
        precision = np.eye(len(observed))
        precision[: len(numbers), : len(numbers)] = block / width**2
        agreement = self._agreement(row, slip)[:, categories]
        logs = agreement.sum(axis=1) - (pull * difference).sum(axis=1) / 2
        pull = np.hstack([pull, np.sqrt(-2 * agreement)])
        if without is not None:
            logs[without] = -np.inf
        whole = logsumexp(logs)
        cardinalities = np.array(self.layout.cardinalities, dtype=np.float64)[categories]
        # Of a Cauchy distribution, since a wrong number can be far away; without a factor that the kernel lacks too.
        wrong_numbers = -np.log1p((values[numbers] / _WRONG_SPREAD) ** 2) - np.log(_WRONG_SPREAD * np.sqrt(np.pi / 2))
        wrong = np.append(wrong_numbers, -np.log(cardinalities + 1))

        def of_sets(sets: np.ndarray) -> np.ndarray:
            roots = np.linalg.inv(np.linalg.cholesky(precision[sets[:, :, None], sets[:, None, :]]))
            hidden = ((pull[:, sets].transpose(1, 0, 2) @ roots.transpose(0, 2, 1)) ** 2).sum(axis=2)
            spread = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
            return logsumexp(logs + hidden / 2, axis=1) - whole + spread + wrong[sets].sum(axis=1)

        return of_sets

    @cached_property
    def _kernel(self) -> tuple[float, float]:
        """The width and slip under which training rows are likeliest, each left out of the density of itself."""
        judged = np.unique(np.linspace(0, len(self.rows) - 1, _JUDGED_ROWS).astype(np.int64))
        whitened = self._numbers @ np.linalg.cholesky(self._precision)
        squares, products = (whitened**2).sum(axis=1), whitened[judged] @ whitened.T
        best, chosen = -np.inf, (_WIDTHS[-1], _SLIPS[0])
        for slip in _SLIPS if self.layout.cardinalities else _SLIPS[:1]:
            agreement = np.stack([self._agreement(self.rows[row], slip).sum(axis=1) for row in judged])
            for width in _WIDTHS if self.layout.n_numeric else _WIDTHS[:1]:
                near = (1 - width**2) * squares - 2 * np.sqrt(1 - width**2) * products
                logs = agreement - (squares[judged, None] + near) / 2 / width**2
                logs[np.arange(len(judged)), judged] = -np.inf
                mean = logsumexp(logs, axis=1).mean() - self.layout.n_numeric * np.log(width)
                if mean > best:
                    best, chosen = mean, (width, slip)
        return chosen

    @cached_property
    def _numbers(self) -> np.ndarray:
        """The numbers of the training rows; a gap is an average one."""
        return np.nan_to_num(self._quantiles_of(self.rows))

    def _quantiles_of(self, x: np.ndarray) -> np.ndarray:
        """Numbers as normal quantiles of their column; beyond its ends, as if its tails were exponential."""
        result = np.empty((len(x), self.layout.n_numeric))
        for j, (values, quantiles, units) in enumerate(self._quantiles):
            column = x[:, j].astype(np.float64)
            result[:, j] = np.interp(column, values, quantiles)
            for end, sign in ((0, -1), (-1, 1)):
                excess = (sign * (column - values[end])).clip(min=0) / units[end]
                result[:, j] += sign * (np.sqrt(quantiles[end] ** 2 + excess) - np.abs(quantiles[end]))
        return result

    @cached_property
    def _quantiles(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The different values of each column, their quantiles with a standard deviation of 1, and the tails' units.

        Of an exponential tail, the last twentieth of n rows spreads over log(n / 20) of its scales, and the square of a
        normal quantile grows by 2 for each.
        """
        result = []
        for column in self.rows[:, : self.layout.n_numeric].T:
            known = np.sort(column[~np.isnan(column)].astype(np.float64))
            values, quantiles = normal_quantiles(known) if len(known) else (np.zeros(1), np.zeros(1))
            spread = np.interp(known, values, quantiles).std() if len(values) > 1 else 1.0
            units = ends_and_units(known)[1] / (2 * max(1.0, np.log(max(1, len(known)) / 20)))
            result.append((values, quantiles / spread, units))
        return result

    @cached_property
    def _precision(self) -> np.ndarray:
        """The inverse of the covariance of the numbers."""
        n_numeric = self.layout.n_numeric
        covariance = ledoit_wolf(self._numbers)[0] if n_numeric else np.empty((0, 0))
        return np.linalg.inv(covariance + _SMALLEST_VARIANCE * np.eye(n_numeric))

    @cached_property
    def _pulled(self) -> np.ndarray:
        return self._numbers @ self._precision

    @cached_property
    def _shares(self) -> list[np.ndarray]:
        """The share of each category of each column, that of one never seen last."""
        codes = self.rows[:, self.layout.n_numeric :]
        counts = [
            np.bincount(column[column >= 0].astype(np.int64), minlength=cardinality + 1) + 1
            for column, cardinality in zip(codes.T, self.layout.cardinalities, strict=True)
        ]
        return [count / count.sum() for count in counts]

    def _agreement(self, row: np.ndarray, slip: float) -> np.ndarray:
        """Log of the chance of each category of a row if it is like each training row, (n, D2); 0 for a gap."""
        codes, seen = self.rows[:, self.layout.n_numeric :], row[self.layout.n_numeric :]
        known = np.where(np.isnan(seen), 0, seen).astype(np.int64)
        shares = np.array([share[code] for share, code in zip(self._shares, known, strict=True)])
        equal = np.where(np.isnan(codes), shares, codes == seen)
        return np.where(np.isnan(seen), 0.0, np.log((1 - slip) * equal + slip * shares))
