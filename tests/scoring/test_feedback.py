"""Judged rows: what becomes of rows like them, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from nptad.scoring.feedback import Feedback
from nptad.scoring.view_score import ViewScore
from nptad.tables.layout import CellLayout

LAYOUT = CellLayout(2, (3,))


def rows(n: int, seed: int, centre: float = 0.0) -> np.ndarray:
    random = np.random.default_rng(seed)
    numbers = random.normal(centre, 1, (n, 2))
    return np.column_stack([numbers, random.integers(0, 3, n)]).astype(np.float32)


@pytest.fixture(scope="module")
def fitted() -> ViewScore:
    return ViewScore.fit(rows(600, 0), LAYOUT, seed=0)


def feedback(accepted: np.ndarray | None = None, rejected: np.ndarray | None = None) -> Feedback:
    """Accepted rows first, each with a record of its own."""
    accepted, rejected = (np.empty((0, 3), np.float32) if part is None else part for part in (accepted, rejected))
    verdicts = np.repeat([False, True], [len(accepted), len(rejected)])
    return Feedback(np.vstack([accepted, rejected]), verdicts, np.arange(1, len(verdicts) + 1))


def apart(a: np.ndarray, b: np.ndarray, training: np.ndarray) -> float:
    """The distance of two rows, cell by cell."""
    total = 0.0
    for j in range(3):
        if np.isnan(a[j]) or np.isnan(b[j]):
            total += np.isnan(a[j]) != np.isnan(b[j])
        elif j == 2:
            total += a[j] != b[j]
        else:
            total += ((a[j] - b[j]) / np.ptp(training[:, j].astype(np.float64))) ** 2
    return float(np.sqrt(total / 3))


def judged_slowly(score: ViewScore, judged: Feedback, x: np.ndarray) -> list[float]:
    """What the module says in words, row by row, for a score that knows no rejected row."""
    training, nearest = score.rows, score.surprise.views[0]
    usual = float(np.median(nearest.scores))
    from_training = [min(apart(row, other, training) for other in training) for row in x]
    accepted = [row for row, bad in zip(judged.rows, judged.is_anomaly, strict=True) if not bad]
    rejected = [row for row, bad in zip(judged.rows, judged.is_anomaly, strict=True) if bad]

    def nearness(distance: float, beside: float) -> float:
        return float(np.log(max(beside, 1e-6 * usual) / max(distance, 1e-6 * usual)))

    reference = []
    for i, row in enumerate(training):
        others = min(apart(row, other, training) for j, other in enumerate(training) if j != i)
        reference.append(nearness(min(apart(row, bad, training) for bad in rejected), others))
    likeness = type(nearest).fit(np.array(reference))

    def unit(like: int) -> float:  # accepted rows come first
        row, others = accepted[like], accepted[:like] + accepted[like + 1 :]
        if not others:
            return usual
        other = min(others, key=lambda candidate: apart(row, candidate, training))
        free = [min(apart(one, known, training) for known in training) for one in (row, other)]
        distance = apart(row, other, training)
        return max(usual, distance) if distance <= min(free) else usual

    found = []
    for row, beside, before in zip(x, from_training, score.score(x), strict=True):
        after = max(0.0, before + np.log(0.9))
        distances = [apart(row, other, training) for other in judged.rows]
        like = len(distances) - 1 - int(np.argmin(distances[::-1]))
        if distances[like] <= beside:
            if judged.is_anomaly[like]:
                surprise = likeness.smooth(np.array([nearness(distances[like], beside)]))[0]
                after = max(after, surprise + np.log(0.1))
            else:
                scaled = distances[like] * usual / unit(like)
                after = min(after, float(nearest.smooth(np.array([scaled]))[0]))
        found.append(after)
    return found


def test_it_is_what_a_slow_version_computes():
    score = ViewScore.fit(rows(80, 1), LAYOUT, seed=0)
    judged = feedback(np.vstack([rows(3, 2, 5.0), rows(1, 3, -6.0)]), rows(3, 4, 9.0))
    x = np.vstack([rows(10, 5), rows(10, 6, 5.0), rows(10, 7, 9.0), rows(3, 8, -6.0), judged.rows])
    x[3, 0] = x[12, 1] = x[25, 2] = np.nan
    after = score.judged_by(judged)
    assert after.score(x) == pytest.approx(judged_slowly(score, judged, x), rel=1e-4, abs=1e-4)


def test_accepted_rows_and_their_like_stop_alarming_and_all_others_keep_their_scores(fitted):
    kind = rows(210, 2, 6.0)
    after = fitted.judged_by(feedback(kind[:10]))
    assert after.score(kind[:10]).max() < 0.01
    flagged_before, flagged = ((np.exp(-score.score(kind[10:])) <= 0.01).mean() for score in (fitted, after))
    assert flagged_before > 0.95
    assert flagged < 0.1
    others = np.vstack([rows(300, 3), rows(50, 4, -6.0), rows(50, 5, 30.0)])
    far = np.exp(-after.score(others)) <= 0.01
    assert far[300:].all()
    assert (after.score(others[:300]) == fitted.score(others[:300])).mean() > 0.99


def test_a_row_does_not_become_like_an_accepted_one_by_leaving_out_cells(fitted):
    odd = np.array([[9.0, 0.0, 1.0]], np.float32)
    after = fitted.judged_by(feedback(odd))
    gaps = np.array([[9.0, np.nan, np.nan]], np.float32)
    assert after.score(odd)[0] < 0.01
    assert after.score(gaps)[0] == fitted.score(gaps)[0]


def test_an_unseen_category_is_not_like_another_one(fitted):
    unseen = np.array([[0.0, 0.0, -1.0]], np.float32)
    after = fitted.judged_by(feedback(unseen))
    assert after.score(unseen)[0] > 4.6


@pytest.mark.parametrize("rate", [0.01, 0.05])
def test_rejecting_rows_does_not_raise_the_false_alarm_rate(rate):
    few, n_new = 0, 0
    for seed in range(4):
        score = ViewScore.fit(rows(400, seed), LAYOUT, seed=0)
        after = score.judged_by(feedback(rejected=rows(10, 50 + seed) * 1.5))
        new = rows(1500, 100 + seed)
        few, n_new = few + int((np.exp(-after.score(new)) <= rate).sum()), n_new + len(new)
    assert few <= binom.isf(1e-4, n_new, rate * 1.25)  # one training sample in four has that many more, by chance


def test_rows_near_a_rejected_one_alarm_more(fitted):
    bad = np.array([[2.4, 2.4, 0.0]], np.float32)
    near = bad + np.random.default_rng(0).normal(0, 0.05, (20, 3)).astype(np.float32) * [1, 1, 0]
    near = near.astype(np.float32)
    after = fitted.judged_by(feedback(rejected=bad))
    assert (after.score(near) > fitted.score(near)).all()
    assert (np.exp(-after.score(near)) <= 0.01).all()


def test_a_rejected_training_row_leaves_the_rows_that_are_compared_with(fitted):
    bad = fitted.rows[[17]]
    after = fitted.judged_by(feedback(rejected=bad))
    assert 17 not in after.kept
    assert after.score(bad)[0] > fitted.score(bad)[0] + 3
    whole = after.score_rows(fitted.rows, lambda _: None)
    assert whole.score[17] > 4.6
    rest = np.delete(np.arange(600), 17)
    assert (whole.score[rest] <= fitted.training_scores[rest]).mean() > 0.95


def test_of_two_judgements_of_a_row_the_later_one_holds(fitted):
    row = np.array([[7.0, 7.0, 1.0]], np.float32)
    first_bad = Feedback(np.vstack([row, row]), np.array([True, False]), np.array([1, 2]))
    first_fine = Feedback(np.vstack([row, row]), np.array([False, True]), np.array([1, 2]))
    assert fitted.judged_by(first_bad).score(row)[0] < 0.01
    assert fitted.judged_by(first_fine).score(row)[0] > 4.6


def test_the_score_of_a_row_does_not_depend_on_its_company(fitted):
    after = fitted.judged_by(feedback(rows(5, 2, 6.0), rows(5, 3, -6.0)))
    x = np.vstack([rows(20, 4, 6.0), rows(20, 5, -6.0), rows(20, 6)])
    alone = np.concatenate([after.score(x[i : i + 1]) for i in range(len(x))])
    assert alone.tolist() == after.score(x).tolist()
