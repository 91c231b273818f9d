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
    columns = context.T.contiguous()
    units = torch.stack(
        [_range(column) if j < layout.n_numeric else column.new_ones(()) for j, column in enumerate(columns)]
    )
    x, columns = x / units, columns / units[:, None]
    nearest = x.new_empty(len(x))
    at_once = max(1, _PAIRS_AT_ONCE // len(context))
    for start in range(0, len(x), at_once):
        block = slice(start, start + at_once)
        total = x.new_zeros(len(x[block]), len(context))
        for j, others in enumerate(columns):
            total += _differences(x[block, j, None], others, j < layout.n_numeric)
        if own is not None:
            left_out = torch.nonzero(own[block] >= 0).flatten()
            total[left_out, own[block][left_out]] = float("inf")
        nearest[block] = total.amin(1) / (~x[block].isnan()).sum(1).clamp(min=1)
    return nearest


def _range(column: Tensor) -> Tensor:
    """Largest minus smallest number of a column; 1 if they are all the same."""
    known = column[~column.isnan()]
    width = known.max() - known.min() if len(known) else column.new_zeros(())
    return torch.where(width > 0, width, 1.0)


def _differences(cells: Tensor, others: Tensor, numeric: bool) -> Tensor:
    """How much the same cell differs between some rows (n, 1) and others (N,)."""
    differences = (cells - others).abs_() if numeric else (cells != others).to(cells.dtype)
    if bool((unknown := others.isnan()).any()):
        known = differences[:, ~unknown]
        differences[:, unknown] = known.mean(1, keepdim=True) if known.shape[1] else 0.0
    if bool((missing := cells.isnan()).any()):
        differences.masked_fill_(missing, 0.0)
    return differences
