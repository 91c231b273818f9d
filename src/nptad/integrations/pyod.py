"""A PyOD view of the detector: 0/1 labels, higher = more abnormal. Needs the ``pyod`` extra."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyod.models.base import BaseDetector
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from nptad.detector import NPTAD
from nptad.errors import InputError

__all__ = ["PyODNPTAD"]


class PyODNPTAD(BaseDetector):
    """NPT-AD for programs that expect a PyOD detector.

    Parameters
    ----------
    contamination : float, default 0.1
        Share of the training rows to label as outliers.
    detector : NPTAD, optional
        Its parameters are used, but for its contamination.

    Attributes
    ----------
    decision_scores_ : ndarray
        Out-of-fold scores of the training rows, higher = more abnormal.
    labels_ : ndarray
        1 for the training rows above the threshold, else 0.
    threshold_ : float
        The score that separates them.
    detector_ : NPTAD
        The fitted detector.
    """

    def __init__(self, contamination: float = 0.1, detector: NPTAD | None = None) -> None:
        super().__init__(contamination=contamination)
        self.detector = detector

    def fit(self, X: Any, y: Any = None) -> PyODNPTAD:
        """Fit on the rows of ``X``; ``y`` is ignored."""
        self._set_n_classes(y)
        if isinstance(self.contamination, str):  # PyOD itself checks numbers only
            raise InputError(f"contamination must be a number above 0 and up to 0.5, got {self.contamination!r}.")
        if not isinstance(self.detector, NPTAD | None):
            raise InputError(f"detector must be an nptad.NPTAD or None, got {type(self.detector).__name__}.")
        detector = NPTAD() if self.detector is None else clone(self.detector)
        self.detector_ = detector.set_params(contamination=self.contamination).fit(X)
        self.decision_scores_ = -self.detector_.training_scores_
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Anomaly scores of the rows of ``X``, higher = more abnormal."""
        check_is_fitted(self, "detector_")
        return -self.detector_.score_samples(X)
