"""Training of the retrieving network: masked queries against unmasked context, as when it scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nptad.nn.retrieval import RetrievalNetwork, RetrievalSizes

_MOST_STEPS, _FEWEST_STEPS = 150, 40
_CELLS = 10_000
"""Steps times columns, between these."""


@dataclass(frozen=True)
class RetrievalTraining:
    """How the network is trained."""

    steps: int
    rate: float = 1e-2
    queries: int = 128
    """Query rows of a step; a cell of each is predicted."""
    context: int = 256
    """Context rows of a step; the first of them are the queries."""
    also_hidden: float = 0.15
    """Share of the other cells that are hidden."""
    decay: float = 1e-3

    @classmethod
    def of(cls, n_columns: int) -> RetrievalTraining:
        """For a table: the cost of a step is proportional to the columns, so wide tables get fewer steps.

        Examples
        --------
        >>> [RetrievalTraining.of(n_columns).steps for n_columns in (10, 100, 2000)]
        [150, 100, 40]
        """
        return cls(steps=min(_MOST_STEPS, max(_FEWEST_STEPS, _CELLS // n_columns)))


def train_retrieval(sizes: RetrievalSizes, x: np.ndarray, seeds: list[int], how: RetrievalTraining) -> Tensor:
    """Train members side by side, each with its own random numbers.

    Parameters
    ----------
    sizes : RetrievalSizes
    x : ndarray of shape (N, D)
        Encoded rows.
    seeds : list of K integers
    how : RetrievalTraining

    Returns
    -------
    Tensor of shape (K, P)
        The weights of :class:`~nptad.nn.retrieval.RetrievalNetwork`.
    """
    weights = RetrievalNetwork.start(sizes, x, seeds).requires_grad_()
    randoms = [np.random.default_rng(seed) for seed in seeds]
    optimiser = torch.optim.AdamW([weights], lr=how.rate, betas=(0.9, 0.98), weight_decay=how.decay)
    n_context = min(how.context, len(x))
    n_queries = min(how.queries, n_context)
    everything = torch.from_numpy(x)
    for step in range(how.steps):
        optimiser.param_groups[0]["lr"] = how.rate * min(1, (step + 1) / 20) * _cosine(step / how.steps)
        drawn = np.stack([random.permutation(len(x))[:n_context] for random in randoms])
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
    nothing = torch.zeros(1, 1, 1, dtype=torch.bool)
    logits = network.logits(network.project(query, hidden), network.project(context, nothing))
    own = torch.zeros(n, context.shape[1], dtype=torch.bool).fill_diagonal_(True)
    member = torch.arange(k)[:, None]
    visible = query.masked_fill(hidden, math.nan)
    value = query.gather(2, column[..., None])[..., 0]
    values = context.transpose(1, 2)[member, column].masked_fill(own, math.nan)
    residual = network.residuals_in(column, value[..., None].expand(k, n, n), visible).diagonal(dim1=1, dim2=2)
    others = values, network.residuals_in(column, values, context)
    density = network.densities(column, logits, (value, residual), others)
    observed = ~value.isnan()
    return -(torch.where(observed, density, 1.0).clamp(min=1e-30).log()).sum(1) / observed.sum(1).clamp(min=1)


def _cosine(share: float) -> float:
    return 0.5 + 0.5 * math.cos(math.pi * share)
