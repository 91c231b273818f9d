"""A fitted model: everything that fitting has learnt, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from nptad.models.records import Record
from nptad.scoring.feedback import Feedback
from nptad.scoring.network_score import NetworkScore
from nptad.scoring.view_score import Core, ViewScore
from nptad.tables.schema import Schema


@dataclass(frozen=True)
class FittedModel:
    """What the detector holds and a saved directory stores."""

    schema: Schema
    """The columns of the training table."""
    scorer: ViewScore | NetworkScore
    """What scores encoded rows: the calibrated views, after feedback if there is any, or the trained network."""
    offset: float
    """Threshold on minus the anomaly score: a row below it is flagged."""
    fingerprint: str | None = None
    """That of the directory that it was loaded from."""
    records: tuple[Record, ...] = ()
    """What happened to it since it was fitted, the latest last (:mod:`nptad.models.living`)."""
    feedback: Feedback | None = None
    """The rows that a user has judged."""
    before_feedback: ViewScore | None = None
    """What scored rows without feedback, if there is feedback."""
    origin: Int[np.ndarray, " kept"] | None = None
    """The update that each row it knows came with, 0 for the fit; None without an update."""

    @property
    def compared_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The training rows that rows are compared with, (n,), and these rows encoded, (n, D)."""
        if isinstance(self.scorer, ViewScore):
            return self.scorer.kept, self.scorer.rows
        return self.scorer.ensemble.context_source, self.scorer.ensemble.context

    @property
    def core(self) -> Core | None:
        """What is known of the training table, if it was taken to contain anomalies."""
        return self.scorer.core if isinstance(self.scorer, ViewScore) else None

    @property
    def network(self) -> NetworkScore | None:
        """The trained network, if rows are scored by one."""
        return None if isinstance(self.scorer, ViewScore) else self.scorer
