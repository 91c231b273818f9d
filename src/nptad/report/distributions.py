"""Where a cell lies among the training cells of its column, small enough to draw beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_BARS = 24
"""Bars of a column of numbers."""
_CATEGORIES = 12
"""Bars of a column of categories, the most frequent ones."""
_CUT = 0.005
"""Share of the numbers at each end that is drawn in the last bar, so that a long tail does not flatten the others."""


@dataclass(frozen=True)
class Distribution:
    """Counts of the training cells of one column."""

    counts: list[int]
    """Height of each bar; empty for a column without values."""
    edges: np.ndarray
    """The values between which the bars of numbers lie; for categories, their codes."""
    is_number: bool

    @classmethod
    def of(cls, values: np.ndarray, *, is_number: bool) -> Distribution:
        """Count encoded training cells, (n,).

        Examples
        --------
        >>> Distribution.of(np.array([0.0, 2.0, 2.0, np.nan]), is_number=False).counts
        [2, 1]
        """
        known = values[~np.isnan(values)].astype(np.float64)
        if not len(known):
            return cls([], np.empty(0), is_number)
        if not is_number:
            codes, counts = np.unique(known, return_counts=True)
            order = np.argsort(-counts, kind="stable")[:_CATEGORIES]
            return cls(counts[order].tolist(), codes[order], is_number)
        low, high = np.quantile(known, [_CUT, 1 - _CUT])
        edges = np.linspace(low, high, _BARS + 1) if high > low else np.array([low - 1e-6, low + 1e-6])
        return cls(np.histogram(known.clip(low, high), edges)[0].tolist(), edges, is_number)

    def position(self, value: float) -> float | None:
        """Where an encoded cell lies: 0 to 1 inside, -1 or 2 below or above all bars, None for a gap.

        Examples
        --------
        >>> column = Distribution.of(np.arange(25.0), is_number=True)
        >>> [column.position(value) for value in (-1.0, 12.0, 99.0, np.nan)]
        [-1.0, 0.5, 2.0, None]
        """
        if np.isnan(value) or not self.counts:
            return None
        if not self.is_number:
            place = np.flatnonzero(self.edges == value)
            return (float(place[0]) + 0.5) / len(self.counts) if len(place) else 2.0
        low, high = float(self.edges[0]), float(self.edges[-1])
        if low <= value <= high:
            return round((value - low) / (high - low), 4)
        return -1.0 if value < low else 2.0
