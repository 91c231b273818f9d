"""The contract of every detector, ours and the baselines', as checks that any detector can be put to.

A detector has ``fit(x)``, which learns from training rows and returns the detector, and ``score(x)``, which returns one
number per row, higher = more anomalous. Rows are 2-D arrays of finite numbers. :func:`check_detector` runs all checks;
:data:`CHECKS` has them by name, for instance for a parametrised test. :func:`nptad.bench.protocol.as_method` adapts
detectors of scikit-learn and PyOD.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from nptad.bench.protocol import Method
from nptad.errors import InputError, TableWarning

Make = Callable[[], Method]
"""Makes a new, unfitted detector, each time with the same parameters and, if it is random, the same seed."""


def check_detector(make: Make, *, skip: Collection[str] = ()) -> None:
    """Run all checks of the contract; raises AssertionError with the name of a check that fails.

    Parameters
    ----------
    make : Make
        Makes the detector.
    skip : collection of str, default ()
        Names of checks that the method cannot pass by its nature: a forest on random samples of the training rows
        depends on their order (``"training_order"``), a score relative to the batch on the other rows (``"batch"``),
        and a method for incomplete tables accepts missing cells (``"missing_cell"``).

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


def check_fit(make: Make) -> None:
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


def check_finite(make: Make) -> None:
    """Scores are finite, even of rows 100 million standard deviations away."""
    far = np.vstack([_new(), np.full((1, 4), 1e8), np.full((1, 4), -1e8)])
    _assert_finite(make, _train(), far)


def check_huge_values(make: Make) -> None:
    """Scores are finite if numbers are huge, or tiny, or both."""
    scales = np.array([1e8, 1e-8, 1.0, 1e8])
    _assert_finite(make, _train() * scales, np.vstack([_new() * scales, _new() * 1e8, _new() * 1e-8]))
    _assert_finite(make, _train() + 1e8, np.vstack([_new() + 1e8, _new()]))


def check_constant_columns(make: Make) -> None:
    """Scores are finite if some columns, or all, are constant in the training rows."""
    some = _train()
    some[:, 1:3] = [5.0, 0.0]
    _assert_finite(make, some, np.vstack([some[:3], _new()]))
    _assert_finite(make, np.full((60, 4), 3.0), np.vstack([np.full((1, 4), 3.0), _new()]))


def check_duplicates(make: Make) -> None:
    """Scores are finite if most training rows are equal to others."""
    train = np.repeat(_train()[:3], 30, axis=0)
    _assert_finite(make, train, np.vstack([train[:2], _new()]))


def check_few_rows(make: Make) -> None:
    """Scores are finite with two training rows, with more columns than rows, and with a single column."""
    _assert_finite(make, _train()[:2], _new())
    _assert_finite(make, _train()[:6].repeat(5, axis=1), _new().repeat(5, axis=1))
    _assert_finite(make, _train()[:, :1], _new()[:, :1])


def check_number_types(make: Make) -> None:
    """Whole numbers, other memory layouts and nested lists give the scores of the same numbers as float64."""
    train, new = np.round(5 * _train()), np.round(5 * _new())
    expected = make().fit(train).score(new)
    wide_train, wide_new = np.repeat(train, 2, axis=1), np.repeat(new, 2, axis=1)
    others = {
        "integers": (train.astype(np.int64), new.astype(np.int64)),
        "float32": (train.astype(np.float32), new.astype(np.float32)),
        "columns in memory order": (np.asfortranarray(train), np.asfortranarray(new)),
        "every other column of an array": (wide_train[:, ::2], wide_new[:, ::2]),
        "lists": (train.tolist(), new.tolist()),
    }
    for name, (other_train, other_new) in others.items():
        _assert_close(make().fit(other_train).score(other_new), expected, f"the scores of {name} and of float64")


def check_row_order(make: Make) -> None:
    """Rows in another order have the same scores, in that order."""
    detector, new = make().fit(_train()), _new()
    order = np.random.default_rng(2).permutation(len(new))
    _assert_close(detector.score(new[order]), detector.score(new)[order], "the scores of rows in two orders")


def check_batch(make: Make) -> None:
    """A row's score does not depend on the rows scored with it or before it."""
    detector, new = make().fit(_train()), _new()
    together = detector.score(new)
    alone = np.concatenate([detector.score(new[i : i + 1]) for i in range(len(new))])
    _assert_close(alone, together, f"the scores of {len(new)} rows one by one and together")
    with_far = detector.score(np.vstack([np.full((3, 4), 50.0), new]))[3:]
    _assert_close(with_far, together, "the scores of rows with and without anomalies among them")


def check_training_order(make: Make) -> None:
    """Training rows in another order give the same scores."""
    train, new = _train(), _new()
    order = np.random.default_rng(3).permutation(len(train))
    scores = make().fit(train[order]).score(new)
    _assert_close(scores, make().fit(train).score(new), "the scores after fitting rows in two orders")


