"""The summary dict: plain, bounded, and right."""

from __future__ import annotations

import dataclasses
import json
import warnings

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from nptad import NPTAD, InputError, TableWarning
from nptad.report import render, summarise
from nptad.report.rows import SHOWN_REASONS
from nptad.report.summary import TRAINING_POINTS
from nptad.scoring.calibrate import Detection
from nptad.wording import shorten
from table_results import result_of

SCRIPT = "<script>alert('key')</script>"


def _detection(scores: np.ndarray, flagged: np.ndarray) -> Detection:
    return Detection(scores, np.full(len(scores), 0.5), flagged, 0.5, "fdr", 0.05, "pandas")


def test_json_round_trip(summary: dict, quiet_summary: dict) -> None:
    for one in (summary, quiet_summary):
        text = json.dumps(one, allow_nan=False, ensure_ascii=False)
        text.encode()  # no lone surrogates
        assert json.loads(text) == one


def test_same_input_same_summary(case: tuple, keys: pa.Table, summary: dict) -> None:
    detector, new, found, truth = case
    again = summarise(
        result_of(detector, new, found, keys=keys, labels=truth), source=summary["source"], command=summary["command"]
    )
    assert again | {"created": summary["created"]} == summary


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "array"])
def test_any_table(case: tuple, keys: pa.Table, summary: dict, kind: str) -> None:
    detector, new, found, truth = case
    clean = new.map(lambda cell: cell.replace("\ud800", "?") if isinstance(cell, str) else cell)
    table = {
        "polars": lambda: pl.from_pandas(clean),
        "pyarrow": lambda: pa.Table.from_pandas(clean),
        "array": lambda: new.to_numpy(),
    }[kind]()
    again = summarise(
        result_of(detector, table, found, keys=keys, labels=truth), source=summary["source"], command=summary["command"]
    )
    assert again["anomalies"] == summary["anomalies"]
    assert again["schema"] == summary["schema"]


def test_listed_rows_are_those_flagged_and_explained(case: tuple, summary: dict) -> None:
    detector, new, found, _ = case
    rows = [anomaly["row"] for anomaly in summary["anomalies"]]
    assert sorted(rows) == np.flatnonzero(found.anomaly).tolist()
    scores = [anomaly["score"] for anomaly in summary["anomalies"]]
    assert scores == sorted(scores, reverse=True) == found.score[rows].tolist()
    why = detector.explain(new.iloc[rows[:1]])[0]
    first = summary["anomalies"][0]
    assert [reason["contribution"] for reason in first["reasons"]] == pytest.approx(
        [reason.contribution for reason in why.reasons], rel=1e-4
    )
    assert [training["row"] for training in first["attended_rows"]] == [
        training.row for training in why.attended_rows[:5]
    ]
    assert first["nearest"]["row"] == why.nearest.row
    assert first["nearest"]["distance"] == pytest.approx(why.nearest.distance, rel=1e-3)


