"""The order of cells in an encoded row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

UNSEEN = -1  # code of a category that did not occur in training

LARGEST_STANDARDISED = 1e6
"""Standard deviations at which a number is cut off: its square must fit into a float32."""

UNREADABLE = math.inf
"""A cell that is there but cannot be read as the number, time or truth value that its column holds."""


def without_unreadable(x: np.ndarray) -> np.ndarray:
    """Encoded rows with gaps for the cells that cannot be read."""
    return np.where(np.isinf(x), np.float32(np.nan), x)


@dataclass(frozen=True)
class CellLayout:
    """The order of cells in an encoded row: numbers first, then category codes."""

    n_numeric: int
    cardinalities: tuple[int, ...]  # number of categories of each categorical cell
    times: tuple[tuple[int, float, float], ...] = ()
    """The numbers that are times: position, and the seconds since 1970 that an encoded 0 is and an encoded 1 adds."""

    @property
    def n_features(self) -> int:
        """Cells per row (D)."""
        return self.n_numeric + len(self.cardinalities)
