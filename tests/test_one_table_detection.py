"""One table that contains the anomalies, from the estimator to the report and the saved model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nptad
from nptad import NPTAD, detect_table
from nptad.errors import InputError
from nptad.report import summarise


def orders(n_odd: int) -> pd.DataFrame:
    random = np.random.default_rng(0)
    size = random.normal(size=300)
    frame = pd.DataFrame({"id": range(300), "size": size, "weight": 3 * size + random.normal(size=300)})
    frame["colour"] = random.choice(["red", "blue", "green"], 300)
    frame.loc[:, "hours"] = random.normal(8, 1, 300)
    frame.loc[frame.index[:n_odd], ["size", "weight", "hours"]] = [9.0, -30.0, 30.0]
    frame.loc[frame.index[:n_odd], "hours"] += random.normal(size=n_odd)
    return frame


@pytest.fixture(scope="module")
def result():
    return detect_table(orders(20), NPTAD(random_state=0), ignore=["id"])


def test_the_first_command_finds_a_group_and_says_how_many(result):
    assert np.flatnonzero(result.detection.anomaly).tolist() == list(range(20))
    assert result.detection.rule == "fdr"
    assert result.detection.p_value[result.detection.anomaly].max() == result.detection.threshold


def test_the_summary_says_what_was_kept_out_and_how_stable_the_ranking_is(result):
    summary = summarise(result, source="orders.csv")
    core = summary["training"]["core"]
    assert core["n_rows"] + core["n_kept_out"] == 300
    assert sum(core["reasons"].values()) == core["n_kept_out"]
    assert core["n_top"] == 20
    assert core["agreement"] > 0.5
    assert summary["anomalies"][0]["kept_out"] in core["reasons"]
    assert any("Kept out of it" in note for note in summary["result"]["notes"])
    assert "fit_detect(table)" in summary["code"]


def test_nothing_stands_out_of_a_clean_table():
    found = detect_table(orders(0), NPTAD(random_state=0), ignore=["id"])
    assert not found.detection.anomaly.any()
    statement = summarise(found)["result"]
    assert statement["statement"].startswith("None of 300 rows")
    assert statement["n_listed"] == 10


def test_a_share_forces_a_number_whatever_stands_out():
    found = detect_table(orders(0), NPTAD(random_state=0), ignore=["id"], share=0.05).detection
    assert (found.anomaly.sum(), found.rule) == (15, "share")
    assert found.score[found.anomaly].min() > found.score[~found.anomaly].max()


def test_a_saved_model_scores_new_rows_against_the_core(result, tmp_path):
    result.detector.save(tmp_path / "model")
    again = nptad.load(tmp_path / "model")
    new = orders(5).drop(columns="id")
    assert again.predict(new.iloc[:5]).tolist() == [-1] * 5
    np.testing.assert_array_equal(again.score_samples(new), result.detector.score_samples(new))
    np.testing.assert_array_equal(again.detect(result.columns).score, result.detection.score)


def test_contaminated_training_is_a_parameter_of_fit():
    table = orders(20).drop(columns="id")
    clean, robust = (NPTAD(training=kind, random_state=0) for kind in ("clean", "contaminated"))
    assert (robust.fit_predict(table)[:20] == -1).all()
    np.testing.assert_array_equal(robust.fit(table).predict(table), robust.fit_predict(table))
    assert clean.fit(table).model_.scorer.core is None


def test_training_is_checked():
    with pytest.raises(InputError, match="'clean' or 'contaminated'"):
        NPTAD(training="dirty").fit(orders(0))
    with pytest.raises(InputError, match="for the default score"):
        NPTAD(training="contaminated", n_steps=1).fit(orders(0))