def check_repeatable(make: Make) -> None:
    """The same seed gives the same scores, bit for bit; so does the same detector asked twice or fitted again."""
    first, second, refitted, new = make().fit(_train()), make().fit(_train()), make().fit(_train() + 1), _new()
    scores = first.score(new)
    _require(np.array_equal(first.score(new), scores), "scoring the same rows twice gave different scores.")
    _require(np.array_equal(second.score(new), scores), "two fits with the same seed gave different scores.")
    _require(np.array_equal(refitted.fit(_train()).score(new), scores), "a second fit did not forget the first one.")


def check_outlier(make: Make) -> None:
    """Rows far from all training rows have higher scores than rows in their middle."""
    train = _train()
    middle = train[np.argsort(np.abs(train).max(axis=1))[:20]]
    far = 12.0 * np.array([[1, 1, 1, 1], [-1, -1, -1, -1], [1, -1, -1, 1], [-1, 1, 1, -1]])
    detector = make().fit(train)
    high, low = detector.score(middle).max(), detector.score(far).min()
    _require(low > high, f"a row 12 standard deviations away scores {low:.4g}, one in the middle {high:.4g}.")


def check_not_fitted(make: Make) -> None:
    """``score`` before ``fit`` raises NotFittedError."""
    _assert_raises(NotFittedError, lambda: make().score(_new()), "score before fit")


def check_empty(make: Make) -> None:
    """A table without rows or columns is refused."""
    detector = make().fit(_train())
    _assert_raises(InputError, lambda: make().fit(np.empty((0, 4))), "fit without rows")
    _assert_raises(InputError, lambda: make().fit(np.empty((5, 0))), "fit without columns")
    _assert_raises(InputError, lambda: detector.score(np.empty((0, 4))), "score without rows")


def check_axes(make: Make) -> None:
    """An array without exactly two axes is refused."""
    detector = make().fit(_train())
    _assert_raises(InputError, lambda: make().fit(np.zeros(8)), "fit with one axis")
    _assert_raises(InputError, lambda: detector.score(np.zeros(4)), "score with one axis")
    _assert_raises(InputError, lambda: detector.score(np.zeros((2, 4, 1))), "score with three axes")


def check_width(make: Make) -> None:
    """Rows with another number of columns than the training rows are refused."""
    detector = make().fit(_train())
    _assert_raises(InputError, lambda: detector.score(np.zeros((3, 3))), "score with one column less")
    _assert_raises(InputError, lambda: detector.score(np.zeros((3, 5))), "score with one column more")


def check_missing_cell(make: Make) -> None:
    """A missing cell (NaN) is refused."""
    _assert_cell_refused(make, np.nan)


def check_infinite_cell(make: Make) -> None:
    """An infinite cell is refused."""
    _assert_cell_refused(make, np.inf)
    _assert_cell_refused(make, -np.inf)


CHECKS: dict[str, Callable[[Make], None]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_fit,
        check_finite,
        check_huge_values,
        check_constant_columns,
        check_duplicates,
        check_few_rows,
        check_number_types,
        check_row_order,
        check_batch,
        check_training_order,
        check_repeatable,
        check_outlier,
        check_not_fitted,
        check_empty,
        check_axes,
        check_width,
        check_missing_cell,
        check_infinite_cell,
    )
}
"""All checks by name, in the order in which they are run."""


def _train() -> np.ndarray:
    """Normal rows: two independent columns and two that depend on them, all of variance about 1."""
    return _normal_rows(120, seed=0)


def _new() -> np.ndarray:
    """More rows of the same kind."""
    return _normal_rows(40, seed=1)


def _normal_rows(n_rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    free = random.normal(size=(n_rows, 2))
    bound = free @ np.array([[0.6, 0.8], [0.8, -0.6]]) + 0.1 * random.normal(size=(n_rows, 2))
    return np.hstack([free, bound])


def _assert_finite(make: Make, train: np.ndarray, new: np.ndarray) -> None:
    scores = make().fit(train).score(new)
    for row, score in zip(new, scores, strict=True):
        _require(np.isfinite(score), f"the score of the finite row {row.tolist()} is {score}.")


def _assert_close(scores: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Require equality up to rounding."""
    difference = np.abs(scores - expected).max()
    _require(difference <= 1e-6 * np.abs(expected).max(), f"{what} differ by up to {difference:.4g}.")


def _assert_raises(expected: type[Exception], call: Callable[[], Any], what: str) -> None:
    wanted = f"{what} must raise {expected.__name__}"
    try:
        call()
    except expected as error:
        message = str(error)
    except Exception as error:
        raise AssertionError(f"{wanted}, not {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{wanted}, but it raised nothing.")
    _require(bool(message.strip()), f"{wanted} with a message that says what is wrong.")


def _require(condition: bool | np.bool_, message: str) -> None:
    """Like assert, but also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def _assert_cell_refused(make: Make, cell: float) -> None:
    train, new = _train(), _new()
    detector = make().fit(train)
    train[3, 1] = new[2, 0] = cell
    _assert_raises(InputError, lambda: make().fit(train), f"fit with a cell that is {cell}")
    _assert_raises(InputError, lambda: detector.score(new), f"score with a cell that is {cell}")
