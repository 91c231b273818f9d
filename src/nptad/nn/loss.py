"""Reconstruction loss of each cell: squared error for numbers, cross-entropy for categories."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nptad.tables.layout import UNSEEN, CellLayout


@dataclass(frozen=True)
class Prediction:
    """What the model expects in every cell."""

    numeric: Float[Tensor, "*rows numeric"]
    """Expected standardised values."""
    log_probabilities: Float[Tensor, "*rows categorical classes"]
    """Log-probability of each category; -inf beyond a cell's cardinality."""


def cell_losses(
    prediction: Prediction, x: Float[Tensor, "*rows D"], layout: CellLayout, n_train: int
) -> Float[Tensor, "*rows D"]:
    """Loss of every cell of ``x``; 0 where the cell is missing (NaN).

    A category that was not in training has no probability of its own. Its loss is that of the least expected category,
    but at least 2 log(n_train + 1): its probability is at most one occurrence in n_train + 1 rows, and a squared error
    is twice a negative log-likelihood.
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


def masked_mean(losses: Float[Tensor, "K N D"], targets: Bool[Tensor, "K N D"]) -> Float[Tensor, " K"]:
    """Mean loss of the target cells of each member; 0 for a member without targets."""
    weights = targets.to(losses.dtype)
    return (losses * weights).sum(dim=(1, 2)) / weights.sum(dim=(1, 2)).clamp(min=1.0)
