"""DRL (Ye et al. 2025): normal rows are embedded as mixtures of a few fixed directions; anomalies do not fit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nptad.baselines.deep import DeepBaseline, mlp
from nptad.errors import InputError


@dataclass(kw_only=True, eq=False)
class DRL(DeepBaseline):
    """Decomposed representation learning.

    Ye, Zhao, Fan, Zhou, Guo and Chang, *DRL: Decomposed Representation Learning for Tabular Anomaly Detection*, ICLR
    2025. One network embeds a row, another one gives it weights, and the weighted sum of fixed random orthonormal
    vectors is to equal the embedding. A separation loss spreads the weights of normal rows, a decoder keeps the
    embedding informative (alignment loss). The score is the squared distance between embedding and weighted sum.

    From the paper: the three losses and the score. From the configuration and the example command (for arrhythmia) in
    its authors' repository: 5 vectors of 128 dimensions, networks of three layers with 128 units, learning rate times
    0.98 per epoch, batches of 512, weights of the losses. There epochs (200 unless said otherwise), weights and scaling
    are chosen for each data set; here they are the same for all. From memory, unchecked: leaky ReLUs, Adam. Our
    choice: weights through a softmax; learning rate 0.01 (with theirs, 0.05, the loss on training rows ends far higher,
    and on small tables the softmax gives all rows the same weights); columns standardised; at most 2000 steps, which is
    less than 200 epochs above 5120 rows.

    Parameters
    ----------
    n_epochs, batch_size, learning_rate, max_steps, random_state, device, verbose
        See :class:`~nptad.baselines.deep.DeepBaseline`.
    n_vectors : int, default 5
        Orthonormal vectors.
    hidden : int, default 128
        Units of each hidden layer.
    embedding : int, default 128
        Dimensions of an embedded row; at least ``n_vectors``.
    separation_weight : float, default 0.06
        Of the separation loss; the decomposition has weight 1.
    alignment_weight : float, default 0.1
        Of the alignment loss.
    decay : float, default 0.98
        Factor on the learning rate per epoch.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> normal, odd = DRL(n_epochs=20, random_state=0).fit(x).score([[0, 0, 0], [5, -5, 5]])
    >>> bool(odd > normal)
    True
    """

    n_epochs: int = 200
    batch_size: int = 512
    learning_rate: float = 0.01
    n_vectors: int = 5
    hidden: int = 128
    embedding: int = 128
    separation_weight: float = 0.06
    alignment_weight: float = 0.1
    decay: float = 0.98

    def _decay(self) -> float:
        return self.decay

    def _build(self, n_rows: int, n_columns: int) -> nn.Module:
        if self.n_vectors > self.embedding:
            raise InputError(f"{self.n_vectors} orthogonal vectors need an embedding of as many dimensions at least.")
        return Decomposer(n_columns, self.n_vectors, self.hidden, self.embedding)

    def _loss(self, network: Decomposer, rows: Tensor, progress: float, generator: torch.Generator) -> Tensor:
        embedded, weights = network(rows)
        decomposition = (embedded - weights @ network.vectors).square().sum(1).mean()
        alignment = (network.decoder(embedded) - rows).square().sum(1).mean()
        return decomposition + self.separation_weight * separation_loss(weights) + self.alignment_weight * alignment

    def _score_rows(self, network: Decomposer, rows: Tensor) -> Tensor:
        embedded, weights = network(rows)
        return (embedded - weights @ network.vectors).square().sum(1)


class Decomposer(nn.Module):
    """An encoder, a decoder, and the weights of fixed orthonormal vectors."""

    vectors: Tensor

    def __init__(self, n_columns: int, n_vectors: int, hidden: int, embedding: int) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.linalg.qr(torch.randn(embedding, n_vectors))[0].T.contiguous())
        self.encoder = mlp([n_columns, hidden, hidden, embedding], nn.LeakyReLU)
        self.weigher = mlp([n_columns, hidden, hidden, n_vectors], nn.LeakyReLU)
        self.decoder = mlp([embedding, hidden, hidden, n_columns], nn.LeakyReLU)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The embedded rows, (rows, embedding), and their weights of the vectors, (rows, vectors)."""
        return self.encoder(rows), self.weigher(rows).softmax(1)


def separation_loss(weights: Tensor) -> Tensor:
    """Minus the mean squared distance between the weights of two rows.

    All pairs: the mean of |a - b|^2 is twice the variance.
    """
    return -2 * (weights - weights.mean(0)).square().sum(1).mean()
