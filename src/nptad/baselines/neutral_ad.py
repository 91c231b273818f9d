"""NeuTraL-AD (Qiu et al. 2021): learnt views of a row that are alike, but not too much; less so for an anomaly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from nptad.baselines.deep import DeepBaseline, mlp
from nptad.baselines.scaling import Scaling


@dataclass(kw_only=True, eq=False)
class NeuTraLAD(DeepBaseline):
    """Neural transformation learning, with the settings for "arrhythmia".

    Qiu, Pfrommer, Kloft, Mandt and Rudolph, *Neural Transformation Learning for Deep Anomaly Detection Beyond Images*,
    ICML 2021. Each of K learnt networks multiplies the cells of a row by numbers in (0, 1). An encoder, trained with
    them, brings each of these views near to the row itself and away from the other views (deterministic contrastive
    loss). The loss is the score.

    From the paper: the loss, multiplicative views through a sigmoid, bias-free ReLU networks. From memory, unchecked:
    temperature 0.1; K = 11 views of three layers for arrhythmia; an encoder of five layers, 32 units in the last; 200
    epochs of batches of 64, learning rate 0.001. Our choice: 64 units in the encoder's other layers; a view's layers as
    wide as the row; columns scaled to 0..1, since cosines of bias-free networks hardly see how long a vector is and
    with the mean row at the origin far outliers can go unseen; small tables get the 600 steps of arrhythmia; at most
    2000 steps, which is less than 200 epochs above 640 rows.

    Parameters
    ----------
    n_epochs, batch_size, learning_rate, max_steps, random_state, device, verbose
        See :class:`~nptad.baselines.deep.DeepBaseline`.
    n_views : int, default 11
        K, the learnt transformations.
    hidden : int, default 64
        Units of each of the encoder's four hidden layers.
    embedding : int, default 32
        Dimensions of an encoded view.
    temperature : float, default 0.1
        Divides the cosines.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> normal, odd = NeuTraLAD(max_steps=200, random_state=0).fit(x).score([[0, 0, 0], [5, -5, 5]])
    >>> bool(odd > normal)
    True
    """

    n_epochs: int = 200
    batch_size: int = 64
    learning_rate: float = 0.001
    n_views: int = 11
    hidden: int = 64
    embedding: int = 32
    temperature: float = 0.1

    _scaling: ClassVar[Scaling] = "minmax"
    _min_steps: ClassVar[int] = 600

    def _build(self, n_rows: int, n_columns: int) -> nn.Module:
        return ViewEncoder(n_columns, self.n_views, [self.hidden] * 4 + [self.embedding])

    def _loss(self, network: ViewEncoder, rows: Tensor, progress: float, generator: torch.Generator) -> Tensor:
        return contrastive_losses(network(rows), self.temperature).mean()

    def _score_rows(self, network: ViewEncoder, rows: Tensor) -> Tensor:
        return contrastive_losses(network(rows), self.temperature)


class ViewEncoder(nn.Module):
    """Encodes a row and its K views."""

    def __init__(self, n_columns: int, n_views: int, encoder: list[int]) -> None:
        super().__init__()
        shape, bound = (n_views, n_columns, n_columns), n_columns**-0.5
        self.first = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.second = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.third = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.encoder = mlp([n_columns, *encoder], bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        """The encoded row, then its encoded views, (rows, 1 + K, embedding)."""
        views = rows * (((rows @ self.first).relu() @ self.second).relu() @ self.third).sigmoid()
        return self.encoder(torch.cat([rows[None], views])).transpose(0, 1)


def contrastive_losses(encoded: Tensor, temperature: float) -> Tensor:
    """Deterministic contrastive loss of each row, summed over its views.

    With h(a, b) = exp(cos(a, b) / temperature), a view's is -log of h(view, row) / (h(view, row) + sum of h(view, other
    view)).
    """
    encoded = functional.normalize(encoded, dim=2)
    logits = encoded[:, 1:] @ encoded.mT / temperature
    is_itself = torch.ones(logits.shape[1:], dtype=torch.bool, device=logits.device).triu(1).tril(1)
    return (logits.masked_fill(is_itself, -torch.inf).logsumexp(2) - logits[:, :, 0]).sum(1)
