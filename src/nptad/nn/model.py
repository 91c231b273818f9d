"""The Non-Parametric Transformer, readable next to the paper (section 3.2, appendices A and B).

Every tensor carries a leading member axis: K models with weights of their own run as one tensor program and never
mix. The letters in shapes are those of :mod:`nptad.nn`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nptad.nn.attention import (
    Dropout,
    attention,
    attention_between_cells,
    attention_to_context,
    same_width,
    weights_of_context,
)
from nptad.nn.loss import Prediction
from nptad.nn.recomputed import AttentionDropout
from nptad.nn.rng import MemberRandom, NoRandom
from nptad.settings import Settings
from nptad.tables.layout import UNSEEN, CellLayout

Cells = Float[Tensor, "K N D E"]
"""The embedded cells of rows."""

Heads = Float[Tensor, "K heads N _"]
"""Queries, keys or values of rows; values can have a width of their own."""

RowAttend = Callable[[Heads, Heads, Heads], Heads]
"""How a block lets rows attend to rows: (queries, keys, values) -> mixed values."""

ContextCache = list[tuple[Float[Tensor, "K heads C padded"], Float[Tensor, "K heads C padded"]]]
"""Keys and values of the context rows, one pair per row-attention block."""


@dataclass(frozen=True)
class Pass:
    """How one pass through the blocks runs: in training, over the context, or over queries."""

    attend_rows: RowAttend
    drop: Dropout
    """Dropout of hidden layers; the identity outside training."""
    drop_attention: Dropout | None
    """Dropout of attention weights; None where there is none, which allows torch's fused kernel."""
    wanted: Int[Tensor, "K N T"] | None = None
    """The cells to predict; None for all."""


