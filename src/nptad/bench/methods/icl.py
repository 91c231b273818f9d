"""Internal contrastive learning (Shenkar and Wolf 2022): match each part of a row with the rest of that row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from nptad.bench.methods.deep import TINY, DeepBaseline, leaky_relu

MOST_MEMBERS = 3  # largest number of networks; the paper's rule asks for 8 on thyroid


@dataclass(kw_only=True, eq=False)
class ICL(DeepBaseline):
    """Internal contrastive learning.

    Shenkar and Wolf, *Anomaly Detection for Tabular Data with Internal Contrastive Learning*, ICLR 2022. A window is k
    consecutive columns. One network embeds the window, another one the rest of the row. They are trained so that a rest
    is nearer to its own window than to the other windows of the same row (InfoNCE). The loss is the score, averaged
    over several networks, each with the columns in its own random order.

    From the paper: the loss; the width of the windows by the number of columns. From memory, unchecked: temperature
    0.01, embeddings of 200 numbers, floor(100 / (log n + d)) + 1 networks, zeros added to tables narrower than three
    windows, learning rate 0.001, up to 2000 epochs until the loss of an epoch is below 0.001. Our choices: standardised
    columns; batches of 128; widths of the hidden layers; batch normalisation per window, without which the training
    loss stays far above 0.001; at most 3 networks of at most 600 steps each.
    """

    n_epochs: int = 2000
    batch_size: int = 128
    learning_rate: float = 0.001
    max_steps: int = 600
    temperature: float = 0.01  # divides the cosines
    embedding: int = 200  # dimensions of an embedded window or rest; hidden layers have a half or a quarter of it
    stop_loss: float = 0.001  # training ends after an epoch whose mean loss is below this

    def _n_members(self, n_rows: int, n_columns: int) -> int:
        return min(floor(100 / (log(n_rows) + n_columns)) + 1, MOST_MEMBERS)

    def _stop_loss(self) -> float:
        return self.stop_loss

    def _build(self, n_rows: int, n_columns: int) -> nn.Module:
        return WindowMatcher(n_columns, self.embedding)

    def _loss(self, network: WindowMatcher, rows: Tensor, progress: float, generator: torch.Generator) -> Tensor:
        rests, windows = network(rows)
        return contrastive_losses(rests, windows, self.temperature).mean()

    def _score_rows(self, network: WindowMatcher, rows: Tensor) -> Tensor:
        rests, windows = network(rows)
        return contrastive_losses(rests, windows, self.temperature).sum(1)


def window_width(n_columns: int) -> int:
    """The paper's rule.

    Examples
    --------
    >>> [window_width(d) for d in (6, 39, 40, 159, 160, 274)]
    [2, 2, 10, 10, 10, 124]
    """
    return 2 if n_columns < 40 else max(10, n_columns - 150)


class WindowMatcher(nn.Module):
    """Embeds the windows of a row and the rest of each, with the columns in a random order of its own."""

    order: Tensor
    inside: Tensor
    outside: Tensor

    def __init__(self, n_columns: int, embedding: int) -> None:
        super().__init__()
        width = window_width(n_columns)
        self.n_columns = max(n_columns, 3 * width)
        starts = torch.arange(self.n_columns - width + 1)[:, None]
        others = torch.arange(self.n_columns - width)
        self.register_buffer("order", torch.randperm(self.n_columns))
        self.register_buffer("inside", starts + torch.arange(width))
        self.register_buffer("outside", others + width * (others >= starts))
        self.embed_window = _embedder([width, embedding // 4, embedding // 2, embedding], len(starts))
        self.embed_rest = _embedder([self.n_columns - width, embedding // 2, embedding], len(starts))

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings of the rests and of the windows, each (rows, windows, embedding)."""
        columns = functional.pad(rows, (0, self.n_columns - rows.shape[1]))[:, self.order]
        return self.embed_rest(columns[:, self.outside]), self.embed_window(columns[:, self.inside])


def _embedder(widths: list[int], n_windows: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    activation: Callable[[], nn.Module] = nn.Tanh
    for n_in, n_out in pairwise(widths):
        layers += [nn.Linear(n_in, n_out), nn.BatchNorm1d(n_windows), activation()]
        activation = leaky_relu
    del layers[-2]
    return nn.Sequential(*layers)


def contrastive_losses(rests: Tensor, windows: Tensor, temperature: float) -> Tensor:
    """InfoNCE of every rest of every row, (rows, windows).

    The logits are the cosines with all windows of the row, the target is its own window.
    """
    return _InfoNCE.apply(_Units.apply(rests), _Units.apply(windows), 1 / temperature)


# Derivatives by hand: with torch's own, training on wide tables takes a fifth longer.


class _Units(torch.autograd.Function):
    """Vectors divided by their Euclidean norms, over the last axis."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        norms = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).add_(TINY)
        units = vectors / norms
        ctx.save_for_backward(units, norms)
        return units

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        units, norms = ctx.saved_tensors
        along = torch.linalg.vecdot(units, grads[0]).unsqueeze(-1)
        return torch.addcmul(grads[0], units, along, value=-1).div_(norms)


class _InfoNCE(torch.autograd.Function):
    """Cross-entropy of the products of the rests with all windows of their row."""

    @staticmethod
    def forward(ctx: Any, rests: Tensor, windows: Tensor, sharpness: float) -> Tensor:
        logits = (rests @ windows.mT).mul_(sharpness)
        totals = logits.logsumexp(2)
        ctx.save_for_backward(rests, windows, logits, totals)
        ctx.sharpness = sharpness
        return totals - logits.diagonal(dim1=1, dim2=2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        rests, windows, logits, totals = ctx.saved_tensors
        slopes = (logits - totals.unsqueeze(2)).exp_()
        slopes.diagonal(dim1=1, dim2=2).sub_(1)
        slopes.mul_((grads[0] * ctx.sharpness).unsqueeze(2))
        return slopes @ windows, slopes.mT @ rests, None
