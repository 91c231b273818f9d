"""Local Outlier Factor: anomalies are in sparser places than their neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nptad.bench.methods.knn import NeighbourIndex
from nptad.bench.methods.scaling import Scaler, Scaling, check_count, check_new_rows, check_rows, subsample
from nptad.errors import InputError

_TINY = 1e-10
"""Added to mean reachability distances, as in scikit-learn: more than k equal rows then have a finite density."""


@dataclass(kw_only=True, eq=False)
class LOF:
    """Local Outlier Factor of new rows among training rows.

    Breunig, Kriegel, Ng and Sander, *LOF: Identifying Density-Based Local Outliers*, SIGMOD 2000. The density at a row
    is the inverse of its mean reachability distance to its k neighbours. The score is the mean density of the
    neighbours over the density at the row: about 1 inside a cluster of any density, larger outside. The formulas are
    scikit-learn's (``novelty=True``), applied to distances that do not depend on the batch: among duplicates the factor
    magnifies rounding errors by ten orders of magnitude.
    """

    k: int = 20  # neighbours; all other training rows if there are fewer
    scaling: Scaling = "minmax"  # how features are scaled, with statistics of the training rows
    max_samples: int = 30_000
    """Largest number of training rows; of more, a random choice is kept. Every training row needs its own neighbours, a
    cost that grows with the square of the number of rows."""
    random_state: int | None = None  # seed of that choice

    def fit(self, x: Any) -> Self:
        """Compute the densities at the training rows ``x``, of which there must be at least two."""
        rows = check_rows(x)
        if len(rows) < 2:
            raise InputError("LOF compares the training rows with each other; it needs at least 2, got 1.")
        self.scaler_ = Scaler(rows, self.scaling)
        max_samples = check_count("max_samples", self.max_samples, 2)
        kept = subsample(self.scaler_.transform(rows), max_samples, self.random_state)
        self.index_ = NeighbourIndex(kept, min(check_count("k", self.k), len(kept) - 1))
        distances, neighbours = self.index_.query()
        self.k_distance_ = distances[:, -1]
        self.density_ = self._density(distances, neighbours)
        self.n_features_ = rows.shape[1]
        return self

    def _density(self, distances: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
        reachability = np.maximum(distances, self.k_distance_[neighbours])
        return 1 / (reachability.mean(axis=1) + _TINY)

    def score(self, x: Any) -> np.ndarray:
        """Return the local outlier factor of each row, as if it alone joined the training rows."""
        rows = check_new_rows(self, x)
        distances, neighbours = self.index_.query(self.scaler_.transform(rows))
        return self.density_[neighbours].mean(axis=1) / self._density(distances, neighbours)
