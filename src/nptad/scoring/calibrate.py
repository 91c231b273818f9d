"""P-values and thresholds, from scores of training rows under members that never saw them.

Member k cannot tell a new normal row from a training row that it left out. So the score of a new row under member k is
compared with the scores of the left-out rows under the same member (cross-conformal, as in CV+). An average over
members is never compared with scores of single members. Within one fold such a p-value is exactly valid. Pooled over
folds it is only nearly valid: in the worst case a rate of ``a`` can become ``2 a``; in practice it stays at or somewhat
below ``a``, since members do not all raise the same false alarm. Means, standard deviations and category lists come
from all training rows, left-out rows included but not new rows; the effect is about that of one row in n.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from nptad.errors import InputError, warn
from nptad.scoring.arrays import require_array
from nptad.scoring.display import detection_html
from nptad.tables.frames import beside_keys
from nptad.tables.identity import Identity
from nptad.validation import is_number, require

DEFAULT_RATE = 0.01
"""Default false-alarm rate, and default share of rows to flag in a table that is its own training set. With few rows
both are higher: one row of all that p-values compare with."""

_ROUNDING = 1 + 1e-12
"""P-values are fractions, as rates are: which of two equal ones is larger must not depend on rounding."""

CALIBRATION_ROWS = 2000
"""Largest number of training rows that p-values of a network compare with; if there are more, a random sample."""


def p_values(
    scores: Float[np.ndarray, "N K"],
    calibration: Float[np.ndarray, "calibration K"],
    self_index: Int[np.ndarray, " N"] | None = None,
) -> Float[np.ndarray, " N"]:
    """Conformal p-values: how often a normal row scores at least as high.

    Parameters
    ----------
    scores : ndarray
        Scores of the rows under each member, higher = more anomalous.
    calibration : ndarray
        Scores of calibration rows under the members that never saw them, NaN elsewhere; each row has at least one. If
        several members left out a row, it counts in equal parts under each of them.
    self_index : ndarray, optional
        For each row that is itself a calibration row, its position there: it is not compared with itself. -1 for none.

    Returns
    -------
    ndarray
        (1 + calibration rows that score at least as high) / (1 + calibration rows compared with).

    Examples
    --------
    >>> p_values(np.array([[9.0], [2.5]]), np.array([[1.0], [2.0], [3.0]])).tolist()
    [0.25, 0.5]
    """
    judged = ~np.isnan(calibration)
    weights = judged / judged.sum(axis=1, keepdims=True)
    as_high = np.zeros(len(scores))
    for k in range(scores.shape[1]):
        rows = np.flatnonzero(judged[:, k])
        rows = rows[np.argsort(calibration[rows, k])]
        weight_from = np.append(np.cumsum(weights[rows, k][::-1])[::-1], 0.0)
        as_high += weight_from[np.searchsorted(calibration[rows, k], scores[:, k], "left")]
    compared = np.full(len(scores), len(calibration))
    if self_index is not None:
        known = np.flatnonzero(self_index >= 0)
        itself = self_index[known]
        as_high[known] -= (weights[itself] * (calibration[itself] >= scores[known])).sum(axis=1)
        compared[known] -= 1
    return (1 + as_high) / (1 + compared)


def benjamini_hochberg(p: Float[np.ndarray, " N"], fdr: float) -> Bool[np.ndarray, " N"]:
    """Select rows such that on average at most a share ``fdr`` of the selected ones is normal.

    The k smallest p-values are selected, for the largest k whose k-th smallest is at most ``fdr * k / N``. Conformal
    p-values against the same calibration rows are dependent, but the guarantee still holds (positive regression
    dependence: Bates et al., Testing for outliers with conformal p-values, 2023; shown for one fold).

    Examples
    --------
    >>> benjamini_hochberg(np.array([0.9, 0.001, 0.02, 0.3]), 0.05).tolist()
    [False, True, True, False]
    """
    ordered = np.sort(p)
    allowed = fdr * np.arange(1, len(p) + 1) / len(p) * _ROUNDING
    passing = np.flatnonzero(ordered <= allowed)
    return p <= (ordered[passing[-1]] if len(passing) else -1.0)


def threshold(scores: Float[np.ndarray, " N"], share: float) -> float:
    """The score (higher = more normal) below which a share of the training rows lies: the contamination threshold.

    About the same share of new normal rows falls below it, but not much less than one in n + 1. For rates near or below
    that, use p-values: they state this limit.
    """
    return float(np.quantile(scores, share))


def rows_needed(rate: float) -> int:
    """Calibration rows needed for a p-value as small as ``rate``: the smallest n with 1 / (n + 1) <= rate.

    Examples
    --------
    >>> rows_needed(0.05), rows_needed(0.05 / 100)
    (19, 1999)
    """
    return max(0, int(np.ceil(np.round(1 / rate, 6))) - 1)


@dataclass(frozen=True)
class RowScores:
    """Scores of rows, higher = more anomalous."""

    by_member: Float[np.ndarray, "N K"]
    """Score of each row under each member; NaN where the member has seen the row."""
    score: Float[np.ndarray, " N"]
    """Score of each row."""
    training_row: Int[np.ndarray, " N"]
    """The training row that each row is; -1 for a new row."""


@dataclass(frozen=True)
class Calibration:
    """Scores of training rows by members that left them out, higher = more anomalous."""

    rows: Int[np.ndarray, " calibration"]
    """The training rows that were scored, ascending."""
    by_member: Float[np.ndarray, "calibration K"]
    """Their scores under each member; NaN where the member has seen the row."""
    scores: Float[np.ndarray, " calibration"]
    """The score of each over its members."""

    def require_sound(self, n_rows: int, n_members: int) -> None:
        """Raise a ValueError unless all scores have p-values; ``n_rows`` is that of the training table."""
        require_array("calibration rows", self.rows, "i8", (None,), least=0, most=n_rows - 1, ascending=True)
        require_array("calibration by member", self.by_member, "f8", (len(self.rows), n_members), gaps=True)
        require_array("calibration scores", self.scores, "f8", (len(self.rows),))
        if np.isnan(self.by_member).all(axis=1).any():
            raise ValueError("calibration rows without a score")

    def p_values(
        self,
        by_member: Float[np.ndarray, "N K"],
        scores: Float[np.ndarray, " N"],
        training_row: Int[np.ndarray, " N"],
    ) -> Float[np.ndarray, " N"]:
        """P-values of rows with these scores; ``training_row`` is the training row that each row is, -1 for a new row.

        The p-value of a training row is its rank among all training rows. It is exactly valid, since folds are drawn
        at random; within the row's fold it would be K times coarser.
        """
        known = training_row >= 0
        result = np.empty(len(scores))
        result[~known] = p_values(by_member[~known], self.by_member)
        place = np.searchsorted(self.rows, training_row[known]).clip(max=len(self.rows) - 1)
        self_index = np.where(self.rows[place] == training_row[known], place, -1)
        result[known] = p_values(scores[known, None], self.scores[:, None], self_index)
        return result


@dataclass(frozen=True)
class Detection:
    """Which rows are anomalies, with scores and p-values."""

    score: Float[np.ndarray, " N"]
    """Anomaly score of each row, higher = more anomalous: minus ``score_samples``."""
    p_value: Float[np.ndarray, " N"]
    """How often a normal row scores at least as high."""
    anomaly: Bool[np.ndarray, " N"]
    """True for the flagged rows: those whose p-value is at most ``threshold``."""
    threshold: float
    """Rows with a p-value up to this are flagged: the false-alarm rate, or the largest p-value that the false
    discovery rate allows, 0 if it allows none."""
    rule: Literal["fdr", "false_alarm_rate", "share"]
    """The controlled rate: the share of normal rows among the flagged, of flagged rows among the normal, or of flagged
    rows among all."""
    rate: float
    """Its value."""
    backend: str
    """Library of the frame that :meth:`frame` makes."""
    resolution: float = 0.0
    """The smallest p-value that the training rows can tell by counting; smaller ones come from a fitted tail."""
    training_row: Int[np.ndarray, " N"] = field(repr=False, default_factory=lambda: np.empty(0, int))
    """The training row that each row is; -1 for a new row."""
    by_member: Float[np.ndarray, "N K"] = field(repr=False, default_factory=lambda: np.empty((0, 0)))
    """Score of each row under each member; NaN where a member has seen the row."""
    drift: tuple[str, ...] = ()
    """A sentence about each column of new rows that differs from training beyond chance (:mod:`nptad.scoring.drift`):
    read these first."""
    notes: tuple[str, ...] = ()
    """Sentences about missing and unknown columns and about cells that cannot be read."""
    identity: Identity = field(repr=False, default_factory=Identity)
    """What the rows are called: their index and key columns."""

    def ranking(self) -> Int[np.ndarray, " N"]:
        """All rows: first the flagged ones, then the others, each group with the highest scores first.

        Each member compares with the rows it left out, so a flagged row can have a lower score than one that is not.
        """
        return np.lexsort((-self.score, ~self.anomaly))

    def frame(self) -> Any:
        """A frame of the same kind as the table, with the columns row (position), score, p_value and anomaly.

        It has the index of a frame of pandas, and beside them the columns that were set aside, such as IDs.
        """
        columns: dict[str, tuple[type, list[Any]]] = {
            "row": (int, list(range(len(self.score)))),
            "score": (float, self.score.tolist()),
            "p_value": (float, self.p_value.tolist()),
            "anomaly": (bool, self.anomaly.tolist()),
        }
        return beside_keys(self.identity, self.backend, columns)

    def _repr_html_(self) -> str:
        return detection_html(self)


@dataclass(frozen=True)
class DecisionRule:
    """The rate to control."""

    name: Literal["fdr", "false_alarm_rate", "share"]
    rate: float

    def __post_init__(self) -> None:
        is_rate = is_number(self.rate) and 0 < self.rate < 1
        require(is_rate, self.name, "a number between 0 and 1", self.rate)

    def require_rows(self, n_rows: int) -> None:
        """Reject a rate that no p-value can reach."""
        if 1 / (n_rows + 1) > self.rate:
            raise InputError(
                f"{self.name}={self.rate:g} needs at least {rows_needed(self.rate):,} training rows "
                f"with an out-of-fold score, there are {n_rows:,}: no p-value can be below 1/{n_rows + 1:,}. Ask for a "
                "higher rate or fit on more rows."
            )

    def flag(self, p: Float[np.ndarray, " N"]) -> tuple[Bool[np.ndarray, " N"], float]:
        """The flagged rows and the largest p-value that is flagged."""
        if self.name != "fdr":
            return p <= self.rate * _ROUNDING, self.rate
        anomaly = benjamini_hochberg(p, self.rate)
        return anomaly, float(p[anomaly].max(initial=0.0))


def make_rule(fdr: Any, false_alarm_rate: Any, n_rows: int, *, has_tail: bool = False) -> DecisionRule:
    """The requested rule; by default a false-alarm rate of 1 %, or the lowest rate that ``n_rows`` allows.

    With a fitted tail, p-values can be as small as any rate.
    """
    if fdr is not None and false_alarm_rate is not None:
        raise InputError("fdr and false_alarm_rate are two rules; give one of them.")
    if fdr is not None:
        rule = DecisionRule("fdr", fdr)
    elif false_alarm_rate is not None:
        rule = DecisionRule("false_alarm_rate", false_alarm_rate)
    else:
        rule = DecisionRule("false_alarm_rate", default_rate(n_rows))
    if not has_tail:
        rule.require_rows(n_rows)
    return rule


def default_rate(n_rows: int) -> float:
    """The default false-alarm rate with ``n_rows`` calibration rows."""
    return max(DEFAULT_RATE, 1 / (n_rows + 1))


def report_extrapolation(rule: DecisionRule, n_rows: int) -> None:
    """Warn if a false-alarm rate is smaller than the training rows can tell by counting."""
    if rule.name == "false_alarm_rate" and rule.rate < 1 / (n_rows + 1):
        warn(
            f"{n_rows:,} training rows cannot tell p-values below 1/{n_rows + 1:,} by counting: a rate of "
            f"{rule.rate:g} rests on the fitted tail of their scores."
        )


def report_limits(
    rule: DecisionRule,
    anomaly: Bool[np.ndarray, " N"],
    training_row: Int[np.ndarray, " N"],
    n_rows: int,
    n_members: int,
) -> None:
    """Warn once about the limits of the p-values."""
    notes = []
    n_known, n_judged = int((training_row >= 0).sum()), len(anomaly)
    fewest = int(np.ceil(np.round(n_judged / (n_rows + 1) / rule.rate, 6)))
    nothing_found = rule.name == "fdr" and not anomaly.any()
    if nothing_found and n_known:
        notes.append(
            f"{n_known:,} of the {n_judged:,} rows are training rows, which are ranked among themselves, so that no "
            "false discovery rate can tell them apart; ask for a false_alarm_rate or use predict"
        )
    if nothing_found and n_known < n_judged and fewest > 1:
        notes.append(
            f"with {n_rows:,} calibration rows no p-value is below 1/{n_rows + 1:,}, so that fewer than {fewest:,} "
            f"anomalies among {n_judged:,} rows cannot be found at fdr={rule.rate:g}; a single one would need "
            f"{rows_needed(rule.rate / n_judged):,} training rows"
        )
    if n_members == 1 and n_known < n_judged:
        notes.append(
            "the only member has seen the calibration rows, so that p-values of new rows are too small; "
            "fit with n_members=2 or more"
        )
    if notes:
        text = "; ".join(notes)
        warn(text[0].upper() + text[1:] + ".")
