"""k nearest neighbours: anomalies are far from the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.neighbors import NearestNeighbors

from nptad.bench.methods.scaling import Scaler, Scaling, check_count, check_new_rows, check_rows

_CELLS = 2**22  # cells of neighbours in memory at a time


@dataclass(kw_only=True, eq=False)
class KNN:
    """Distance to the k-th nearest training row.

    Ramaswamy, Rastogi and Shim, *Efficient Algorithms for Mining Outliers from Large Data Sets*, SIGMOD 2000. The
    defaults are the method of the NPT-AD paper: k = 5 on standardised features. ``KNN(k=1, scaling="minmax")``, the
    distance to the nearest training row on features brought to [0, 1], is the simplest detector there is, and stronger
    than its place in the literature suggests.

    Examples
    --------
    >>> x = np.arange(10.0)[:, None]
    >>> KNN(k=2, scaling="minmax").fit(x).score([[4.5], [18.0]]).round(3).tolist()
    [0.056, 1.111]
    """

    k: int = 5  # which neighbour's distance is the score; the farthest training row's if there are fewer
    scaling: Scaling = "standard"  # how features are scaled, with statistics of the training rows

    def fit(self, x: Any) -> Self:
        """Remember the training rows ``x``."""
        rows = check_rows(x)
        k = check_count("k", self.k)
        self.scaler_ = Scaler(rows, self.scaling)
        self.index_ = NeighbourIndex(self.scaler_.transform(rows), k)
        self.n_features_ = rows.shape[1]
        return self

    def score(self, x: Any) -> np.ndarray:
        """Return the distance of each row to its k-th nearest training row."""
        rows = check_new_rows(self, x)
        distances, _ = self.index_.query(self.scaler_.transform(rows))
        return distances[:, -1]


class NeighbourIndex:
    """Exact Euclidean neighbours among fixed rows: their numbers, and distances that do not depend on the batch.

    scikit-learn takes a k-d tree for up to 15 columns and matrix products for more. The rounding of a product depends
    on the rest of the batch, and equal rows get a distance above 0. So distances are computed again from differences.
    """

    def __init__(self, rows: np.ndarray, k: int) -> None:
        self.rows = rows
        self.k = min(k, len(rows))
        self._search = NearestNeighbors(n_neighbors=self.k).fit(rows)

    def query(self, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Distances and numbers of the k nearest neighbours of each row, nearest first, both (n, k).

        By default the rows are those of the index, and none is its own neighbour.
        """
        numbers = self._search.kneighbors(rows, return_distance=False)
        wanted = self.rows if rows is None else rows
        distances = np.empty(numbers.shape)
        block = max(1, _CELLS // (self.k * wanted.shape[1]))
        for start in range(0, len(wanted), block):
            part = slice(start, start + block)
            difference = self.rows[numbers[part]] - wanted[part, None]
            distances[part] = np.sqrt(np.square(difference, out=difference).sum(axis=2))
        order = np.argsort(distances, axis=1, kind="stable")
        return np.take_along_axis(distances, order, axis=1), np.take_along_axis(numbers, order, axis=1)
