"""COPOD: anomalies are in the tails of the empirical copula. Needs the ``bench`` extra (PyOD)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from pyod.models.copod import COPOD as PyODCOPOD

from nptad.bench.methods.scaling import check_new_rows, check_rows


class COPOD:
    """Copula-based outlier detection (Li, Zhao, Botta, Ionescu and Hu, ICDM 2020), exactly PyOD's.

    The score is a sum over the columns. Each adds the negative logarithm of the probability of the tail on the side of
    the column's skewness, or the mean of those of both tails if that is more.

    PyOD takes the empirical distributions of the training rows *and the rows being scored* together, so that a score
    depends on the other rows of the batch. That is kept, as it is what published figures are made with.

    References
    ----------
    Li, Zhao, Botta, Ionescu, Hu: COPOD: copula-based outlier detection. ICDM 2020.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> normal, odd = COPOD().fit(x).score([[0, 0, 0], [5, -5, 5]])
    >>> bool(odd > normal)
    True
    """

    def fit(self, x: Any) -> COPOD:
        """Remember the training rows ``x``."""
        rows = check_rows(x)
        with _constant_columns_allowed():
            self.copula_ = PyODCOPOD().fit(rows)
        self.n_features_ = rows.shape[1]
        return self

    def score(self, x: Any) -> np.ndarray:
        """Return the sum of negative log tail probabilities of each row, among training rows and ``x`` together."""
        rows = check_new_rows(self, x)
        with _constant_columns_allowed():
            return self.copula_.decision_function(rows)


def _constant_columns_allowed() -> warnings.catch_warnings:
    """PyOD sets the skewness of a constant column to 0 after scipy has warned about it."""
    return warnings.catch_warnings(action="ignore", category=RuntimeWarning)
