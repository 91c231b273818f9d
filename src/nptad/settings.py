"""The settings of the method, and the rule that chooses them from the size of a table."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal, get_args

import numpy as np

from nptad.validation import is_number, is_whole, require

RowAttention = Literal["full", "low_rank", "none"]
Aggregation = Literal["mean", "max", "nearest"]

WIDE_ROW = 512
"""Numbers per row (H = features x embedding) above which full row attention, with 13 H^2 weights per block, is too
expensive. Low-rank row attention is less accurate on some tables (results/accuracy.md: letter)."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The hyper-parameters of NPT-AD; letters in brackets are the paper's.

    The field defaults are those of the paper where it has one value for all data sets.
    """

    embedding_dim: int = 16
    """Numbers per cell (e); a multiple of ``n_heads``."""
    n_layers: int = 4
    """Attention blocks, alternating between rows (ABD, first) and cells (ABA)."""
    n_heads: int = 4
    """Attention heads in each block."""
    row_attention: RowAttention = "full"
    """How rows attend to rows: ``"full"`` is the paper's ABD, ``"low_rank"`` its cheap form for wide tables,
    ``"none"`` leaves it out, which makes the model the paper's plain Transformer."""
    rank: int = 64
    """Width of queries and keys in the low-rank row attention."""
    dropout: float = 0.1
    """Dropout on embeddings and hidden layers during training."""
    attention_dropout: float = 0.1
    """Dropout on attention weights during training; with it, a step of a large batch takes about a third longer."""
    n_steps: int = 1000
    """Optimiser steps; with the full batch, a step is an epoch."""
    batch_size: int | None = None
    """Rows per step, None for all training rows."""
    learning_rate: float = 0.01
    """Peak learning rate of LAMB: flat for 70 % of the steps, then a cosine down to 0."""
    mask_rate: float = 0.15
    """Probability that a cell is hidden in a training step (p_mask)."""
    mask_sizes: tuple[int, ...] = (1,)
    """How many cells a mask of the bank hides: (1, ..., r) in the paper."""
    max_masks: int = 10_000
    """Largest mask bank; a bigger one is sampled. If all masks have one size, the sample hides all cells about equally
    often."""
    aggregation: Aggregation = "mean"
    """How the losses under all masks become one score. ``"mean"`` is the paper's, ``"max"`` its authors' on some data
    sets. ``"nearest"`` combines the mean loss with the distance from the nearest training row. Cell losses above 1
    count by their logarithm, so that a few cells do not dominate the score. The distance finds rows whose cells fit one
    another but which are like no training row. Both are divided by a baseline; needs ``scale_masks``."""
    scale_masks: bool = False
    """Divide the loss under each mask by its mean over training rows that the member has not seen, so that cells
    that are hard to predict for every row do not dominate the score."""
    context_size: int | None = None
    """Training rows kept as context for scoring; None for all, otherwise a random subset, drawn anew for each member
    from the detector's ``random_state``. A larger context makes scoring slower and reconstruction hardly better
    (results/context.md). With several members, the search for the nearest row covers 16 times as many rows."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _plain(getattr(self, field.name)))
        for name in ("embedding_dim", "n_layers", "n_heads", "rank", "n_steps", "max_masks"):
            value = getattr(self, name)
            require(is_whole(value) and value >= 1, name, "a whole number of at least 1", value)
        for name in ("batch_size", "context_size"):
            value = getattr(self, name)
            fits = value is None or (is_whole(value) and value >= 2)
            require(fits, name, "None or a whole number of at least 2", value)
        for name in ("dropout", "attention_dropout"):
            value = getattr(self, name)
            require(is_number(value) and 0 <= value < 1, name, "a number of at least 0 and below 1", value)
        rate, speed, sizes = self.mask_rate, self.learning_rate, self.mask_sizes
        require(is_number(rate) and 0 < rate < 1, "mask_rate", "a number between 0 and 1", rate)
        require(is_number(speed) and 0 < speed < float("inf"), "learning_rate", "a number above 0", speed)
        require(isinstance(self.scale_masks, bool), "scale_masks", "True or False", self.scale_masks)
        attention, aggregation = self.row_attention, self.aggregation
        require(attention in get_args(RowAttention), "row_attention", "'full', 'low_rank' or 'none'", attention)
        require(aggregation in get_args(Aggregation), "aggregation", "'mean', 'max' or 'nearest'", aggregation)
        is_scaled = aggregation != "nearest" or self.scale_masks
        require(is_scaled, "aggregation", "'mean' or 'max' unless scale_masks is True", aggregation)
        for name in ("embedding_dim", "rank"):
            value = getattr(self, name)
            require(value % self.n_heads == 0, name, f"a multiple of n_heads={self.n_heads}", value)
        sizes_fit = isinstance(sizes, tuple) and bool(sizes) and all(is_whole(size) and size >= 1 for size in sizes)
        sizes_fit = sizes_fit and len(set(sizes)) == len(sizes)
        require(sizes_fit, "mask_sizes", "different whole numbers of at least 1", sizes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; ``Settings(**d)`` gives the settings back."""
        return dataclasses.asdict(self)


