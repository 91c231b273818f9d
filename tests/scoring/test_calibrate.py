"""P-values and rates of errors keep what they promise, and say so where they cannot promise anything."""

from __future__ import annotations

import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nptad
import tiny_detector
from nptad import InputError, TableWarning
from nptad.explain.result import CellReason, Explanation, RowExplanation
from nptad.scoring.calibrate import Calibration, Detection, benjamini_hochberg, p_values, rows_needed, threshold
from table_results import result_of

MIXING = np.random.default_rng(99).normal(size=(2, 4))


def normal_rows(n_rows, seed):
    """Four columns that depend on two hidden numbers."""
    random = np.random.default_rng(seed)
    return random.normal(size=(n_rows, 2)) @ MIXING + 0.3 * random.normal(size=(n_rows, 4))


def anomalous_rows(n_rows, seed):
    """The same columns without what ties them together, and three times as wide."""
    return 3 * np.random.default_rng(seed).permuted(normal_rows(n_rows, seed), axis=0)


tiny = partial(tiny_detector.tiny, n_members=4, n_steps=12, max_masked=1)


@pytest.fixture(scope="module")
def fits():
    """Detectors of several seeds, each with training rows of its own."""
    return [tiny(random_state=seed).fit(normal_rows(120, seed)) for seed in range(16)]


@pytest.fixture(scope="module")
def detector(fits):
    return fits[0]


def within_error(values, rate, low=1.0):
    """Is the mean of independent values from ``low * rate`` to ``rate``, to three standard errors?"""
    error = 3 * np.std(values) / np.sqrt(len(values))
    return low * rate - error <= np.mean(values) <= rate + error


# The arithmetic, against its definition


def naive_p_value(scores, calibration, self_index):
    as_high, compared = 0.0, 0
    for i, row in enumerate(calibration):
        if i == self_index:
            continue
        assignment = [k for k in range(len(row)) if not np.isnan(row[k])]
        as_high += np.mean([row[k] >= scores[k] for k in assignment])
        compared += 1
    return (1 + as_high) / (1 + compared)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32))
def test_p_values_follow_their_definition_with_ties_and_shared_rows(n_rows, n_members, seed):
    random = np.random.default_rng(seed)
    calibration = random.integers(0, 5, size=(n_rows, n_members)).astype(float)
    seen = random.random(calibration.shape) < 0.5
    seen[np.arange(n_rows), random.integers(0, n_members, n_rows)] = False
    calibration[seen] = np.nan
    scores = random.integers(0, 6, size=(7, n_members)).astype(float)
    self_index = random.integers(-1, n_rows, size=7)
    expected = [naive_p_value(row, calibration, out) for row, out in zip(scores, self_index, strict=True)]
    np.testing.assert_allclose(p_values(scores, calibration, self_index), expected)
    np.testing.assert_allclose(p_values(scores, calibration), [naive_p_value(row, calibration, -1) for row in scores])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40), st.sampled_from([0.01, 0.05, 0.1, 0.3, 0.5]))
def test_benjamini_hochberg_follows_its_definition(numerators, fdr):
    p = np.array(numerators) / 40
    m = len(p)
    passing = [k for k in range(1, m + 1) if sorted(numerators)[k - 1] * m * 100 <= round(100 * fdr) * k * 40]
    selected = p <= (np.sort(p)[max(passing) - 1] if passing else -1)
    np.testing.assert_array_equal(benjamini_hochberg(p, fdr), selected)


@given(st.floats(1e-6, 0.999))
def test_rows_needed_is_the_smallest_number_that_reaches_the_rate(rate):
    n = rows_needed(rate)
    assert 1 / (n + 1) <= rate * (1 + 1e-9)
    assert 1 / n > rate * (1 - 1e-9)


@given(st.integers(2, 10**6))
def test_rows_needed_for_a_rate_of_one_in_n(n):
    assert rows_needed(1 / n) == n - 1


def test_threshold_leaves_the_wanted_share_below():
    scores = np.random.default_rng(0).normal(size=200)
    for share in (0.01, 0.05, 0.5):
        assert (scores < threshold(scores, share)).mean() == share


# Validity on scores whose truth is known


def member_scores(random, n_rows, n_members):
    """Scores of normal rows: what members agree on, noise of each member, and members of different spread."""
    agreed = random.gamma(2.0, size=(n_rows, 1))
    return agreed * np.linspace(0.5, 3, n_members) + 0.3 * random.exponential(size=(n_rows, n_members))


def out_of_fold(random, scores):
    folds = random.permutation(np.arange(len(scores)) % scores.shape[1])
    return np.where(folds[:, None] == np.arange(scores.shape[1]), scores, np.nan)


