"""Rows that a user has judged: like one that is fine, a row stops alarming; like a known anomaly, it alarms more.

Judged rows are not mixed with the training rows. Ten accepted rows of a new kind among thousands would be the oddest
ten of all, and rows of their kind would go on alarming; one accepted gross error would stretch the range of its column,
and hide others. So they are compared with separately, and taking back a judgement gives exactly the scores of before.

* A row is **like an accepted row** if no training row is nearer. It is then at most as odd as a training row whose
  nearest other training row is as far away. Where accepted rows are of one kind, which is so if they are nearer to one
  another than to any training row, the unit of the distance is theirs: few rows of a kind are further apart than many.
* A row is **like a rejected row** if no training row is nearer. How much nearer than the nearest training row the
  rejected row is, is compared with the same of training rows, which gives a p-value. It is combined with that of the
  score so that the share of normal rows with p-values up to any rate stays at most that rate (Bonferroni, with unequal
  weights).

The nearest judged row decides; of equally near ones, the latest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from nptad.scoring.arrays import require_array, require_rows
from nptad.scoring.surprise import Surprise
from nptad.scoring.views.nearest import NearestInRanges, in_ranges, usual_distance
from nptad.tables.layout import UNSEEN, CellLayout

MOST_JUDGED = 2000
"""Judged rows that a model holds at most; of more, the comparison would take longer than the score."""

_ALARM_SHARE = 0.1
"""The share of all false alarms that likeness to rejected rows may cause."""

_COMPARED = 2000
"""Training rows at most that say how near to rejected rows a normal row is."""

_SMALLEST = 1e-6
"""Smallest distance from a rejected row, in usual distances: equal rows are not infinitely near."""

_PAIRS_AT_ONCE = 2**20


@dataclass(frozen=True)
class Feedback:
    """The rows that a user has judged, the latest last."""

    rows: Float[np.ndarray, "m D"]
    """These rows, encoded."""
    is_anomaly: Bool[np.ndarray, " m"]
    """True for rejected rows, false for accepted ones."""
    record: Int[np.ndarray, " m"]
    """The record of the judgement that each row comes with."""

    def require_sound(self, layout: CellLayout) -> None:
        """Raise a ValueError unless all rows can be compared with."""
        require_array("judged rows", self.is_anomaly, "b1", (None,))
        require_array("records of judged rows", self.record, "i8", (len(self.is_anomaly),), least=1, ascending=True)
        require_array("count of judged rows", np.array(len(self.rows)), "i8", (), least=1, most=MOST_JUDGED)
        require_array("judged rows", self.rows, "f4", (len(self.is_anomaly), layout.n_features), most=np.inf, gaps=True)
        require_rows(np.where(np.isinf(self.rows), np.float32(np.nan), self.rows), layout)


@dataclass(frozen=True)
class Likeness:
    """Judged rows beside the training rows that a score knows."""

    feedback: Feedback
    nearest: NearestInRanges
    """The view that finds the nearest training row; without the rejected rows."""
    distances: Surprise
    """The surprise of its distances."""

    def judge(
        self,
        x: Float[np.ndarray, "n D"],
        scores: Float[np.ndarray, " n"],
        self_index: Int[np.ndarray, " n"] | None = None,
    ) -> Float[np.ndarray, " n"]:
        """The scores of encoded rows after the judgements, from those before.

        Unreadable cells have become numbers. ``self_index`` is the place of each row among the training rows of
        :attr:`nearest`, -1 for none: such a row is not compared with itself.
        """
        rejected = self.feedback.is_anomaly
        like, distance, from_training = self.find(x, self_index)
        judged = np.maximum(scores + np.log(1 - _ALARM_SHARE), 0.0) if rejected.any() else scores.copy()
        alarms = np.flatnonzero((like >= 0) & rejected[like])
        if len(alarms):
            nearness = self._nearness(distance[alarms], from_training[alarms])
            judged[alarms] = np.maximum(judged[alarms], self._surprise.smooth(nearness) + np.log(_ALARM_SHARE))
        fine = np.flatnonzero((like >= 0) & ~rejected[like])
        at_most = self.distances.smooth(distance[fine] * (self.usual / self._units[like[fine]]))
        judged[fine] = np.minimum(judged[fine], at_most) + 0.0  # no -0
        return judged

    def find(
        self, x: Float[np.ndarray, "n D"], self_index: Int[np.ndarray, " n"] | None = None
    ) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """The judged row that each row is like, -1 for none, and its distances from it and from the training rows."""
        place, distance = self._nearest_judged(x)
        from_training = self._from_training(x, np.full(len(x), -1) if self_index is None else self_index)
        return np.where(distance <= from_training, place, -1), distance, from_training

    @cached_property
    def usual(self) -> float:
        """The usual distance of a training row from the nearest other one."""
        return usual_distance(self.distances.scores)

    @cached_property
    def _units(self) -> Float[np.ndarray, " m"]:
        """The usual distance among rows of the kind of each accepted row."""
        units = np.full(len(self.feedback.rows), self.usual)
        accepted = np.flatnonzero(~self.feedback.is_anomaly)
        if len(accepted) < 2:
            return units
        rows = self.feedback.rows[accepted]
        apart = self._apart(rows, rows)
        np.fill_diagonal(apart, np.inf)
        other, distance = apart.argmin(axis=1), apart.min(axis=1)
        from_training = self.nearest.score(rows)[:, 0]
        of_one_kind = distance <= np.minimum(from_training, from_training[other])
        units[accepted[of_one_kind]] = np.maximum(distance[of_one_kind], self.usual)
        return units

    @cached_property
    def _surprise(self) -> Surprise:
        """How surprising it is to be that much nearer to a rejected row, from training rows."""
        rows = self.nearest.rows
        places = np.linspace(0, len(rows) - 1, min(len(rows), _COMPARED)).astype(np.int64)
        rejected = np.flatnonzero(self.feedback.is_anomaly)
        distance = self._apart(rows[places], self.feedback.rows[rejected]).min(axis=1)
        return Surprise.fit(self._nearness(distance, self._from_training(rows[places], places)))

    def _nearness(self, distance: np.ndarray, from_training: np.ndarray) -> np.ndarray:
        """How much nearer a rejected row is than the nearest training row, as a logarithm."""
        least = _SMALLEST * self.usual
        return np.log(np.maximum(from_training, least) / np.maximum(distance, least))

    def _from_training(self, x: np.ndarray, self_index: np.ndarray) -> np.ndarray:
        known = self_index >= 0
        distance = np.empty(len(x))
        distance[~known] = self.nearest.score(x[~known])[:, 0]
        distance[known] = self.nearest.score_others(self_index[known])
        return distance

    def _nearest_judged(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest judged row of each row and its distance; of equally near ones, the latest."""
        place, distance = np.empty(len(x), dtype=np.int64), np.empty(len(x))
        latest_first = self.feedback.rows[::-1]
        at_once = max(1, _PAIRS_AT_ONCE // len(latest_first))
        for start in range(0, len(x), at_once):
            apart = self._apart(x[start : start + at_once], latest_first)
            found = apart.argmin(axis=1)
            place[start : start + at_once] = len(latest_first) - 1 - found
            distance[start : start + at_once] = np.take_along_axis(apart, found[:, None], axis=1)[:, 0]
        return place, distance

    def _apart(self, x: np.ndarray, others: np.ndarray) -> np.ndarray:
        """All distances, (n, m), as those from training rows, but a gap equals a gap and nothing else.

        A row must not become like a judged one by leaving out cells.
        """
        n_numeric = int(self.nearest.n_numeric)
        here, there = (in_ranges(self.nearest.rows, rows, n_numeric) for rows in (x, others))
        squares = np.zeros((len(x), len(others)))
        for j in range(x.shape[1]):
            is_number = j < n_numeric
            a = (here.numbers[:, j] if is_number else here.codes[:, j - n_numeric])[:, None]
            b = (there.numbers[:, j] if is_number else there.codes[:, j - n_numeric])[None]
            differ = (a - b) ** 2 if is_number else ((a != b) | (a == UNSEEN)).astype(np.float64)
            gaps = np.isnan(a), np.isnan(b)
            squares += np.where(gaps[0] | gaps[1], gaps[0] != gaps[1], differ)
        return np.sqrt(squares / x.shape[1]).astype(np.float32).astype(np.float64)
