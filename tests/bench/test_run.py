"""Plans, limits, shards, and what is left after a kill; the last tests start real workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from bench_helpers import a_record, a_task, use_worker, write_store

from nptad.bench.datasets import _own_dataset, content_sha256, load
from nptad.bench.progress import Work, describe
from nptad.bench.registry import METHODS, Shape, find_method, shape_of
from nptad.bench.run import Limits, Plan, configuration, missing_tasks, run_tasks, supervise, wanted_runs
from nptad.bench.store import append_record, key_of, read_records
from nptad.bench.worker import Task, run_task
from nptad.errors import DataError, InputError, NPTADError

PLAN = Plan(("mask-knn",), ("wine", "glass"), tuple(range(5)), "paper")
TINY = {"n_steps": 2, "embedding_dim": 8, "n_heads": 2, "n_layers": 2}


@pytest.fixture(autouse=True)
def _no_files(monkeypatch, tmp_path):
    """Data sets come from nowhere: `separable` is generated, the others would need the network."""
    monkeypatch.delenv("NPTAD_DATA", raising=False)
    monkeypatch.setenv("NPTAD_CACHE", str(tmp_path / "cache"))


def seeds_of(tasks):
    return {
        (task.dataset, task.method): sorted(s for t in tasks if t.dataset == task.dataset for s in t.seeds)
        for task in tasks
    }


# Plans


def test_everything_is_missing_at_first_and_nothing_in_the_end(tmp_path):
    tasks = missing_tasks(PLAN, tmp_path)
    assert seeds_of(tasks) == {("wine", "mask-knn"): [0, 1, 2, 3, 4], ("glass", "mask-knn"): [0, 1, 2, 3, 4]}
    for task in tasks:
        for seed in task.seeds:
            append_record(tmp_path, task.record(seed, "done"))
    assert missing_tasks(PLAN, tmp_path) == []


@pytest.mark.parametrize("outcome", ["failed", "time", "memory"])
def test_what_failed_is_repeated_only_if_asked(tmp_path, outcome):
    for task in missing_tasks(PLAN, tmp_path):
        for seed in task.seeds:
            append_record(tmp_path, task.record(seed, outcome if (task.dataset, seed) == ("glass", 2) else "done"))
    assert missing_tasks(PLAN, tmp_path) == []
    assert seeds_of(missing_tasks(PLAN, tmp_path, retry=True)) == {("glass", "mask-knn"): [2]}


def test_another_configuration_or_version_is_another_run(tmp_path):
    plan = Plan(("npt-ad",), ("wine",), (0,), "paper")
    (task,) = missing_tasks(plan, tmp_path)
    append_record(tmp_path, task.record(0, "done"))
    assert missing_tasks(plan, tmp_path) == []
    assert len(missing_tasks(Plan(("npt-ad",), ("wine",), (0,), "default"), tmp_path)) == 1
    assert len(missing_tasks(Plan(("npt-ad",), ("wine",), (0,), "paper", (("n_steps", 7),)), tmp_path)) == 1
    append_record(tmp_path, {**task.record(1, "done"), "version": task.version - 1})
    assert len(missing_tasks(Plan(("npt-ad",), ("wine",), (1,), "paper"), tmp_path)) == 1


def test_a_run_is_not_repeated_for_another_scoring_rule(tmp_path):
    """A record of a single model has the figures under all rules; the estimator's runs have those of one."""
    paper = Plan(("npt-ad",), ("glass",), (0,), "paper")
    (task,) = missing_tasks(paper, tmp_path)
    append_record(tmp_path, task.record(0, "done"))
    assert missing_tasks(replace(paper, preset="scripts"), tmp_path) == []
    assert missing_tasks(replace(paper, changes=(("aggregation", "max"),)), tmp_path) == []
    (task,) = missing_tasks(replace(paper, preset="default"), tmp_path)
    append_record(tmp_path, task.record(0, "done"))
    other = (("aggregation", "mean"),)
    assert len(missing_tasks(replace(paper, preset="default", changes=other), tmp_path)) == 1