def _plain(value: Any) -> Any:
    """Lists (as JSON has them) and NumPy scalars (as parameter grids have them) as plain values."""
    if isinstance(value, list | tuple | range | np.ndarray):
        return tuple(_plain(part) for part in value)
    return value.item() if isinstance(value, np.generic) else value


def default_settings(n_rows: int, n_features: int, embedding_dim: int | None = None) -> Settings:
    """The library's settings for a training table of this size; one rule for all tables, no labels involved.

    As in most rows of the paper's table: learning rate 0.01, masking probability 0.15, embedding 16. The differences:

    - Embedding 8 for tables of fewer than 100 rows or more than 12 columns: several times faster, no less accurate.
    - No dropout on attention weights: no measurable difference, and faster.
    - Up to 512 rows, 150 steps of the whole table. More steps overfit: the loss on left-out training rows rises again.
    - Above 512 rows, 2000 steps of 128 rows; fewer and larger steps leave a higher loss on left-out rows. For more than
      64 columns, this starts above 256 rows and takes 1000 steps.
    - Low-rank row attention where full row attention would be too expensive.
    - Masks of as many cells as a training step hides on average; with more cells hidden, the model would see less than
      in training. Only so many masks that each cell is hidden three times (or once, in masks of one cell).
    - Losses divided by the baseline of their mask, so that a column that cannot be predicted does not dominate the
      score. The paper's authors standardise masks on four data sets, with test rows; results/README.md compares the
      rules.
    - Large losses count by their logarithm, and the distance from the nearest training row is part of the score: both
      find more of the anomalies that results/synthetic.md makes from training rows.

    Examples
    --------
    >>> wide = default_settings(5000, 100)
    >>> wide.row_attention, wide.mask_sizes, wide.max_masks
    ('low_rank', (15,), 20)
    """
    if embedding_dim is None:
        embedding_dim = 8 if n_rows < 100 or n_features > 12 else 16
    narrow = n_features <= 64
    whole = n_rows <= (512 if narrow else 256)
    hidden = max(1, round(Settings.mask_rate * n_features))
    return Settings(
        embedding_dim=embedding_dim,
        row_attention="full" if n_features * embedding_dim <= WIDE_ROW else "low_rank",
        attention_dropout=0.0,
        n_steps=150 if whole else 2000 if narrow else 1000,
        batch_size=None if whole else 128,
        mask_sizes=(hidden,),
        max_masks=Settings.max_masks if hidden == 1 else ceil(3 * n_features / hidden),
        aggregation="nearest",
        scale_masks=True,
        context_size=None if n_rows <= 4096 else 4096,
    )


def default_members(n_rows: int) -> int:
    """Ensemble size for a training table of ``n_rows``: with more rows, a larger ensemble gains less for its time."""
    if n_rows < 8:
        return 1
    if n_rows <= 500:
        return 8
    return 4 if n_rows <= 10_000 else 2
