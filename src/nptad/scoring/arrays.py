"""Checks of arrays that come from a file, which somebody may have made who wants to do harm."""

from __future__ import annotations

import numpy as np

from nptad.tables.layout import LARGEST_STANDARDISED, UNSEEN, CellLayout

LARGEST = 1e15
"""Largest number that an array may have: squares of it and sums of them are finite."""


def require_array(
    name: str,
    array: np.ndarray,
    kind: str,
    shape: tuple[int | None, ...],
    *,
    least: float = -LARGEST,
    most: float = LARGEST,
    ascending: bool = False,
    gaps: bool = False,
) -> None:
    """Raise a ValueError unless an array is what it should be.

    Parameters
    ----------
    name : str
        What it is called in the error.
    array : ndarray
        The array.
    kind : str
        Its type as NumPy writes it, without the byte order: "f8", "f4", "i8", "u8" or "b1".
    shape : tuple
        Its shape; None for any length of at least 1.
    least, most : float
        Bounds of all values.
    ascending : bool
        Whether the values along the last axis must be in order.
    gaps : bool
        Whether NaN may occur.

    Examples
    --------
    >>> require_array("places", np.array([0, 3, 2]), "i8", (None,), least=0, ascending=True)
    Traceback (most recent call last):
    ValueError: places are not in order
    """
    fits = len(array.shape) == len(shape) and all(
        n >= 1 if wanted is None else n == wanted for n, wanted in zip(array.shape, shape, strict=True)
    )
    if not fits or array.dtype.str[1:] != kind:
        expected = " x ".join("any" if wanted is None else str(wanted) for wanted in shape) or "a single"
        raise ValueError(f"{name} has {array.dtype.str[1:]} cells in the shape {array.shape}, not {expected} {kind}")
    if kind == "b1":
        return
    known = array[~np.isnan(array)] if gaps else array
    if known.size and not (known.min() >= least and known.max() <= most):
        raise ValueError(f"{name} has values outside {least:g} to {most:g}")
    if ascending and not (array[..., :-1] <= array[..., 1:]).all():
        raise ValueError(f"{name} are not in order")


def require_count(name: str, array: np.ndarray, count: int) -> None:
    """Raise a ValueError unless an array is this whole number."""
    require_array(name, array, "i8", (), least=count, most=count)


def require_rows(rows: np.ndarray, layout: CellLayout) -> None:
    """Raise a ValueError unless these can be encoded training rows."""
    require_array("context", rows, "f4", (None, layout.n_features), gaps=True)
    n_numeric = layout.n_numeric
    numbers = rows[:, :n_numeric]
    require_array(
        "numbers", numbers, "f4", numbers.shape, least=-LARGEST_STANDARDISED, most=LARGEST_STANDARDISED, gaps=True
    )
    for codes, cardinality in zip(rows.T[n_numeric:], layout.cardinalities, strict=True):
        require_array("codes", codes, "f4", codes.shape, least=UNSEEN, most=cardinality - 1, gaps=True)
        if (codes % 1 > 0).any():
            raise ValueError("codes are no whole numbers")