def test_a_preset_that_a_method_does_not_have_is_refused():
    with pytest.raises(InputError, match="transformer has no preset 'scripts'; it has paper, default"):
        list(wanted_runs(Plan(("transformer",), ("wine",), (0,), "scripts")))


def test_shards_are_disjoint_and_together_the_whole(tmp_path):
    plan = Plan(("npt-ad", "mask-knn"), ("wine", "glass"), tuple(range(7)), "paper")

    def runs(shard):
        tasks = missing_tasks(plan, tmp_path, shard=shard)
        return [(task.dataset, task.method, seed) for task in tasks for seed in task.seeds]

    parts = [runs((i, 3)) for i in (1, 2, 3)]
    assert sorted(run for part in parts for run in part) == sorted(runs((1, 1)))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_shard_does_not_move_to_other_runs_when_some_are_finished(tmp_path):
    first = missing_tasks(PLAN, tmp_path, shard=(1, 2))
    append_record(tmp_path, first[0].record(first[0].seeds[0], "done"))
    (task, *_), (left, *_) = first, missing_tasks(PLAN, tmp_path, shard=(1, 2))
    assert left.seeds == task.seeds[1:]


def test_tasks_are_whole_stacks_of_at_most_a_process():
    stacks = {task.dataset: task.stack for task in wanted_runs(Plan(("npt-ad",), ("wine", "pima"), (0,), "paper"))}
    assert stacks == {"wine": 8, "pima": 7}
    tasks = missing_tasks(Plan(("npt-ad",), ("wine", "pima"), tuple(range(20)), "paper"), Path("none"))
    assert [(task.dataset, len(task.seeds)) for task in tasks] == [
        *(("wine", 8), ("wine", 8), ("wine", 4)),
        *(("pima", 7), ("pima", 7), ("pima", 6)),
    ]


def test_sizes_are_those_of_the_split():
    assert shape_of("wine").n_train == 59
    assert shape_of("separable").n_train == 900
    assert shape_of("separable@0.1").n_train == 1000
    with pytest.raises(NPTADError, match="no data set 'vine'"):
        shape_of("vine")
    with pytest.raises(InputError, match=r"such as separable@0.05"):
        shape_of("separable@5%")


def change(method="npt-ad", preset="paper", **changes):
    return configuration(METHODS[method], "wine", Plan((method,), ("wine",), (0,), preset, tuple(changes.items())))


def test_settings_of_the_preset_can_be_changed():
    assert change(n_steps=7) == {**change(), "n_steps": 7}
    assert change("mask-knn", n_steps=7) == change("mask-knn")
    with pytest.raises(InputError, match="npt-ad has no setting 'steps' to change; it has embedding_dim, "):
        change(steps=7)


def test_a_change_to_what_is_the_preset_is_none():
    """Otherwise `--set attention_dropout=0` would repeat what is there with 0.0."""
    assert repr(change(preset="default", attention_dropout=0)) == repr(change(preset="default"))


def test_the_transformer_stays_without_row_attention():
    assert change("transformer")["row_attention"] == "none"
    with pytest.raises(InputError, match="transformer has no setting 'row_attention' to change"):
        change("transformer", row_attention="full")


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_a_setting_that_cannot_be_is_refused_before_anything_runs(preset):
    plan = Plan(("npt-ad",), ("wine",), (0,), preset, (("n_steps", "many"),))
    with pytest.raises(InputError, match="n_steps must be a whole number"):
        list(wanted_runs(plan))


def test_a_task_survives_the_way_to_the_worker():
    (task,) = wanted_runs(Plan(("npt-ad",), ("wine",), (3,), "paper"))
    sent = Task(**json.loads(json.dumps(asdict(task))))
    assert key_of(sent.record(3, "done")) == key_of(task.record(3, "done"))
    assert (sent.seeds, sent.stack) == (list(task.seeds), task.stack)


# Carrying out tasks, with workers that only pretend


