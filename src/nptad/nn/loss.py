"""Reconstruction loss of each cell: squared error for numbers, cross-entropy for categories."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from nptad.tables.layout import UNSEEN, CellLayout


@dataclass(frozen=True)
class Prediction:
    """What the model expects in every cell."""

    numeric: Tensor
    """Expected standardised values, (..., numeric cells)."""
    log_probabilities: Tensor
    """Log-probability of each category, (..., categorical cells, classes); -inf beyond a cell's cardinality."""


def cell_losses(prediction: Prediction, x: Tensor, layout: CellLayout, n_train: int) -> Tensor:
    """Loss of every cell of ``x`` (..., D); 0 where the cell is missing (NaN).

    A category that training never saw has no probability of its own. It costs what the least expected category
    costs, and no less than 2 log(n_train + 1): one occurrence in n_train + 1 rows is the most it can claim, and a
    squared error is twice a negative log-likelihood.
    """
    missing = x.isnan()
    x = x.masked_fill(missing, 0.0)  # a NaN would spoil gradients even where its loss is not used
    losses = (prediction.numeric - x[..., : layout.n_numeric]) ** 2
    if layout.cardinalities:
        codes, log_p = x[..., layout.n_numeric :], prediction.log_probabilities
        categorical = -log_p.gather(-1, codes.clamp(min=0).long().unsqueeze(-1)).squeeze(-1)
        unseen = codes == UNSEEN
        if bool(unseen.any()):
            least = -log_p.masked_fill(log_p.isneginf(), float("inf")).amin(dim=-1)
            categorical = torch.where(unseen, least.clamp(min=2 * log(n_train + 1)), categorical)
        losses = torch.cat((losses, categorical), dim=-1)
    return losses.masked_fill(missing, 0.0)


def masked_mean(losses: Tensor, targets: Tensor) -> Tensor:
    """Mean loss of the target cells of each member, (K, N, D) -> (K,); 0 for a member without targets."""
    weights = targets.to(losses.dtype)
    return (losses * weights).sum(dim=(1, 2)) / weights.sum(dim=(1, 2)).clamp(min=1.0)
