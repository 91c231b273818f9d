"""The pipeline as the paper words it, written straightforwardly in PyTorch.

This is the yardstick for speed, not a strawman: ordinary modules, one linear layer per feature as in the
paper's appendix B, one optimiser loop over the parameters, and scoring as in its figure 1: for each mask,
for each batch of ten validation rows, one forward pass of [masked rows; whole training set].
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

VALIDATION_BATCH = 10


class SelfAttentionBlock(nn.Module):
    """MHSA(H) = Res(H) + rFF(LN(Res(H))), Res(H) = H W_res + MHSelfAtt(LN(H)) (appendix A)."""

    def __init__(self, width: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm_in, self.norm_out = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out, self.residual = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )
        self.attention_dropout, self.hidden_dropout = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """Attend between the items of ``rows``, shape (batch, items, width)."""
        batch, items, width = rows.shape
        normed = self.norm_in(rows)
        q, k, v = (
            layer(normed).view(batch, items, self.n_heads, width // self.n_heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) / (width // self.n_heads) ** 0.5, dim=-1)
        mixed = (self.attention_dropout(weights) @ v).transpose(1, 2).reshape(batch, items, width)
        res = self.residual(rows) + self.hidden_dropout(self.out(mixed))
        return res + self.feed_forward(self.norm_out(res))


class LiteralNPT(nn.Module):
    """The Non-Parametric Transformer on numeric features: per-feature embeddings, then ABD and ABA in turn."""

    def __init__(
        self, n_features: int, embedding_dim: int, n_layers: int = 4, n_heads: int = 4, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.n_features, self.embedding_dim = n_features, embedding_dim
        self.in_embedding = nn.ModuleList(nn.Linear(2, embedding_dim) for _ in range(n_features))
        self.index_embedding = nn.Embedding(n_features, embedding_dim)
        self.type_embedding = nn.Embedding(1, embedding_dim)
        self.dropout = nn.Dropout(dropout)
        widths = [n_features * embedding_dim if layer % 2 == 0 else embedding_dim for layer in range(n_layers)]
        self.blocks = nn.ModuleList(SelfAttentionBlock(width, n_heads, dropout) for width in widths)
        self.out_embedding = nn.ModuleList(nn.Linear(embedding_dim, 1) for _ in range(n_features))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Reconstruct every cell of ``x`` (rows, features) from the cells where ``mask`` is 0."""
        encoded = torch.stack(((1 - mask) * x, mask), dim=-1)
        cells = torch.stack([linear(encoded[:, j]) for j, linear in enumerate(self.in_embedding)], dim=1)
        cells = cells + self.index_embedding.weight + self.type_embedding.weight
        cells = self.dropout(cells)
        for layer, block in enumerate(self.blocks):
            between_rows = layer % 2 == 0
            cells = block(cells.flatten(1)[None])[0].view_as(cells) if between_rows else block(cells)
        return torch.cat([linear(cells[:, j]) for j, linear in enumerate(self.out_embedding)], dim=1)


class LiteralLamb:
    """LAMB, one parameter tensor after the other, with Lookahead around it."""

    def __init__(
        self, parameters: list[Tensor], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6
    ) -> None:
        self.parameters, self.lr, self.betas, self.eps = parameters, lr, betas, eps
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]
        self.slow = [p.detach().clone() for p in parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self) -> None:
        """One update; every sixth also moves the slow weights half-way."""
        self.steps += 1
        beta1, beta2 = self.betas
        for p, m, v, slow in zip(self.parameters, self.first, self.second, self.slow, strict=True):
            m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
            v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
            m_hat = m / (1 - beta1**self.steps)
            v_hat = v / (1 - beta2**self.steps)
            update = m_hat / (v_hat.sqrt() + self.eps)
            p_norm, u_norm = p.norm().item(), update.norm().item()
            trust = p_norm / u_norm if p_norm > 0 and u_norm > 0 else 1.0
            p.add_(update, alpha=-self.lr * trust)
            if self.steps % 6 == 0:
                slow.add_(p - slow, alpha=0.5)
                p.copy_(slow)


def train_step(model: LiteralNPT, optimiser: LiteralLamb, rows: Tensor, mask_rate: float) -> float:
    """One full-batch step of masked reconstruction."""
    mask = (torch.rand_like(rows) < mask_rate).float()
    predicted = model(rows, mask)
    loss = torch.zeros(())
    for j in range(rows.shape[1]):
        loss = loss + ((predicted[:, j] - rows[:, j]) ** 2 * mask[:, j]).sum()
    loss = loss / mask.sum()
    for p in model.parameters():
        p.grad = None
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return loss.item()


@torch.no_grad()
def score_mask(model: LiteralNPT, context: Tensor, rows: Tensor, features: tuple[int, ...]) -> Tensor:
    """Loss of every row under one mask, ten rows at a time beside the whole training set."""
    losses = []
    for batch in rows.split(VALIDATION_BATCH):
        together = torch.cat((batch, context))
        mask = torch.zeros_like(together)
        mask[: len(batch), list(features)] = 1.0
        predicted = model(together, mask)
        loss = torch.zeros(len(batch))
        for j in features:
            loss = loss + (predicted[: len(batch), j] - batch[:, j]) ** 2
        losses.append(loss / len(features))
    return torch.cat(losses)


def score(model: LiteralNPT, context: Tensor, rows: Tensor, max_masked: int) -> Tensor:
    """The NPT-AD score: mean loss over all masks of at most ``max_masked`` features."""
    n_features = rows.shape[1]
    masks = [s for size in range(1, max_masked + 1) for s in itertools.combinations(range(n_features), size)]
    return torch.stack([score_mask(model, context, rows, features) for features in masks]).mean(dim=0)
