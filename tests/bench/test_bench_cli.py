"""`nptad bench`: what is typed and what is shown."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from bench_helpers import a_record, small_study, use_worker, write_store
from rich.console import Console

from nptad.bench.commands import app
from nptad.bench.registry import METHODS
from nptad.bench.store import read_records
from nptad.errors import InputError, NPTADError


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NPTAD_DATA", raising=False)


def bench(*arguments):
    return app(list(arguments), result_action="return_value")


def runs():
    return [(r["dataset"], r["method"], r["preset"], r["seed"]) for r in read_records(Path("results/runs"))]


def test_run_does_what_is_asked_for_and_nothing_twice(monkeypatch, tmp_path, capsys):
    use_worker(monkeypatch, tmp_path)
    asked = ("run", "--methods", "mask-knn, npt-ad", "--datasets", "wine,glass,wine", "--seeds", "0-1,5", "--jobs", "2")
    bench(*asked)
    expected = [
        (dataset, method, preset, seed)
        for dataset in ("glass", "wine")
        for method, preset in (("mask-knn", ""), ("npt-ad", "paper"))
        for seed in (0, 1, 5)
    ]
    assert runs() == expected
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 12
    assert "wine npt-ad paper seed 5: F1 50.0, AUROC 75.0, 1.0 s" in "\n".join(told)
    assert told[-1].startswith("12/12 runs, about 0 min left")
    bench(*asked)
    assert "Every run has a record" in capsys.readouterr().err
    assert len((tmp_path / "results" / "runs" / "wine.jsonl").read_text().splitlines()) == 6


def test_options_reach_the_runs(monkeypatch, tmp_path):
    use_worker(monkeypatch, tmp_path)
    common = ("run", "--methods", "npt-ad", "--datasets", "wine", "--results", "there", "--preset", "default")
    (tmp_path / "sets").mkdir()
    bench(*common, "--seeds", "0-3", "--shard", "2/2", "--set", "n_steps=7", "--threads", "3", "--data", "sets")
    assert [path.name for path in (tmp_path / "there" / "runs").iterdir()] == ["wine.shard-2-of-2.jsonl"]
    records = read_records(tmp_path / "there" / "runs")
    assert [record["seed"] for record in records] == [1, 3]
    assert {(r["config"]["n_steps"], r["threads"], r["data"], r["preset"]) for r in records} == {
        (7, 3, "sets", "default")
    }


def test_one_setting_or_share_spelt_in_two_ways_is_one_run(monkeypatch, tmp_path):
    use_worker(monkeypatch, tmp_path)
    for zero, share in (("0", "0.1"), ("0.0", "0.10"), ("0e0", ".1")):
        options = ("--set", f"attention_dropout={zero}", "--datasets", f"separable@{share}", "--seeds", "0")
        bench("run", "--methods", "npt-ad", *options)
    assert runs() == [("separable@0.1", "npt-ad", "paper", 0)]


def test_limits_and_retry(monkeypatch, tmp_path, capsys):
    use_worker(monkeypatch, tmp_path, 'say({"start": task["seeds"]})\ntime.sleep(60)')
    asked = ("run", "--methods", "mask-knn", "--datasets", "wine", "--seeds", "3")
    bench(*asked, "--time-limit", "0.2")
    assert "wine mask-knn seed 3: time, More than 0.2 seconds per run" in capsys.readouterr().err
    use_worker(monkeypatch, tmp_path)
    bench(*asked)
    assert "Every run has a record" in capsys.readouterr().err
    bench(*asked, "--retry")
    assert [record["outcome"] for record in read_records(tmp_path / "results" / "runs")] == ["done"]


def test_runs_that_fail_are_counted_and_told_by_the_exit_code(monkeypatch, tmp_path, capsys):
    use_worker(monkeypatch, tmp_path, fit="seed and sys.exit(3)")
    asked = ("run", "--methods", "mask-knn", "--datasets", "wine,glass", "--seeds", "0-2")
    with pytest.raises(SystemExit) as ended:
        bench(*asked)
    assert ended.value.code == 1
    assert len(runs()) == 6  # the others go on
    assert capsys.readouterr().err.endswith("4 runs failed; `nptad bench status` shows why, `--retry` repeats them.\n")
    with pytest.raises(SystemExit) as ended:
        bench(*asked)  # nothing left to run, but not all is well
    assert ended.value.code == 1


def test_a_run_that_had_no_data_is_missing_and_not_failed_for_good(monkeypatch, tmp_path):
    asked = ("run", "--methods", "mask-knn", "--datasets", "wine", "--seeds", "0")
    use_worker(monkeypatch, tmp_path)
    with pytest.raises(InputError, match=r"^--data nowhere is no folder"):
        bench(*asked, "--data", "nowhere")
    assert runs() == []
    bench(*asked)
    path = tmp_path / "results" / "runs" / "wine.jsonl"
    lacking = json.loads(path.read_text()) | {"outcome": "failed", "reason": "DataError: No wine."}
    path.write_text(json.dumps(lacking) + "\n")
    bench(*asked)
    assert [record["outcome"] for record in read_records(tmp_path / "results" / "runs")] == ["done"]


def test_finished_runs_are_repeated_when_asked_to(monkeypatch, tmp_path):
    use_worker(monkeypatch, tmp_path)
    asked = ("run", "--methods", "mask-knn", "--datasets", "wine", "--seeds", "0-1")
    for again in ((), (), ("--again",)):
        bench(*asked, *again)
    assert len((tmp_path / "results" / "runs" / "wine.jsonl").read_text().splitlines()) == 4
    assert len(runs()) == 2


@pytest.mark.parametrize("option", ["--time-limit", "--memory-limit"])
def test_a_limit_is_above_zero(option, capsys):
    with pytest.raises(SystemExit):
        app(["run", option, "-5"])
    assert "Must be > 0" in capsys.readouterr().err


def test_a_setting_counts_for_the_methods_that_take_settings(monkeypatch, tmp_path):
    use_worker(monkeypatch, tmp_path)
    asked = ("run", "--datasets", "wine", "--seeds", "0", "--set", "n_steps=7", "--methods")
    bench(*asked, "knn,npt-ad")
    assert [r["config"].get("n_steps") for r in read_records(Path("results/runs"))] == [None, 7]
    with pytest.raises(InputError, match=r"--set changes settings of npt-ad and transformer; knn, lof take none"):
        bench(*asked, "knn,lof")
    assert len(runs()) == 2


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--seeds", "0..3", "is not a list of seeds such as 0-19 or 0,3,7"),
        ("--seeds", "5-3", "runs backwards"),
        ("--seeds", ",", "has no name in it"),
        ("--shard", "0/3", "is not a part such as 2/5"),
        ("--shard", "4/3", "is not a part such as 2/5"),
        ("--set", "n_steps", "is not a setting such as n_steps=1000"),
        ("--set", "steps=5", "npt-ad has no setting 'steps' to change"),
        ("--set", "n_steps=many", "n_steps must be a whole number"),
        ("--methods", "npt", "There is no method 'npt'; the methods are npt-ad, "),
        ("--methods", "", "has no name in it"),
        ("--datasets", "whine", "did you mean 'wine'"),
        ("--datasets", "separable@much", "such as separable@0.05"),
    ],
)
def test_what_cannot_be_is_said_before_anything_runs(tmp_path, option, value, said):
    with pytest.raises(NPTADError, match=said):
        bench(
            "run",
            *(part for pair in ({"--methods": "npt-ad", "--seeds": "0"} | {option: value}).items() for part in pair),
        )
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("option", ["--jobs", "--threads"])
def test_nothing_runs_on_no_processor(capsys, option):
    with pytest.raises(SystemExit):
        bench("run", option, "0")
    assert option in capsys.readouterr().err


def table_rows(text):
    """The lines of rich's table as lists of cells."""
    lines = [line for line in text.splitlines() if line.startswith("│")]
    return {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.strip("│").split("│")] for line in lines)}


