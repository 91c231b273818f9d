"""DROCC (Goyal et al. 2020): a classifier of normal rows against the worst rows near them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from nptad.bench.methods.deep import TINY, DeepBaseline, mlp


@dataclass(kw_only=True, eq=False)
class DROCC(DeepBaseline):
    """Deep robust one-class classification, with the settings for "abalone".

    Goyal, Raghunathan, Jain, Simhadri and Jain, *DROCC: Deep Robust One-Class Classification*, ICML 2020. A network
    learns to give a logit f(x) > 0 to normal rows and f < 0 to adversarial rows, between ``radius`` and
    ``gamma * radius`` away from them. Gradient ascent looks for adversarial rows where f is highest. The score is
    -f(x).

    From the paper: the loss and the search (normalised gradient, projection after each step). From the command for
    abalone in the README of its authors' repository, and the defaults of that command: one hidden layer of 128 ReLU
    units, Adam, gamma = 2, radius 3, equal weights of the two terms, learning rate 0.001, 200 epochs of batches of 256,
    50 ascent steps of 0.001, the first quarter of the training without adversarial rows, standardised columns. Our
    choices: a constant learning rate (theirs falls in three steps to a thousandth); at least 600 steps, as many as
    abalone has here (1,600 there, on more rows); at most 2000 steps, which is less than 200 epochs above 2560 rows.
    """

    n_epochs: int = 200
    batch_size: int = 256
    learning_rate: float = 0.001
    hidden: int = 128  # units of the hidden layer
    radius: float = 3.0  # rows nearer than this to a training row count as normal
    gamma: float = 2.0  # adversarial rows are at most ``gamma * radius`` away
    adversarial_weight: float = 1.0  # weight of the loss on adversarial rows
    n_ascents: int = 50  # steps of the search for an adversarial row
    ascent_step: float = 0.001  # length of such a step
    warm_up: float = 0.25  # share of the training without adversarial rows, at its start

    _min_steps: ClassVar[int] = 600

    def _build(self, n_rows: int, n_columns: int) -> nn.Module:
        return mlp([n_columns, self.hidden, 1])

    def _loss(self, network: nn.Sequential, rows: Tensor, progress: float, generator: torch.Generator) -> Tensor:
        loss = functional.softplus(-network(rows)).mean()
        if progress < self.warm_up:
            return loss
        shift = torch.randn(rows.shape, generator=generator).to(rows.device)
        with torch.no_grad():
            for _ in range(self.n_ascents):
                shift += self.ascent_step * functional.normalize(logit_gradients(network, rows + shift))
                shift = to_shell(shift, self.radius, self.gamma * self.radius)
        return loss + self.adversarial_weight * functional.softplus(network(rows + shift)).mean()

    def _score_rows(self, network: nn.Sequential, rows: Tensor) -> Tensor:
        return -network(rows).squeeze(1)


def logit_gradients(network: nn.Sequential, rows: Tensor) -> Tensor:
    """Gradient of the logit with respect to the row; with autograd the 50 ascent steps take four times as long.

    The loss of an adversarial row, log(1 + exp f), grows in the same direction as f.
    """
    first, _, last = network
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    return ((first(rows) > 0) * last.weight) @ first.weight


def to_shell(shift: Tensor, least: float, most: float) -> Tensor:
    """The nearest vectors with norms between ``least`` and ``most``."""
    norm = shift.norm(dim=1, keepdim=True) + TINY
    return shift * (norm.clamp(least, most) / norm)