def test_tasks_run_in_processes_of_their_own_and_records_are_kept_and_reported(monkeypatch, tmp_path):
    use_worker(monkeypatch, tmp_path)
    told = []
    tasks = missing_tasks(PLAN, tmp_path / "runs")
    run_tasks(tasks, tmp_path / "runs", jobs=2, threads=3, data="here", shard=(1, 2), report=told.append)
    records = read_records(tmp_path / "runs")
    assert len(records) == len(told) == 10
    assert len({record["pid"] for record in records}) == len(tasks)
    assert {(r["threads"], r["omp"], r["data"]) for r in records} == {(3, "3", "here")}
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {
        f"{d}.shard-1-of-2.jsonl" for d in ("wine", "glass")
    }
    assert missing_tasks(PLAN, tmp_path / "runs") == []


def outcomes(task, limits=None):
    return [(r["seed"], r["outcome"], r.get("reason")) for r in supervise(task, limits or Limits())]


def test_a_run_over_the_time_limit_is_an_outcome_and_the_others_go_on(monkeypatch, tmp_path):
    use_worker(monkeypatch, tmp_path, fit="seed == 1 and time.sleep(60)")
    started = time.monotonic()
    assert outcomes(a_task((0, 1, 2)), Limits(seconds=1)) == [
        (0, "done", None),
        (1, "time", "More than 1 seconds per run"),
        (2, "done", None),
    ]
    assert time.monotonic() - started < 30


def test_a_stack_has_the_time_of_its_runs_together(monkeypatch, tmp_path):
    use_worker(
        monkeypatch, tmp_path, 'say({"start": task["seeds"]})\ntime.sleep(1)\n[say(record(s)) for s in task["seeds"]]'
    )
    assert [outcome for _, outcome, _ in outcomes(a_task(range(6)), Limits(seconds=0.8))] == ["done"] * 6
    assert [outcome for _, outcome, _ in outcomes(a_task(range(6)), Limits(seconds=0.1))] == ["time"] * 6


def test_the_time_between_two_runs_is_nobodys(monkeypatch, tmp_path):
    pause = 'for s in task["seeds"]:\n say({"start": [s]})\n time.sleep(0.5)\n say(record(s))\n time.sleep(0.8)'
    use_worker(monkeypatch, tmp_path, pause)
    assert outcomes(a_task((0, 1, 2)), Limits(seconds=1)) == [(seed, "done", None) for seed in (0, 1, 2)]


def test_a_worker_that_dies_between_two_runs_takes_none_with_it(monkeypatch, tmp_path):
    die = 's = task["seeds"][0]\nsay({"start": [s]})\nsay(record(s))\nos._exit(3)'
    use_worker(monkeypatch, tmp_path, die)
    assert outcomes(a_task((0, 1, 2))) == [(seed, "done", None) for seed in (0, 1, 2)]


def test_a_run_over_the_memory_limit_is_an_outcome(monkeypatch, tmp_path):
    use_worker(monkeypatch, tmp_path, fit="x = bytearray(2**28); time.sleep(60)")
    assert outcomes(a_task((4,)), Limits(memory_mib=200)) == [(4, "memory", "More than 200 MiB")]


def test_a_stack_over_the_memory_limit_is_run_seed_by_seed(monkeypatch, tmp_path):
    stacks = """
seeds, size = task["seeds"], task["stack"]
for group in (seeds[i : i + size] for i in range(0, len(seeds), size)):
    say({"start": group})
    x = bytearray(2**27 * len(group))
    time.sleep(1 if len(group) == 1 else 60)
    [say(record(seed)) for seed in group]
    del x  # else the next group would find it in memory
"""
    use_worker(monkeypatch, tmp_path, stacks)
    assert outcomes(a_task((0, 1), stack=2), Limits(memory_mib=200)) == [(0, "done", None), (1, "done", None)]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (
            "os.kill(os.getpid(), 9)",
            "The worker process was killed by signal 9 (Killed), perhaps for lack of memory",
        ),
        ("sys.exit(3)", "The worker process ended with exit code 3"),
        (
            "parent._stdout.write(bytes(7)); os._exit(4)",
            "The worker process ended with exit code 4",
        ),
    ],
    ids=["killed", "exit", "half a message"],
)
def test_a_worker_that_dies_is_an_outcome_and_the_others_go_on(monkeypatch, tmp_path, end, reason):
    use_worker(monkeypatch, tmp_path, fit=f"if seed == 1: {end}")
    assert outcomes(a_task((0, 1, 2))) == [(0, "done", None), (1, "failed", reason), (2, "done", None)]


