"""Statistics of runs: mean ranks, t-tests, the order of methods, the dependencies that a data set needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

SIGNIFICANCE = 0.05
RESOLUTION = 0.001  # means that differ by no more than this are equal: records have three decimals
DEPENDENCY_MARGIN = 6.0
"""A method within this many points of F1 of the best counts as equally good. With this margin the published figures
give the paper's table of dependencies for all data sets except shuttle and campaign; no other margin does better."""


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """Mean rank of each column of (data sets, methods), 1 = highest; ties share their ranks.

    Examples
    --------
    >>> mean_ranks(np.array([[90.0, 80.0, 80.0], [70.0, 60.0, 50.0]])).tolist()
    [1.0, 2.25, 2.75]
    >>> mean_ranks(np.array([[66.667, 66.66667]])).tolist()  # equal up to the rounding of records
    [1.5, 1.5]
    """
    ahead = values[:, None, :] - values[:, :, None]  # by how much the third index is ahead of the second
    better, equal = (ahead > RESOLUTION).sum(axis=2), (np.abs(ahead) <= RESOLUTION).sum(axis=2)
    return (better + (equal + 1) / 2).mean(axis=0)


def out_of_order(values: Sequence[float], reference: Sequence[float]) -> list[int]:
    """Positions of the fewest values without which the rest is in ascending order.

    Of several such choices, the one whose remaining values are nearest to the reference.

    Examples
    --------
    >>> out_of_order([1, 5, 2, 3, 4], [1, 2, 3, 4, 5])
    [1]
    """
    apart = [abs(value - other) for value, other in zip(values, reference, strict=True)]

    def merit(chain: list[int]) -> tuple[int, float]:
        return len(chain), -sum(apart[place] for place in chain)

    chains: list[list[int]] = []  # the best chain that ends at each position
    for place, value in enumerate(values):
        before = [chain for chain in chains if values[chain[-1]] <= value]
        chains.append([*max(before, key=merit, default=[]), place])
    kept = max(chains, key=merit, default=[])
    return [place for place in range(len(values)) if place not in kept]


def spread(values: np.ndarray) -> float | None:
    """The standard deviation of a sample of runs; a single run has none."""
    return float(values.std(ddof=1)) if len(values) > 1 else None


def best_group(samples: list[np.ndarray]) -> list[bool]:
    """Which samples are not significantly below any other one, by Welch's t-test at 5 %.

    A single run allows no test: any sample of several runs with a higher mean is better, and it is better than none. If
    there are only single runs, the highest are best.

    Examples
    --------
    >>> several = [np.array([80.0, 81.0, 82.0]), np.array([79.0, 81.0, 82.0]), np.array([50.0, 51.0, 52.0])]
    >>> best_group([*several, np.array([90.0]), np.array([80.0])])
    [True, True, False, True, False]
    """
    rivals = [sample for sample in samples if len(sample) > 1] or samples
    return [not any(r.mean() > sample.mean() and _differ(r, sample) for r in rivals) for sample in samples]


def _differ(first: np.ndarray, second: np.ndarray) -> bool:
    if min(len(first), len(second)) < 2 or np.ptp(first) == np.ptp(second) == 0:
        return True
    summaries = [number for x in (first, second) for number in (x.mean(), x.std(ddof=1), len(x))]
    return bool(stats.ttest_ind_from_stats(*summaries, equal_var=False).pvalue < SIGNIFICANCE)


def dependencies(transformer: float, mask_knn: float, npt_ad: float) -> tuple[bool, bool]:
    """Whether dependencies between features, and between rows, are needed to find the anomalies of a data set.

    One kind suffices if the method that sees only this kind is as good as the best of the three, and the method that
    sees only the other kind is not. Otherwise both are needed.

    Examples
    --------
    >>> dependencies(88.3, 60.0, 94.2), dependencies(28.7, 84.3, 88.7), dependencies(23.5, 28.0, 72.5)
    ((True, False), (False, True), (True, True))
    """
    enough = max(transformer, mask_knn, npt_ad) - DEPENDENCY_MARGIN
    features, rows = transformer >= enough, mask_knn >= enough
    return (True, True) if features == rows else (features, rows)