def test_status_shows_what_is_done_failed_and_missing(tmp_path, capsys):
    records = [*small_study(), a_record("wine", "mask-knn", seed=7, outcome="memory")]
    records += [{**a_record("glass", "mask-knn", seed=0), "version": 0, "seed": 9}]  # of an old version: missing
    records += [{**a_record("wine", "mask-knn"), "method": "mine:Class", "seed": seed} for seed in (0, 1)]
    records += [a_record("breastw", "npt-ad", "paper", 5, settings={"n_steps": 7})]  # another configuration
    write_store(tmp_path / "results", records)
    bench("status")
    shown = capsys.readouterr().out
    rows = table_rows(shown)
    assert rows["wine"] == ["3/20", "3/20", "3/20", "3/20 !1", "2/20"]
    assert rows["glass"] == ["3/20", "3/20", "3/20", "3/20", "-"]
    assert rows["breastw"][0] == "3/20"
    assert rows["pima"] == ["- !1", "-", "-", "-", "-"]
    assert rows["backdoor"] == ["-"] * 5
    assert rows["separable@0.05"] == ["2/20", "-", "2/20", "-", "-"]
    heads = ["npt-ad paper", "npt-ad default", "transformer paper", "mask-knn", "mine:Class"]
    assert [cell.strip() for cell in shown.splitlines()[2].strip("┃").split("┃")][1:] == heads
    assert "pima npt-ad paper seed 0: time, it broke" in shown
    assert "wine mask-knn seed 7: memory, it broke" in shown


