"""What `make torture` knows of the cases that were run."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from torture import run
from torture.run import Run


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    for name in ("JOURNAL", "RUNS", "SUMMARY"):
        monkeypatch.setattr(run, name, tmp_path / name)


def journal_of(*cases):
    lines = [{"kind": kind, "seed": seed, "code": code, "outcome": outcome} for kind, seed, code, outcome in cases]
    run.JOURNAL.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_runs_of_several_journals_are_added_and_no_seed_is_counted_twice():
    journal_of(
        *(("files", seed, "aaa", outcome) for seed in range(3) for outcome in (None, "result")),
        ("files", 3, "aaa", None),  # crashed
        ("files", 4, "aaa", "refused"),
    )
    run.write_down(run.all_runs())
    first = [Run("files", 0, 3, "aaa", Counter(result=3)), Run("files", 4, 5, "aaa", Counter(refused=1))]
    assert run.runs() == first
    assert "| files | 5 | 3 | 1 | 0 | 1 |" in run.summary(run.runs(), run.failures())
    run.JOURNAL.unlink()  # lost
    assert run.missing("files", 7) == [3, 5, 6]
    journal_of(
        ("files", 2, "bbb", "result"), ("files", 3, "bbb", "result"), ("files", 5, "bbb", "interrupted"),
        ("files", 6, "bbb", "refused"), ("kills", 0, "bbb", "killed"),
    )  # fmt: skip
    run.write_down(run.all_runs())
    later = [Run("files", 3, 4, "bbb", Counter(result=1)), Run("files", 6, 7, "bbb", Counter(refused=1))]
    assert run.runs() == [first[0], later[0], first[1], later[1], Run("kills", 0, 1, "bbb", Counter(killed=1))]
    assert run.all_runs() == run.runs()
    text = run.summary(run.runs(), run.failures())
    assert "| files | 6 | 4 | 2 | 0 | 0 |" in text
    assert "| files | 3 to 3 | bbb |" in text
    assert "Failures" not in text
    assert run.missing("files", 7) == [5]


def test_a_failure_is_told_and_not_written_down():
    run.JOURNAL.write_text(
        json.dumps({"kind": "soak", "seed": 1, "code": "aaa", "outcome": "failure", "trace": "a\nKeyError: 1\n"}) + "\n"
    )
    assert run.all_runs() == []
    assert "* soak, seed 1: `KeyError: 1`" in run.summary([], run.failures())
