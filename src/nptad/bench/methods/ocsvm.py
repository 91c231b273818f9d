"""One-class SVM: anomalies are outside a smooth region that holds the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.svm import OneClassSVM

from nptad.bench.methods.scaling import Scaler, Scaling, check_count, check_new_rows, check_rows, subsample
from nptad.errors import InputError


class OCSVM:
    """One-class support vector machine (Schoelkopf et al., 2001): scikit-learn's, with its Gaussian kernel.

    Parameters
    ----------
    nu : float, default 0.1
        Upper bound on the share of training rows left outside, lower bound on the share of support vectors. Not
        scikit-learn's 0.5, which would leave out half of what is known to be normal, and is slower.
    scaling : {"standard", "minmax", "maxabs"}, default "minmax"
        How features are scaled, with statistics of the training rows. The kernel's width is set by the scaled features'
        variance (``gamma="scale"``).
    max_samples : int, default 10_000
        Training rows used, a random choice of more: training costs the square of their number, or worse.
    random_state : int, optional
        Seed of that choice.

    References
    ----------
    Schoelkopf, Platt, Shawe-Taylor, Smola, Williamson: Estimating the support of a high-dimensional distribution.
    Neural Computation 13(7), 2001.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> normal, odd = OCSVM().fit(x).score([[0, 0, 0], [5, -5, 5]])
    >>> bool(odd > normal)
    True
    """

    def __init__(
        self,
        *,
        nu: float = 0.1,
        scaling: Scaling = "minmax",
        max_samples: int = 10_000,
        random_state: int | None = None,
    ) -> None:
        self.nu = nu
        self.scaling = scaling
        self.max_samples = max_samples
        self.random_state = random_state

    def fit(self, x: Any) -> OCSVM:
        """Find the region that holds the training rows ``x``."""
        rows = check_rows(x)
        if not 0 < self.nu <= 1:
            raise InputError(f"nu must be a number above 0 and up to 1, got {self.nu!r}.")
        self.scaler_ = Scaler(rows, self.scaling)
        kept = subsample(self.scaler_.transform(rows), check_count("max_samples", self.max_samples), self.random_state)
        self.svm_ = OneClassSVM(nu=self.nu).fit(kept)
        self.n_features_ = rows.shape[1]
        return self

    def score(self, x: Any) -> np.ndarray:
        """Return minus the kernel sum of each row: at most 0, and 0 far from all training rows."""
        rows = check_new_rows(self, x)
        return -self.svm_.score_samples(self.scaler_.transform(rows))