def test_a_worker_that_never_begins_is_not_started_again_and_again(monkeypatch, tmp_path):
    use_worker(monkeypatch, tmp_path)
    program = f"open('{tmp_path}/log', 'a').write('started\\n')\nraise SystemExit(5)"
    (tmp_path / "stand_in.py").write_text(program)  # it ends without reading its task
    reason = "The worker process ended with exit code 5"
    assert outcomes(a_task((0, 1))) == [(0, "failed", reason), (1, "failed", reason)]
    assert (tmp_path / "log").read_text() == "started\n"


# The work of a worker, in this process


def messages(task):
    return list(run_task(task))


def own_module(monkeypatch, tmp_path, name, source):
    """A module in the working directory, with NumPy as np."""
    (tmp_path / f"{name}.py").write_text("import os, time\nimport numpy as np\n" + textwrap.dedent(source))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_record_holds_metrics_seconds_memory_versions_and_hardware():
    config = {**change(), **TINY, "mask_sizes": [1], "scale_masks": False, "aggregation": "mean"}
    start, *records = messages(a_task((3, 4), dataset="separable", method="npt-ad", config=config, stack=2))
    assert start == {"start": [3, 4]}
    assert [record["seed"] for record in records] == [3, 4]
    for record in records:
        assert record["outcome"] == "done"
        assert (record["n_train"], record["n_test"], record["stack"]) == (900, 1100, 2)
        assert all(0 <= record[name] <= 100 for name in ("f1", "auroc", "average_precision"))
        assert set(record["seconds"]) == set(record["cpu_seconds"]) == {"fit", "score", "reference"}
        assert record["rules"]["mean"] == {name: record[name] for name in ("f1", "auroc", "average_precision")}
        assert record["peak_mib"] > 50
        assert {"nptad", "torch", "numpy", "python", "processor", "cores", "threads"} <= set(record["environment"])
    assert records[0]["auroc"] != records[1]["auroc"]


def test_contaminated_sets_are_trained_with_anomalies(monkeypatch, tmp_path):
    own_module(
        monkeypatch,
        tmp_path,
        "counting",
        """
        class Size:
            def fit(self, x): self.n = len(x)
            def score(self, x): return x[:, 0]
        """,
    )
    _, record = messages(a_task(dataset="separable@0.1", method="counting:Size"))
    assert (record["n_train"], record["n_test"], record["f1"]) == (1000, 1000, 100.0)
    assert record["content"] == content_sha256(load("separable"))


def test_methods_without_random_state_draw_the_same_numbers_for_a_seed(monkeypatch, tmp_path):
    own_module(
        monkeypatch,
        tmp_path,
        "drawing",
        """
        import torch

        class Drawn:
            def fit(self, x): pass
            def score(self, x): return np.random.rand(len(x)) + torch.rand(len(x)).numpy()
        """,
    )
    task = a_task(dataset="separable", method="drawing:Drawn", seeds=(0, 1))
    drawn = [[record["auroc"] for record in messages(task) if "auroc" in record] for _ in "ab"]
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]


