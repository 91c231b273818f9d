"""How far a row is from the nearest context row.

Reconstruction asks whether the cells of a row fit one another. A row can pass and still be like no row of the training
set; its nearest one tells. Rows are compared as by Gower (A general coefficient of similarity, Biometrics 27, 1971).
"""

from __future__ import annotations

import torch
from torch import Tensor

from nptad.loss import CellLayout

_PAIRS_AT_ONCE = 2**18
"""Pairs of rows (rows x context) compared at once, few enough to stay in the processor's cache."""


@torch.no_grad()
def nearest_distances(x: Tensor, context: Tensor, layout: CellLayout, own: Tensor | None = None) -> Tensor:
    """Distance of each row (n, D) from the nearest context row (N, D), (n,): the mean over its cells.

    Numbers differ by the share of the range that they have in the context, categories by 0 or 1. A missing cell of the
    row does not count. One of a context row tells nothing: it differs by as much as the others do on average. 0 for a
    row without any observed cell; infinite if there is no other context row.

    Parameters
    ----------
    x, context : Tensor
        Encoded rows.
    layout : CellLayout
        The order of their cells.
    own : Tensor of shape (n,), optional
        Entry of each row in the context, which is left out; -1 for none.

    Examples
    --------
    >>> rows, context = torch.tensor([[1.0, 0.0]]), torch.tensor([[5.0, 0.0], [1.0, 2.0]])
    >>> nearest_distances(rows, context, CellLayout(1, (3,))).item()  # either: one of two cells differs altogether
    0.5
    """
    x, columns = _in_ranges(x, context, layout)
    nearest = x.new_empty(len(x))
    at_once = max(1, _PAIRS_AT_ONCE // len(context))
    for start in range(0, len(x), at_once):
        block = slice(start, start + at_once)
        nearest[block] = _totals(x[block], columns, layout, None if own is None else own[block]).amin(1)
    return nearest / (~x.isnan()).sum(1).clamp(min=1)


@torch.no_grad()
def nearest_differences(
    x: Tensor, context: Tensor, layout: CellLayout, own: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The nearest context row of each row, (n,), and how much each cell differs from it, (n, D).

    For few rows: it takes twice the time of :func:`nearest_distances`, which are the means of these differences.
    """
    x, columns = _in_ranges(x, context, layout)
    entry = _totals(x, columns, layout, own).argmin(1)
    differences = torch.empty_like(x)
    for j, others in enumerate(columns):
        of_column = _differences(x[:, j, None], others, j < layout.n_numeric)
        differences[:, j] = of_column.gather(1, entry[:, None])[:, 0]
    return entry, differences


def _in_ranges(x: Tensor, context: Tensor, layout: CellLayout) -> tuple[Tensor, Tensor]:
    """Rows (n, D) and the columns of the context (D, N), numbers in units of their range in the context."""
    columns = context.T.contiguous()
    units = torch.ones_like(columns[:, 0])
    for j in range(layout.n_numeric):
        known = columns[j][~columns[j].isnan()]
        if len(known) and known.max() > known.min():
            units[j] = known.max() - known.min()
    return x / units, columns / units[:, None]


def _totals(x: Tensor, columns: Tensor, layout: CellLayout, own: Tensor | None) -> Tensor:
    """How much rows (n, D) differ from those of the context, (n, N): the sum over their cells."""
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