class NPT(nn.Module):
    """K Non-Parametric Transformers that reconstruct hidden cells.

    Parameters
    ----------
    layout : CellLayout
        Which cells a row has.
    settings : Settings
        Architecture and dropout.
    random : MemberRandom
        Draws the initial weights, and the dropout while training; its length is the number of members.
    """

    _first_category: Int[Tensor, " categorical"]
    _class_allowed: Bool[Tensor, "categorical classes"]
    _is_category: Int[Tensor, " D"]

    def __init__(self, layout: CellLayout, settings: Settings, random: MemberRandom) -> None:
        super().__init__()
        self.layout, self.settings, self.random = layout, settings, random
        n_features, dim = layout.n_features, settings.embedding_dim
        # Linear(e_j + 1, E) of each feature: a row for the value or one per category, a row for the mask flag, a bias.
        self.in_numeric = _weight(random, (layout.n_numeric, dim), fan_in=2)
        self.in_category = _weight(random, (sum(layout.cardinalities), dim), fan_in=2)
        self.in_mask = _weight(random, (n_features, dim), fan_in=2)
        self.in_bias = _weight(random, (n_features, dim), fan_in=2)
        self.index_embedding = _weight(random, (n_features, dim), fan_in=dim)
        self.type_embedding = _weight(random, (2, dim), fan_in=dim)
        self.blocks = nn.ModuleList(_block(layer, n_features, settings, random) for layer in range(settings.n_layers))
        # Linear(E, e_j) of each feature. Categorical outputs are padded to one width, a multiple of 8, as in saved
        # models; the width also decides how many random numbers the initial weights take.
        n_classes = -(-max(layout.cardinalities, default=0) // 8) * 8
        n_categorical = len(layout.cardinalities)
        self.out_numeric = _weight(random, (layout.n_numeric, dim), fan_in=dim)
        self.out_numeric_bias = _weight(random, (layout.n_numeric,), fan_in=dim)
        self.out_category = _weight(random, (n_categorical, dim, n_classes), fan_in=dim)
        self.out_category_bias = _weight(random, (n_categorical, n_classes), fan_in=dim)

        first = torch.tensor((0, *layout.cardinalities)).cumsum(0)[:-1]
        allowed = torch.arange(n_classes) < torch.tensor(layout.cardinalities).reshape(-1, 1)
        with torch.no_grad():  # padding must not count in the norms that LAMB uses
            self.out_category.mul_(allowed[:, None].to(random.device))
            self.out_category_bias.mul_(allowed.to(random.device))
        is_category = torch.arange(n_features) >= layout.n_numeric
        self.register_buffer("_first_category", first, persistent=False)
        self.register_buffer("_class_allowed", allowed, persistent=False)
        self.register_buffer("_is_category", is_category.long(), persistent=False)

    @property
    def n_members(self) -> int:
        """How many models run side by side (K)."""
        return self.in_mask.shape[0]

    def member(self, k: int) -> NPT:
        """Member ``k`` alone, sharing its weights with this stack."""
        return self.part(slice(k, k + 1))

    def part(self, members: slice) -> NPT:
        """Some members, sharing their weights, gradients and random streams with this stack."""
        random = self.random.part(members)
        part = NPT(self.layout, self.settings, NoRandom(len(random)))
        part.load_state_dict({name: value[members] for name, value in self.state_dict().items()}, assign=True)
        for mine, whole in zip(part.parameters(), self.parameters(), strict=True):
            mine.grad = None if whole.grad is None else whole.grad[members]
        part.random = random
        return part.to(self.in_mask.device).train(self.training)

    def forward(self, x: Float[Tensor, "K N D"], hidden: Bool[Tensor, "K N D"]) -> Prediction:
        """Reconstruct every cell; all rows attend to all rows, as in training.

        Parameters
        ----------
        x : Tensor
            Encoded rows: standardised numbers, then category codes; NaN = missing.
        hidden : Tensor
            True where the cell is masked. A missing cell is always masked.
        """

        def attend(q: Heads, k: Heads, v: Heads) -> Heads:
            return attention(q, k, v, self._drop_attention)

        return self._run(x, hidden, attend)

    def context(self, x: Float[Tensor, "K C D"]) -> ContextCache:
        """Keys and values of unmasked context rows that attend to one another and to nothing else."""
        cache: ContextCache = []

        def attend(q: Heads, k: Heads, v: Heads) -> Heads:
            _, padded_k, padded_v = same_width(q, k, v)
            cache.append((padded_k.contiguous(), padded_v.contiguous()))
            return attention(q, k, v, None)

        self._run(x, torch.zeros_like(x, dtype=torch.bool), attend)
        return cache

    def query(
        self,
        x: Float[Tensor, "K N D"],
        hidden: Bool[Tensor, "K N D"],
        cache: ContextCache,
        wanted: Int[Tensor, "K N T"],
        self_index: Int[Tensor, "K N"] | None = None,
    ) -> Prediction:
        """Reconstruct rows that attend to the context and to themselves, never to one another.

        Only the ``wanted`` cells of the prediction are valid: the last block skips the others. For rows that are part
        of the context, ``self_index`` is the entry to leave out; -1 for none.
        """
        layers = iter(cache)

        def attend(q: Heads, k: Heads, v: Heads) -> Heads:
            return attention_to_context(q, k, v, *next(layers), self_index)

        return self._run(x, hidden, attend, wanted)

    def context_weights(
        self,
        x: Float[Tensor, "K N D"],
        hidden: Bool[Tensor, "K N D"],
        cache: ContextCache,
        self_index: Int[Tensor, "K N"] | None = None,
    ) -> Float[Tensor, "K N C"]:
        """How much queries attend to each context row: the mean over heads and row-attention blocks.

        The rest up to 1 went to the query row itself. For explanations: slower than :meth:`query`, whose fused kernel
        does not return the weights.
        """
        layers, weights = iter(cache), []

        def attend(q: Heads, k: Heads, v: Heads) -> Heads:
            context_k, context_v = next(layers)
            weights.append(weights_of_context(q, k, context_k, self_index).mean(1))
            return attention_to_context(q, k, v, context_k, context_v, self_index)

        self._run(x, hidden, attend)
        return torch.stack(weights).mean(0)

    def _run(
        self,
        x: Float[Tensor, "K N D"],
        hidden: Bool[Tensor, "K N D"],
        attend: RowAttend,
        wanted: Int[Tensor, "K N T"] | None = None,
    ) -> Prediction:
        run = Pass(attend, self._drop, self._drop_attention)
        cells = run.drop(self._embed(x, hidden | x.isnan()))
        *earlier, last = self.blocks
        for block in earlier:
            cells = block(cells, run)
        return self._predict(last(cells, replace(run, wanted=wanted)))

    def _embed(self, x: Float[Tensor, "K N D"], hidden: Bool[Tensor, "K N D"]) -> Cells:
        """((1 - m) * encoded, m) through each feature's own linear layer, plus index and type embeddings."""
        n_numeric = self.layout.n_numeric
        visible = x.masked_fill(hidden, 0.0)
        parts = [visible[..., :n_numeric, None] * self.in_numeric[:, None]]
        if self.layout.cardinalities:
            codes = visible[..., n_numeric:].long()
            size = self.in_category.shape[1]
            member = torch.arange(len(x), device=x.device)[:, None, None] * size
            rows = F.embedding(codes.clamp(min=0) + self._first_category + member, self.in_category.flatten(0, 1))
            # An unseen category has an all-zero one-hot vector, like a hidden cell.
            parts.append(rows * ((codes != UNSEEN) & ~hidden[..., n_numeric:]).unsqueeze(-1))
        constant = self.in_bias + self.index_embedding + self.type_embedding[:, self._is_category]
        return torch.cat(parts, dim=2) + (hidden.unsqueeze(-1) * self.in_mask[:, None] + constant[:, None])

    def _predict(self, cells: Cells) -> Prediction:
        n_numeric = self.layout.n_numeric
        numeric = (cells[:, :, :n_numeric] * self.out_numeric[:, None]).sum(-1) + self.out_numeric_bias[:, None]
        n_members, n_rows = cells.shape[:2]
        if not self.layout.cardinalities:
            return Prediction(numeric, cells.new_empty(n_members, n_rows, 0, 0))
        logits = torch.matmul(cells[:, :, n_numeric:].transpose(1, 2), self.out_category).transpose(1, 2)
        logits = (logits + self.out_category_bias[:, None]).masked_fill(~self._class_allowed, float("-inf"))
        return Prediction(numeric, torch.log_softmax(logits, dim=-1))

    def _drop(self, values: Float[Tensor, " K *shape"]) -> Float[Tensor, " K *shape"]:
        return self._dropout(values, self.settings.dropout)

    @property
    def _drop_attention(self) -> Dropout | None:
        if not self.training or self.settings.attention_dropout == 0:
            return None
        return AttentionDropout(self.random, self.settings.attention_dropout)

    def _dropout(self, values: Float[Tensor, " K *shape"], probability: float) -> Float[Tensor, " K *shape"]:
        if not self.training or probability == 0:
            return values
        return values * self.random.keep(tuple(values.shape[1:]), probability).to(values.device)


def _weight(random: MemberRandom, shape: tuple[int, ...], fan_in: int) -> nn.Parameter:
    """Uniform within 1/sqrt(fan_in), the usual start of a linear layer.

    If the table has no column of a kind, the weight for that kind is empty; it takes no gradient, since torch would
    warn.
    """
    value = random.uniform(shape, -1 / sqrt(fan_in), 1 / sqrt(fan_in))
    return nn.Parameter(value, requires_grad=value.numel() > 0)


def _constant(random: MemberRandom, width: int, value: float) -> nn.Parameter:
    return nn.Parameter(torch.full((len(random), width), value, device=random.device))


def _block(layer: int, n_features: int, settings: Settings, random: MemberRandom) -> Block:
    dim = settings.embedding_dim
    if layer % 2 == 1 or settings.row_attention == "none":
        return CellBlock(dim, dim, dim, settings.n_heads, random)
    if settings.row_attention == "low_rank":
        return LowRankRowBlock(n_features * dim, settings.rank, dim, settings.n_heads, random)
    return RowBlock(n_features * dim, n_features * dim, n_features * dim, settings.n_heads, random)


class Block(nn.Module):
    """MHSA(H) = Res(H) + rFF(LN(Res(H))) with Res(H) = H W_res + MHSelfAtt(LN(H)), appendix A.

    ``key_width`` numbers make queries and keys of ``key_rank``; values, residual and feed-forward act on ``width``.
    """

    def __init__(self, key_width: int, key_rank: int, width: int, n_heads: int, random: MemberRandom) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm_in_gain, self.norm_in_bias = _constant(random, key_width, 1.0), _constant(random, key_width, 0.0)
        self.w_q = _weight(random, (key_width, key_rank), key_width)
        self.w_k = _weight(random, (key_width, key_rank), key_width)
        self.w_v = _weight(random, (width, width), width)
        self.w_o = _weight(random, (width, width), width)
        self.w_res = _weight(random, (width, width), width)
        self.norm_out_gain, self.norm_out_bias = _constant(random, width, 1.0), _constant(random, width, 0.0)
        self.w_up, self.b_up = _weight(random, (width, 4 * width), width), _weight(random, (4 * width,), width)
        self.w_down, self.b_down = _weight(random, (4 * width, width), 4 * width), _weight(random, (width,), 4 * width)

    def forward(self, cells: Cells, run: Pass) -> Cells:
        """Let the cells attend, between rows or between the cells of each row."""
        raise NotImplementedError

    def _residual_and_feed_forward(
        self, items: Float[Tensor, "K items width"], mixed: Float[Tensor, "K items width"], drop: Dropout
    ) -> Float[Tensor, "K items width"]:
        """The rest of the block for items, rows or cells, given the concatenated heads ``mixed``."""
        res = torch.baddbmm(drop(torch.bmm(mixed, self.w_o)), items, self.w_res)
        normed = _layer_norm(res, self.norm_out_gain, self.norm_out_bias)
        inner = drop(F.gelu(torch.baddbmm(self.b_up[:, None], normed, self.w_up)))
        return res + drop(torch.baddbmm(self.b_down[:, None], inner, self.w_down))


class RowBlock(Block):
    """ABD: rows, flattened to H = D * E, attend to rows."""

    def forward(self, cells: Cells, run: Pass) -> Cells:  # noqa: D102
        rows = cells.flatten(2)
        normed = _layer_norm(rows, self.norm_in_gain, self.norm_in_bias)
        q, k, v = (self._heads(torch.bmm(normed, w)) for w in (self.w_q, self.w_k, self.w_v))
        mixed = run.attend_rows(q, k, v).transpose(1, 2).flatten(2)
        return self._residual_and_feed_forward(rows, mixed, run.drop).view_as(cells)

    def _heads(self, rows: Float[Tensor, "K N _"]) -> Heads:
        return rows.unflatten(2, (self.n_heads, -1)).transpose(1, 2)


class LowRankRowBlock(RowBlock):
    """ABD for wide tables: attention weights come from whole rows, but values are mixed cell by cell.

    Queries and keys are small projections of the flattened row; values, output, residual and feed-forward act on
    each cell with weights shared by all cells, and heads split the embedding. 2 H * rank + 11 E^2 weights instead
    of 13 H^2.
    """

    def forward(self, cells: Cells, run: Pass) -> Cells:  # noqa: D102
        n_members, n_rows, n_features, dim = cells.shape
        normed = _layer_norm(cells.flatten(2), self.norm_in_gain, self.norm_in_bias)
        q, k = (self._heads(torch.bmm(normed, w)) for w in (self.w_q, self.w_k))
        # (K, E, N * D) -> (K, heads, N, width * D) and back: whole rows of D numbers move, not single ones.
        v = torch.bmm(self.w_v.transpose(1, 2), normed.view(n_members, -1, dim).transpose(1, 2))
        v = v.view(n_members, self.n_heads, -1, n_rows, n_features).transpose(2, 3).flatten(3)
        mixed = run.attend_rows(q, k, v).unflatten(3, (-1, n_features)).transpose(2, 3)
        mixed = mixed.reshape(n_members, dim, -1).transpose(1, 2)
        return self._residual_and_feed_forward(cells.flatten(1, 2), mixed, run.drop).view_as(cells)


class CellBlock(Block):
    """ABA: the cells of each row attend to one another."""

    def forward(self, cells: Cells, run: Pass) -> Cells:  # noqa: D102
        n_members, n_rows, _, dim = cells.shape
        # (K, D, N, E) here; its projections, transposed, are then (K, E, D * N) with the rows last.
        items = cells.transpose(1, 2).contiguous()
        normed = _layer_norm(items.flatten(1, 2), self.norm_in_gain, self.norm_in_bias)
        k, v = (self._project(w, normed, n_rows) for w in (self.w_k, self.w_v))
        everything = items
        if run.wanted is not None:
            place = run.wanted.transpose(1, 2).unsqueeze(-1).expand(-1, -1, -1, dim)
            items, normed = everything.gather(1, place), normed.view_as(everything).gather(1, place).flatten(1, 2)
        q = self._project(self.w_q, normed, n_rows)
        mixed = attention_between_cells(q, k, v, run.drop_attention).reshape(n_members, dim, -1).transpose(1, 2)
        result = self._residual_and_feed_forward(items.flatten(1, 2), mixed, run.drop).view_as(items)
        if run.wanted is not None:
            result = torch.zeros_like(everything).scatter_(1, place, result)
        return result.transpose(1, 2)

    def _project(
        self, weight: Float[Tensor, "K E E"], normed: Float[Tensor, "K items E"], n_rows: int
    ) -> Float[Tensor, "K heads width cells N"]:
        """Queries, keys or values of all cells of N rows, with the rows last."""
        projected = torch.bmm(weight.transpose(1, 2), normed.transpose(1, 2))
        return projected.view(len(normed), self.n_heads, weight.shape[1] // self.n_heads, -1, n_rows)


def _layer_norm(
    x: Float[Tensor, "K items width"], gain: Float[Tensor, "K width"], bias: Float[Tensor, "K width"]
) -> Float[Tensor, "K items width"]:
    """LayerNorm over the last axis with a gain and bias for each member."""
    if len(x) == 1:
        return F.layer_norm(x, x.shape[-1:], gain[0], bias[0])
    return torch.addcmul(bias[:, None], F.layer_norm(x, x.shape[-1:]), gain[:, None])
