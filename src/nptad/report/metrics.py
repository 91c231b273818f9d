"""How well the scores and flags agree with labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

from nptad.errors import InputError
from nptad.scoring.calibrate import Detection

CURVE_POINTS = 200
"""Points kept of a curve."""


def judge(labels: Any, detection: Detection) -> dict[str, Any]:
    """Figures and curves for known labels.

    Parameters
    ----------
    labels : array of 0 and 1
        1 for the rows that are anomalies.
    detection : Detection
        Scores and flags of the same rows.

    Returns
    -------
    dict
        ``n_anomalies``; ``precision``, ``recall`` and ``f1`` of the flagged rows; ``f1_at_k``, as many rows flagged
        as there are anomalies; ``auroc``, ``average_precision``, ``roc`` ([false alarms, found] as shares) and
        ``precision_recall`` ([recall, precision]). What cannot be told, since all labels are the same, is None.

    Examples
    --------
    >>> found = Detection(np.array([1.0, 9, 2]), np.ones(3), np.array([False, True, True]), 1.0, "fdr", 0.5, "pandas")
    >>> judged = judge([0, 1, 0], found)
    >>> judged["precision"], judged["recall"], judged["auroc"], judged["roc"]
    (0.5, 1.0, 1.0, [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    """
    truth = _truth(labels, len(detection.score))
    scores, flagged, k = detection.score, detection.anomaly, int(truth.sum())
    hits = int((truth & flagged).sum())
    order = np.lexsort((truth, -scores))  # of equal scores the normal row first: a tie never helps
    judged: dict[str, Any] = {
        "n_anomalies": k,
        "precision": hits / int(flagged.sum()) if flagged.any() else None,
        "recall": hits / k if k else None,
        "f1": 2 * hits / (int(flagged.sum()) + k) if k else None,
        "f1_at_k": float(truth[order[:k]].mean()) if k else None,
        "auroc": None,
        "average_precision": None,
        "roc": [],
        "precision_recall": [],
    }
    if 0 < k < len(truth):
        false_alarms, found, _ = roc_curve(truth, scores)
        precision, recall, _ = precision_recall_curve(truth, scores)
        judged["auroc"] = float(roc_auc_score(truth, scores))
        judged["average_precision"] = float(average_precision_score(truth, scores))
        judged["roc"] = _thinned(false_alarms, found)
        judged["precision_recall"] = _thinned(recall[::-1], precision[::-1])
    return judged


def _truth(labels: Any, n_rows: int) -> np.ndarray:
    truth = np.asarray(labels).reshape(-1)
    if len(truth) != n_rows:
        raise InputError(f"There are {len(truth):,} labels for {n_rows:,} rows; give one for each row.")
    if truth.dtype.kind not in "biuf" or not np.isin(truth, (0, 1)).all():
        raise InputError("Labels must be 0 (normal) or 1 (anomaly).")
    return truth == 1


def _thinned(x: np.ndarray, y: np.ndarray) -> list[list[float]]:
    """At most ``CURVE_POINTS`` points of a curve, evenly along its way, both ends among them."""
    way = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    places = np.arange(len(x))
    if len(x) > CURVE_POINTS:
        places = np.unique(np.searchsorted(way, np.linspace(0, way[-1], CURVE_POINTS)))
    return [[round(float(x[i]), 5), round(float(y[i]), 5)] for i in places]
