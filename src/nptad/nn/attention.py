"""Attention in the three forms that the model needs: between rows, to a cached context, between the cells of a row.

Every form has a fast path of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from nptad.nn.recomputed import AttentionDropout, recomputed_attention

Dropout = Callable[[Tensor], Tensor]

QueryCells = Float[Tensor, "K heads width T N"]
KeyCells = Float[Tensor, "K heads width D N"]
"""Keys or values of all cells of each row."""
CellPairs = Float[Tensor, "K heads T D N"]

_FEW_CELLS = 24
"""Up to this many cells in a row, attention between them runs over many rows at a time, above it row by row."""

_FEW_PAIRS = 2**19
"""Up to this many attention weights, dropout is fastest on all of them at once."""

_PAIRS_AT_A_TIME = 2**18
"""Attention weights between cells that a CPU holds at a time: they stay in its cache."""


def attention(
    q: Float[Tensor, "*batch N key"],
    k: Float[Tensor, "*batch C key"],
    v: Float[Tensor, "*batch C value"],
    drop: Dropout | None,
) -> Float[Tensor, "*batch N value"]:
    """softmax(Q K^T / sqrt(h_k)) V over the second last axis.

    Fused without dropout of weights; with it, in parts on a CPU.
    """
    scale = 1 / sqrt(q.shape[-1])
    if drop is None:
        width = v.shape[-1]
        q, k, v = same_width(q, k, v)
        return F.scaled_dot_product_attention(q, k, v, scale=scale)[..., :width]
    many = q.device.type == "cpu" and q[..., 0].numel() * k.shape[-2] > _FEW_PAIRS
    if many and isinstance(drop, AttentionDropout):
        return _as_matrices(q * scale, k, v, drop)
    weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * scale, dim=-1)
    return torch.matmul(drop(weights), v)


def _as_matrices(
    q: Float[Tensor, "*batch N key"],
    k: Float[Tensor, "*batch C key"],
    v: Float[Tensor, "*batch C value"],
    drop: AttentionDropout | None,
) -> Float[Tensor, "*batch N value"]:
    """Attention in parts, of queries that are scaled."""
    mixed = recomputed_attention(q.flatten(0, -3), k.flatten(0, -3), v.flatten(0, -3), drop)
    return mixed.unflatten(0, q.shape[:-2])


def same_width(
    q: Float[Tensor, "*batch N _"], k: Float[Tensor, "*batch C _"], v: Float[Tensor, "*batch C _"]
) -> tuple[Float[Tensor, "*batch N width"], Float[Tensor, "*batch C width"], Float[Tensor, "*batch C width"]]:
    """Pad with zeros: the fused kernel needs queries, keys and values of one width. The result does not change."""
    width = max(q.shape[-1], v.shape[-1])
    q, k, v = (F.pad(t, (0, width - t.shape[-1])) if t.shape[-1] < width else t for t in (q, k, v))
    return q, k, v


def attention_to_context(
    q: Float[Tensor, "K heads N key"],
    k: Float[Tensor, "K heads N key"],
    v: Float[Tensor, "K heads N value"],
    context_k: Float[Tensor, "K heads C padded"],
    context_v: Float[Tensor, "K heads C padded"],
    self_index: Int[Tensor, "K N"] | None = None,
) -> Float[Tensor, "K heads N value"]:
    """Attention of each row to the context rows and to itself.

    The context part runs in the fused kernel, which also returns log(sum(exp(logits))); with that, the row's own logit
    is added to the softmax.
    """
    scale = 1 / sqrt(q.shape[-1])
    width = v.shape[-1]
    self_logit = (q * k).sum(-1) * scale
    forbidden = _forbidden_entries(self_index, context_k)
    q, context_k, context_v = same_width(q, context_k, context_v)  # the context was padded when it was cached
    if q.device.type == "cpu":
        mixed, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, context_k, context_v, 0.0, False, attn_mask=forbidden, scale=scale
        )
    else:
        logits = torch.matmul(q, context_k.transpose(-1, -2)) * scale
        logits = logits if forbidden is None else logits + forbidden
        log_sum = torch.logsumexp(logits, dim=-1)
        mixed = torch.matmul(torch.exp(logits - log_sum.unsqueeze(-1)), context_v)
    return torch.lerp(mixed[..., :width], v, torch.sigmoid(self_logit - log_sum).unsqueeze(-1))


def weights_of_context(
    q: Float[Tensor, "K heads N key"],
    k: Float[Tensor, "K heads N key"],
    context_k: Float[Tensor, "K heads C padded"],
    self_index: Int[Tensor, "K N"] | None = None,
) -> Float[Tensor, "K heads N C"]:
    """The weights of the context rows in :func:`attention_to_context`."""
    scale = 1 / sqrt(q.shape[-1])
    self_logit = (q * k).sum(-1, keepdim=True) * scale
    logits = torch.matmul(q, context_k[..., : q.shape[-1]].transpose(-1, -2)) * scale
    forbidden = _forbidden_entries(self_index, context_k)
    logits = logits if forbidden is None else logits + forbidden
    return torch.softmax(torch.cat((logits, self_logit), dim=-1), dim=-1)[..., :-1]


def _forbidden_entries(
    self_index: Int[Tensor, "K N"] | None, context_k: Float[Tensor, "K heads C padded"]
) -> Float[Tensor, "K 1 N C"] | None:
    """Added to logits so that rows do not attend to their ``self_index`` entries."""
    if self_index is None:
        return None
    entries = torch.arange(context_k.shape[2], device=self_index.device)
    forbidden = torch.zeros(self_index.shape[0], 1, self_index.shape[1], len(entries), device=self_index.device)
    return forbidden.masked_fill_(self_index[:, None, :, None] == entries, float("-inf"))


def attention_between_cells(q: QueryCells, k: KeyCells, v: KeyCells, drop: Dropout | None) -> QueryCells:
    """Attention of T cells of each row to its D cells."""
    on_cpu = q.device.type == "cpu"
    if k.shape[3] <= _FEW_CELLS:
        q, k, v = (t.float() for t in (q, k, v))  # under autocast they are bfloat16, too coarse for these sums
        if drop is None and on_cpu and not torch.is_grad_enabled():
            at_a_time = max(1, _PAIRS_AT_A_TIME // k[:, :, 0].numel())
            return torch.cat([_FewCells.apply(part, k, v, None) for part in q.split(at_a_time, dim=3)], dim=3)
        keep = None if drop is None else drop(q.new_ones(1).expand(*q.shape[:2], q.shape[3], *k.shape[3:]))
        return _FewCells.apply(q, k, v, keep)
    q, k, v = (t.permute(0, 4, 1, 3, 2) for t in (q, k, v))
    if drop is None and on_cpu:
        # Heads are so narrow here that almost all time goes into reading and writing weights: the fused kernel takes
        # 1.5 times as long in training, and twice as long or more in scoring.
        return _as_matrices(q / sqrt(q.shape[-1]), k, v, None).permute(0, 2, 4, 3, 1)
    return attention(q, k, v, drop).permute(0, 2, 4, 3, 1)


class _FewCells(torch.autograd.Function):
    """Attention between the cells of many rows, with dropout factors ``keep``.

    With the rows last, every step is a product of long vectors, one for each of the few numbers of a head. Matrix
    products would be thousands of tiny ones; broadcast products under autograd would need intermediates ``width`` times
    as large. This is two to three times faster than either, and than the fused kernel.
    """

    @staticmethod
    def forward(ctx: Any, q: QueryCells, k: KeyCells, v: KeyCells, keep: CellPairs | None) -> QueryCells:
        weights = _outer(q, k).mul_(1 / sqrt(q.shape[2]))
        weights.sub_(weights.amax(3, keepdim=True)).exp_()  # softmax, but torch's is slow on inner axes
        weights.div_(weights.sum(3, keepdim=True))
        ctx.save_for_backward(q, k, v, weights, keep)
        return _contract(weights if keep is None else weights * keep, v, dim=3)

    @staticmethod
    def backward(ctx: Any, *grads: QueryCells) -> tuple[QueryCells, KeyCells, KeyCells, None]:
        q, k, v, weights, keep = ctx.saved_tensors
        grad = grads[0].contiguous()
        grad_v = _contract(weights if keep is None else weights * keep, grad, dim=2)
        grad_weights = _outer(grad, v)
        if keep is not None:
            grad_weights.mul_(keep)
        mean = (weights * grad_weights).sum(3, keepdim=True)
        grad_logits = grad_weights.sub_(mean).mul_(weights).mul_(1 / sqrt(q.shape[2]))
        return _contract(grad_logits, k, dim=3), _contract(grad_logits, q, dim=2), grad_v, None


def _outer(a: QueryCells, b: KeyCells) -> CellPairs:
    """Sum over the width of a[i] * b[j] for all pairs of cells."""
    total = a[:, :, 0, :, None] * b[:, :, 0, None]
    for e in range(1, a.shape[2]):
        total.addcmul_(a[:, :, e, :, None], b[:, :, e, None])
    return total


def _contract(
    pairs: CellPairs, cells: Float[Tensor, "K heads width from N"], dim: int
) -> Float[Tensor, "K heads width to N"]:
    """Sum over one side of the pairs, weighted by the cells of that side: ``dim`` 3 sums over D, 2 over T."""
    left = pairs.shape[5 - dim]
    product, result = torch.empty_like(pairs), cells.new_empty(*cells.shape[:3], left, cells.shape[4])
    for e in range(cells.shape[2]):
        torch.mul(pairs, cells[:, :, e].unsqueeze(5 - dim), out=product)
        torch.sum(product, dim=dim, out=result[:, :, e])
    return result
