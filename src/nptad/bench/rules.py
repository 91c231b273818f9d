"""Scoring rules: ways to make one score of the losses under all masks, for the study that compares them.

A rule gets the losses (n, M) of the rows to score and those of training rows (t, M), each with its self index left out
of the context.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nptad.scoring.score import SCALE_FLOOR
from nptad.settings import Aggregation

ScoringRule = Callable[[np.ndarray, np.ndarray], np.ndarray]


def scaled(losses: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Losses divided by the mean loss of training rows under the same mask."""
    return losses / np.maximum(reference.mean(axis=0), SCALE_FLOOR)


def _surprise(losses: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Minus the logarithm of the share of training rows with at least this loss under the mask."""
    at_least = np.empty_like(losses)
    for m, column in enumerate(np.sort(reference, axis=0).T):
        at_least[:, m] = len(column) - np.searchsorted(column, losses[:, m], side="left")
    return -np.log((1 + at_least) / (1 + len(reference)))


RULES: dict[str, ScoringRule] = {
    "mean": lambda losses, reference: losses.mean(axis=1),
    "max": lambda losses, reference: losses.max(axis=1),
    "scaled_mean": lambda losses, reference: scaled(losses, reference).mean(axis=1),
    "scaled_max": lambda losses, reference: scaled(losses, reference).max(axis=1),
    "log": lambda losses, reference: np.log1p(scaled(losses, reference)).mean(axis=1),
    "quantile": lambda losses, reference: _surprise(losses, reference).mean(axis=1),
}
RULES_TEXT = (
    "mean of the losses under all masks is the paper's. The authors' scripts take max on wine, cardio and ionosphere; "
    "they scale masks, by test rows, on vertebral (mean), glass, arrhythmia and optdigits (max). scaled_mean and "
    "scaled_max first divide each mask's loss by its mean over training rows. log is the mean logarithm of 1 plus such "
    "a quotient. quantile is the mean of minus the logarithm of the share of training rows with at least this loss. "
    "These are up to 500 training rows, each with its own entry left out of the context."
)


def rule_name(aggregation: Aggregation, scale_masks: bool) -> str:
    """The rule of these settings.

    The library also bounds what one training row adds to a mask's mean, which matters for extreme rows only.

    Examples
    --------
    >>> rule_name("mean", scale_masks=False), rule_name("max", scale_masks=True)
    ('mean', 'scaled_max')
    """
    return f"scaled_{aggregation}" if scale_masks else aggregation
