"""Numbers that the other columns of their row determine, such as a total, and what is left where they do not.

Sums are linear in the columns, products in their logs. The regressions of each column on all others are read off the
inverse of the covariance. It is that of the ordinary rows: first those without a number far out, then those that keep
to the equations.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

_TIGHT = 0.02
"""What is left of a column that the others determine, as a share of the column's spread."""

_ROWS_PER_COLUMN = 20
"""Ordinary rows that a regression on so many columns needs."""

_MOST_COLUMNS = 200

_FAR_OUT = 4.0
"""Spreads from the median beyond which a number is far out, and beyond which a row does not keep to an equation."""

_ROUNDS = 4

_ROUNDING = 1e-5
"""Encoded numbers are rounded: less than this share of a column's spread is nothing."""


def left_over(numbers: Float[np.ndarray, "N D"]) -> Iterator[tuple[int, Float[np.ndarray, " N"], float]]:
    """For each column that the others determine: its position, what is left of its numbers in its spreads, and these.

    A row without a number in one of the columns that matter has NaN. Nothing is found among few rows.

    Examples
    --------
    >>> price, quantity = np.random.default_rng(0).normal(size=(2, 200))
    >>> total = price + quantity
    >>> total[7] += 1
    >>> found = {j: left for j, left, _ in left_over(np.column_stack([price, quantity, total]))}
    >>> sorted(found), np.flatnonzero(found[2]).tolist()
    ([0, 1, 2], [7])
    """
    middle, spread = _middle_and_spread(numbers)
    columns = np.flatnonzero(spread > 0)[:_MOST_COLUMNS]
    z = (numbers[:, columns] - middle[columns]) / spread[columns]
    complete = np.flatnonzero(np.isfinite(z).all(axis=1))
    ordinary = complete[(np.abs(z[complete]) <= _FAR_OUT).all(axis=1)]
    for _ in range(_ROUNDS):
        if len(columns) < 2 or len(ordinary) < _ROWS_PER_COLUMN * len(columns):
            return
        factors, constant = _regressions(z[ordinary])
        left = z[complete] @ factors - constant
        scale = np.quantile(np.abs(left[np.searchsorted(complete, ordinary)]), 0.75, axis=0)
        tight = scale <= _TIGHT
        keeps = np.abs(left[:, tight]) <= _FAR_OUT * np.maximum(scale[tight], _ROUNDING)
        ordinary = complete[keeps.all(axis=1)]
    for j in np.flatnonzero(tight):
        matters = np.abs(factors[:, j]) > _TIGHT
        known = np.isfinite(z[:, matters]).all(axis=1)
        found = np.full(len(z), np.nan)
        found[known] = np.where(matters, z[known], np.where(np.isfinite(z[known]), z[known], 0.0)) @ factors[:, j]
        yield int(columns[j]), np.round((found - constant[j]) / _ROUNDING) * _ROUNDING, float(spread[columns[j]])


def _middle_and_spread(numbers: Float[np.ndarray, "N D"]) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """The median of each column and half the width of its middle four fifths; no spread without numbers."""
    middle, spread = np.zeros(numbers.shape[1]), np.zeros(numbers.shape[1])
    for j, column in enumerate(numbers.T):
        known = column[np.isfinite(column)]
        if 2 * len(known) > len(column):
            low, middle[j], high = np.quantile(known, (0.1, 0.5, 0.9))
            spread[j] = (high - low) / 2
    return middle, spread


def _regressions(z: Float[np.ndarray, "n D"]) -> tuple[Float[np.ndarray, "D D"], Float[np.ndarray, " D"]]:
    """What is left of each column is its product with a column of the first, less the second."""
    mean = z.mean(axis=0)
    covariance = np.cov(z.T) + _ROUNDING**2 * np.eye(z.shape[1])
    precision = np.linalg.inv(covariance)
    factors = precision / np.diag(precision)
    return factors, mean @ factors
