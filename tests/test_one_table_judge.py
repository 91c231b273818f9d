"""The quick judge of anomalies inside one table: how tables are drawn, the cache, and the page."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import one_table
import quick
from nptad.bench.datasets import Table
from nptad.bench.one_table import METHODS, flag_metrics, whole_table
from nptad.bench.protocol import Clock, Scored


@pytest.fixture
def two_tables(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    for name, n_odd in (("few", 5), ("many", 20)):
        test = np.vstack([random.normal(size=(60, 3)), random.normal(6, 0.1, size=(n_odd, 3))])
        truth = np.arange(len(test)) >= 60
        np.savez(tmp_path / f"{name}.npz", train=random.normal(size=(80, 3)), test=test, y=truth)
    monkeypatch.setattr(quick, "TABLES", tmp_path)
    monkeypatch.setattr(quick, "DATA", tmp_path / "nothing")
    monkeypatch.setattr(one_table, "METHODS", {name: METHODS[name] for name in ("nptad", "iforest")})
    for function in (quick.suites, quick.checksum):
        function.cache_clear()
    yield tmp_path
    for function in (quick.suites, quick.checksum):
        function.cache_clear()


def test_tables_have_the_share_of_anomalies_or_are_left_out(two_tables):
    tasks = list(one_table.all_tasks())
    assert [(task.suite, task.name) for task in tasks] == [("2 %", "few"), ("2 %", "many"), ("10 %", "many")]
    split = tasks[-1].read()
    assert split.train is split.test
    assert (len(split.truth), split.truth.sum()) == (156, 16)
    assert (split.train[split.truth].mean(axis=1) > 4).all()


def test_large_tables_are_sampled_with_their_share_of_anomalies():
    table = Table("", np.arange(1000.0)[:, None], np.arange(1000) < 50, ())
    split = whole_table(table, seed=1, most_rows=200)
    assert (len(split.truth), split.truth.sum()) == (200, 10)
    assert (split.train[split.truth] < 50).all()


@pytest.mark.parametrize("name", ["iforest", "knn-5", "lof", "ocsvm"])
def test_methods_rank_and_flag_the_rows_that_they_were_fitted_on(name):
    random = np.random.default_rng(0)
    x = np.vstack([random.normal(size=(190, 3)), random.normal(8, 3, size=(10, 3))])
    split = whole_table(Table("", x, np.arange(200) >= 190, ()), seed=0)
    spec = METHODS[name]
    scored = next(spec.run([split], [0], spec.configure("default", None)))
    assert quick.figures(split.truth, scored.scores)[1] > 95
    assert scored.scores[scored.flagged].min() >= scored.scores[~scored.flagged].max()


def test_f1_of_flags_is_about_what_was_flagged():
    scored = Scored(np.arange(4.0), Clock(), flagged=np.array([False, False, True, True]))
    assert flag_metrics(np.array([False, False, False, True]), scored) == {"f1_flagged": 66.667, "n_flagged": 2}


def test_one_command_writes_the_page(two_tables, capsys):
    arguments = ["--cache", str(two_tables / "cache"), "--results", str(two_tables / "results"), "--processes", "1"]
    one_table.main(arguments)
    page = (two_tables / "results" / "one-table-quick.md").read_text()
    assert page in capsys.readouterr().out
    assert "## 10 %, confirming (1)" in page
    assert "| nptad | 100.0 | 100.0 | 100.0 | 100.0 |" in page
    lines = (two_tables / "results" / "one-table-quick.csv").read_text().splitlines()
    assert len(lines) == 1 + 3 * 2
    assert len(list((two_tables / "cache").glob("*.json"))) == 3 * 2
