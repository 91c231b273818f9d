"""An ensemble of Gaussian mixtures: anomalies have a low density."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from nptad.bench.methods.scaling import Scaler, check_count, check_new_rows, check_rows
from nptad.errors import InputError

_RIDGE = 1e-2
"""Added to the variances of standardised features, since a component may sit on a few equal rows."""


class GMMEnsemble:
    """The mean negative log density under mixtures of Gaussians fitted to bootstrap samples.

    One mixture depends on the number of components and on where they start. As in the EGMM of Emmott et al. (2013),
    the members of the ensemble differ in both and in their bootstrap sample of the training rows; unlike there, none is
    discarded. Mixtures are scikit-learn's, with full covariances, on standardised features.

    Parameters
    ----------
    n_members : int, default 15
        Mixtures in the ensemble.
    n_components : sequence of int, default (6, 7, 8, 9, 10)
        Numbers of components, which the members take in turn; as many as the sample has different rows if that is less.
    max_samples : int, default 10_000
        Rows of a bootstrap sample; as many as there are training rows if that is less.
    random_state : int, optional
        Seed of the samples and the starts.

    References
    ----------
    Emmott, Das, Dietterich, Fern, Wong: Systematic construction of anomaly detection benchmarks from real data.
    KDD workshop on outlier detection and description, 2013.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> normal, odd = GMMEnsemble(n_members=3, random_state=0).fit(x).score([[0, 0, 0], [5, -5, 5]])
    >>> bool(odd > normal)
    True
    """

    def __init__(
        self,
        *,
        n_members: int = 15,
        n_components: Sequence[int] = (6, 7, 8, 9, 10),
        max_samples: int = 10_000,
        random_state: int | None = None,
    ) -> None:
        self.n_members = n_members
        self.n_components = n_components
        self.max_samples = max_samples
        self.random_state = random_state

    def fit(self, x: Any) -> GMMEnsemble:
        """Fit the mixtures to bootstrap samples of the training rows ``x``."""
        rows = check_rows(x)
        if len(rows) < 2:
            raise InputError("A Gaussian mixture has a spread to learn; it needs at least 2 training rows, got 1.")
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
            # A mixture that could still be improved is a density all the same.
            with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                self.members_.append(mixture.fit(sample))
        self.n_features_ = rows.shape[1]
        return self

    def score(self, x: Any) -> np.ndarray:
        """Return the mean over the members of each row's negative log density."""
        rows = check_new_rows(self, x)
        scaled = self.scaler_.transform(rows)
        return -np.mean([mixture.score_samples(scaled) for mixture in self.members_], axis=0)
