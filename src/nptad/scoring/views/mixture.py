"""Density of a row under mixtures of Gaussians.

Numbers enter as they are encoded. A category enters as one number: minus the log of its share among the training rows.
A gap contributes the average of an observed cell: its part of the squared distance from a component's mean is 1. For
fitting, gaps are filled with values of the same column in other rows, which changes neither its mean nor its spread.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from nptad.scoring.arrays import require_array, require_count
from nptad.scoring.views.base import View
from nptad.tables.layout import CellLayout
from nptad.training.parallel import single_thread

_COMPONENTS = (5, 9)
"""Components of the two mixtures of a member; their mean log density is the view."""
_ROWS_PER_COMPONENT = 20
"""Fewer rows make fewer components."""
_RIDGE = 1e-2
"""Added to variances, since a component may sit on a few equal rows."""
_SMALLEST_VARIANCE = _RIDGE / 100
"""What rounding leaves of the ridge."""
_LARGEST = 50.0
"""Standard deviations at which numbers are cut off: densities beyond carry no more information."""
_FULL_COLUMNS = 300
"""Columns up to which components have full covariances; beyond, only variances."""
_CELLS_AT_ONCE = 2**22
"""Cells of covariances in memory at a time."""
_MOST_ROWS = 20_000
"""Rows that a mixture is fitted to; of more, a random sample."""


@dataclass(frozen=True)
class MixtureDensity(View):
    """Minus the log density of a row under mixtures of Gaussians, one pair for each fold."""

    n_numeric: np.ndarray
    """Number of numeric cells, ()."""
    costs: np.ndarray
    """The number for each category, (categories + 1,), column after column; the last of each column is for unseen."""
    starts: np.ndarray
    """Where the costs of each category column start, (D2 + 1,)."""
    mixture: np.ndarray
    """The mixture that each of T components belongs to, (T,); a member has two in a row."""
    log_weights: np.ndarray
    """Log of the weight of each component, (T,)."""
    means: np.ndarray
    """(T, D)."""
    covariances: np.ndarray
    """(T, D, D), or (T, D) if components only have variances."""
    name: ClassVar[str] = "density"

    @classmethod
    def fit(cls, x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[View, np.ndarray]:
        """Fit a pair of mixtures to the rows that each member keeps."""
        costs, starts = _category_costs(x[:, layout.n_numeric :], layout.cardinalities)
        z = _as_numbers(x, layout.n_numeric, costs, starts)
        filled = _filled(z)
        found = [_fit_mixture(filled[~fold], components) for fold in left_out for components in _COMPONENTS]
        view = cls(
            np.array(layout.n_numeric),
            costs,
            starts,
            np.repeat(np.arange(len(found)), [len(mixture.weights_) for mixture in found]),
            np.log(np.concatenate([mixture.weights_ for mixture in found])),
            np.concatenate([mixture.means_ for mixture in found]),
            np.concatenate([mixture.covariances_ for mixture in found]),
        )
        scores = np.empty(len(x))
        member = left_out.argmax(axis=0)
        for k in range(len(left_out)):
            scores[member == k] = view._member_scores(z[member == k], k)
        return view, scores

    def of_rows(self, rows: np.ndarray, layout: CellLayout) -> View:
        """The view itself: a few rows more or less hardly change a density."""
        return self

    def require_sound(self, layout: CellLayout) -> None:
        """See :class:`View`."""
        require_count("n_numeric", self.n_numeric, layout.n_numeric)
        require_array("starts", self.starts, "i8", (len(layout.cardinalities) + 1,))
        if self.starts.tolist() != [0, *accumulate(cardinality + 1 for cardinality in layout.cardinalities)]:
            raise ValueError("starts are those of other categories")
        require_array("costs", self.costs, "f8", (int(self.starts[-1]),), most=2 * _LARGEST)
        require_array("mixture", self.mixture, "i8", (None,), least=0, ascending=True)
        n_components, n_columns = len(self.mixture), layout.n_features
        far, widest = 2 * _LARGEST, (2 * _LARGEST) ** 2  # numbers are cut off at less
        n_mixtures = int(self.mixture[-1]) + 1
        if n_mixtures % len(_COMPONENTS) or len(np.unique(self.mixture)) != n_mixtures:
            raise ValueError("mixtures without components")
        require_array("log_weights", self.log_weights, "f8", (n_components,), least=-1000, most=1)
        require_array("means", self.means, "f8", (n_components, n_columns), least=-far, most=far)
        if self.covariances.ndim == 2:
            shape: tuple[int, ...] = (n_components, n_columns)
            require_array("covariances", self.covariances, "f8", shape, least=_SMALLEST_VARIANCE, most=widest)
            return
        shape = (n_components, n_columns, n_columns)
        require_array("covariances", self.covariances, "f8", shape, least=-widest, most=widest)
        for covariance in self.covariances:
            try:
                root = np.linalg.cholesky(covariance)
            except np.linalg.LinAlgError:
                root = np.zeros((1, 1))
            is_symmetric = np.allclose(covariance, covariance.T, rtol=1e-6, atol=_SMALLEST_VARIANCE)
            if not is_symmetric or (root.diagonal() ** 2 < _SMALLEST_VARIANCE).any():
                raise ValueError("covariances are none")

    def score(self, x: np.ndarray) -> np.ndarray:
        """Minus the mean log density under the mixtures of each member."""
        z = _as_numbers(x, int(self.n_numeric), self.costs, self.starts)
        n_members = (int(self.mixture[-1]) + 1) // len(_COMPONENTS)
        return np.stack([self._member_scores(z, k) for k in range(n_members)], axis=1)

    def _member_scores(self, z: np.ndarray, member: int) -> np.ndarray:
        numbers = range(member * len(_COMPONENTS), (member + 1) * len(_COMPONENTS))
        density = np.mean([self._log_density(z, np.flatnonzero(self.mixture == m)) for m in numbers], axis=0)
        return -density.astype(np.float32).astype(np.float64)  # equal rows must be equal whatever their company

    def _log_density(self, z: np.ndarray, components: np.ndarray) -> np.ndarray:
        """Log density of rows under one mixture, (n,)."""
        logs = np.empty((len(components), len(z)))
        missing = np.isnan(z)
        gaps = missing.sum(axis=1)
        for t, c in enumerate(components):
            difference = np.where(missing, 0.0, z - self.means[c])
            if self.covariances.ndim == 2:
                squared = (difference**2 / self.covariances[c]).sum(axis=1)
            else:
                squared = _squared_lengths(difference, self._factors[c], missing)
            logs[t] = self.log_weights[c] - (squared + gaps + self._spreads[c]) / 2
        return logsumexp(logs, axis=0) - z.shape[1] * np.log(2 * np.pi) / 2

    @cached_property
    def _factors(self) -> np.ndarray:
        """Of each component the matrix W with W'W the inverse of its covariance, (T, D, D)."""
        return np.linalg.inv(np.linalg.cholesky(self.covariances))

    @cached_property
    def _spreads(self) -> np.ndarray:
        """Log of the determinant of the covariance of each component, (T,)."""
        if self.covariances.ndim == 2:
            return np.log(self.covariances).sum(axis=1)
        return -2 * np.log(np.diagonal(self._factors, axis1=1, axis2=2)).sum(axis=1)