def test_a_data_set_of_ones_own_is_a_function(monkeypatch, tmp_path):
    own_module(
        monkeypatch,
        tmp_path,
        "clouds",
        """
        def two():
            x = np.random.default_rng(0).normal(size=(60, 3))
            x[:10, 0] += 20
            x[:, 2] = np.arange(60) % 2
            return x.tolist(), [1] * 10 + [0] * 50, [2]
        """,
    )
    assert shape_of("clouds:two") == Shape("clouds:two", n_train=25, n_features=3, n_rows=60)
    _, record = messages(a_task(dataset="clouds:two", method="1nn", config={"k": 1, "scaling": "minmax"}))
    assert (record["outcome"], record["n_train"], record["n_test"], record["f1"]) == ("done", 25, 35, 100.0)
    plan = Plan(("npt-ad",), ("clouds:two",), (0,), "default")
    (task,) = missing_tasks(plan, tmp_path / "runs")
    assert (task.dataset, task.config["n_members"]) == ("clouds:two", 8)
    with pytest.raises(InputError, match="use the preset 'default'"):
        missing_tasks(replace(plan, preset="paper"), tmp_path / "runs")


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("np.zeros((3, 2)), [0, 1, 2]", "labels 0 and 1"),
        ("np.zeros((3, 2)), [0, 1]", r"rows of shape \(3, 2\) with labels of shape \(2,\)"),
        ("np.zeros(3), [0, 1, 0]", r"rows of shape \(3,\)"),
        ("np.zeros((3, 2)), [0, 0, 0]", "it needs normal rows and anomalies"),
        ("np.zeros((3, 2)), [0, 0, 1], [2]", "it has no column 2"),
        ("np.zeros((3, 2)), [0, 0, 1], [-1]", "it has no column -1"),
        ("[['a', 'b']] * 3, [0, 1, 0]", "could not convert string to float"),
        ("np.zeros((3, 2))", r"rows of shape \(2,\)"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_bad_data_set_of_ones_own_is_refused_with_what_it_is_to_return(monkeypatch, tmp_path, returned, said):
    own_module(monkeypatch, tmp_path, "bad", f"def made(): return {returned}")
    _own_dataset.cache_clear()
    with pytest.raises(DataError, match=rf"^The data set bad:made cannot be read \(.*{said}.*; return X"):
        shape_of("bad:made")


@pytest.mark.parametrize("name", ["no_such_module:made", "math:made", ":made"])
def test_a_data_set_of_ones_own_that_is_not_there_is_named(name):
    with pytest.raises(InputError, match=rf"There is no data set '{name}' \("):
        shape_of(name)


@pytest.mark.parametrize(
    ("fit", "score", "outcome", "reason"),
    [
        ("raise ValueError('two\\nlines')", "x[:, 0]", "failed", "ValueError: two"),
        ("raise ValueError('\\033[1;31mred\\033[0m')", "x[:, 0]", "failed", "ValueError: red"),
        ("pass", "x[:, 0] * np.nan", "failed", "ValueError: Input contains NaN."),
        (
            "pass",
            "x[:3, 0]",
            "failed",
            "InputError: A score needs one number for each of the 1100 rows, not an array (3,).",
        ),
        ("raise MemoryError('no more')", "x", "memory", "MemoryError: no more"),
        ("import torch; torch.empty(2**58)", "x", "memory", "can't allocate memory"),
    ],
    ids=["error", "coloured", "nan", "shape", "memory", "memory of torch"],
)
def test_a_run_that_fails_is_recorded_with_its_reason_and_the_others_go_on(
    monkeypatch, tmp_path, fit, score, outcome, reason
):
    own_module(
        monkeypatch,
        tmp_path,
        "failing",
        f"""
        class Failing:
            def __init__(self, random_state): self.seed = random_state
            def fit(self, x):
                if self.seed == 1:
                    {fit}
            def score(self, x): return {score} if self.seed == 1 else x[:, 0]
        """,
    )
    records = [
        m for m in messages(a_task((0, 1, 2), dataset="separable", method="failing:Failing")) if "start" not in m
    ]
    assert [(r["seed"], r["outcome"]) for r in records] == [(0, "done"), (1, outcome), (2, "done")]
    assert reason in records[1]["reason"]


def test_a_stack_that_finds_no_memory_is_run_seed_by_seed(monkeypatch, tmp_path):
    own_module(
        monkeypatch,
        tmp_path,
        "hungry",
        """
        class Hungry:
            n_fits = 0
            def fit(self, x):
                Hungry.n_fits += 1
                if Hungry.n_fits == 2: raise MemoryError
            def score(self, x): return x[:, 0]
        """,
    )
    told = messages(a_task((0, 1, 2), dataset="separable", method="hungry:Hungry", stack=3))
    assert [m["start"] for m in told if "start" in m] == [[0, 1, 2], [1], [2]]
    assert [(m["seed"], m["outcome"]) for m in told if "seed" in m] == [(0, "done"), (1, "done"), (2, "done")]


def test_a_method_or_data_that_cannot_be_had_is_recorded_with_its_reason(monkeypatch):
    monkeypatch.setenv("NPTAD_DATA", "/nowhere")
    _, record = messages(a_task())
    assert record["outcome"] == "failed"
    assert "The data folder /nowhere does not exist" in record["reason"]
    monkeypatch.delenv("NPTAD_DATA")
    _, record = messages(a_task(dataset="separable", method="nowhere:Method"))
    assert record["reason"].startswith("InputError: There is no method 'nowhere:Method' (No module named 'nowhere')")


def test_methods_get_one_hot_columns_their_groups_and_their_seed(monkeypatch, tmp_path):
    own_module(
        monkeypatch,
        tmp_path,
        "curious",
        """
        class Curious:
            def __init__(self, random_state=None): self.seed = random_state
            def fit(self, x, groups): self.seen = x, groups
            def score(self, x):
                assert self.seed == 7 and self.seen[1].tolist() == [0, 1, 1, 1] and x.shape[1] == 4
                return x[:, 0]
        """,
    )
    from nptad.bench.protocol import Split

    rows = np.array([[0.0, 5.0], [1.0, 6.0]])
    split = Split(rows, rows, np.array([False, True]), categorical=(1,))
    (scored,) = find_method("curious:Curious").run([split], [7], {})
    assert scored.scores.tolist() == [0, 1]


@pytest.mark.parametrize("name", ["npt", "nowhere:Method", "nptad.bench.store:Nothing", "nptad.bench.store:"])
def test_a_method_that_is_not_there_is_refused(name):
    with pytest.raises(InputError, match=f"There is no method '{name}'"):
        find_method(name)


# The time left


def test_the_time_left_counts_the_seconds_of_earlier_runs(monkeypatch, tmp_path):
    now = [1000.0]
    monkeypatch.setattr("nptad.bench.progress.time.monotonic", lambda: now[0])
    slow, quick = (
        a_record(dataset, "mask-knn", seed=9, seconds={"fit": s}) for dataset, s in (("glass", 540), ("wine", 60))
    )
    write_store(tmp_path, [slow, quick])
    tasks = [a_task((0, 1)), a_task((0,), dataset="glass")]
    work = Work(tasks, tmp_path / "runs")
    assert work.summary() == "0/3 runs"
    now[0] += 120
    assert work.finish(a_record("wine", "mask-knn", seed=0)) == "1/3 runs, about 20 min left"  # (60 + 540) / 60 * 2
    now[0] += 1080
    work.finish(a_record("glass", "mask-knn", seed=0))
    assert work.finish(a_record("wine", "mask-knn", seed=1)) == "3/3 runs, about 0 min left"


def test_a_run_is_described_in_a_line():
    done = a_record("wine", "npt-ad", "paper", seed=3, f1=40.0)
    assert describe(done) == "wine npt-ad paper seed 3: F1 40.0, AUROC 70.0, 3.0 s"
    assert describe(a_record("wine", "mask-knn", seed=3, outcome="time")) == "wine mask-knn seed 3: time, it broke"


# Real processes


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def bench(*arguments, prelude=""):
    code = f"{prelude}\nfrom nptad.bench.commands import app\napp({list(map(str, arguments))!r})"
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL)