def test_p_values_of_one_member_are_uniform():
    random = np.random.default_rng(0)
    found = [p_values(random.normal(size=(1, 1)), random.normal(size=(19, 1)))[0] for _ in range(4000)]
    counts = np.bincount(np.round(20 * np.array(found)).astype(int), minlength=21)[1:]
    assert ((counts - 200) ** 2 / 200).sum() < 43.8  # chi-squared with 19 degrees of freedom, 0.1 %


@pytest.mark.parametrize("n_members", [2, 8])
@pytest.mark.parametrize("rate", [0.02, 0.1])
def test_false_alarms_stay_at_the_rate_whatever_the_spread_of_members(n_members, rate):
    alarms = []
    for seed in range(400):
        random = np.random.default_rng(seed)
        calibration = out_of_fold(random, member_scores(random, 99, n_members))
        alarms.append((p_values(member_scores(random, 50, n_members), calibration) <= rate).mean())
    assert within_error(alarms, rate, low=0.7)


def test_comparing_averages_over_members_with_single_members_would_miss_the_rate():
    """Why new rows are compared under each member: the spread of an average is another one."""
    alarms = []
    for seed in range(200):
        random = np.random.default_rng(seed)
        calibration = np.nanmean(out_of_fold(random, member_scores(random, 99, 8)), axis=1)[:, None]
        alarms.append((p_values(member_scores(random, 50, 8).mean(axis=1)[:, None], calibration) <= 0.02).mean())
    assert np.mean(alarms) < 0.01


@pytest.mark.parametrize("n_members", [1, 4])
@pytest.mark.parametrize("fdr", [0.05, 0.2])
def test_the_false_discovery_rate_is_held_on_mixtures(n_members, fdr):
    false_share, found = [], []
    truth = np.arange(100) < 15
    for seed in range(300):
        random = np.random.default_rng(seed)
        scores = member_scores(random, 100, n_members)
        scores[truth] *= 6
        calibration = out_of_fold(random, member_scores(random, 400, n_members))
        selected = benjamini_hochberg(p_values(scores, calibration), fdr)
        false_share.append((selected & ~truth).sum() / max(1, selected.sum()))
        found.append(selected[truth].mean())
    assert within_error(false_share, fdr, low=0)
    assert np.mean(found) > 0.3


def test_training_rows_are_ranked_among_the_others_and_never_with_themselves():
    random = np.random.default_rng(0)
    scores = random.permutation(40).astype(float)
    calibration = Calibration(np.arange(40), out_of_fold(random, member_scores(random, 40, 2)), scores)
    p = calibration.p_values(np.full((40, 2), np.nan), scores, np.arange(40))
    np.testing.assert_allclose(np.sort(p), np.arange(1, 41) / 40)
    np.testing.assert_array_equal(np.argsort(-scores), np.argsort(p))


def test_rounding_of_a_training_rows_own_score_does_not_matter():
    scores = np.arange(10.0)
    calibration = Calibration(np.arange(10), scores[:, None], scores)
    for off in (-1e-9, 0.0, 1e-9):
        p = calibration.p_values(np.zeros((1, 1)), scores[[7]] + off, np.array([7]))
        assert p[0] == 3 / 10


def test_a_training_row_beside_the_calibration_rows_is_compared_with_all_of_them():
    calibration = Calibration(np.array([2, 5, 9]), np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 3.0]))
    scores = np.array([2.5, 2.0])
    p = calibration.p_values(scores[:, None], scores, np.array([4, 5]))
    np.testing.assert_allclose(p, [2 / 4, 2 / 3])


# The detector


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_false_alarms_among_fresh_normal_rows(fits, rate):
    alarms = [
        fit.detect(normal_rows(300, 1000 + seed), false_alarm_rate=rate).anomaly.mean() for seed, fit in enumerate(fits)
    ]
    assert within_error(alarms, rate, low=0.5)


def test_false_discoveries_in_fresh_mixtures(fits):
    false_share, found = [], []
    truth = np.arange(100) >= 80
    for seed, fit in enumerate(fits):
        rows = np.vstack([normal_rows(80, 1000 + seed), anomalous_rows(20, 2000 + seed)])
        selected = fit.detect(rows, fdr=0.2).anomaly
        false_share.append((selected & ~truth).sum() / max(1, selected.sum()))
        found.append(selected[truth].mean())
    assert within_error(false_share, 0.2, low=0)
    assert np.mean(found) > 0.5


