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


def rule_of(aggregation: Aggregation, scale_masks: bool) -> ScoringRule:
    """The rule that the library applies to the losses under all masks, before the distance to the nearest row is added.

    The library also bounds what one training row adds to a mask's mean, which matters for extreme rows only.
    """

    def rule(losses: np.ndarray, reference: np.ndarray) -> np.ndarray:
        losses = scaled(losses, reference) if scale_masks else losses
        return losses.max(axis=1) if aggregation == "max" else losses.mean(axis=1)

    return rule


RULES: dict[str, ScoringRule] = {
    "mean": rule_of("mean", scale_masks=False),
    "max": rule_of("max", scale_masks=False),
    "scaled_mean": rule_of("mean", scale_masks=True),
    "scaled_max": rule_of("max", scale_masks=True),
    "log": lambda losses, reference: np.log1p(scaled(losses, reference)).mean(axis=1),
    "quantile": lambda losses, reference: _surprise(losses, reference).mean(axis=1),
}
RULES_TEXT = (
    "mean and max of the losses under all masks are the paper's. scaled_mean and scaled_max first divide each mask's "
    "loss by its mean over training rows. log is the mean logarithm of 1 + such a quotient. quantile is the mean of "
    "minus the logarithm of the share of training rows with at least this loss. These are up to 500 training rows, "
    "each with its own entry left out of the context."
)
