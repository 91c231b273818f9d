"""The first steps of every baseline: check the rows and, if the method asks for it, scale them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from nptad.errors import InputError

Scaling = Literal["standard", "minmax", "maxabs"]

LARGEST = 1e30  # cells are cut to +-this: squares and their sums stay finite whatever the input


def check_rows(x: Any) -> np.ndarray:
    """Return ``x`` as a finite 2-D float64 array with a row and a column at least; raise InputError if it is none."""
    try:
        rows = np.asarray(x, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InputError(f"x must be a rectangular array of numbers ({error}); encode categories first.") from error
    if rows.ndim != 2:
        raise InputError(f"x must be a table with two axes, rows and columns, but it has {rows.ndim}.")
    if rows.size == 0:
        raise InputError(f"x has {rows.shape[0]} row(s) and {rows.shape[1]} column(s); both must be at least 1.")
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise InputError(f"x[{row}, {column}] is {rows[row, column]}; fill in or drop cells that are not finite.")
    return rows.clip(-LARGEST, LARGEST)


def check_new_rows(detector: Any, x: Any) -> np.ndarray:
    """Return the rows to score, checked as by :func:`check_rows`, with as many columns as the training rows had."""
    if not hasattr(detector, "n_features_"):
        raise NotFittedError(f"This {type(detector).__name__} is not fitted; call fit(x) with the training rows first.")
    rows = check_rows(x)
    if rows.shape[1] != detector.n_features_:
        raise InputError(f"x has {rows.shape[1]} column(s), but the training rows had {detector.n_features_}.")
    return rows


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return ``value`` if it is a whole number of at least ``least``; raise InputError if it is not."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def subsample(rows: np.ndarray, max_samples: int, random_state: int | None) -> np.ndarray:
    """Return the rows, or a random choice of ``max_samples`` of them, without replacement, if there are more."""
    if len(rows) <= max_samples:
        return rows
    return rows[np.random.default_rng(random_state).choice(len(rows), size=max_samples, replace=False)]


class Scaler:
    """Scales columns with the statistics of the training rows.

    "standard" gives mean 0 and standard deviation 1, "minmax" least value 0 and largest 1, "maxabs" largest absolute
    value 1, without a shift. As in scikit-learn, a column that is constant in the training rows is shifted at most.
    """

    def __init__(self, rows: np.ndarray, scaling: Scaling) -> None:
        scalers = {"standard": StandardScaler, "minmax": MinMaxScaler, "maxabs": MaxAbsScaler}
        if scaling not in scalers:
            raise InputError(f"scaling must be one of {', '.join(scalers)}, got {scaling!r}.")
        self._scaler = scalers[scaling]().fit(rows)

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Return the scaled rows, within +-``LARGEST``."""
        return self._scaler.transform(rows).clip(-LARGEST, LARGEST)
