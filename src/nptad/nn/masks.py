"""Which cells are hidden: the deterministic mask bank of the anomaly score."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from math import comb

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from nptad.errors import InputError, MaskBankWarning, warn


def bank_size(n_features: int, sizes: Iterable[int]) -> int:
    """Number of masks in the full bank: the sum of C(d, k) over the subset sizes.

    Examples
    --------
    >>> bank_size(9, range(1, 5)), bank_size(30, range(1, 4))
    (255, 4525)
    """
    return sum(comb(n_features, size) for size in sizes)


def usable_sizes(n_features: int, sizes: Iterable[int]) -> tuple[int, ...]:
    """Drop the subset sizes that a table of ``n_features`` columns does not have."""
    kept = tuple(size for size in sizes if 1 <= size <= n_features)
    if not kept:
        raise InputError(
            f"No mask size in {tuple(sizes)} fits a table of {n_features} usable columns; use sizes from 1 up."
        )
    return kept


def mask_bank(n_features: int, sizes: Iterable[int], max_masks: int, seed: int) -> Bool[Tensor, "M D"]:
    """All subsets of the given sizes, True = hidden.

    If there are more than ``max_masks``, the bank is a sample without repetition, drawn from ``seed``. If all subsets
    have one size, the sample hides all cells about equally often; otherwise it is uniform. A uniform sample, or one too
    small to hide every cell, gives a :class:`~nptad.errors.MaskBankWarning`.

    Examples
    --------
    >>> mask_bank(3, (1, 2), max_masks=100, seed=0).int().tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]]
    >>> mask_bank(20, (4,), max_masks=15, seed=0).sum(0).tolist()
    [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]
    """
    sizes = usable_sizes(n_features, sizes)
    total = bank_size(n_features, sizes)
    if total <= max_masks:
        subsets = [s for size in sizes for s in itertools.combinations(range(n_features), size)]
    elif len(sizes) == 1:
        if max_masks * sizes[0] < n_features:
            warn(
                f"max_masks={max_masks:,} masks of {sizes[0]:,} cells leave some of the {n_features:,} columns out of "
                f"the score; take at least {-(-n_features // sizes[0]):,}.",
                MaskBankWarning,
            )
        subsets = _deal_subsets(n_features, sizes[0], max_masks, np.random.default_rng(seed))
    else:
        warn(
            f"The mask bank has {total:,} masks; a random sample of max_masks={max_masks:,} of them is used.",
            MaskBankWarning,
        )
        subsets = _sample_subsets(n_features, sizes, max_masks, np.random.default_rng(seed))
    bank = torch.zeros(len(subsets), n_features, dtype=torch.bool)
    for row, subset in zip(bank, subsets, strict=True):
        row[list(subset)] = True
    return bank


def _deal_subsets(n_features: int, size: int, count: int, random: np.random.Generator) -> list[tuple[int, ...]]:
    """Subsets of one size: the features are shuffled and dealt out, again and again; duplicate subsets are dropped."""
    chosen: set[tuple[int, ...]] = set()
    deck: list[int] = []
    while len(chosen) < count:
        hand, deck = deck[:size], deck[size:]
        if len(hand) < size:
            fresh = random.permutation(n_features).tolist()
            more = [feature for feature in fresh if feature not in hand][: size - len(hand)]
            hand, deck = hand + more, [feature for feature in fresh if feature not in more]
        chosen.add(tuple(sorted(hand)))
    return sorted(chosen)


def _sample_subsets(
    n_features: int, sizes: tuple[int, ...], count: int, random: np.random.Generator
) -> list[tuple[int, ...]]:
    """Uniform over the whole bank: a size in proportion to its number of subsets, then a subset of that size."""
    total = bank_size(n_features, sizes)
    weights = np.array([comb(n_features, size) / total for size in sizes])
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < count:
        size = int(random.choice(sizes, p=weights / weights.sum()))
        chosen.add(tuple(sorted(random.choice(n_features, size, replace=False).tolist())))
    return sorted(chosen, key=lambda subset: (len(subset), subset))