def test_status_fits_a_terminal(monkeypatch, tmp_path, capsys):
    methods = list(METHODS)[2:]  # those without presets
    write_store(tmp_path / "results", [a_record("wine", method, seed=seed) for method in methods for seed in (0, 1)])
    console = partial(Console, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr("nptad.bench.commands.Console", console)
    bench("status")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("┃", "│"))]
    assert max(map(len, lines)) <= 80
    heads = [cell.strip() for line in lines if line.startswith("┃") for cell in line.strip("┃").split("┃")]
    assert [head for head in heads if head != "data set"] == methods  # none is cut or wrapped
    wine = [cell.strip() for line in lines if line.startswith("│ wine ") for cell in line.strip("│").split("│")]
    assert [cell for cell in wine if cell != "wine"] == ["2/20"] * len(methods)


def test_status_of_some(tmp_path, capsys):
    write_store(tmp_path / "results", small_study())
    bench("status", "--datasets", "wine,letter", "--methods", "npt-ad,mask-knn", "--seeds", "1-4")
    shown = capsys.readouterr().out
    assert table_rows(shown) == {"wine": ["2/4", "2/4", "2/4"], "letter": ["-", "-", "-"]}
    assert "pima" not in shown


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--methods", "knn,npt", "There is no method 'npt'; the methods are npt-ad, "),
        ("--datasets", "whine", "did you mean 'wine'"),
    ],
)
def test_status_of_what_does_not_exist(option, value, said):
    with pytest.raises(NPTADError, match=said):
        bench("status", option, value)


def test_status_of_nothing_names_all_that_is_missing(capsys):
    bench("status")
    shown = capsys.readouterr().out
    assert table_rows(shown)["wine"] == []
    assert "Not started: npt-ad, transformer, nptad, retrieval, mask-knn" in shown


def test_tables_and_figures_tell_what_they_wrote(tmp_path, capsys):
    write_store(tmp_path / "here", [a_record("wine", "npt-ad", "paper"), a_record("glass", "mask-knn")])
    bench("figures", "--results", "here")
    assert capsys.readouterr().out.split() == [f"here/figures/against_published.{suffix}" for suffix in ("svg", "png")]
    bench("tables", "--results", "here")
    written = capsys.readouterr().out.split()
    assert "here/README.md" in written
    assert all((tmp_path / path).exists() for path in written)


def test_a_damaged_store_is_named(tmp_path):
    (tmp_path / "results" / "runs").mkdir(parents=True)
    (tmp_path / "results" / "runs" / "wine.jsonl").write_text("<<<<<<< HEAD\n")
    with pytest.raises(InputError, match=r"wine.jsonl, line 1 is not a record"):
        bench("status")
