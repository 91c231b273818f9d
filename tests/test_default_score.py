"""The detector without a network: what a user gets by default."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import nptad
import nptad.cli.app
from nptad import NPTAD, InputError, TableWarning
from nptad.explain.result import CellReason, RowExplanation
from nptad.explain.sentences import reasons_text
from nptad.scoring import view_score


def trips(n_rows: int, seed: int) -> pd.DataFrame:
    """Hours depend on the distance, the load on the kind."""
    random = np.random.default_rng(seed)
    km = random.gamma(2, 6, n_rows)
    kind = random.choice(["van", "truck"], n_rows)
    load = np.where(kind == "truck", 900.0, 300.0) + 50 * random.normal(size=n_rows)
    return pd.DataFrame({"km": km, "hours": km / 28 + 0.05 * random.normal(size=n_rows), "kind": kind, "load": load})


@pytest.fixture(scope="module")
def detector() -> NPTAD:
    return NPTAD(random_state=0).fit(trips(600, 0))


def test_no_network_is_trained(detector):
    assert detector.model_.network is None
    with pytest.raises(AttributeError, match="settings='network'"):
        _ = detector.ensemble_
    assert NPTAD(settings="network", n_steps=2, n_members=2, random_state=0).fit(trips(40, 0)).history_


def test_the_score_is_minus_the_log_of_the_p_value_and_all_decisions_agree(detector):
    new = trips(300, 1)
    new.loc[:4, "hours"] = 9.0
    found = detector.detect(new)
    np.testing.assert_allclose(found.p_value, np.exp(-found.score))
    np.testing.assert_allclose(detector.score_samples(new), -found.score)
    assert found.anomaly[:5].all()
    np.testing.assert_array_equal(detector.predict(new) == -1, found.anomaly)
    np.testing.assert_array_equal(detector.decision_function(new) < 0, found.anomaly)


def test_the_command_flags_the_rows_that_predict_flags(detector, tmp_path, monkeypatch):
    new = trips(300, 1)
    new.loc[:4, "hours"] = 9.0
    detector.save(tmp_path / "model")
    new.to_csv(tmp_path / "new.csv", index=False)
    for output in ("whole.csv", "parts/"):  # the latter is written part by part
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.argv", ["nptad", "score", "model", "new.csv", "--output", output, "--quiet"])
        nptad.cli.app.main()
    whole = pd.read_csv(tmp_path / "whole.csv")
    parts = pd.concat(pd.read_parquet(path) for path in sorted((tmp_path / "parts").glob("*.parquet")))
    for written in (whole, parts):
        np.testing.assert_array_equal(written["anomaly"], detector.predict(new) == -1)
        np.testing.assert_allclose(written["score"], -detector.score_samples(new), rtol=1e-5)


def test_what_follows_a_detection_works_when_nothing_was_flagged(detector):
    """README's detector.explain(new[found.anomaly]).plot() on ordinary rows."""
    new = trips(300, 1)
    new = new[detector.detect(new).p_value > 0.2]
    found = detector.detect(new)
    assert not found.anomaly.any()
    assert len(found.frame()) == len(new)
    explained = detector.explain(new[found.anomaly])
    assert len(explained.frame()) == 0
    assert "<table" not in explained.html()
    pytest.importorskip("matplotlib")
    explained.plot().figure.clear()


def test_one_anomaly_among_thousands_of_rows_is_found_at_a_false_discovery_rate():
    detector = NPTAD(random_state=0).fit(trips(2000, 0))
    new = trips(3000, 1)
    new.loc[7, ["km", "hours", "load"]] = [99_999.0, 0.01, -5000.0]
    found = detector.detect(new, fdr=0.1)
    assert found.anomaly[7]
    assert found.anomaly.sum() <= 6
    assert found.p_value[7] < found.resolution == 1 / 2001


def test_a_rate_below_what_rows_can_tell_rests_on_the_tail_and_says_so(detector):
    with pytest.warns(TableWarning, match="600 training rows .* fitted tail"):
        detector.detect(trips(10, 1), false_alarm_rate=1e-4)
    with pytest.raises(InputError, match="between 0 and 1"):
        detector.detect(trips(10, 1), false_alarm_rate=0)


def test_the_training_table_has_out_of_fold_scores_and_any_other_row_is_new(detector):
    table = trips(600, 0)
    np.testing.assert_array_equal(detector.score_samples(table), detector.training_scores_)
    np.testing.assert_array_equal(NPTAD(random_state=0).fit_predict(table), detector.predict(table))
    assert (detector.predict(table) == -1).sum() == 6
    some = detector.detect(table.iloc[:50])
    assert (some.training_row == -1).all()


