"""Statistics of stored runs: one configuration per column and data set, means, ranks, t-tests, dependencies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from nptad.bench.datasets import DATASETS, EXTRA
from nptad.bench.own import is_own
from nptad.bench.protocol import parse_name
from nptad.bench.registry import METHODS, method_spec
from nptad.bench.store import RunRecord

SIGNIFICANCE = 0.05
RESOLUTION = 0.001  # means that differ by no more than this are equal: records have three decimals
MAIN_SHARE = 2 / 3  # share of the data sets with any result that a column needs to count in means over data sets
DEPENDENCY_MARGIN = 6.0
"""A method within this many points of F1 of the best counts as equally good. With this margin the published figures
give the paper's table of dependencies for all data sets except shuttle and campaign; no other margin does better."""


@dataclass(frozen=True)
class MethodColumn:
    """A method under a preset."""

    method: str
    preset: str

    @property
    def label(self) -> str:
        """Name in tables."""
        name = method_spec(self.method).label
        return f"{name}, library" if self.preset == "default" else name


@dataclass(frozen=True)
class Series:
    """The finished runs of a column on a data set, in the order of seeds."""

    column: MethodColumn
    dataset: str
    records: tuple[RunRecord, ...]

    def values(self, metric: str = "f1", rule: str | None = None) -> np.ndarray:
        """One value per seed, of the column's scores or of a scoring rule."""
        return np.array([(r if rule is None else r["rules"][rule])[metric] for r in self.records])

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of all runs."""
        return self.records[0]["config"]

    def seconds(self) -> tuple[float, float]:
        """Processor seconds of training, and of scoring the test rows, the means over seeds.

        Masks scaled by training rows need the losses of these rows, which then are part of training. Otherwise only the
        comparison of scoring rules needs them.
        """
        fit, reference, score = (
            float(np.mean([r["cpu_seconds"].get(phase, 0.0) for r in self.records]))
            for phase in ("fit", "reference", "score")
        )
        return fit + reference if self.config.get("scale_masks") else fit, score


Results = dict[tuple[MethodColumn, str], Series]


def is_current(record: RunRecord) -> bool:
    """Whether a record is of the present version of its method; those of unlisted methods always are."""
    method = METHODS.get(record["method"])
    return method is None or record["version"] == method.version_under(record["preset"])


def has_published_rows(record: RunRecord) -> bool:
    """Whether a run was on the rows of the registry, not on generated rows that replace them.

    Older records without a checksum are of such runs. If the registry has no checksum, all rows count as published.
    """
    dataset = {**DATASETS, **EXTRA}.get(parse_name(record["dataset"])[0])
    known = None if dataset is None else dataset.sha256
    return known is None or record.get("content", known) == known


def all_series(records: list[RunRecord]) -> dict[tuple[MethodColumn, str], list[Series]]:
    """The series of each column and data set, one for each configuration: most seeds first, then newest first.

    Runs of unknown methods and of earlier versions are left out. Runs on other rows make another series.
    """
    groups: dict[tuple[MethodColumn, str], dict[tuple[str, int, bool], list[RunRecord]]]
    groups = defaultdict(lambda: defaultdict(list))
    for r in records:
        if r["outcome"] == "done" and (r["method"] in METHODS or is_own(r["method"])) and is_current(r):
            groups[MethodColumn(r["method"], r["preset"]), r["dataset"]][
                r["config_hash"], r["version"], has_published_rows(r)
            ].append(r)

    def merit(runs: list[RunRecord]) -> tuple[int, str]:
        return len(runs), max(r["finished"] for r in runs)

    return {
        (column, dataset): [
            Series(column, dataset, tuple(sorted(runs, key=lambda r: r["seed"])))
            for runs in sorted(configs.values(), key=merit, reverse=True)
        ]
        for (column, dataset), configs in groups.items()
    }


def gather(records: list[RunRecord]) -> Results:
    """The series that counts for each column and data set: the first of :func:`all_series`."""
    return {key: series[0] for key, series in all_series(records).items()}


def datasets_of(results: Results) -> list[str]:
    """The data sets of the main tables: the paper's in its order, then those of the user's that have results."""
    return [*DATASETS, *sorted({dataset for _, dataset in results if is_own(dataset)})]


def columns_of(results: Results, datasets: Container[str]) -> list[MethodColumn]:
    """The columns that have results on any of the data sets, in the order of tables.

    The paper's preset comes first, then the other methods in the order of the registry, then the user's.
    """
    present = {column for column, dataset in results if dataset in datasets}
    methods = dict.fromkeys([*METHODS, *sorted(column.method for column in present)])
    return [
        MethodColumn(method, preset)
        for preset in ("paper", "default", "")
        for method in methods
        if MethodColumn(method, preset) in present
    ]


def main_columns(results: Results) -> tuple[list[MethodColumn], list[str]]:
    """The columns that count in means over data sets, and the data sets on which all of these have results.

    A method on few data sets does not count: few data sets would be common to all methods.
    """
    datasets = datasets_of(results)
    begun = {name for _, name in results} & set(datasets)
    columns = columns_of(results, datasets)
    main = [c for c in columns if sum((c, name) in results for name in begun) >= MAIN_SHARE * len(begun)]
    return main, common_datasets(results, main, datasets)


def common_datasets(results: Results, columns: list[MethodColumn], order: list[str]) -> list[str]:
    """The data sets on which all columns have results."""
    return [name for name in order if columns and all((column, name) in results for column in columns)]


def count_datasets(datasets: list[str]) -> str:
    """Their number in words: "1 data set", "25 data sets"."""
    return f"{len(datasets)} data set{'s' if len(datasets) != 1 else ''}"


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
