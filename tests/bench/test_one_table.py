"""The one-table protocol: runs, their folder, the page and the diagram."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nptad.bench.figures import draw_one_table
from nptad.bench.one_table import METHODS
from nptad.bench.one_table_page import one_table_values, write_one_table_page
from nptad.bench.run import Plan, missing_tasks
from nptad.bench.store import append_record, read_records
from nptad.bench.worker import Task, run_task


def record(dataset: str, method: str, seed: int, auroc: float) -> dict:
    task = Task(dataset, method, "", METHODS[method].version, {}, (seed,), None, 1, 1, "one-table")
    figures = {"f1": 50.0, "auroc": auroc, "average_precision": 40.0, "f1_flagged": 30.0}
    return task.record(seed, "done", **figures, cpu_seconds={"fit": 1.5}, seconds={"fit": 2.0})


def test_a_run_ranks_and_flags_the_whole_table():
    plan = Plan(("iforest",), ("separable",), (0,), "paper", protocol="one-table")
    (task,) = missing_tasks(plan, Path("none"))
    started, found = run_task(task)
    assert started == {"start": [0]}
    assert found["outcome"] == "done", found
    assert found["n_train"] == found["n_test"] == 2000
    assert found["auroc"] > 95
    assert found["f1_flagged"] > 0
    assert found["n_flagged"] > 0


@pytest.fixture
def results(tmp_path):
    for place, dataset in enumerate(("wine", "glass", "wbc", "cardio")):
        for seed in range(2):
            for ahead, method in enumerate(("nptad", "iforest", "lof")):
                if (dataset, method) != ("cardio", "lof"):
                    append_record(
                        tmp_path / "one-table" / "runs", record(dataset, method, seed, 90.0 + place - 10 * ahead)
                    )
    return tmp_path


def test_means_are_over_the_sets_that_all_methods_have(results):
    names, methods, values = one_table_values(results, "auroc")
    assert (sorted(names), methods) == (["glass", "wbc", "wine"], ["nptad", "iforest", "lof"])
    np.testing.assert_allclose(values[:, 0] - values[:, 1], 10)


def test_the_page_shows_the_summary_and_the_diagram(results):
    draw_one_table(results)
    write_one_table_page(results)
    page = (results / "one-table" / "README.md").read_text()
    assert "![Mean ranks](critical_difference.svg)" in page
    assert "| nptad | 91.0 | 40.0 | 50.0 | 30.0 | 1.0 | 10.0 | 2 | 1.5 |" in page
    assert page.index("| nptad |") < page.index("| IForest |") < page.index("| LOF |")


def test_without_runs_nothing_is_written(tmp_path):
    assert write_one_table_page(tmp_path) == draw_one_table(tmp_path) == []
    assert read_records(tmp_path / "one-table" / "runs") == []
