"""Training of the retrieving network: masked queries against unmasked context, as when it scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nptad.nn.retrieval import RetrievalNetwork, RetrievalSizes


@dataclass(frozen=True)
class RetrievalTraining:
    """How the network is trained."""

    steps: int = 150
    rate: float = 1e-2
    queries: int = 128
    """Query rows of a step; a cell of each is predicted."""
    context: int = 256
    """Context rows of a step; the first of them are the queries."""
    also_hidden: float = 0.15
    """Share of the other cells that are hidden."""
    decay: float = 1e-3


def train_retrieval(
    sizes: RetrievalSizes, x: np.ndarray, kept: np.ndarray, seeds: list[int], how: RetrievalTraining
) -> Tensor:
    """Train members side by side.

    Parameters
    ----------
    sizes : RetrievalSizes
    x : ndarray of shape (N, D)
        Encoded rows.
    kept : ndarray of shape (K, C)
        The rows that each member may see.
    seeds : list of K integers
    how : RetrievalTraining

    Returns
    -------
    Tensor of shape (K, P)
        The weights of :class:`~nptad.nn.retrieval.RetrievalNetwork`.
    """
    weights = RetrievalNetwork.start(sizes, [x[rows] for rows in kept], seeds).requires_grad_()
    randoms = [np.random.default_rng(seed) for seed in seeds]
    optimiser = torch.optim.AdamW([weights], lr=how.rate, betas=(0.9, 0.98), weight_decay=how.decay)
    n_context = min(how.context, kept.shape[1])
    n_queries = min(how.queries, n_context)
    everything = torch.from_numpy(x)
    for step in range(how.steps):
        optimiser.param_groups[0]["lr"] = how.rate * min(1, (step + 1) / 20) * _cosine(step / how.steps)
        drawn = np.stack([random.permutation(rows)[:n_context] for rows, random in zip(kept, randoms, strict=True)])
        context = everything[torch.from_numpy(drawn)]
        shape = (n_queries, x.shape[1])
        lottery = torch.from_numpy(np.stack([random.random(shape, dtype=np.float32) for random in randoms]))
        loss = hidden_cell_loss(RetrievalNetwork(sizes, weights), context, lottery, how.also_hidden)
        (gradient,) = torch.autograd.grad(loss.sum(), weights)
        weights.grad = gradient / gradient.norm(dim=1, keepdim=True).clamp(min=1)  # clipped for each member alone
        optimiser.step()
    return weights.detach()


def hidden_cell_loss(network: RetrievalNetwork, context: Tensor, lottery: Tensor, also_hidden: float) -> Tensor:
    """Minus the mean log density of one hidden cell of each query row, (K,).

    The queries are the first rows of the context (K, C, D). Their numbers in the ``lottery`` (K, N, D) decide: the
    observed cell with the lowest is predicted, those below ``also_hidden`` are hidden too.
    """
    k, n, _ = lottery.shape
    query = context[:, :n]
    lottery = lottery.masked_fill(query.isnan(), 2.0)
    column = lottery.argmin(-1)
    hidden = (lottery < also_hidden).scatter(2, column[..., None], True)
    cells = network.cells(query, hidden).sum(2)
    keys = network.cells(context, torch.zeros_like(context, dtype=torch.bool)).sum(2)
    logits = network.logits(cells, keys)
    own = torch.zeros(n, context.shape[1], dtype=torch.bool).fill_diagonal_(True)
    member = torch.arange(k)[:, None]
    everyone = network.residuals(context)
    seen = network.residuals(query.masked_fill(hidden.scatter(2, column[..., None], False), float("nan")))
    cell = tuple(rows.gather(2, column[..., None])[..., 0] for rows in (query, seen))
    others = tuple(rows.transpose(1, 2)[member, column].masked_fill(own, float("nan")) for rows in (context, everyone))
    density = network.densities(column, logits, (cell[0], cell[1]), (others[0], others[1]))
    observed = ~cell[0].isnan()
    return -(torch.where(observed, density, 1.0).clamp(min=1e-30).log()).sum(1) / observed.sum(1).clamp(min=1)


def _cosine(share: float) -> float:
    return 0.5 + 0.5 * math.cos(math.pi * share)