@pytest.mark.parametrize("kind", ["discrete", "duplicated", "continuous", "heavy-tailed"])
def test_false_alarms_keep_to_their_rate(kind):
    """Fresh rows that equal training rows are new rows: 300 rows of few different values."""
    alarms = {0.02: 0, 0.05: 0, 0.1: 0}
    n_tables, n_rows, n_new = 25, 300, 200
    for seed in range(n_tables):
        random = np.random.default_rng(seed)
        rows = random.normal(size=(n_rows + n_new, 3))
        if kind == "discrete":
            rows = rows.round()
        if kind == "heavy-tailed":
            rows /= np.sqrt(random.chisquare(2, rows.shape) / 2)
        if kind == "duplicated":
            rows = rows[random.integers(0, len(rows) // 2, len(rows))]
        fitted = NPTAD(random_state=seed).fit(rows[:n_rows])
        p = fitted.detect(rows[n_rows:]).p_value
        for rate in alarms:
            alarms[rate] += int((p <= rate).sum())
    spread = 1 + n_new / n_rows  # the rate of a table varies with its training rows
    for rate, count in alarms.items():
        assert count / spread <= binom.ppf(0.9995, round(n_tables * n_new / spread), rate)


def test_share_of_the_training_rows_is_flagged_exactly():
    found = NPTAD(random_state=0).fit_detect(trips(1000, 0), share=0.013)
    assert found.anomaly.sum() == 13


def test_share_of_more_rows_than_are_compared_with_is_flagged_exactly(monkeypatch):
    """Rows that the views do not keep are ranked among all: 1 % of 100,000 rows is 1,000."""
    monkeypatch.setattr(view_score, "MANY_ROWS", 200)
    monkeypatch.setattr(view_score, "MOST_ROWS", 200)
    detector = NPTAD(random_state=0)
    found = detector.fit_detect(trips(1500, 0), share=0.01)
    assert detector.model_.scorer.n_calibration < 1500
    assert found.anomaly.sum() == 15


@pytest.mark.parametrize("kept", [200, 450])
def test_large_tables_are_sampled_and_every_row_has_a_score(monkeypatch, kept):
    """Fewer rows are kept where a tree would not search all of them fast."""
    monkeypatch.setattr(view_score, "MANY_ROWS", 200)
    monkeypatch.setattr(view_score, "MOST_ROWS", 450)
    monkeypatch.setattr("nptad.scoring.views.neighbours.MANY_ROWS", 200)
    monkeypatch.setattr("nptad.scoring.views.neighbours._MOST_COMPARED", 0 if kept == 200 else 500)
    monkeypatch.setattr("nptad.scoring.views.neighbours._MOST_GAPS", 1.0)
    table = trips(500, 0)
    table.loc[499, "hours"] = 9.0
    detector = NPTAD(random_state=0).fit(table)
    assert detector.model_.scorer.n_calibration == kept
    assert len(detector.training_scores_) == 500
    assert detector.training_scores_.argmin() == 499
    again = NPTAD(random_state=0).fit(table)
    np.testing.assert_array_equal(again.training_scores_, detector.training_scores_)


def test_a_saved_detector_gives_the_same_scores(detector, tmp_path):
    detector.save(tmp_path / "model")
    again = nptad.load(tmp_path / "model")
    new = trips(50, 2)
    np.testing.assert_array_equal(again.score_samples(new), detector.score_samples(new))
    np.testing.assert_array_equal(again.score_samples(trips(600, 0)), detector.training_scores_)
    assert again.explain(new.iloc[:2]).rows == detector.explain(new.iloc[:2]).rows
    assert "nearest row in some columns" in (tmp_path / "model" / "README.md").read_text()


def test_reasons_name_the_wrong_cells_with_values_that_similar_rows_have(detector):
    new = trips(4, 3)
    new.loc[0, ["km", "hours"]] = [12.0, 9.0]
    new.loc[1, "load"] = -400.0
    new.loc[2, "kind"] = "ship"
    new.loc[3, ["km", "load"]] = np.nan
    explained = detector.explain(new)
    firsts = [why.reasons[0] for why in explained]
    assert [sum(reason.suspicious for reason in why.reasons) for why in explained[:3]] == [1, 1, 1]
    assert [reason.column for reason in firsts[:3]] == ["hours", "load", "kind"]
    assert {reason.column for reason in explained[3].reasons[:2]} == {"km", "load"}
    assert firsts[0].expected == pytest.approx(new.loc[0, "km"] / 28, abs=0.3)
    training = trips(600, 0)
    assert np.isclose(training["hours"], firsts[0].expected, rtol=1e-5).any()  # a value that occurs
    assert firsts[2].expected in ("van", "truck")
    assert firsts[2].probability == 0
    assert "values never seen" in explained[2].by_view
    assert firsts[3].view == "missing cells"
    for why in explained:
        assert sum(reason.contribution for reason in why.reasons) == pytest.approx(why.score)
        assert sum(why.by_view.values()) == pytest.approx(why.score)


def test_several_wrong_cells_are_named_together(detector):
    new = trips(1, 4)
    new.loc[0, ["km", "load"]] = [200.0, -900.0]
    reasons = detector.explain(new)[0].reasons
    assert {reason.column for reason in reasons if reason.suspicious} == {"km", "load"}


def test_equal_wrong_cells_and_many_gaps_are_one_sentence_each():
    random = np.random.default_rng(0)
    size = random.normal(6, 1, 600)
    boxes = pd.DataFrame({"x": size, "y": 1.1 * size, "z": 0.6 * size, "carat": size**3 / 200, "price": 20 * size**3})
    boxes *= random.normal(1, 0.02, boxes.shape)
    new = boxes.iloc[:2].copy()
    new.loc[0, ["x", "y", "z"]] = 0.0
    new.loc[1, ["x", "y", "z", "price"]] = np.nan
    why = NPTAD(random_state=0).fit(boxes[2:]).explain(new)
    zeros, gaps = map(reasons_text, why)
    names, values, ranges = re.fullmatch(
        r"(.*) are 0; similar rows have about (.*); normal ranges ([^;]*).*", zeros
    ).groups()
    assert sorted(re.split(", | and ", names)) == ["x", "y", "z"]
    assert len(re.split(", | and ", values)) == 3
    assert len(re.findall(" to ", ranges)) == 3
    assert gaps.startswith("4 of 5 cells are empty, usual is 0: ")
    named = gaps.partition(": ")[2].partition(".")[0]
    assert sorted(named.replace(" and ", ", ").split(", ")) == ["price", "x", "y", "z"]


def test_of_many_gaps_the_first_are_named():
    reasons = [CellReason(f"c{j}", None, 1.0, 1.0, suspicious=True) for j in range(9)]
    why = RowExplanation(0, 4.0, (*reasons, CellReason("d", 1.0, 1.0, 0.0)), (), 0.0, None, usual_gaps=0)
    assert reasons_text(why) == "9 of 10 cells are empty, usual is 0: c0, c1, c2 and 6 more"


def test_the_only_cell_of_a_row_has_no_others_to_fit():
    prices = pd.DataFrame({"price": np.random.default_rng(0).normal(100, 5, 300)})
    why = NPTAD(random_state=0).fit(prices).explain(pd.DataFrame({"price": [150.0]}))[0]
    assert why.reasons[0].suspicious
    assert "other cells" not in reasons_text(why)


def test_flagged_rows_of_the_training_table_are_explained_as_such():
    table = trips(300, 0)
    table.loc[5, "load"] = -400.0
    detector = NPTAD(random_state=0)
    found = detector.fit_detect(table, share=0.01)
    why = detector.explain(table[found.anomaly])
    assert why[0].reasons[0].column == "load"
    np.testing.assert_allclose([row.score for row in why], found.score[found.anomaly])


def test_a_row_with_many_gaps_is_odd_where_gaps_are_rare():
    training = trips(600, 0)
    training.loc[::60, "load"] = np.nan
    new = trips(2, 5)
    new.loc[0, ["km", "hours", "load"]] = np.nan
    new.loc[1, "load"] = np.nan
    found = NPTAD(random_state=0).fit(training).detect(new)
    assert found.p_value[0] < 0.05 < found.p_value[1]


@pytest.mark.parametrize(
    "table",
    [
        np.array([[1.0, 2.0]]),
        np.array([[1.0, 2.0], [3.0, 1.0]]),
        np.ones((10, 2)),
        np.array([[1.0, np.nan], [2.0, np.nan], [3.0, np.nan]]),
        np.array([[1e30, 1.0], [-1e30, 2.0], [0.0, 3.0], [1.0, 4.0]]),
    ],
    ids=["one row", "two rows", "constant", "an empty column", "huge values"],
)
@pytest.mark.filterwarnings("ignore::nptad.TableWarning")
def test_poor_tables_are_fitted_and_every_score_is_finite(table):
    try:
        detector = NPTAD(random_state=0).fit(table)
    except InputError:  # said in one sentence
        return
    new = np.vstack([table, table[:1] + 5])
    assert np.isfinite(detector.score_samples(new)).all()
    assert len(detector.explain(new)) == len(new)
