"""MCM (Yin et al. 2024): rebuild a row from several learnt, diverse ways of hiding parts of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor, nn
from torch.nn import functional

from nptad.baselines.deep import DeepBaseline, mlp


@dataclass(kw_only=True, eq=False)
class MCM(DeepBaseline):
    """Masked cell modelling with learnt masks.

    Yin, Qiao, Zhou, Wang and Yang, *MCM: Masked Cell Modeling for Anomaly Detection in Tabular Data*, ICLR 2024. From a
    row, a generator makes K soft masks. The row times each mask goes through an autoencoder that is to return the whole
    row; a diversity loss keeps the masks apart. The score is the squared error, averaged over the masks.

    From the paper: the losses and the score. From the configuration in its authors' repository, which is that for wbc:
    K = 15 masks, generator, encoder and decoder of three layers with 256 units and 128 in the middle, Adam with
    learning rate 0.05 times 0.98 per epoch, 200 epochs of batches of 512. From memory, unchecked: leaky ReLUs,
    temperature 0.1, weight 20 of the diversity loss (5 in that configuration; it differs by data set). Our choice:
    columns standardised; at most 400 steps, which is less than 200 epochs above 1024 rows.

    Parameters
    ----------
    n_epochs, batch_size, learning_rate, max_steps, random_state, device, verbose
        See :class:`~nptad.baselines.deep.DeepBaseline`.
    n_masks : int, default 15
        K, the learnt masks.
    hidden : int, default 256
        Units of each hidden layer.
    latent : int, default 128
        Dimensions between encoder and decoder.
    temperature : float, default 0.1
        Divides the cosines between masks.
    diversity_weight : float, default 20.0
        Of the diversity loss; the squared error has weight 1.
    decay : float, default 0.98
        Factor on the learning rate per epoch.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> normal, odd = MCM(n_epochs=5, hidden=32, random_state=0).fit(x).score([[0, 0, 0], [5, -5, 5]])
    >>> bool(odd > normal)
    True
    """

    n_epochs: int = 200
    batch_size: int = 512
    learning_rate: float = 0.05
    max_steps: int = 400
    n_masks: int = 15
    hidden: int = 256
    latent: int = 128
    temperature: float = 0.1
    diversity_weight: float = 20.0
    decay: float = 0.98

    def _decay(self) -> float:
        return self.decay

    def _build(self, n_rows: int, n_columns: int) -> nn.Module:
        return MaskedAutoencoder(n_columns, self.n_masks, self.hidden, self.latent)

    def _loss(self, network: MaskedAutoencoder, rows: Tensor, progress: float, generator: torch.Generator) -> Tensor:
        masks, rebuilt = network(rows)
        diversity = diversity_losses(masks, self.temperature)
        return squared_errors(rebuilt, rows).mean() + self.diversity_weight * diversity.mean()

    def _score_rows(self, network: MaskedAutoencoder, rows: Tensor) -> Tensor:
        return squared_errors(network(rows)[1], rows)


class MaskedAutoencoder(nn.Module):
    """The mask generator, and the autoencoder that all masks share."""

    def __init__(self, n_columns: int, n_masks: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.n_masks = n_masks
        self.generator = mlp([n_columns, hidden, hidden, n_masks * n_columns], nn.LeakyReLU)
        self.encoder = mlp([n_columns, hidden, hidden, latent], nn.LeakyReLU)
        self.decoder = mlp([latent, hidden, hidden, n_columns], nn.LeakyReLU)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The masks, and the rows rebuilt from what they let through, each (rows, masks, columns)."""
        masks = self.generator(rows).unflatten(1, (self.n_masks, -1)).sigmoid()
        return masks, self.decoder(self.encoder(masks * rows[:, None]))


def squared_errors(rebuilt: Tensor, rows: Tensor) -> Tensor:
    """Of each row, summed over its columns, averaged over the masks."""
    return (rebuilt - rows[:, None]).square().sum(2).mean(1)


def diversity_losses(masks: Tensor, temperature: float) -> Tensor:
    """Of each row: log of the sum of exp(cosine / temperature) with all other masks, summed over the masks, scaled.

    The paper's scale is 1 / |K log(exp(1 / temperature) / K)|: near 1 if all masks are equal.
    """
    n_masks = masks.shape[1]
    masks = functional.normalize(masks, dim=2)
    is_itself = torch.eye(n_masks, dtype=torch.bool, device=masks.device)
    logits = (masks @ masks.mT / temperature).masked_fill(is_itself, -torch.inf)
    return logits.logsumexp(2).sum(1) / abs(n_masks * (1 / temperature - log(n_masks)))
