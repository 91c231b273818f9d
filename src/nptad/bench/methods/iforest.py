"""Isolation Forest: anomalies are isolated by few random cuts."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest

from nptad.bench.methods.scaling import check_count, check_new_rows, check_rows


class IForest:
    """Isolation Forest (Liu, Ting and Zhou, ICDM 2008), scikit-learn's, on features as they are.

    A tree cuts a random feature at a random place until every row of its sample is alone. The fewer cuts a row needs,
    the more anomalous it is. The scale of a feature makes no difference, unless its values differ by less than 1e-7,
    which scikit-learn takes as equal.

    Parameters
    ----------
    n_trees : int, default 100
        Trees in the forest.
    sample_size : int, default 256
        Training rows per tree; all of them if there are fewer.
    random_state : int, optional
        Seed of the samples and the cuts.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> normal, odd = IForest(random_state=0).fit(x).score([[0, 0, 0], [5, -5, 5]])
    >>> bool(odd > normal)
    True
    """

    def __init__(self, *, n_trees: int = 100, sample_size: int = 256, random_state: int | None = None) -> None:
        self.n_trees = n_trees
        self.sample_size = sample_size
        self.random_state = random_state

    def fit(self, x: Any) -> IForest:
        """Grow the forest on the training rows ``x``."""
        rows = check_rows(x)
        self.forest_ = IsolationForest(
            n_estimators=check_count("n_trees", self.n_trees),
            max_samples=min(check_count("sample_size", self.sample_size), len(rows)),
            random_state=self.random_state,
        ).fit(rows)
        self.n_features_ = rows.shape[1]
        return self

    def score(self, x: Any) -> np.ndarray:
        """Return the anomaly scores of the paper, in (0, 1): near 1 for anomalies."""
        rows = check_new_rows(self, x)
        return -self.forest_.score_samples(rows)
