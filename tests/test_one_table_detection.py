"""One table that contains the anomalies, from the estimator to the report and the saved model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nptad
from nptad import NPTAD, detect_table
from nptad.errors import InputError, TableWarning
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


def trips(n_rows: int = 800) -> pd.DataFrame:
    """Trips as they are: what belongs together does, tails are long, some cells are missing."""
    random = np.random.default_rng(1)
    km, load = random.lognormal(4, 0.5, n_rows).round(1), random.uniform(150, 1050, n_rows).round()
    frame = pd.DataFrame(
        {
            "kind": random.choice(["van", "truck", "car"], n_rows, p=[0.5, 0.3, 0.2]),
            "km": km,
            "load": load,
            "hours": (km / random.normal(60, 8, n_rows).clip(25) + 0.05 + random.exponential(0.3, n_rows)).round(2),
            "fuel": (km * random.normal(0.09, 0.01, n_rows) * (1 + load / 3000)).round(2),
            "price": [f"{price:.2f}" for price in 3 * km + random.lognormal(2, 0.3, n_rows)],
            "quantity": random.integers(1, 21, n_rows).astype(float),
        }
    )
    frame.loc[random.random(n_rows) < 0.01, "fuel"] = np.nan
    return frame


def test_few_gross_errors_are_flagged_first_and_explained():
    frame = trips()
    frame.loc[[10, 11], "load"] = 9999.0
    frame.loc[100, "kind"] = "vna"
    frame.loc[[200, 201], "hours"] = 0.0
    frame.loc[[300, 301], ["km", "load", "hours"]] = np.nan
    frame.loc[400, "quantity"] = -5.0
    frame.loc[500, "price"] = "12O.4o"
    frame.loc[600, "fuel"] *= 100
    wrong = [10, 11, 100, 200, 201, 300, 301, 400, 500, 600]
    with pytest.warns(TableWarning, match="cannot be read"):
        found = detect_table(frame, NPTAD(random_state=0))
    flagged = np.flatnonzero(found.detection.anomaly)
    assert set(wrong) <= set(flagged.tolist())
    assert len(flagged) <= len(wrong) + 1
    assert set(found.detection.ranking()[: len(wrong)].tolist()) == set(wrong)
    first = {why.row: why.reasons[0].column for why in found.explanation}
    expected = {10: "load", 100: "kind", 200: "hours", 400: "quantity", 500: "price", 600: "fuel"}
    assert {row: first[row] for row in expected} == expected
    summary = summarise(found, source="trips.csv")
    assert {row["kept_out"] for row in summary["anomalies"][: len(wrong)]} == {"wrong in single cells"}


def test_trips_without_errors_have_nothing_to_flag():
    assert detect_table(trips(), NPTAD(random_state=0)).detection.anomaly.sum() <= 1


def sales(seed: int, n_rows: int = 1200) -> pd.DataFrame:
    """Orders in working hours; a tenth of them from Italy, where no other order has its cities; totals add up."""
    random = np.random.default_rng(seed)
    cities = {"FR": ["Paris", "Lyon"], "DE": ["Berlin", "Bonn"], "ES": ["Madrid", "Vigo"], "IT": ["Roma", "Bari"]}
    country = random.choice([*cities], n_rows, p=[0.42, 0.3, 0.19, 0.09])
    days = pd.to_timedelta(random.integers(0, 180, n_rows), "D")
    price, quantity = np.exp(random.normal(3, 0.5, n_rows)).round(2), random.integers(1, 6, n_rows)
    return pd.DataFrame(
        {
            "ordered": pd.Timestamp("2026-01-01") + days + pd.to_timedelta(random.integers(480, 1020, n_rows), "m"),
            "country": country,
            "city": [random.choice(cities[name]) for name in country],
            "price": price,
            "quantity": quantity,
            "total": (price * quantity).round(2),
        }
    )


@pytest.mark.parametrize("seed", range(3))
def test_orders_without_errors_have_next_to_nothing_to_flag_and_their_errors_are_flagged(seed):
    table = sales(seed)
    assert NPTAD(random_state=0).fit_detect(table).anomaly.sum() <= 0.01 * len(table)
    table.loc[10, "ordered"] = table.loc[10, "ordered"].normalize() + pd.Timedelta(hours=3)
    table.loc[20, "city"] = "Roma" if table.loc[20, "country"] != "IT" else "Paris"
    table.loc[30, "total"] = round(table.loc[30, "total"] + 17, 2)
    table.loc[40, "quantity"] = -2
    flagged = np.flatnonzero(NPTAD(random_state=0).fit_detect(table).anomaly)
    assert {10, 20, 30, 40} <= set(flagged.tolist())
    assert len(flagged) <= 4 + 0.01 * len(table)


def test_new_rows_of_a_category_that_differs_from_all_others_are_ordinary():
    table = sales(0, 3000)
    detector = NPTAD(training="contaminated", random_state=0).fit(table[:1500])
    italian = (table["country"] == "IT").to_numpy()[1500:]
    assert (detector.detect(table[1500:]).p_value[italian] <= 0.01).mean() <= 0.05
