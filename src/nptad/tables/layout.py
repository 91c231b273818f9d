"""The order of cells in an encoded row."""

from __future__ import annotations

from dataclasses import dataclass

UNSEEN = -1  # code of a category that did not occur in training


@dataclass(frozen=True)
class CellLayout:
    """The order of cells in an encoded row: numbers first, then category codes."""

    n_numeric: int
    cardinalities: tuple[int, ...]  # number of categories of each categorical cell

    @property
    def n_features(self) -> int:
        """Cells per row (D)."""
        return self.n_numeric + len(self.cardinalities)
