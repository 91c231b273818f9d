"""The one-table protocol: the whole table without labels is fitted, and its own rows are ranked and flagged.

Of a table of more than :data:`MOST_ROWS` rows a sample is taken, drawn by the seed, with the true share of anomalies.
The methods are those that people use for this, with the settings that the libraries have where they have any: a method
that measures distances gets standardised columns, categories are one-hot. "Flagged" is what the method flags if it is
asked for nothing: PyOD's detectors flag a tenth of the rows.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from nptad.bench.datasets import Table
from nptad.bench.methods.scaling import Scaler
from nptad.bench.own import import_own
from nptad.bench.protocol import Clock, Scored, Split, one_hot
from nptad.bench.registry import Config, MethodSpec, find_method
from nptad.detector import NPTAD
from nptad.errors import TableWarning
from nptad.metrics import judge

MOST_ROWS = 10_000


def whole_table(table: Table, seed: int, most_rows: int = MOST_ROWS) -> Split:
    """A table, or a sample of it with the same share of anomalies, as its own training and test set.

    Examples
    --------
    >>> table = Table("", np.arange(200.0)[:, None], np.arange(200) < 20, ())
    >>> split = whole_table(table, 0, most_rows=50)
    >>> split.train.shape, int(split.truth.sum()), split.test is split.train
    ((50, 1), 5, True)
    """
    random, truth = np.random.default_rng(seed), table.y == 1
    rows = np.arange(len(truth))
    if len(rows) > most_rows:
        n_anomalies = round(most_rows * truth.mean())
        rows = np.concatenate(
            [
                random.permutation(np.flatnonzero(truth))[:n_anomalies],
                random.permutation(np.flatnonzero(~truth))[: most_rows - n_anomalies],
            ]
        )
    rows = random.permutation(rows)
    x = table.x[rows]
    return Split(x, x, truth[rows], table.categorical)


def flag_metrics(truth: np.ndarray, scored: Scored) -> dict[str, float]:
    """F1 of what was flagged by default, in %, and the number of flagged rows."""
    if scored.flagged is None:
        return {}
    judged = judge(truth, scored.scores, scored.flagged)
    return {"f1_flagged": round(100 * judged["f1"], 3), "n_flagged": int(scored.flagged.sum())}


def _run(
    source: str,
    scaled: bool,
    splits: list[Split],
    seeds: list[int],
    config: Config,
) -> Iterator[Scored]:
    """Fit a detector of scikit-learn or PyOD, and take what it says of the rows that it was fitted on."""
    make = import_own(source, "method")
    for split, seed in zip(splits, seeds, strict=True):
        x = one_hot(split)[0]
        x = Scaler(x, "standard").transform(x) if scaled else x
        seeded = {"random_state": seed} if "random_state" in inspect.signature(make).parameters else {}
        detector: Any = make(**config, **seeded)
        clock = Clock()
        with clock("fit"), warnings.catch_warnings(action="ignore"):  # PyOD's of constant columns, LOF's of equal rows
            detector.fit(x)
            if hasattr(detector, "decision_scores_"):  # PyOD
                scores, flagged = detector.decision_scores_, detector.labels_ == 1
            elif hasattr(detector, "negative_outlier_factor_"):
                scores = -detector.negative_outlier_factor_
                flagged = scores > -detector.offset_
            else:
                scores = -detector.score_samples(x)
                flagged = detector.predict(x) == -1
        yield Scored(np.asarray(scores, dtype=float), clock, flagged=flagged)


def _run_nptad(splits: list[Split], seeds: list[int], config: Config) -> Iterator[Scored]:
    for split, seed in zip(splits, seeds, strict=True):
        detector = NPTAD(columns=split.uses if split.categorical else None, random_state=seed)
        clock = Clock()
        with clock("fit"), warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            found = detector.fit_detect(split.train)
        yield Scored(found.score, clock, flagged=found.anomaly)


def _method(name: str, label: str, source: str, *, scaled: bool = False, note: str = "", **config: Any) -> MethodSpec:
    return MethodSpec(name, label, 1, lambda preset, shape: dict(config), partial(_run, source, scaled), note=note)


METHODS: dict[str, MethodSpec] = {
    spec.name: spec
    for spec in (
        MethodSpec("nptad", "nptad", 7, lambda preset, shape: {}, _run_nptad, note="the library's defaults."),
        _method("iforest", "IForest", "sklearn.ensemble:IsolationForest"),
        _method("knn-5", "5-NN", "pyod.models.knn:KNN", scaled=True, n_neighbors=5),
        _method("knn-10", "10-NN", "pyod.models.knn:KNN", scaled=True, n_neighbors=10),
        _method("lof", "LOF", "sklearn.neighbors:LocalOutlierFactor", scaled=True),
        _method("ecod", "ECOD", "pyod.models.ecod:ECOD"),
        _method("copod", "COPOD", "pyod.models.copod:COPOD"),
        _method("hbos", "HBOS", "pyod.models.hbos:HBOS"),
        _method(
            *("gmm", "GMM", "pyod.models.gmm:GMM"),
            scaled=True,
            note="five components; PyOD's default of one is no mixture.",
            n_components=5,
        ),
        _method(
            *("ocsvm", "OCSVM", "sklearn.svm:OneClassSVM"),
            scaled=True,
            note="nu = 0.1, PyOD's usual share of anomalies; scikit-learn's 0.5 flags half of the rows.",
            nu=0.1,
        ),
    )
}
"""The methods of this protocol by name, in the order of its tables."""


def find_spec(method: str, protocol: str) -> MethodSpec:
    """A method that is about to run under a protocol; other methods fit and score the same rows."""
    return METHODS[method] if protocol == "one-table" and method in METHODS else find_method(method)