def _squared_lengths(difference: np.ndarray, factor: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Squared Mahalanobis lengths of rows (n, D) that are 0 where cells are missing, over the known cells, (n,).

    With P the inverse of the covariance, the inverse of a block of the covariance is the same block of P minus what the
    other cells explain. So a row costs an equation for each missing cell, not one for each known cell.
    """
    whole = difference @ factor.T
    squared = (whole**2).sum(axis=1)
    n_missing = missing.sum(axis=1)
    for count in np.unique(n_missing[n_missing > 0]):
        rows = np.flatnonzero(n_missing == count)
        at_once = max(1, _CELLS_AT_ONCE // (count * len(factor)))
        for start in range(0, len(rows), at_once):
            block = rows[start : start + at_once]
            cells = np.nonzero(missing[block])[1].reshape(len(block), count)
            columns = factor.T[cells]
            precision = columns @ columns.transpose(0, 2, 1)
            pull = columns @ whole[block, :, None]
            squared[block] -= (pull * np.linalg.solve(precision, pull)).sum(axis=(1, 2))
    return squared


def _fit_mixture(rows: np.ndarray, n_components: int) -> GaussianMixture:
    rows = np.vstack([rows, rows]) if len(rows) < 2 else rows  # scikit-learn needs two rows
    if len(rows) > _MOST_ROWS:
        rows = rows[np.random.default_rng(0).choice(len(rows), _MOST_ROWS, replace=False)]
    n_components = max(1, min(n_components, len(rows) // _ROWS_PER_COMPONENT, len(np.unique(rows, axis=0))))
    kind = "full" if rows.shape[1] <= _FULL_COLUMNS else "diag"
    mixture = GaussianMixture(
        n_components, covariance_type=kind, reg_covar=_RIDGE, max_iter=50, tol=1e-2, random_state=0
    )
    # A mixture that has not converged is still a valid density.
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning), single_thread("openmp"):
        return mixture.fit(rows)


def _category_costs(codes: np.ndarray, cardinalities: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    costs = [np.empty(0)]
    for column, cardinality in zip(codes.T, cardinalities, strict=True):
        known = column[column >= 0].astype(np.int64)
        counts = np.append(np.bincount(known, minlength=cardinality), 0)
        costs.append(-np.log((counts + 1) / (len(known) + 1)))
    return np.concatenate(costs), np.concatenate([[0], np.cumsum([len(part) for part in costs[1:]])]).astype(np.int64)


def _as_numbers(x: np.ndarray, n_numeric: int, costs: np.ndarray, starts: np.ndarray) -> np.ndarray:
    z = np.full(x.shape, np.nan)
    z[:, :n_numeric] = x[:, :n_numeric].clip(-_LARGEST, _LARGEST)
    for j, (start, end) in enumerate(pairwise(starts), n_numeric):
        known = ~np.isnan(x[:, j])
        code = x[known, j].astype(np.int64)
        unseen = end - start - 1
        z[known, j] = costs[start:end][np.where((code < 0) | (code > unseen), unseen, code)]
    return z


def _filled(z: np.ndarray) -> np.ndarray:
    """Rows with gaps filled by values of other rows of the same column."""
    random = np.random.default_rng(0)
    filled = z.copy()
    for column in filled.T:
        missing = np.isnan(column)
        if missing.any():
            known = column[~missing]
            column[missing] = random.choice(known, missing.sum()) if len(known) else 0.0
    return filled
