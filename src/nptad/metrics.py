"""How well scores and flags agree with known labels: the one definition of each metric."""

from __future__ import annotations

from typing import Any

import numpy as np

from nptad.errors import InputError

CURVE_POINTS = 200  # points kept of a curve


def f1_at_k(truth: np.ndarray, scores: np.ndarray) -> float:
    """F1 if the k rows with the highest scores are flagged, k being the number of anomalies.

    As many rows are flagged as there are anomalies, so F1, precision and recall are equal. Where rows tie at the cut,
    it is the expected value over random orders of the tied rows, so the order of the rows does not matter. At least
    one row must be an anomaly.

    >>> f1_at_k(np.array([True, False, False, True]), np.array([2.0, 2.0, 1.0, 9.0]))
    0.75
    """
    k = int(truth.sum())
    cut = np.sort(scores)[-k]
    above, tied = scores > cut, scores == cut
    hits = truth[above].sum() + truth[tied].mean() * (k - above.sum())
    return float(hits / k)


def ranking_metrics(truth: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """``f1_at_k``, ``auroc`` and ``average_precision`` of scores; needs both anomalies and normal rows.

    >>> ranking_metrics(np.array([False, False, True]), np.array([1.0, 3.0, 2.0]))
    {'auroc': 0.5, 'average_precision': 0.5, 'f1_at_k': 0.0}
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    return {
        "auroc": float(roc_auc_score(truth, scores)),  # refuses scores that are not finite
        "average_precision": float(average_precision_score(truth, scores)),
        "f1_at_k": f1_at_k(truth, scores),
    }


def judge(labels: Any, scores: np.ndarray, flagged: np.ndarray) -> dict[str, Any]:
    """Compare scores and flags with known labels, 1 for anomalies and 0 for normal rows.

    The result has ``n_anomalies``; ``precision``, ``recall`` and ``f1`` of the flags; ``f1_at_k`` (see
    :func:`f1_at_k`), ``auroc`` and ``average_precision`` of the scores; the curves ``roc`` ([share of normal rows
    flagged, share of anomalies found]) and ``precision_recall`` ([recall, precision]). A metric that is undefined for
    these labels is None, a curve is empty.

    >>> judged = judge([0, 1, 0], np.array([1.0, 9, 2]), np.array([False, True, True]))
    >>> judged["precision"], judged["recall"], judged["auroc"], judged["roc"]
    (0.5, 1.0, 1.0, [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    """
    truth = np.asarray(labels).reshape(-1)
    if len(truth) != len(scores):
        raise InputError(f"There are {len(truth):,} labels for {len(scores):,} rows; give one label for each row.")
    if truth.dtype.kind not in "biuf" or not np.isin(truth, (0, 1)).all():
        raise InputError("Labels must be 0 (normal) or 1 (anomaly).")
    truth = truth == 1
    n_anomalies, n_flagged, hits = int(truth.sum()), int(flagged.sum()), int((truth & flagged).sum())
    judged: dict[str, Any] = {
        "n_anomalies": n_anomalies,
        "precision": hits / n_flagged if n_flagged else None,
        "recall": hits / n_anomalies if n_anomalies else None,
        "f1": 2 * hits / (n_flagged + n_anomalies) if n_anomalies else None,
        **dict.fromkeys(("f1_at_k", "auroc", "average_precision")),
        "roc": [],
        "precision_recall": [],
    }
    if 0 < n_anomalies < len(truth):
        from sklearn.metrics import precision_recall_curve, roc_curve

        judged |= ranking_metrics(truth, scores)
        false_alarms, found, _ = roc_curve(truth, scores)
        precision, recall, _ = precision_recall_curve(truth, scores)
        judged["roc"] = _thinned(false_alarms, found)
        judged["precision_recall"] = _thinned(recall[::-1], precision[::-1])
    return judged


def _thinned(x: np.ndarray, y: np.ndarray) -> list[list[float]]:
    """At most ``CURVE_POINTS`` points of a curve, evenly spaced along it, with both ends."""
    length = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    places = np.arange(len(x))
    if len(x) > CURVE_POINTS:
        places = np.unique(np.searchsorted(length, np.linspace(0, length[-1], CURVE_POINTS)))
    return [[round(float(x[i]), 5), round(float(y[i]), 5)] for i in places]
