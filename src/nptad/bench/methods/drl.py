"""DRL (Ye et al. 2025): normal rows are embedded as mixtures of a few fixed directions; anomalies do not fit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from nptad.bench.methods.deep import TINY, DeepBaseline, leaky_relu, mlp
from nptad.errors import InputError


@dataclass(kw_only=True, eq=False)
class DRL(DeepBaseline):
    """Decomposed representation learning.

    Ye, Zhao, Fan, Zhou, Guo and Chang, *DRL: Decomposed Representation Learning for Tabular Anomaly Detection*, ICLR
    2025. One network embeds a row, another one gives weights, and the sum of fixed random orthonormal vectors with
    these weights has to equal the embedding. A separation loss spreads the weights of normal rows; a decoder keeps the
    embedding informative (alignment loss). The score is the squared distance between embedding and weighted sum.

    The idea is the paper's; losses, networks and settings are those of its authors' repository (HangtingYe/DRL). There
    the weights are not normalised, the separation loss is the mean cosine between the weights of two rows, the
    alignment loss is 1 minus the cosine between a row and its linear decoding, and the decomposition is relative to the
    length of the embedding where that is below 1. From its configuration: 5 vectors of 128 dimensions, 128 units, Adam
    with learning rate 0.05 times 0.98 per epoch, batches of 512. From its example command (for arrhythmia): the weights
    of the losses. The authors choose epochs (200 unless said otherwise), weights and scaling for each data set; here
    they are the same for all. Our choices: standardised columns; the separation of all rows of a batch instead of a
    random 80 %; no weight decay (theirs is 0.00001); at most 2000 steps, which is less than 200 epochs above 5120 rows.
    """

    n_epochs: int = 200
    batch_size: int = 512
    learning_rate: float = 0.05
    decay: float = 0.98
    n_vectors: int = 5  # orthonormal vectors
    hidden: int = 128  # units of each hidden layer
    embedding: int = 128  # dimensions of an embedded row; at least ``n_vectors``
    separation_weight: float = 0.06  # weight of the separation loss; the decomposition has weight 1
    alignment_weight: float = 0.1  # weight of the alignment loss

    def _build(self, n_rows: int, n_columns: int) -> nn.Module:
        if self.n_vectors > self.embedding:
            raise InputError(f"embedding must be at least {self.n_vectors}, the number of orthogonal vectors.")
        return Decomposer(n_columns, self.n_vectors, self.hidden, self.embedding)

    def _loss(self, network: Decomposer, rows: Tensor, progress: float, generator: torch.Generator) -> Tensor:
        embedded, weights, distances = network(rows)
        decomposition = distances / embedded.square().sum(1).clamp(TINY, 1)
        alignment = 1 - functional.cosine_similarity(network.decoder(embedded), rows, dim=1)
        return (
            decomposition.mean()
            + self.separation_weight * separation_loss(weights)
            + self.alignment_weight * alignment.mean()
        )

    def _score_rows(self, network: Decomposer, rows: Tensor) -> Tensor:
        return network(rows)[2]


class Decomposer(nn.Module):
    """An encoder, a decoder, and the weights of fixed orthonormal vectors."""

    vectors: Tensor

    def __init__(self, n_columns: int, n_vectors: int, hidden: int, embedding: int) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.linalg.qr(torch.randn(embedding, n_vectors))[0].T.contiguous())
        self.encoder = nn.Sequential(*mlp([n_columns, hidden, embedding], leaky_relu, bias=False), leaky_relu())
        self.weigher = mlp([n_columns, hidden, n_vectors], leaky_relu, bias=False)
        self.decoder = nn.Linear(embedding, n_columns, bias=False)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The embedded rows, their weights of the vectors, and the squared distance to the weighted sum of these."""
        embedded, weights = self.encoder(rows), self.weigher(rows)
        return embedded, weights, (embedded - weights @ self.vectors).square().sum(1)


def separation_loss(weights: Tensor) -> Tensor:
    """The sum of the cosines between the weights of two different rows, over the squared number of rows."""
    units = functional.normalize(weights, dim=1)
    return (units.sum(0).square().sum() - units.square().sum()) / len(units) ** 2
