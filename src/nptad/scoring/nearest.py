"""How far a row is from the nearest training row.

Reconstruction tests whether the cells of a row fit one another. A row can pass this test and still be unlike every
training row; the distance from the nearest one shows that. The distance is Gower's (A general coefficient of
similarity, Biometrics 27, 1971).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from nptad.tables.layout import CellLayout

_PAIRS_AT_ONCE = 2**18
"""Pairs of rows (rows x neighbours) compared at once, few enough to stay in the processor's cache."""

_FEW = 3
"""Nearest neighbours over which the effect of a cell on the distance is averaged."""


@dataclass(frozen=True)
class NeighbourColumn:
    """One column of the rows that others are compared with."""

    numeric: bool
    """Numbers, not categories."""
    unit: Float[Tensor, ""]
    """Divisor of numbers: the range of the column."""
    values: Float[Tensor, " neighbours"]
    """Its cells, numbers in units."""
    gaps: Int[Tensor, " missing"]
    """Which of them are missing."""
    known: Float64[Tensor, " known"]
    """The others in order."""
    sums: Float64[Tensor, " known+1"]
    """Sum of the first 0, 1, ... of them."""

    def differences(self, cells: Float[Tensor, " N"]) -> Float[Tensor, "N neighbours"]:
        """How much cells differ from those of the neighbours."""
        cells = cells / self.unit
        differences = cells[:, None] - self.values
        differences = differences.abs_() if self.numeric else (differences != 0).to(cells.dtype)
        if len(self.gaps):
            differences[:, self.gaps] = self._mean_differences(cells.double()).to(cells.dtype)[:, None]
        if bool((missing := cells.isnan()).any()):
            differences.masked_fill_(missing[:, None], 0.0)
        return differences

    def _mean_differences(self, cells: Float64[Tensor, " N"]) -> Float[Tensor, " N"]:
        """How much cells differ from the known ones on average.

        Computed by bisection: averaging over all pairs would cost more than everything else.
        """
        n_known = len(self.known)
        if n_known == 0:
            return torch.zeros_like(cells)
        below = torch.searchsorted(self.known, cells)
        if not self.numeric:
            return 1 - (torch.searchsorted(self.known, cells, right=True) - below) / n_known
        return ((2 * below - n_known) * cells - 2 * self.sums[below] + self.sums[-1]).clamp(min=0) / n_known


def prepare_neighbours(rows: Float[Tensor, "neighbours D"], layout: CellLayout) -> list[NeighbourColumn]:
    """The columns of encoded rows, ready for comparisons.

    A number's unit is the range of its column, but at least 1, the standard deviation of encoded numbers: in a subset
    of the rows a column can be almost constant.
    """
    columns = []
    for j, values in enumerate(rows.T):
        numeric, missing = j < layout.n_numeric, values.isnan()
        known = values[~missing]
        unit = (known.max() - known.min()).clamp(min=1) if numeric and len(known) else values.new_ones(())
        values = (values / unit).contiguous()
        known = values[~missing].double().sort().values
        sums = torch.cat([known.new_zeros(1), known.cumsum(0)])
        columns.append(NeighbourColumn(numeric, unit, values, missing.nonzero().flatten(), known, sums))
    return columns


@torch.no_grad()
def nearest_distances(
    x: Float[Tensor, "N D"], neighbours: list[NeighbourColumn], self_index: Int[Tensor, " N"] | None = None
) -> Float[Tensor, " N"]:
    """Distance of each row from the nearest of its neighbours: the mean over its cells.

    Numbers differ by a share of the neighbours' range, categories by 0 or 1. A missing cell of the row does not count.
    A missing cell of a neighbour counts as the average difference from the known cells of its column. The distance is 0
    for a row without any observed cell, and infinite if there is no other row.

    Parameters
    ----------
    x : Tensor
        Encoded rows.
    neighbours : list of NeighbourColumn
        From :func:`prepare_neighbours`.
    self_index : Tensor, optional
        Place of each row among the neighbours, -1 for none. The row is not its own neighbour, but still counts in
        ranges and averages.

    Examples
    --------
    >>> neighbours = prepare_neighbours(torch.tensor([[5.0, 0.0], [1.0, 2.0]]), CellLayout(1, (3,)))
    >>> nearest_distances(torch.tensor([[1.0, 0.0]]), neighbours).item()  # either: one of two cells differs altogether
    0.5
    """
    nearest = x.new_empty(len(x))
    at_once = max(1, _PAIRS_AT_ONCE // len(neighbours[0].values))
    for start in range(0, len(x), at_once):
        block = slice(start, start + at_once)
        nearest[block] = _totals(x[block], neighbours, None if self_index is None else self_index[block]).amin(1)
    return nearest / (~x.isnan()).sum(1).clamp(min=1)


@dataclass(frozen=True)
class Nearest:
    """The nearest neighbours of rows."""

    total: Float[Tensor, " N"]
    """Sum of the differences from the nearest one."""
    mean_total: Float[Tensor, " N"]
    """The mean over the nearest few."""
    place: Int[Tensor, " N"]
    """Place of the nearest one among the neighbours."""


@torch.no_grad()
def nearest_without_each_cell(
    x: Float[Tensor, "N D"], neighbours: list[NeighbourColumn], self_index: Int[Tensor, " N"] | None = None
) -> tuple[Nearest, list[Nearest]]:
    """The nearest neighbours of each row, and those that are nearest when one of its D cells is ignored.

    Only for few rows: it takes many times as long as :func:`nearest_distances`.
    """
    totals = _totals(x, neighbours, self_index)
    n_others = totals.shape[1] - (self_index is not None)

    def nearest(totals: Float[Tensor, "N neighbours"]) -> Nearest:
        smallest = totals.topk(max(1, min(_FEW, n_others)), dim=1, largest=False)
        return Nearest(smallest.values[:, 0], smallest.values.mean(1), smallest.indices[:, 0])

    columns = zip(neighbours, x.T, strict=True)
    return nearest(totals), [nearest(totals - column.differences(cells)) for column, cells in columns]


def _totals(
    x: Float[Tensor, "N D"], neighbours: list[NeighbourColumn], self_index: Int[Tensor, " N"] | None
) -> Float[Tensor, "N neighbours"]:
    """How much rows differ from their neighbours: the sum over their cells."""
    total = x.new_zeros(len(x), len(neighbours[0].values))
    for column, cells in zip(neighbours, x.T, strict=True):
        total += column.differences(cells)
    if self_index is not None:
        left_out = torch.nonzero(self_index >= 0).flatten()
        total[left_out, self_index[left_out]] = float("inf")
    return total
