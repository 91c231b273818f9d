"""How far a row is from the nearest context row.

Reconstruction asks whether the cells of a row fit one another. A row can pass and still be like no row of the training
set; its nearest one tells.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nptad.loss import CellLayout

MISMATCH = 2.0
"""What a category costs that the other row does not have: the mean squared difference of numbers in two random rows."""

_PAIRS_AT_ONCE = 2**18
"""Pairs of rows (rows x context) compared at once, few enough to stay in the processor's cache."""


@torch.no_grad()
def nearest_losses(x: Tensor, context: Tensor, layout: CellLayout, own: Tensor | None = None) -> Tensor:
    """Mean loss over the cells of each row (n, D) if the nearest context row (N, D) were its reconstruction, (n,).

    A missing cell of the row does not count. One of the context row tells nothing: a number costs as much as it would
    on average against a random one, a category as one that differs. 0 for a row without any observed cell; infinite if
    there is no other context row.

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
    >>> nearest_losses(rows, context, CellLayout(1, (3,))).item()  # the second: the same number, another category
    1.0
    """
    nearest, columns = x.new_empty(len(x)), context.T.contiguous()
    at_once = max(1, _PAIRS_AT_ONCE // len(context))
    for start in range(0, len(x), at_once):
        block = slice(start, start + at_once)
        total = x.new_zeros(len(x[block]), len(context))
        for j, others in enumerate(columns):
            total += _cell_losses(x[block, j, None], others, j < layout.n_numeric)
        if own is not None:
            left_out = torch.nonzero(own[block] >= 0).flatten()
            total[left_out, own[block][left_out]] = float("inf")
        nearest[block] = total.amin(1) / (~x[block].isnan()).sum(1).clamp(min=1)
    return nearest


def _cell_losses(cells: Tensor, others: Tensor, numeric: bool) -> Tensor:
    """Losses of the same cell in some rows (n, 1) against those in others (N,)."""
    if numeric:
        losses = cells - others
        losses *= losses
        if bool((unknown := others.isnan()).any()):
            losses = torch.where(unknown, cells**2 + 1, losses)
    else:
        losses = MISMATCH * (cells != others)  # true of a missing one too
    if bool((missing := cells.isnan()).any()):
        losses = losses.masked_fill(missing, 0.0)
    return losses
