"""The paper's protocol: half of the normal rows are for training, the rest and all anomalies are the test set.

A method is anything with ``fit(x)`` and ``score(x)``, higher = more anomalous. :func:`as_method` adapts detectors of
scikit-learn and PyOD.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from nptad.bench.datasets import Table
from nptad.errors import InputError
from nptad.metrics import ranking_metrics
from nptad.tables.schema import Use

_VALIDATION_ANOMALIES = 100
"""Anomalies of the separable set that are always in the test set; the others may contaminate the training set."""


class Method(Protocol):
    """A method under the benchmark's contract."""

    def fit(self, x: np.ndarray, /) -> Any:
        """Learn from training rows with one-hot categories; return the method itself."""

    def score(self, x: np.ndarray, /) -> np.ndarray:
        """Return one float64 per row, higher = more anomalous."""


@dataclass(frozen=True)
class Split:
    """Training and test rows of one run, as published: not scaled, categories as codes."""

    train: np.ndarray  # training rows, (n, d)
    test: np.ndarray  # test rows, (m, d)
    truth: np.ndarray  # which test rows are anomalies, (m,)
    categorical: tuple[int, ...]  # positions of the category columns

    @property
    def uses(self) -> dict[str | int, Use]:
        """How each column is used: as in the paper, only published categories are categories, flags are numbers."""
        return {j: "category" if j in self.categorical else "number" for j in range(self.train.shape[1])}


@dataclass
class Clock:
    """Wall-clock and processor seconds of the phases of a run; a busy machine changes the former only."""

    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, phase: str, shared_by: int = 1) -> Iterator[Callable[[], None]]:
        """Time a phase, in addition to what it has taken; runs that share it get equal parts of its time.

        The block can call what it is given to have the time so far counted.
        """
        wall_before, cpu_before = self.seconds.get(phase, 0.0), self.cpu_seconds.get(phase, 0.0)
        wall, cpu = time.perf_counter(), time.process_time()

        def lap() -> None:
            self.seconds[phase] = wall_before + (time.perf_counter() - wall) / shared_by
            self.cpu_seconds[phase] = cpu_before + (time.process_time() - cpu) / shared_by

        yield lap
        lap()


@dataclass(frozen=True)
class Scored:
    """The scores of one run."""

    scores: np.ndarray  # score of each test row, higher = more anomalous
    clock: Clock
    rules: dict[str, np.ndarray] = field(default_factory=dict)
    """Scores of the test rows under each scoring rule, if the method has several."""
    stack: int = 1  # runs that were fitted side by side with this one, itself included
    flagged: np.ndarray | None = None  # what the method flags by default, in the one-table protocol


def parse_name(dataset: str) -> tuple[str, float | None]:
    """The name of a data set and the share of anomalies to train with; None without contamination.

    Examples
    --------
    >>> parse_name("separable@0.05"), parse_name("wine")
    (('separable', 0.05), ('wine', None))
    """
    name, contaminated, text = dataset.partition("@")
    if not contaminated:
        return name, None
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise InputError(f"{dataset!r} needs a share of anomalies after the @, such as {name}@0.05.")
    return name, share


def split_table(table: Table, seed: int) -> Split:
    """A random half of the normal rows for training; every seed is another split."""
    normal = np.random.default_rng(seed).permutation(np.flatnonzero(table.y == 0))
    half = len(normal) // 2
    return _split(table, normal[:half], np.concatenate([normal[half:], np.flatnonzero(table.y == 1)]))


def contaminated_split(table: Table, seed: int, share: float) -> Split:
    """The same, with anomalies added until they are the given share of the training rows.

    As in the paper's study, the test set has the same 100 anomalies whatever the share; the others are added.
    """
    random = np.random.default_rng(seed)
    normal = random.permutation(np.flatnonzero(table.y == 0))
    anomalies = np.flatnonzero(table.y == 1)
    half = len(normal) // 2
    spare = random.permutation(anomalies[_VALIDATION_ANOMALIES:])
    added = round(half * share / (1 - share))
    if added > len(spare):
        raise InputError(f"{table.name} has {len(spare)} anomalies to add, but a share of {share:.0%} needs {added}.")
    train = random.permutation(np.concatenate([normal[:half], spare[:added]]))
    return _split(table, train, np.concatenate([normal[half:], anomalies[:_VALIDATION_ANOMALIES]]))


