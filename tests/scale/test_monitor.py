"""Scored files over time: what is counted, what is beyond chance, and what the page and the command say."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from nptad import NPTAD, InputError
from nptad.cli.app import app
from nptad.pipeline import score_table
from nptad.report.monitoring import render_monitoring
from nptad.scale.monitor import NO_TIME, monitor_files


def table(n: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(random.normal(shift, 1, (n, 2)), columns=["a", "b"])
    frame["kind"] = random.choice(["x", "y"], n)
    return frame


@pytest.fixture(scope="module")
def detector():
    return NPTAD(random_state=0).fit(table(400, 0))


@pytest.fixture(scope="module")
def folder(detector, tmp_path_factory):
    """Six scored files with their inputs, two for each day; the last two have drifted, one holds anomalies."""
    folder = tmp_path_factory.mktemp("scores")
    detector.save(folder / "model")
    for k in range(6):
        frame = table(200, 10 + k, 2.0 if k >= 4 else 0.0)
        if k == 2:
            frame.loc[:19, "a"] = 9.0
        found = detector.detect(frame)
        frame["when"] = pd.Timestamp("2026-03-01") + pd.to_timedelta(12 * k, unit="h")
        scored = frame.assign(score=found.score, p_value=found.p_value, anomaly=found.anomaly)
        scored.to_parquet(folder / f"<b>{k}.parquet", index=False)
    return folder


@pytest.fixture(scope="module")
def files(folder):
    return sorted(map(str, folder.glob("*.parquet")))


def test_periods_are_counted_as_they_are(detector, files):
    found = monitor_files(detector, files)
    assert [period.name for period in found.periods] == [f"<b>{k}.parquet" for k in range(6)]
    for period, path in zip(found.periods, files, strict=True):
        scored = pd.read_parquet(path)
        assert (period.n_rows, period.n_flagged) == (200, scored["anomaly"].sum())
        assert period.mean_score == pytest.approx(scored["score"].mean())
        assert period.high_score == pytest.approx(scored["score"].quantile(0.99))
    assert [period.is_high for period in found.periods] == [False, False, True, False, True, True]
    assert [sorted(period.drift) for period in found.periods] == [[], [], [], [], ["a", "b"], ["a", "b"]]
    assert found.rate == 0.01
    assert found.mean_score == pytest.approx(1.0, abs=0.05)


def test_rows_are_put_together_by_day(detector, files):
    days = monitor_files(detector, files[::-1], time="when")
    assert [period.name for period in days.periods] == ["2026-03-01", "2026-03-02", "2026-03-03"]
    by_file = monitor_files(detector, files)
    assert [p.n_flagged for p in days.periods] == [
        sum(p.n_flagged for p in by_file.periods[k : k + 2]) for k in (0, 2, 4)
    ]
    assert days.statement() == "2 of 3 days have more flags than chance allows"


def test_what_score_writes_is_enough(detector, tmp_path):
    new = table(300, 5).assign(when=["2026-03-01 10:00", None, "2026-03-02"] * 100)
    result = score_table(detector, new, ignore=["when"])
    pq.write_table(result.table(), tmp_path / "scores.parquet")
    found = monitor_files(detector, [str(tmp_path / "scores.parquet")], time="when")
    assert [(p.name, p.n_rows) for p in found.periods] == [("2026-03-01", 100), ("2026-03-02", 100), (NO_TIME, 100)]
    assert found.n_compared == 0
    assert not any(period.drift for period in found.periods)


def test_parts_with_all_columns_show_what_differs_in_which_input(detector, tmp_path):
    model, new = tmp_path / "model", tmp_path / "in"
    detector.save(model)
    new.mkdir()
    table(300, 5).assign(file="x").to_csv(new / "monday.csv", index=False)
    table(300, 6, shift=2.0).assign(file="x").to_csv(new / "tuesday.csv", index=False)
    command = ["score", str(model), f"{new}/*.csv", "--output", f"{tmp_path}/days/", "--ignore", "file"]
    with pytest.warns(UserWarning, match=r"tuesday.csv: Drift"):
        app([*command, "--all-columns", "--quiet"], exit_on_error=False, result_action="return_value")
    parts = sorted(map(str, (tmp_path / "days").glob("*.parquet")))
    assert set(pq.read_schema(parts[0]).names) >= {"nptad_file", "row", "a", "b", "kind", "file", "score", "anomaly"}
    found = monitor_files(detector, parts)
    assert [period.name for period in found.periods] == ["monday.csv", "tuesday.csv"]
    assert [sorted(period.drift) for period in found.periods] == [[], ["a", "b"]]
    assert found.n_compared == 3


def test_chance_alone_hardly_ever_shows(detector):
    rates = np.random.default_rng(0).binomial(200, 0.01, (300, 20))
    high = monitor_limits(detector)
    assert (rates > high).any(axis=1).mean() < 0.01


def monitor_limits(detector) -> int:
    """The most flags of one of 20 periods of 200 rows that chance allows."""
    from nptad.scale.monitor import _Collected, _period

    collected = _Collected([np.ones(200)], 0, [np.empty((200, 0))])
    return _period(detector, "", collected, 0.01, [], 20).high


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (lambda t: t.drop(columns="score"), {}, "no column 'score' as nptad score writes it"),
        (lambda t: t.assign(anomaly="maybe"), {}, "no column 'anomaly'"),
        (lambda t: t.assign(score=np.inf), {}, "not finite"),
        (lambda t: t[:0], {}, "no rows"),
        (lambda t: t, {"time": "day"}, "no column 'day'; carry it along"),
        (lambda t: t, {"time": "a"}, "'a' of .* has no times"),
    ],
)
def test_other_files_are_refused_in_a_sentence(detector, files, tmp_path, change, options, said):
    path = tmp_path / "other.parquet"
    change(pd.read_parquet(files[0])).to_parquet(path, index=False)
    with pytest.raises(InputError, match=said):
        monitor_files(detector, [str(path)], **options)


def test_the_command_prints_and_writes_a_page_that_loads_nothing(folder, tmp_path, capsys):
    command = ["monitor", str(folder / "model"), str(folder / "*.parquet")]
    page = tmp_path / "page.html"
    app([*command, "--report", str(page)], exit_on_error=False, result_action="return_value")
    assert "3 of 6 files have more flags than chance allows" in capsys.readouterr().out
    html = page.read_text()
    assert "<b>0.parquet" not in html
    assert "&lt;b&gt;0.parquet" in html
    assert not {"<script", "http://", "https://", "src="} & set(html.split('"'))
    assert html.count("<circle") == 18
    app([*command, "--json"], exit_on_error=False, result_action="return_value")
    facts = json.loads(capsys.readouterr().out)
    assert facts["statement"] == "3 of 6 files have more flags than chance allows"
    assert [period["is_high"] for period in facts["periods"]] == [False, False, True, False, True, True]


def test_a_network_is_compared_with_its_own_training_scores(files, tmp_path):
    trained = NPTAD(2, n_steps=5, embedding_dim=8, random_state=0).fit(table(150, 0))
    found = monitor_files(trained, files[:1], false_alarm_rate=0.05)
    assert found.mean_score == pytest.approx(-trained.training_scores_.mean())
    assert render_monitoring({**found.to_dict(), "upkeep": ""}, "model").count("<circle") == 3
