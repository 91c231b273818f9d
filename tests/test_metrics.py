"""The metrics: one definition, whatever the order of the rows."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from nptad import InputError
from nptad.bench.protocol import metrics
from nptad.cli.terminal import counts
from nptad.metrics import CURVE_POINTS, f1_at_k, judge
from nptad.scoring.calibrate import Detection

TRUTH, TIED = np.array([1, 0, 0, 1]), np.array([2.0, 2.0, 1.0, 9.0])


def test_terminal_report_and_bench_agree_on_tied_scores() -> None:
    flagged = TIED > 5
    found = Detection(TIED, np.ones(4), flagged, 0.5, "fdr", 0.5, "pandas")
    assert f1_at_k(TRUTH == 1, TIED) == 0.75
    assert judge(TRUTH, TIED, flagged)["f1_at_k"] == 0.75
    assert counts(found, TRUTH)["f1_at_k"] == 0.75
    assert metrics(TRUTH == 1, TIED)["f1"] == 75


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=6))
def test_f1_at_k_is_the_mean_over_all_orders_of_the_rows(rows: list[tuple[bool, int]]) -> None:
    truth, scores = np.array([row[0] for row in rows]), np.array([float(row[1]) for row in rows])
    if not truth.any():
        return
    k, hits = int(truth.sum()), []
    for order in permutations(range(len(rows))):
        highest = sorted(order, key=lambda i: -scores[i])[:k]  # a stable sort: ties in this order
        hits.append(truth[highest].mean())
    assert f1_at_k(truth, scores) == pytest.approx(np.mean(hits))


def test_all_but_f1_at_k_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    truth = random.random(500) < 0.1
    scores = (random.normal(size=500) + 1.5 * truth).round(1)
    flagged = scores > 2
    judged = judge(truth, scores, flagged)
    assert judged["f1"] == pytest.approx(f1_score(truth, flagged))
    assert judged["auroc"] == pytest.approx(roc_auc_score(truth, scores))
    assert judged["average_precision"] == pytest.approx(average_precision_score(truth, scores))


def test_curves_are_thinned_and_keep_their_area() -> None:
    random = np.random.default_rng(0)
    truth = random.random(20_000) < 0.1
    scores = random.normal(size=20_000) + 1.5 * truth
    judged = judge(truth, scores, scores > 2)
    for name in ("roc", "precision_recall"):
        assert len(judged[name]) <= CURVE_POINTS
    x, y = np.array(judged["roc"]).T
    assert np.trapezoid(y, x) == pytest.approx(judged["auroc"], abs=0.002)


@pytest.mark.parametrize("value", [0, 1])
def test_labels_all_the_same(value: int) -> None:
    judged = judge(np.full(5, value), np.arange(5.0), np.arange(5) > 3)
    assert judged["auroc"] is None
    assert judged["roc"] == []
    json.dumps(judged, allow_nan=False)


def test_without_flags_there_is_no_precision() -> None:
    judged = judge([1, 0], np.array([1.0, 2.0]), np.zeros(2, dtype=bool))
    assert (judged["precision"], judged["recall"], judged["f1"]) == (None, 0, 0)


def test_labels_that_are_none_are_refused() -> None:
    scores, flagged = np.arange(3.0), np.zeros(3, dtype=bool)
    with pytest.raises(InputError, match="There are 2 labels for 3 rows"):
        judge([0, 1], scores, flagged)
    with pytest.raises(InputError, match=r"0 \(normal\) or 1"):
        judge([0, 1, 2], scores, flagged)