def _split(table: Table, train: np.ndarray, test: np.ndarray) -> Split:
    return Split(table.x[train], table.x[test], table.y[test] == 1, table.categorical)


def metrics(truth: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """F1, AUROC and average precision in %; as many rows are flagged as there are anomalies (``f1_at_k``)."""
    if scores.shape != truth.shape:
        raise InputError(f"A score needs one number for each of the {len(truth)} rows, not an array {scores.shape}.")
    values = ranking_metrics(truth, scores)
    names = {"f1": "f1_at_k", "auroc": "auroc", "average_precision": "average_precision"}
    return {name: round(100 * values[source], 3) for name, source in names.items()}


def one_hot(split: Split) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows, test rows and the feature of each column, with a column for each category of the training rows.

    A categorical feature has one more column, which is 1 where the category is new. Without it a new category would be
    all zeros, nearer to each category of the training rows than these are to each other.

    Examples
    --------
    >>> rows = np.array([[0.5, 1.0], [0.7, 2.0]])
    >>> train, test, feature = one_hot(Split(rows, np.array([[0.5, 3.0]]), np.array([False]), categorical=(1,)))
    >>> train.tolist(), test.tolist(), feature.tolist()
    ([[0.5, 1.0, 0.0, 0.0], [0.7, 0.0, 1.0, 0.0]], [[0.5, 0.0, 0.0, 1.0]], [0, 1, 1, 1])
    """
    train: list[np.ndarray] = []
    test: list[np.ndarray] = []
    feature: list[int] = []
    for j in range(split.train.shape[1]):
        levels = np.unique(split.train[:, j]) if j in split.categorical else None
        for rows, columns in ((split.train, train), (split.test, test)):
            column = rows[:, j : j + 1]
            if levels is not None:
                known = column == levels
                column = np.hstack([known, ~known.any(axis=1, keepdims=True)]).astype(float)
            columns.append(column)
        feature += [j] * train[-1].shape[1]
    return np.hstack(train), np.hstack(test), np.array(feature)


@dataclass
class _Adapted:
    """A scikit-learn or PyOD detector under the benchmark's contract."""

    detector: Any
    scoring: str
    sign: int

    def fit(self, x: np.ndarray, /) -> _Adapted:
        with _constant_columns_allowed():
            self.detector.fit(x)
        return self

    def score(self, x: np.ndarray, /) -> np.ndarray:
        with _constant_columns_allowed():
            return self.sign * np.asarray(getattr(self.detector, self.scoring)(x), dtype=float)


def _constant_columns_allowed() -> warnings.catch_warnings:
    """PyOD's statistics of a constant column warn; such is the column of new categories in every training table."""
    return warnings.catch_warnings(action="ignore", category=RuntimeWarning)


def as_method(detector: Any) -> Method:
    """A detector under the contract: scikit-learn's and PyOD's are adapted, others must keep to it.

    scikit-learn's ``score_samples`` and ``decision_function`` are high for normal rows, PyOD's ``decision_function``
    is high for anomalies. A ``score`` inherited from scikit-learn is not an anomaly score.
    """
    packages = {base.__module__.split(".")[0] for base in type(detector).__mro__}
    if "pyod" in packages:
        return _Adapted(detector, "decision_function", 1)
    if "sklearn" in packages:
        for name in ("score_samples", "decision_function"):
            if hasattr(detector, name):
                return _Adapted(detector, name, -1)
    score = getattr(detector, "score", None)
    if hasattr(detector, "fit") and callable(score) and not score.__module__.startswith("sklearn."):
        return detector
    raise InputError(
        f"{type(detector).__name__} cannot be used as a method: it needs fit(x) and score(x), higher = more anomalous, "
        "or must be a scikit-learn or PyOD detector that scores new rows (for LocalOutlierFactor, name a function that "
        "returns it with novelty=True)."
    )
