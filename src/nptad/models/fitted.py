"""A fitted model: everything that fitting has learnt, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nptad.scoring.calibrate import Calibration
from nptad.scoring.ensemble import Ensemble
from nptad.settings import Settings
from nptad.tables.schema import Schema
from nptad.training.checkpoint import History


@dataclass(frozen=True)
class FittedModel:
    """What the detector holds and a saved directory stores."""

    schema: Schema
    """The columns of the training table."""
    ensemble: Ensemble
    """The trained members."""
    calibration: Calibration
    """Out-of-fold scores of training rows."""
    history: History
    """One entry for each training step."""
    offset: float
    """Threshold on minus the anomaly score: a row below it is flagged."""

    @property
    def settings(self) -> Settings:
        """The hyper-parameters that the members were trained with."""
        return self.ensemble.model.settings

    @property
    def training_scores(self) -> np.ndarray:
        """Minus the out-of-fold scores of the calibration rows, higher = more normal."""
        return -self.calibration.scores