def test_interrupting_it_is_no_failure_of_the_runs(monkeypatch, tmp_path):
    body = (
        f'say({{"start": task["seeds"][:1]}})\nopen("{tmp_path}/" + str(os.getpid()) + ".pid", "w")\nparent.receive()'
    )
    use_worker(monkeypatch, tmp_path, body)
    options = (
        "run",
        "--methods",
        "mask-knn",
        "--datasets",
        "wine",
        "--seeds",
        "0-15",
        "--jobs",
        2,
        "--results",
        tmp_path,
    )
    parent = bench(*options, prelude="import nptad.bench.run; nptad.bench.run.WORKER = 'stand_in:work'")
    wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does for Ctrl-C
    assert parent.wait(timeout=60) != 0
    wait_for(lambda: all(is_gone(int(path.stem)) for path in tmp_path.glob("*.pid")))
    assert read_records(tmp_path / "runs") == []


_SLOW = """
class Slow:
    def __init__(self, random_state): self.seed = random_state
    def fit(self, x):
        with open("log", "a") as file: file.write(f"{self.seed} {os.getpid()}\\n")
        if self.seed == 2 and not os.path.exists("go"): time.sleep(600)
    def score(self, x): return x[:, 0]
"""


def test_kill_9_loses_nothing_finished_and_only_the_rest_is_done_afterwards(monkeypatch, tmp_path):
    own_module(monkeypatch, tmp_path, "slow", _SLOW)

    def begun():
        return [line.split() for line in Path("log").read_text().splitlines()] if Path("log").exists() else []

    store = Path("results/runs/separable.jsonl")
    parent = bench("run", "--methods", "slow:Slow", "--datasets", "separable", "--seeds", "0-3")
    wait_for(lambda: len(begun()) == 3 and store.exists() and store.read_bytes().count(b"\n") == 2)
    parent.kill()
    parent.wait()
    finished = store.read_bytes()
    wait_for(lambda: is_gone(int(begun()[2][1])))  # the worker goes with its parent
    assert [record["seed"] for record in read_records(store.parent)] == [0, 1]

    with store.open("ab") as file:
        file.write(b'{"dataset": "separ')  # as if the kill had come in the middle of writing
    Path("go").touch()
    plan = Plan(("slow:Slow",), ("separable",), tuple(range(4)), "paper")
    run_tasks(missing_tasks(plan, store.parent), store.parent)
    assert store.read_bytes().startswith(finished)
    assert [seed for seed, _ in begun()] == ["0", "1", "2", "2", "3"]
    assert [(r["seed"], r["outcome"]) for r in read_records(store.parent)] == [(seed, "done") for seed in range(4)]
    assert missing_tasks(plan, store.parent) == []


