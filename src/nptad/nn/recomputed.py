"""Attention whose weights are computed part by part, and again in the backward pass; they are never held as a whole.

A part stays in the processor's cache, where dropout of the weights costs little. torch's fused kernel has none on CPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nptad.nn.rng import MemberRandom

_PAIRS_AT_A_TIME = 2**18
"""Attention weights that a CPU holds at a time: they stay in its cache."""

Queries = Float[Tensor, "matrices T width"]
Keys = Float[Tensor, "matrices D width"]
Values = Float[Tensor, "matrices D value"]


class AttentionDropout:
    """Dropout of attention weights that have a leading member axis.

    It draws the same numbers for all weights at once, which is what a call does, and part by part.

    Parameters
    ----------
    random : MemberRandom
        The streams of the members.
    probability : float
        That a weight becomes 0; the others are divided by 1 minus this.
    """

    def __init__(self, random: MemberRandom, probability: float) -> None:
        self.random, self.probability = random, probability

    def __call__(self, weights: Float[Tensor, " K *shape"]) -> Float[Tensor, " K *shape"]:
        """Drop weights that are there as a whole."""
        return weights * self.random.keep(tuple(weights.shape[1:]), self.probability).to(weights.device)


def recomputed_attention(q: Queries, k: Keys, v: Values, drop: AttentionDropout | None) -> Queries:
    """softmax(q k^T) v for each matrix, with dropout; the matrices of a member follow one another."""
    mixed: Queries = _Recomputed.apply(q, k, v, drop)
    return mixed


class _Recomputed(torch.autograd.Function):
    """The backward pass computes the weights again; of the dropout it keeps a bit for each weight."""

    @staticmethod
    def forward(ctx: Any, q: Queries, k: Keys, v: Values, drop: AttentionDropout | None) -> Queries:
        n_members = 1 if drop is None else len(drop.random)
        draws = None if drop is None else drop.random.in_parts(1 - drop.probability)
        ctx.kept = 1.0 if drop is None else 1 / (1 - drop.probability)
        ctx.parts = list(_parts(n_members, len(q), q.shape[1], k.shape[1]))
        ctx.bits = []
        mixed = q.new_empty(*q.shape[:2], v.shape[2])
        for member, some, rows in ctx.parts:
            weights = _softmax_weights(q[some, rows], k[some])
            if draws is not None:
                keep = draws[member].take(weights.numel())
                ctx.bits.append(np.packbits(keep))
                weights.mul_(_factors(keep, weights))
            torch.bmm(weights, v[some], out=mixed[some, rows])
        if drop is not None:
            mixed.mul_(ctx.kept)
        ctx.save_for_backward(q, k, v, mixed)
        return mixed

    @staticmethod
    def backward(ctx: Any, *grads: Queries) -> tuple[Queries, Keys, Values, None]:
        q, k, v, mixed = ctx.saved_tensors
        grad = grads[0].contiguous()
        # The mean gradient of each softmax's weights, computed from its output (Dao et al. 2022).
        mean = (grad * mixed).sum(2, keepdim=True)
        grad = grad * ctx.kept if ctx.bits else grad
        to_q, to_k, to_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        for i, (_, some, rows) in enumerate(ctx.parts):
            weights = _softmax_weights(q[some, rows], k[some])
            grad_logits = torch.bmm(grad[some, rows], v[some].mT)
            dropped = weights
            if ctx.bits:
                keep = _factors(np.unpackbits(ctx.bits[i], count=weights.numel()), weights)
                grad_logits.mul_(keep)
                dropped = keep.mul_(weights)
            grad_logits.sub_(mean[some, rows]).mul_(weights)
            torch.bmm(grad_logits, k[some], out=to_q[some, rows])
            # The first rows of a matrix write, the others add.
            for result, left, right in ((to_k, grad_logits, q), (to_v, dropped, grad)):
                part = result[some]
                torch.baddbmm(part, left.mT, right[some, rows], beta=0 if rows.start == 0 else 1, out=part)
        return to_q, to_k, to_v, None


def _parts(n_members: int, n_matrices: int, height: int, width: int) -> Iterator[tuple[int, slice, slice]]:
    """Some matrices of a member with all their rows, or some rows of one matrix: (member, matrices, rows)."""
    per_member = n_matrices // n_members
    some = max(1, min(per_member, _PAIRS_AT_A_TIME // (height * width)))
    rows = height if height * width <= _PAIRS_AT_A_TIME else max(1, _PAIRS_AT_A_TIME // width)
    for member in range(n_members):
        end = (member + 1) * per_member
        for first in range(member * per_member, end, some):
            for row in range(0, height, rows):
                yield member, slice(first, min(first + some, end)), slice(row, min(row + rows, height))


def _softmax_weights(q: Queries, k: Keys) -> Float[Tensor, "matrices T D"]:
    return torch.softmax(torch.bmm(q, k.mT), dim=2)


def _factors(keep: np.ndarray, weights: Float[Tensor, "some T D"]) -> Float[Tensor, "some T D"]:
    return torch.from_numpy(keep.astype(np.float32)).view(weights.shape)
