"""How far a row is from the nearest training row.

Reconstruction asks whether the cells of a row fit one another. A row can pass and still be like no row of the training
set; its nearest one tells. Rows are compared as by Gower (A general coefficient of similarity, Biometrics 27, 1971).
"""

from __future__ import annotations

import torch
from torch import Tensor

from nptad.loss import CellLayout

_PAIRS_AT_ONCE = 2**18
"""Pairs of rows (rows x neighbours) compared at once, few enough to stay in the processor's cache."""


@torch.no_grad()
def nearest_distances(x: Tensor, neighbours: Tensor, layout: CellLayout, own: Tensor | None = None) -> Tensor:
    """Distance of each row (n, D) from the nearest of its neighbours (N, D), (n,): the mean over its cells.

    Numbers differ by a share of the neighbours' range, categories by 0 or 1. A missing cell of the row does not count.
    One of a neighbour tells nothing: it differs by as much as the others do on average. 0 for a row without any
    observed cell; infinite if there is no other row.

    Parameters
    ----------
    x, neighbours : Tensor
        Encoded rows.
    layout : CellLayout
        The order of their cells.
    own : Tensor of shape (n,), optional
        Place of each row among the neighbours, which is left out; -1 for none.

    Examples
    --------
    >>> row, neighbours = torch.tensor([[1.0, 0.0]]), torch.tensor([[5.0, 0.0], [1.0, 2.0]])
    >>> nearest_distances(row, neighbours, CellLayout(1, (3,))).item()  # either: one of two cells differs altogether
    0.5
    """
    x, columns = _in_ranges(x, neighbours, layout)
    nearest = x.new_empty(len(x))
    at_once = max(1, _PAIRS_AT_ONCE // len(neighbours))
    for start in range(0, len(x), at_once):
        block = slice(start, start + at_once)
        nearest[block] = _totals(x[block], columns, layout, None if own is None else own[block]).amin(1)
    return nearest / (~x.isnan()).sum(1).clamp(min=1)


@torch.no_grad()
def nearest_differences(
    x: Tensor, neighbours: Tensor, layout: CellLayout, own: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The place of each row's nearest neighbour, (n,), and how much each cell differs from it, (n, D).

    For few rows: it takes twice the time of :func:`nearest_distances`, which are the means of these differences.
    """
    x, columns = _in_ranges(x, neighbours, layout)
    place = _totals(x, columns, layout, own).argmin(1)
    differences = torch.empty_like(x)
    for j, others in enumerate(columns):
        of_column = _differences(x[:, j, None], others, j < layout.n_numeric)
        differences[:, j] = of_column.gather(1, place[:, None])[:, 0]
    return place, differences


def _in_ranges(x: Tensor, neighbours: Tensor, layout: CellLayout) -> tuple[Tensor, Tensor]:
    """Rows (n, D) and the columns of their neighbours (D, N), numbers in units of the neighbours' range."""
    columns = neighbours.T.contiguous()
    units = torch.ones_like(columns[:, 0])
    for j in range(layout.n_numeric):
        known = columns[j][~columns[j].isnan()]
        if len(known) and known.max() > known.min():
            units[j] = known.max() - known.min()
    return x / units, columns / units[:, None]


def _totals(x: Tensor, columns: Tensor, layout: CellLayout, own: Tensor | None) -> Tensor:
    """How much rows (n, D) differ from their neighbours, (n, N): the sum over their cells."""
    total = x.new_zeros(len(x), columns.shape[1])
    for j, others in enumerate(columns):
        total += _differences(x[:, j, None], others, j < layout.n_numeric)
    if own is not None:
        left_out = torch.nonzero(own >= 0).flatten()
        total[left_out, own[left_out]] = float("inf")
    return total


def _differences(cells: Tensor, others: Tensor, numeric: bool) -> Tensor:
    """How much the same cell differs between some rows (n, 1) and others (N,)."""
    differences = (cells - others).abs_() if numeric else (cells != others).to(cells.dtype)
    if bool((unknown := others.isnan()).any()):
        known = differences[:, ~unknown]
        differences[:, unknown] = known.mean(1, keepdim=True) if known.shape[1] else 0.0
    if bool((missing := cells.isnan()).any()):
        differences.masked_fill_(missing, 0.0)
    return differences
