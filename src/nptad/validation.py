"""Checks of arguments: one wording for what is wrong."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from nptad.errors import InputError


def is_whole(value: Any) -> TypeGuard[int]:
    """True for a whole number; truth values are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """True for a real number; truth values are none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def require(condition: bool, name: str, expected: str, value: Any) -> None:
    """Raise an InputError that names the argument, what it must be, and what it is.

    Examples
    --------
    >>> require(False, "share", "a number between 0 and 1", 7)
    Traceback (most recent call last):
    nptad.errors.InputError: share must be a number between 0 and 1, got 7.
    """
    if not condition:
        raise InputError(f"{name} must be {expected}, got {value!r}.")
