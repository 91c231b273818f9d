"""Stored runs as columns of the tables: which runs are the figures of a method on a data set."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np

from nptad.bench.datasets import DATASETS, EXTRA
from nptad.bench.own import is_own
from nptad.bench.presets import preset_rule
from nptad.bench.protocol import parse_name
from nptad.bench.registry import METHODS, method_spec, shape_of
from nptad.bench.store import RunRecord, key_of, without_rule
from nptad.errors import NPTADError
from nptad.nn.masks import bank_size

MAIN_SHARE = 2 / 3  # share of the data sets with any result that a column needs to count in means over data sets


_LABELS = {"scripts": "authors' scripts", "default": "library"}  # NPT-AD alone is the one of the paper's text
_READINGS = ("paper", "scripts")  # a single model is scored by every rule, and so counts for both


@dataclass(frozen=True)
class MethodColumn:
    """A method under a preset."""

    method: str
    preset: str

    @property
    def label(self) -> str:
        """Name in tables."""
        name = method_spec(self.method).label
        return f"{name}, {_LABELS[self.preset]}" if self.preset in _LABELS else name


@dataclass(frozen=True)
class Series:
    """The finished runs of a column on a data set, in the order of seeds."""

    column: MethodColumn
    dataset: str
    records: tuple[RunRecord, ...]
    rule: str | None = None
    """The scoring rule of the column, if the runs have the figures under several."""

    def values(self, metric: str = "f1", rule: str | None = None) -> np.ndarray:
        """One value per seed, under the column's scoring rule or another one."""
        rule = rule or self.rule
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
        return fit + reference if self.rule and self.rule.startswith("scaled") else fit, score

    def changes(self) -> list[str]:
        """The settings that differ from the preset, and whether the rows differ from the published ones.

        If the data set is a user's and its module is not here, its preset is unknown, and all settings are listed.
        """
        spec, config = method_spec(self.column.method), _plain(without_rule(self.config))
        try:
            shape = shape_of(self.dataset)
            preset = _plain(spec.configure(self.column.preset or "paper", shape))  # type: ignore[arg-type]
        except NPTADError:
            preset = {}
        if "max_masks" in preset and "max_masks" in config:  # the bank can be smaller
            n_masks = bank_size(shape.n_features, preset["mask_sizes"])
            preset = {**preset, "max_masks": min(preset["max_masks"], max(n_masks, config["max_masks"]))}
        changed = [
            f"{name} {value}" + (f" instead of {preset[name]}" if name in preset else "")
            for name, value in config.items()
            if name not in preset or value != preset[name]
        ]
        if not has_published_rows(self.records[0]):
            changed.append("generated rows instead of the published ones")
        return changed


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration as records have it after reading: with lists, not tuples."""
    plain: dict[str, Any] = json.loads(json.dumps(config))
    return plain


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
    """The series of each column and data set, one for each configuration.

    Those without any change to the preset come first, then those with most seeds, then the newest. Runs of unknown
    methods and of earlier versions are left out. Runs on other rows make another series.
    """
    groups: dict[tuple[MethodColumn, str], dict[tuple[str, int, bool], list[RunRecord]]]
    groups = defaultdict(lambda: defaultdict(list))
    for r in records:
        if r["outcome"] == "done" and (r["method"] in METHODS or is_own(r["method"])) and is_current(r):
            *_, trained, _, version = key_of(r)
            for preset in _presets_of(r):
                series = groups[MethodColumn(r["method"], preset), r["dataset"]]
                series[trained, version, has_published_rows(r)].append(r)

    def merit(one: Series) -> tuple[bool, int, str]:
        return not one.changes(), len(one.records), max(r["finished"] for r in one.records)

    ordered = {}
    for (column, dataset), configs in groups.items():
        made = []
        for runs in configs.values():
            rule = preset_rule(column.preset, dataset) if _has_rules(runs[0]) else None
            made.append(Series(column, dataset, tuple(sorted(runs, key=lambda r: r["seed"])), rule))
        ordered[column, dataset] = sorted(made, key=merit, reverse=True)
    return ordered


def _has_rules(record: RunRecord) -> bool:
    return record["preset"] in _READINGS and bool(record.get("rules"))


def _presets_of(record: RunRecord) -> list[str]:
    """The presets for which a run counts; the authors have scripts for the data sets of their paper only."""
    if not _has_rules(record):
        return [record["preset"]]
    presets = method_spec(record["method"]).presets
    return [p for p in _READINGS if p in presets and (p == "paper" or record["dataset"] in DATASETS)]


def gather(records: list[RunRecord]) -> Results:
    """The series that counts for each column and data set: the first of :func:`all_series`."""
    return {key: series[0] for key, series in all_series(records).items()}


def datasets_of(results: Results) -> list[str]:
    """The data sets of the main tables: the paper's in its order, then those of the user's that have results."""
    return [*DATASETS, *sorted({dataset for _, dataset in results if is_own(dataset)})]


def columns_of(results: Results, datasets: Container[str]) -> list[MethodColumn]:
    """The columns that have results on any of the data sets, in the order of tables.

    The presets come first, the paper's text before its scripts and the library's; then the other methods in the order
    of the registry, then the user's.
    """
    present = {column for column, dataset in results if dataset in datasets}
    methods = dict.fromkeys([*METHODS, *sorted(column.method for column in present)])
    return [
        MethodColumn(method, preset)
        for preset in ("paper", "scripts", "default", "")
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
