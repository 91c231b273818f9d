"""The contract of every detector, ours and the baselines', as checks that any detector can be put to.

A detector has ``fit(x)``, which learns from training rows and returns the detector, and ``score(x)``, which returns one
number per row, higher = more anomalous. Rows are 2-D arrays of finite numbers. :func:`check_detector` runs all checks;
:data:`CHECKS` has them by name, for instance for a parametrised test. :func:`nptad.bench.protocol.as_method` adapts
detectors of scikit-learn and PyOD.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from nptad.bench.protocol import Method
from nptad.errors import InputError, TableWarning

Make = Callable[[], Method]
"""Makes a new, unfitted detector, each time with the same parameters and, if it is random, the same seed."""


def check_detector(make: Make, *, skip: Collection[str] = ()) -> None:
    """Run all checks of the contract; raises AssertionError with the name of a check that fails.

    ``skip`` names checks that the method cannot pass by its nature: a forest on random samples of the training rows
    depends on their order (``"training_order"``), a score relative to the batch on the other rows (``"batch"``), and a
    method for incomplete tables accepts missing cells (``"missing_cell"``).

    Examples
    --------
    >>> from nptad.bench.methods.knn import KNN
    >>> check_detector(lambda: KNN(k=1, scaling="minmax"))

    A detector with an error:

    >>> class Ranks(KNN):
    ...     def score(self, x):
    ...         return super().score(x).argsort().argsort().astype(float)
    >>> check_detector(Ranks)
    Traceback (most recent call last):
    AssertionError: batch: the scores of 40 rows one by one and together differ by up to 39.
    """
    unknown = set(skip) - set(CHECKS)
    if unknown:
        raise InputError(f"There is no check called {sorted(unknown)[0]!r}; the checks are {', '.join(CHECKS)}.")
    for name in CHECKS:
        if name not in skip:
            run_check(name, make)


def run_check(name: str, make: Make) -> None:
    """Run one check, by its name in :data:`CHECKS`; raises AssertionError with that name if it fails."""
    try:
        # A detector may warn its user of constant columns and the like; all other warnings are left as they are.
        with warnings.catch_warnings(action="ignore", category=TableWarning):
            CHECKS[name](make)
    except AssertionError as error:
        raise AssertionError(f"{name}: {error}") from None


def _rows(n_rows: int, seed: int) -> np.ndarray:
    """Normal rows: two independent columns and two that depend on them, all of variance about 1."""
    random = np.random.default_rng(seed)
    free = random.normal(size=(n_rows, 2))
    bound = free @ np.array([[0.6, 0.8], [0.8, -0.6]]) + 0.1 * random.normal(size=(n_rows, 2))
    return np.hstack([free, bound])


_train, _new = partial(_rows, 120, seed=0), partial(_rows, 40, seed=1)


def _fit(make: Make) -> None:
    """``fit`` returns the detector, ``score`` one float64 per row; neither changes its input."""
    detector, train, new = make(), _train(), _new()
    _require(detector.fit(train) is detector, "fit must return the detector itself.")
    scores = detector.score(new)
    _require(isinstance(scores, np.ndarray), f"score must return an array, not a {type(scores).__name__}.")
    _require(scores.dtype == np.float64, f"scores must be float64, not {scores.dtype}.")
    shape = (len(new),)
    _require(scores.shape == shape, f"scores of {len(new)} rows must have shape {shape}, not {scores.shape}.")
    _require(np.array_equal(train, _train()), "fit changed the training rows.")
    _require(np.array_equal(new, _new()), "score changed the rows.")


def _tables() -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """Training rows and new rows whose scores must be finite, by the name of the check."""
    train, new = _train(), _new()
    scales = np.array([1e8, 1e-8, 1.0, 1e8])
    some_constant, constant = train.copy(), np.full((60, 4), 3.0)
    some_constant[:, 1:3] = [5.0, 0.0]
    repeated = np.repeat(train[:3], 30, axis=0)
    return {
        # Rows 100 million standard deviations away.
        "finite": [(train, np.vstack([new, np.full((1, 4), 1e8), np.full((1, 4), -1e8)]))],
        # Numbers that are huge, or tiny, or both.
        "huge_values": [
            (train * scales, np.vstack([new * scales, new * 1e8, new * 1e-8])),
            (train + 1e8, np.vstack([new + 1e8, new])),
        ],
        # Columns that are constant in the training rows: some, or all.
        "constant_columns": [
            (some_constant, np.vstack([some_constant[:3], new])),
            (constant, np.vstack([constant[:1], new])),
        ],
        "duplicates": [(repeated, np.vstack([repeated[:2], new]))],
        # Two training rows, more columns than rows, a single column.
        "few_rows": [
            (train[:2], new),
            (train[:6].repeat(5, axis=1), new.repeat(5, axis=1)),
            (train[:, :1], new[:, :1]),
        ],
    }


def _finite(name: str, make: Make) -> None:
    for train, new in _tables()[name]:
        for row, score in zip(new, make().fit(train).score(new), strict=True):
            _require(np.isfinite(score), f"the score of the finite row {row.tolist()} is {score}.")


def _number_types(make: Make) -> None:
    """Whole numbers, other memory layouts and nested lists give the scores of the same numbers as float64."""
    train, new = np.round(5 * _train()), np.round(5 * _new())
    expected = make().fit(train).score(new)
    convert: dict[str, Callable[[np.ndarray], Any]] = {
        "integers": lambda x: x.astype(np.int64),
        "float32": lambda x: x.astype(np.float32),
        "columns in memory order": np.asfortranarray,
        "every other column of an array": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        "lists": np.ndarray.tolist,
    }
    for name, to in convert.items():
        _assert_close(make().fit(to(train)).score(to(new)), expected, f"the scores of {name} and of float64")


def _row_order(make: Make) -> None:
    """Rows in another order have the same scores, in that order."""
    detector, new = make().fit(_train()), _new()
    order = np.random.default_rng(2).permutation(len(new))
    _assert_close(detector.score(new[order]), detector.score(new)[order], "the scores of rows in two orders")


def _batch(make: Make) -> None:
    """A row's score does not depend on the rows scored with it or before it."""
    detector, new = make().fit(_train()), _new()
    together = detector.score(new)
    alone = np.concatenate([detector.score(new[i : i + 1]) for i in range(len(new))])
    _assert_close(alone, together, f"the scores of {len(new)} rows one by one and together")
    with_far = detector.score(np.vstack([np.full((3, 4), 50.0), new]))[3:]
    _assert_close(with_far, together, "the scores of rows with and without anomalies among them")


