"""LAMB with Lookahead and the flat-then-anneal schedule, for stacks of members.

LAMB is You et al. 2020, algorithm 2 (bias-corrected, no weight decay, phi(z) = z); Lookahead is Zhang et al. 2019.
Norms, trust ratios and clipping are taken per member: a stack trains exactly as its members alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import cos, pi

import torch
from jaxtyping import Float
from torch import Tensor, nn

FLAT_SHARE = 0.7

_BLOCK = 2**16
"""Numbers updated at a time: five vectors of this length stay in a core's cache."""


def flat_then_anneal(progress: float) -> float:
    """Factor on the learning rate at a share of the training: 1 up to 70 %, then a cosine down to 0.

    Examples
    --------
    >>> [round(flat_then_anneal(p), 3) for p in (0.0, 0.7, 0.85, 1.0)]
    [1.0, 1.0, 0.5, 0.0]
    """
    if progress <= FLAT_SHARE:
        return 1.0
    return 0.5 * (1 + cos(pi * min(1.0, (progress - FLAT_SHARE) / (1 - FLAT_SHARE))))


class FlatParameters:
    """All parameters of a model in one vector, so that an optimiser pass is a few long vector operations.

    The model's parameters, each (K, ...), and their gradients become views of ``value`` and ``grad``.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parts = [p for p in parameters if p.numel()]
        self.n_members = len(self.parts[0])
        self.sizes = [p.numel() for p in self.parts]
        self.value = torch.cat([p.detach().flatten() for p in self.parts])
        self.grad = torch.zeros_like(self.value)
        for p, value, grad in zip(self.parts, self.split(self.value), self.split(self.grad), strict=True):
            p.data = value.view(p.shape)
            p.grad = grad.view(p.shape)

    def release(self) -> None:
        """Give the parameters their own memory again: a pickle would store the whole vector once for every view."""
        for p in self.parts:
            p.data, p.grad = p.data.clone(), None

    def split(self, flat: Float[Tensor, " all"]) -> list[Float[Tensor, "K _"]]:
        """The part of a vector that belongs to each parameter."""
        return [part.view(self.n_members, -1) for part in flat.split(self.sizes)]

    def norms(self, flat: Float[Tensor, " all"]) -> Float[Tensor, "parameters K"]:
        """Norm of each parameter for each member."""
        return torch.stack([torch.linalg.vector_norm(part, dim=1) for part in self.split(flat)])

    def clip_gradients(self, limit: float) -> None:
        """Scale each member's gradient to a norm of at most ``limit``."""
        factor = (limit / (torch.linalg.vector_norm(self.norms(self.grad), dim=0) + 1e-6)).clamp(max=1.0)
        if bool((factor < 1).any()):
            for part in self.split(self.grad):
                part.mul_(factor[:, None])


class Lamb:
    """LAMB on flat parameters."""

    def __init__(self, flat: FlatParameters, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6) -> None:
        self.flat, self.betas, self.eps = flat, betas, eps
        self.steps = 0
        self.first = torch.zeros_like(flat.value)
        self.second = torch.zeros_like(flat.value)
        self._update = torch.empty_like(flat.value)

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Update the parameters from their gradients."""
        self.steps += 1
        beta1, beta2 = self.betas
        correction1, correction2 = 1 - beta1**self.steps, 1 - beta2**self.steps
        vectors = (self.flat.grad, self.first, self.second, self._update)
        for grad, first, second, update in zip(*(vector.split(_BLOCK) for vector in vectors), strict=True):
            first.lerp_(grad, 1 - beta1)
            second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            torch.div(second, correction2, out=update).sqrt_().add_(self.eps)
            torch.div(first, update, out=update).div_(correction1)
        value_norms, update_norms = self.flat.norms(self.flat.value), self.flat.norms(self._update)
        ratios = torch.where((value_norms > 0) & (update_norms > 0), value_norms / update_norms, 1.0)
        parts = zip(self.flat.split(self.flat.value), self.flat.split(self._update), ratios, strict=True)
        for value, update, ratio in parts:
            value.addcmul_(update, ratio[:, None], value=-learning_rate)


class Lookahead:
    """Slow weights that move towards the fast ones every ``period`` steps and then replace them."""

    def __init__(self, flat: FlatParameters, period: int = 6, rate: float = 0.5) -> None:
        self.flat, self.period, self.rate = flat, period, rate
        self.slow = flat.value.clone()
        self.steps = 0

    @torch.no_grad()
    def step(self) -> None:
        """Count one optimiser step; synchronise when the period is full."""
        self.steps += 1
        if self.steps % self.period == 0:
            self.slow.lerp_(self.flat.value, self.rate)
            self.flat.value.copy_(self.slow)