_OFTEN = """
import time
from pathlib import Path

import nptad.bench.npt, nptad.bench.unfinished
from nptad.bench.unfinished import Unfinished
from nptad.bench.worker import work

nptad.bench.npt.SECONDS, nptad.bench.unfinished.SECONDS = 0, -1
write = Unfinished._write_clock

def write_and_hold(self, folder):
    write(self, folder)
    if Path("hold").exists() and (folder / Path("hold").read_text()).exists():
        time.sleep(600)

Unfinished._write_clock = write_and_hold
"""


def test_a_run_goes_on_after_kill_9_and_what_it_kept_is_removed_in_the_end(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nptad.bench.run.WORKER", "often:work")
    (tmp_path / "often.py").write_text(_OFTEN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    options = ["run", "--methods", "npt-ad", "--datasets", "separable", "--seeds", 0, "--set", "n_steps=60"]
    options += ["--set", "batch_size=64", "--set", "embedding_dim=24"]
    often = "import nptad.bench.run; nptad.bench.run.WORKER = 'often:work'"
    assert bench(*options, "--results", "whole", prelude=often).wait(timeout=120) == 0
    kept = Path("results/runs/unfinished")
    for stage in ("training", "score.npy"):
        Path("hold").write_text(stage)
        parent = bench(*options, prelude=often)
        wait_for(lambda stage=stage: list(kept.glob(f"*/{stage}")))
        parent.kill()
        parent.wait()
    Path("hold").unlink()
    assert read_records(kept.parent) == []
    assert bench(*options, prelude=often).wait(timeout=120) == 0
    (record,), (whole,) = read_records(kept.parent), read_records(Path("whole/runs"))
    assert record["outcome"] == "done"
    assert record["rules"] == whole["rules"]
    assert list(kept.iterdir()) == []
