"""The score of the Non-Parametric Transformer: trained members, and the out-of-fold scores that calibrate them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nptad.scoring.calibrate import Calibration, RowScores
from nptad.scoring.ensemble import Ensemble
from nptad.settings import Settings
from nptad.tables.layout import LARGEST_STANDARDISED
from nptad.training.checkpoint import History


@dataclass(frozen=True)
class NetworkScore:
    """A trained ensemble with its calibration."""

    ensemble: Ensemble
    """The trained members."""
    calibration: Calibration
    """Out-of-fold scores of training rows."""
    history: History
    """One entry for each training step."""

    @property
    def settings(self) -> Settings:
        """The hyper-parameters that the members were trained with."""
        return self.ensemble.model.settings

    @property
    def ended_early(self) -> str | None:
        """What to say of a network that the time limit has ended before its last step; None for others."""
        done, planned = len(self.history), self.settings.n_steps
        if done >= planned:
            return None
        advice = " The network has learnt little: allow it more time." if done < planned / 2 else ""
        return f"The time limit ended training after {done:,} of {planned:,} steps.{advice}"

    @property
    def n_calibration(self) -> int:
        """Training rows that scores are compared with."""
        return len(self.calibration.rows)

    @property
    def training_scores(self) -> Float[np.ndarray, " calibration"]:
        """Out-of-fold scores of the calibration rows, higher = more anomalous."""
        return self.calibration.scores

    def score_rows(self, x: Float[np.ndarray, "n D"], advance: Callable[[float], None]) -> RowScores:
        """Score encoded rows; ``advance`` is told how many are done."""
        return score_with(self.ensemble, x, advance)

    def p_values(self, scored: RowScores) -> Float[np.ndarray, " n"]:
        """How often a normal row scores at least as high."""
        return self.calibration.p_values(scored.by_member, scored.score, scored.training_row)


def score_with(ensemble: Ensemble, x: Float[np.ndarray, "n D"], advance: Callable[[float], None]) -> RowScores:
    """Score encoded rows with the members that may score them; an unreadable cell counts as a number far off."""
    x = np.where(np.isinf(x), np.float32(LARGEST_STANDARDISED), x)
    assignment = ensemble.assign_members(x)
    rows_per_scoring = len(x) / max(1, int((assignment.weights > 0).sum()))
    by_member = ensemble.member_scores(x, assignment, lambda n_scored: advance(n_scored * rows_per_scoring))
    return RowScores(by_member, assignment.mean(by_member), assignment.training_row)