def test_out_of_fold_scores_are_those_of_members_that_left_the_row_out(detector):
    left_out, calibration = detector.ensemble_.left_out, detector.calibration_
    np.testing.assert_array_equal(~np.isnan(calibration.by_member), left_out.T)
    np.testing.assert_allclose(np.nanmean(calibration.by_member, axis=1), calibration.scores)
    np.testing.assert_array_equal(calibration.scores, -detector.training_scores_)


def test_a_copy_in_another_fold_does_not_lend_its_witnesses():
    rows = normal_rows(40, 0)
    fit = tiny(n_steps=2).fit(np.vstack([rows, rows[[3]]]))
    np.testing.assert_array_equal(~np.isnan(fit.calibration_.by_member), fit.ensemble_.left_out.T)
    p = fit.detect(np.vstack([rows, rows[[3]]]), false_alarm_rate=0.1).p_value
    assert p[3] == p[40]
    assert (p * 41 >= 0.999).all()


@pytest.mark.parametrize("n_members", [1, 4])
def test_ranks_of_the_training_table(n_members):
    rows = normal_rows(40, 0)
    fit = tiny(n_members=n_members, n_steps=2).fit(rows)
    found = fit.detect(rows, false_alarm_rate=0.1)
    np.testing.assert_allclose(np.sort(found.p_value), np.arange(1, 41) / 40)
    np.testing.assert_array_equal(np.argsort(fit.training_scores_), np.argsort(found.p_value))
    assert found.anomaly.sum() == 4


def test_scores_flags_and_threshold_belong_together(detector):
    rows = np.vstack([normal_rows(50, 7), anomalous_rows(30, 8)])
    for found in (
        detector.detect(rows, fdr=0.3),
        detector.detect(rows, false_alarm_rate=0.1),
        detector.detect(rows, fdr=np.float64(0.3)),
    ):
        np.testing.assert_array_equal(found.score, -detector.score_samples(rows))
        np.testing.assert_array_equal(found.anomaly, found.p_value <= found.threshold)
        assert found.anomaly.any()
    assert (found.rule, found.rate) == ("fdr", 0.3)


def test_without_a_rate_the_false_alarm_rate_is_one_percent(detector):
    rows = np.vstack([normal_rows(5, 7), anomalous_rows(20, 8)])
    found, asked = detector.detect(rows), detector.detect(rows, false_alarm_rate=0.01)
    assert (found.rule, found.rate) == ("false_alarm_rate", 0.01)
    np.testing.assert_array_equal(found.anomaly, asked.anomaly)
    assert found.anomaly[5:].mean() > 0.5


def test_one_anomaly_among_many_rows_is_found_by_default(detector):
    rows = np.vstack([normal_rows(999, 7), anomalous_rows(1, 8) * 100])
    found = detector.detect(rows)
    assert found.anomaly[-1]
    assert detector.predict(rows)[-1] == -1
    assert found.anomaly[:-1].mean() < 0.03


def test_few_rows_have_the_lowest_rate_that_they_can_tell():
    fit = tiny(n_members=2, n_steps=2).fit(normal_rows(30, 0))
    assert fit.detect(normal_rows(3, 7)).rate == 1 / 31


def test_a_share_of_a_large_table_is_that_many_rows(monkeypatch):
    monkeypatch.setattr("nptad.detector.CALIBRATION_ROWS", 50)
    assert tiny(n_members=2, n_steps=2).fit_detect(normal_rows(200, 0), 0.05).anomaly.sum() == 10


def test_p_values_do_not_depend_on_batch_mates(detector, monkeypatch):
    rows = np.vstack([normal_rows(120, 0)[:20], normal_rows(30, 7)])
    p = detector.detect(rows, false_alarm_rate=0.1).p_value
    np.testing.assert_array_equal(detector.detect(rows[::-3], false_alarm_rate=0.1).p_value, p[::-3])
    monkeypatch.setattr("nptad.detector._BLOCK_ROWS", 7)
    np.testing.assert_array_equal(detector.detect(rows, false_alarm_rate=0.1).p_value, p)


def test_rows_of_a_large_table_are_calibrated_by_a_sample(monkeypatch):
    monkeypatch.setattr("nptad.detector.CALIBRATION_ROWS", 30)
    rows = normal_rows(60, 0)
    fit = tiny(n_steps=2).fit(rows)
    assert fit.calibration_.by_member.shape == (30, 4)
    p = fit.detect(np.vstack([rows, normal_rows(20, 1)]), false_alarm_rate=0.1).p_value
    chosen = np.zeros(80, dtype=bool)
    chosen[fit.calibration_.rows] = True
    np.testing.assert_allclose(np.sort(p[chosen]), np.arange(1, 31) / 30)
    assert p[~chosen].min() >= 1 / 31


