"""The synthetic data sets."""

from __future__ import annotations

import numpy as np


def mulcross() -> tuple[np.ndarray, np.ndarray]:
    """Normal rows around the origin and two tight clusters of anomalies far out.

    After Rocke and Woodruff (1996): the centres of the clusters are at twice the radius that holds 90 % of the normal
    rows. Their directions are not published; with these two orthogonal diagonals an isolation forest has the scores
    that are published for the original (AUROC .99, AUPRC .85).
    """
    from scipy.special import chdtri

    n_rows, n_anomalies, cluster_variance = 262_144, 26_214, 0.1
    x = np.random.default_rng(0).standard_normal((n_rows, 4))
    radius = 2 * np.sqrt(chdtri(4, 0.10))
    directions = np.array([[1, 1, 1, 1], [1, 1, -1, -1]]) / 2
    clusters = np.repeat(directions, n_anomalies // 2, axis=0)
    x[-n_anomalies:] = radius * clusters + np.sqrt(cluster_variance) * x[-n_anomalies:]
    # Rounded: the last bits differ between machines, and the checksum must not.
    return np.round(x, 6), np.arange(n_rows) >= n_rows - n_anomalies


def separable() -> tuple[np.ndarray, np.ndarray]:
    """A set like the one of the paper's contamination study: two distributions that do not overlap.

    Six independent columns per distribution, of the same families as in the authors' file; the ranges of the first two
    columns do not overlap. 1800 normal rows come first, then 200 anomalies.
    """
    random = np.random.default_rng(0)
    n, m = 1_800, 200
    normal = [
        random.uniform(0, 0.45, n),
        random.uniform(-0.4, 0.5, n),
        random.normal(1, 0.4, n),
        -random.weibull(0.5, n),
        random.exponential(2, n),
        random.rayleigh(2.1, n),
    ]
    anomalies = [
        random.uniform(0.55, 1, m),
        random.uniform(-1, -0.6, m),
        random.normal(-2, 0.4, m),
        2 * random.weibull(0.5, m),
        -random.wald(6, 3, m),
        -8 / random.gamma(2.5, size=m),
    ]
    return np.vstack([np.column_stack(normal), np.column_stack(anomalies)]), np.arange(n + m) >= n