def test_an_explanation_that_exists_is_used_and_not_made_again(
    case: tuple, summary: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector, new, found, truth = case
    explanation = detector.explain(new)
    monkeypatch.setattr(type(detector), "explain", None)
    again = summarise(result_of(detector, new, found, explanation=explanation, labels=truth), source=summary["source"])
    columns = [[[reason["column"] for reason in row["reasons"]] for row in s["anomalies"]] for s in (again, summary)]
    assert columns[0] == columns[1]


def test_keys_tell_the_rows_apart(case: tuple) -> None:
    detector, new, found, _ = case
    numbers = [None if row == 3 else f"order {row}" for row in range(len(new))]
    names = ["order", SCRIPT, "a", "fourth"]
    summary = summarise(
        result_of(detector, new, found, keys=pa.table([numbers, numbers, range(len(new)), numbers], names))
    )
    assert summary["key_columns"] == [names[0], shorten(SCRIPT), "a"]
    for row in summary["anomalies"]:
        assert row["key"] == [numbers[row["row"]], numbers[row["row"]], str(row["row"])]
    page = render(summary)
    assert "order 0" in page
    assert "order 1<" not in page
    assert SCRIPT not in page


def test_shares_add_up(summary: dict) -> None:
    for anomaly, shares in zip(summary["anomalies"], summary["heat_map"]["shares"], strict=True):
        assert sum(shares) == pytest.approx(1, abs=1e-3)
        named = dict(zip(summary["heat_map"]["columns"], shares, strict=True))
        assert all(named[reason["column"]] == pytest.approx(reason["share"], abs=2e-4) for reason in anomaly["reasons"])
        assert sum(r["share"] for r in anomaly["reasons"]) + anomaly["others"]["share"] == pytest.approx(1, abs=1e-3)


def test_attended_rows_have_the_cells_of_training_rows(case: tuple, summary: dict) -> None:
    detector, *_ = case
    names = [reason["column"] for reason in summary["anomalies"][0]["reasons"][:3]]
    neighbour = summary["anomalies"][0]["attended_rows"][0]
    assert len(neighbour["cells"]) == len(names) == 3
    assert "b" in names  # what was planted
    place = int(np.flatnonzero(detector.ensemble_.context_source == neighbour["row"])[0])
    column = detector.schema_.used[1]
    assert column.name == "b"
    expected = detector.ensemble_.context[place, 1] * column.scale + column.mean
    assert neighbour["cells"][names.index("b")] == pytest.approx(expected, rel=1e-4)


def test_histogram_counts_every_row(case: tuple, summary: dict) -> None:
    detector, _, found, _ = case
    scores = summary["scores"]
    assert sum(scores["counts"]) == len(found.score)
    assert sum(scores["flagged"]) == found.anomaly.sum()
    assert sum(scores["training"]) == len(detector.training_scores_)
    assert len(scores["edges"]) == len(scores["counts"]) + 1


def test_missing_cells_are_counted(case: tuple, summary: dict) -> None:
    _, new, _, _ = case
    by_name = {column["name"]: column for column in summary["schema"]}
    assert by_name["c"]["missing"] == new["c"].isna().sum() == summary["table"]["n_missing"]
    assert by_name["c"]["missing_training"] == 15
    assert by_name["when"]["mean"].startswith("2025-")


def test_no_anomalies(quiet_summary: dict) -> None:
    result = quiet_summary["result"]
    assert (result["n_flagged"], result["n_listed"], result["score_threshold"]) == (0, 10, None)
    assert result["statement"] == "None of 100 rows looks anomalous at a false discovery rate of 2%"
    assert result["meaning"].startswith("No row is flagged.")
    assert not any(anomaly["flagged"] for anomaly in quiet_summary["anomalies"])
    assert all(anomaly["in_training"] for anomaly in quiet_summary["anomalies"])
    assert "The listed rows are part of the training table" in " ".join(result["notes"])
    assert quiet_summary["labels"] is None


def test_rules_in_words(case: tuple) -> None:
    detector, new, _, _ = case
    found = detector.detect(new, false_alarm_rate=0.1)
    result = summarise(result_of(detector, new, found), max_rows=3)["result"]
    assert result["statement"].endswith("rows look anomalous at a false-alarm rate of 10%")
    assert result["n_listed"] == 3
    assert any("the 3 most anomalous are listed" in note for note in result["notes"])


def test_seed_and_code(case: tuple, summary: dict) -> None:
    assert summary["seed"] == 3
    assert "detector = NPTAD(embedding_dim=8, max_masked=1, n_members=2, n_steps=30, random_state=3)" in summary["code"]
    assert "detect(table, fdr=0.2)" in summary["code"]
    detector, new, found, _ = case
    assert summarise(result_of(detector, new, found), seed=8)["seed"] == 8


def test_long_runs_and_wide_tables_stay_small() -> None:
    table = np.random.default_rng(0).normal(size=(30, 14))
    detector = NPTAD(n_members=1, n_steps=2, embedding_dim=4, max_masked=1, random_state=0).fit(table)
    entry = detector.history_[0]
    history = [entry | {"step": step, "loss": 1 / step} for step in range(1, 1001)]
    scorer = dataclasses.replace(detector.model_.scorer, history=history)
    detector.model_ = dataclasses.replace(detector.model_, scorer=scorer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        summary = summarise(result_of(detector, table + 0.5, detector.detect(table + 0.5)))
    curve = summary["training"]["network"]["curve"]
    assert len(curve) == TRAINING_POINTS
    assert curve[-1][0] == 1000
    assert all(low <= mean <= high for _, mean, low, high in curve)
    assert all(len(a["reasons"]) == SHOWN_REASONS and a["others"]["n"] == 4 for a in summary["anomalies"])
    assert any("single member" in note for note in summary["result"]["notes"])


def test_labels(case: tuple, summary: dict) -> None:
    _, _, found, truth = case
    judged = summary["labels"]
    assert judged["auroc"] == pytest.approx(roc_auc_score(truth, found.score))
    assert judged["average_precision"] == pytest.approx(average_precision_score(truth, found.score))
    assert judged["f1"] == pytest.approx(f1_score(truth, found.anomaly))
    assert judged["roc"][0] == [0, 0]
    assert judged["roc"][-1] == [1, 1]
    assert [anomaly["label"] for anomaly in summary["anomalies"]] == [truth[a["row"]] for a in summary["anomalies"]]


def test_misuse_is_explained(case: tuple) -> None:
    detector, new, found, _ = case
    with pytest.raises(InputError, match="one label for each row"):
        summarise(result_of(detector, new, found, labels=np.array([0, 1])))
    with pytest.raises(InputError, match=r"0 \(normal\) or 1"):
        summarise(result_of(detector, new, found, labels=np.full(60, 2)))
    with pytest.raises(InputError, match="max_rows"):
        summarise(result_of(detector, new, found), max_rows=0)


def test_scores_of_all_kinds(case: tuple) -> None:
    detector, new, found, _ = case
    for scores in (np.ones(60), np.zeros(60), np.geomspace(1e-3, 1e12, 60), np.r_[0, np.geomspace(1, 1e6, 59)]):
        summary = summarise(result_of(detector, new, dataclasses.replace(found, score=scores)), max_rows=1)
        assert sum(summary["scores"]["counts"]) == 60
        json.dumps(summary, allow_nan=False)