def test_flagged_rows_come_first_even_where_another_scores_higher():
    """A p-value compares a row with left-out rows member by member, so scores and flags can disagree on an order."""
    scores, flags = np.array([1.0, 5.0, 4.0, 4.0, 2.0]), np.array([False, False, True, True, False])
    detection = Detection(scores, np.where(flags, 0.01, 0.5), flags, 0.01, "false_alarm_rate", 0.01, "numpy")
    assert detection.ranking().tolist() == [2, 3, 1, 4, 0]
    whys = [RowExplanation(row, 1.0, (CellReason("a", 1, 2, 1.0),), (), 0.0, None) for row in (1, 2, 3)]
    result = result_of(nptad.NPTAD(), np.zeros((5, 1)), detection, explanation=Explanation(tuple(whys), "numpy"))
    assert result.reasons() == dict.fromkeys((2, 3), "a is 1, expected 2")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "numpy"])
def test_the_frame_is_of_the_kind_that_was_judged(detector, library):
    rows = np.vstack([normal_rows(3, 7), anomalous_rows(3, 8)])
    frame = pd.DataFrame(rows, columns=list("abcd"))
    table = {
        "pandas": lambda: frame,
        "polars": lambda: pytest.importorskip("polars").from_pandas(frame),
        "pyarrow": lambda: pytest.importorskip("pyarrow").Table.from_pandas(frame),
        "numpy": lambda: rows,
    }[library]()
    found = detector.detect(table, false_alarm_rate=0.1)
    made = found.frame()
    assert type(made).__module__.split(".")[0] == ("pandas" if library == "numpy" else library)
    assert [str(name) for name in getattr(made, "column_names", made.columns)] == ["row", "score", "p_value", "anomaly"]
    np.testing.assert_array_equal(np.asarray(made["anomaly"]), found.anomaly)


# What cannot be promised is said


@pytest.mark.parametrize("name", ["fdr", "false_alarm_rate"])
def test_a_rate_out_of_reach_is_an_error_that_says_how_many_rows_it_needs(detector, name):
    with pytest.raises(InputError, match=rf"^{name}=0\.001 needs at least 999 training rows .* there are 120: .*\.$"):
        detector.detect(normal_rows(5, 7), **{name: 0.001})
    detector.detect(normal_rows(1, 7) * 100, **{name: 1 / 121})


def test_too_few_rows_to_find_few_anomalies_is_a_warning_that_says_how_many_are_needed(detector):
    rows = np.vstack([normal_rows(199, 7), anomalous_rows(1, 8) * 100])
    message = (
        "With 120 calibration rows no p-value is below 1/121, so that fewer than 34 anomalies among 200 rows cannot be "
        "found at fdr=0.05; a single one would need 3,999 training rows."
    )
    with pytest.warns(TableWarning, match=f"^{re.escape(message)}$") as caught:
        found = detector.detect(rows, fdr=0.05)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert not found.anomaly.any()
    assert found.threshold == 0
    assert found.p_value[-1] == 1 / 121


def test_what_was_found_needs_no_warning(detector):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert detector.detect(anomalous_rows(200, 8) * 10).anomaly.any()
        assert not detector.detect(normal_rows(1, 7)).anomaly.any()


def test_no_false_discovery_rate_on_the_training_table_itself(detector):
    with pytest.warns(
        TableWarning, match=r"^120 of the 120 rows are training rows.*false_alarm_rate or use predict\.$"
    ):
        assert not detector.detect(normal_rows(120, 0), fdr=0.05).anomaly.any()


def test_a_single_member_says_that_its_p_values_flatter_the_training_rows():
    rows = normal_rows(40, 0)
    fit = tiny(n_members=1, n_steps=2).fit(rows)
    with pytest.warns(TableWarning, match=r"^The only member has seen .* n_members=2 or more\.$"):
        fit.detect(normal_rows(3, 7), false_alarm_rate=0.1)
    fit.detect(rows, false_alarm_rate=0.1)  # ranks among rows that are all flattered alike


@pytest.mark.parametrize("rate", [0, 1, -0.1, float("nan"), "5 %", True])
@pytest.mark.parametrize("name", ["fdr", "false_alarm_rate"])
def test_a_bad_rate_is_one_clear_sentence(detector, name, rate):
    with pytest.raises(InputError, match=rf"^{name} must be a number between 0 and 1, got .*\.$"):
        detector.detect(normal_rows(3, 7), **{name: rate})


def test_two_rules_at_once_are_refused(detector):
    with pytest.raises(InputError, match="give one of them"):
        detector.detect(normal_rows(3, 7), fdr=0.1, false_alarm_rate=0.1)