def _training_order(make: Make) -> None:
    """Training rows in another order give the same scores."""
    train, new = _train(), _new()
    order = np.random.default_rng(3).permutation(len(train))
    scores = make().fit(train[order]).score(new)
    _assert_close(scores, make().fit(train).score(new), "the scores after fitting rows in two orders")


def _repeatable(make: Make) -> None:
    """The same seed gives the same scores, bit for bit; so does the same detector asked twice or fitted again."""
    first, second, refitted, new = make().fit(_train()), make().fit(_train()), make().fit(_train() + 1), _new()
    scores = first.score(new)
    _require(np.array_equal(first.score(new), scores), "scoring the same rows twice gave different scores.")
    _require(np.array_equal(second.score(new), scores), "two fits with the same seed gave different scores.")
    _require(np.array_equal(refitted.fit(_train()).score(new), scores), "a second fit did not forget the first one.")


def _outlier(make: Make) -> None:
    """Rows far from all training rows have higher scores than rows in their middle."""
    train = _train()
    middle = train[np.argsort(np.abs(train).max(axis=1))[:20]]
    far = 12.0 * np.array([[1, 1, 1, 1], [-1, -1, -1, -1], [1, -1, -1, 1], [-1, 1, 1, -1]])
    detector = make().fit(train)
    high, low = detector.score(middle).max(), detector.score(far).min()
    _require(low > high, f"a row 12 standard deviations away scores {low:.4g}, one in the middle {high:.4g}.")


def _not_fitted(make: Make) -> None:
    _assert_raises(NotFittedError, lambda: make().score(_new()), "score before fit")


def _with_cell(cell: float) -> dict[str, np.ndarray]:
    train, new = _train(), _new()
    train[3, 1] = new[2, 0] = cell
    return {f"fit with a cell that is {cell}": train, f"score with a cell that is {cell}": new}


_REFUSED: dict[str, dict[str, np.ndarray]] = {
    "empty": {
        "fit without rows": np.empty((0, 4)),
        "fit without columns": np.empty((5, 0)),
        "score without rows": np.empty((0, 4)),
    },
    "axes": {
        "fit with one axis": np.zeros(8),
        "score with one axis": np.zeros(4),
        "score with three axes": np.zeros((2, 4, 1)),
    },
    "width": {"score with one column less": np.zeros((3, 3)), "score with one column more": np.zeros((3, 5))},
    "missing_cell": _with_cell(np.nan),
    "infinite_cell": _with_cell(np.inf) | _with_cell(-np.inf),
}
"""Rows that fit or score must refuse, by the name of the check."""


def _refused(name: str, make: Make) -> None:
    for what, rows in _REFUSED[name].items():
        act = make().fit if what.startswith("fit") else make().fit(_train()).score
        _assert_raises(InputError, partial(act, rows.copy()), what)


CHECKS: dict[str, Callable[[Make], None]] = {
    "fit": _fit,
    **{name: partial(_finite, name) for name in _tables()},
    "number_types": _number_types,
    "row_order": _row_order,
    "batch": _batch,
    "training_order": _training_order,
    "repeatable": _repeatable,
    "outlier": _outlier,
    "not_fitted": _not_fitted,
    **{name: partial(_refused, name) for name in _REFUSED},
}
"""All checks by name, in the order in which they are run."""


def _assert_close(scores: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Require equality up to rounding."""
    difference = np.abs(scores - expected).max()
    _require(difference <= 1e-6 * np.abs(expected).max(), f"{what} differ by up to {difference:.4g}.")


def _assert_raises(expected: type[Exception], call: Callable[[], Any], what: str) -> None:
    wanted = f"{what} must raise {expected.__name__}"
    try:
        call()
    except expected as error:
        _require(bool(str(error).strip()), f"{wanted} with a message that says what is wrong.")
    except Exception as error:
        raise AssertionError(f"{wanted}, not {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{wanted}, but it raised nothing.")


def _require(condition: bool | np.bool_, message: str) -> None:
    """Like assert, but also under ``python -O``."""
    if not condition:
        raise AssertionError(message)
