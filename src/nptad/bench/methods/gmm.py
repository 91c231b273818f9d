"""An ensemble of Gaussian mixtures: anomalies have a low density."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from nptad.bench.methods.scaling import Scaler, check_count, check_new_rows, check_rows
from nptad.errors import InputError

_RIDGE = 1e-2  # added to the variances of standardised features: a component may consist of a few equal rows


@dataclass(kw_only=True, eq=False)
class GMMEnsemble:
    """The mean negative log density under mixtures of Gaussians fitted to bootstrap samples.

    One mixture depends on the number of components and on where they start. The ensemble follows the EGMM of Emmott,
    Das, Dietterich, Fern and Wong, *Systematic Construction of Anomaly Detection Benchmarks from Real Data*, KDD
    workshop on outlier detection and description, 2013: its members differ in both, and in their bootstrap sample of
    the training rows. Unlike there, no member is discarded. Mixtures are scikit-learn's, with full covariances, on
    standardised features.
    """

    n_members: int = 15  # mixtures in the ensemble
    n_components: Sequence[int] = (6, 7, 8, 9, 10)  # taken in turn; at most the number of different rows in the sample
    max_samples: int = 10_000  # rows of a bootstrap sample; at most the number of training rows
    random_state: int | None = None  # seed of the samples and the starts

    def fit(self, x: Any) -> Self:
        """Fit the mixtures to bootstrap samples of the training rows ``x``."""
        rows = check_rows(x)
        if len(rows) < 2:
            raise InputError("A Gaussian mixture learns a spread; it needs at least 2 training rows, got 1.")
        size = min(check_count("max_samples", self.max_samples), len(rows))
        components = [check_count("Every number in n_components", number) for number in self.n_components]
        if not components:
            raise InputError("n_components must have at least one number.")
        self.scaler_ = Scaler(rows, "standard")
        scaled = self.scaler_.transform(rows)
        random = np.random.default_rng(self.random_state)
        self.members_ = []
        for member in range(check_count("n_members", self.n_members)):
            sample = scaled[random.integers(len(rows), size=size)]
            n_components = min(components[member % len(components)], len(np.unique(sample, axis=0)))
            mixture = GaussianMixture(
                n_components, reg_covar=_RIDGE, init_params="k-means++", random_state=int(random.integers(2**32))
            )
            # A mixture that has not converged is still a density.
            with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                self.members_.append(mixture.fit(sample))
        self.n_features_ = rows.shape[1]
        return self

    def score(self, x: Any) -> np.ndarray:
        """Return the mean over the members of each row's negative log density."""
        rows = check_new_rows(self, x)
        scaled = self.scaler_.transform(rows)
        return -np.mean([mixture.score_samples(scaled) for mixture in self.members_], axis=0)
