"""The quick judge: figures, halves, and a cache that knows what scores depend on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import quick
import retrieval
from nptad.scoring.views import VIEWS, OutsideRange


def test_ties_at_the_cut_count_by_expected_value():
    truth = np.array([True, True, False, False, False])
    assert quick.figures(truth, np.array([9.0, 1, 1, 1, 0]))[0] == pytest.approx(100 * (1 + 1 / 3) / 2)
    assert quick.figures(truth, np.array([3.0, 2, 1, 0, 0])).tolist() == [100, 100, 100]
    assert quick.figures(truth, np.zeros(5))[:2].tolist() == pytest.approx([40, 50])


def test_every_other_table_chooses():
    assert quick.halves(("b", "a", "c")) == {"a": "choosing", "b": "confirming", "c": "choosing"}


@pytest.fixture
def two_tables(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    for name in ("first", "second"):
        test = np.vstack([random.normal(size=(60, 3)), random.normal(4, 1, size=(20, 3))])
        np.savez(tmp_path / f"{name}.npz", train=random.normal(size=(80, 3)), test=test, y=np.arange(80) >= 60)
    monkeypatch.setattr(quick, "TABLES", tmp_path)
    monkeypatch.setattr(quick, "DATA", tmp_path / "nothing")
    for function in (quick.suites, quick.checksum):
        function.cache_clear()
    yield tmp_path
    for function in (quick.suites, quick.checksum):
        function.cache_clear()


def test_what_is_cached_is_not_computed_again(two_tables, monkeypatch):
    task, folder = quick.Task("tables", "first", 0), two_tables / "cache"
    quick.compute(task, list(VIEWS), folder)
    monkeypatch.setattr(quick.Task, "read", lambda self: pytest.fail("was read again"))
    quick.compute(task, list(VIEWS), folder)
    judged = quick.judge("tables", "first", "choosing", list(VIEWS), folder)
    assert judged.means[quick.SCORE] > 90
    assert set(judged.figures) == {quick.SCORE, quick.MEAN, quick.BASELINE, *(view.name for view in VIEWS)}
    assert judged.seconds[quick.SCORE] == pytest.approx(sum(judged.seconds[view.name] for view in VIEWS))


def test_scores_are_cached_by_data_and_by_code(two_tables, monkeypatch):
    task = quick.Task("tables", "first", 0)
    before = quick.key_of_view(task, OutsideRange)
    assert before != quick.key_of_view(quick.Task("tables", "second", 0), OutsideRange)
    with np.load(two_tables / "first.npz") as arrays:
        np.savez(two_tables / "first.npz", **{**arrays, "train": arrays["train"] + 1})
    quick.checksum.cache_clear()
    changed = quick.key_of_view(task, OutsideRange)
    assert changed != before
    code = quick.code_of
    monkeypatch.setattr(quick, "code_of", lambda module: code(module) + "x" * module.endswith("cells"))
    assert quick.key_of_view(task, OutsideRange) != changed


def test_one_command_writes_the_page(two_tables, capsys):
    quick.main(["--cache", str(two_tables / "cache"), "--results", str(two_tables / "results"), "--processes", "1"])
    page = (two_tables / "results" / "quick.md").read_text()
    assert page in capsys.readouterr().out
    for half in ("choosing (1)", "confirming (1)", "all (2)"):
        assert f"## tables, {half}" in page
    lines = (two_tables / "results" / "quick.csv").read_text().splitlines()
    assert lines[0].startswith("suite,half,table,method,f1")
    assert len(lines) == 1 + 2 * (len(VIEWS) + 3)


def test_the_network_is_judged_beside_the_score(two_tables, monkeypatch):
    monkeypatch.setattr(retrieval, "SIZES", ((20, 3),))
    retrieval.main(["--cache", str(two_tables / "cache"), "--results", str(two_tables)])
    lines = (two_tables / "retrieval.md").read_text().splitlines()
    for half in ("choosing", "confirming"):
        accuracy, reasons = (
            [cell.strip() for cell in line.split("|")[1:-1]] for line in lines if f"| {half} |" in line
        )
        assert accuracy[:3] == ["tables", half, "1"]
        assert all(float(figure) > 90 for figure in accuracy[3:7])
        assert reasons[2] == "40"
        assert all(0 <= float(share) <= 100 for share in (*reasons[3:5], *reasons[9:]))
    assert any(line.startswith("| 20 | 3 |") for line in lines)
