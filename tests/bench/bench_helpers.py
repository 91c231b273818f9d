"""A stand-in for the worker process that starts in no time, and records of runs that never were."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import indent
from typing import Any, cast

import pytest

from nptad.bench.presets import Preset
from nptad.bench.registry import METHODS
from nptad.bench.rules import RULES
from nptad.bench.run import Plan, configuration
from nptad.bench.store import RunRecord, append_record
from nptad.bench.worker import Task

_WORKER = """\
import hashlib, json, os, sys, time

def work(parent):
    say = parent.send
    task, _ = parent.receive()
    hash = hashlib.sha256(json.dumps(task["config"], sort_keys=True).encode()).hexdigest()[:12]

    def record(seed, **more):
        names = ("dataset", "method", "preset", "version", "config")
        run = {{name: task[name] for name in names}} | {{"config_hash": hash, "seed": seed, "outcome": "done"}}
        return run | {{"f1": 50.0, "auroc": 75.0, "seconds": {{"fit": 1.0}}, "pid": os.getpid()}} | more

{body}
"""

_EACH_SEED = """\
for seed in task["seeds"]:
    say({{"start": [seed]}})
    {fit}
    say(record(seed, threads=task["threads"], omp=os.environ["OMP_NUM_THREADS"], data=task["data"]))
"""


def use_worker(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str | None = None, *, fit: str = "pass") -> None:
    """Let worker processes run these lines of Python instead; `parent`, `task`, `say` and `record` are at hand.

    Without a body all seeds are done one by one, `fit` before each record.
    """
    body = _EACH_SEED.format(fit=fit) if body is None else body
    (folder / "stand_in.py").write_text(_WORKER.format(body=indent(body, "    ")))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr("nptad.bench.run.WORKER", "stand_in:work")


def a_task(seeds: tuple[int, ...] = (0,), **changes: Any) -> Task:
    fields = {"dataset": "wine", "method": "mask-knn", "preset": "", "version": 1, "config": {}, "data": None}
    return Task(**{**fields, "threads": 1, "stack": 1, **changes}, seeds=seeds)


def a_record(
    dataset: str, method: str, preset: str = "", seed: int = 0, outcome: str = "done", **more: Any
) -> RunRecord:
    """A record with the configuration of its preset; `f1` sets the other metrics too."""
    wanted = cast(Preset, preset or "paper")
    config = configuration(METHODS[method], dataset, Plan((method,), (dataset,), (seed,), wanted))
    config.update(more.pop("settings", {}))
    task = a_task(
        dataset=dataset, method=method, preset=preset, config=config, version=METHODS[method].version_under(preset)
    )
    if outcome != "done":
        return task.record(seed, outcome, reason="it broke", **more)
    f1 = more.pop("f1", 50.0)
    values = {"f1": f1, "auroc": 50 + f1 / 2, "average_precision": f1 / 2}
    seconds = {"fit": 2.0, "score": 1.0}
    rules = {rule: values for rule in RULES} if preset in ("paper", "scripts") else {}
    return task.record(seed, "done", **{**values, "rules": rules, "seconds": seconds, "cpu_seconds": seconds, **more})


def an_own_record(dataset: str, method: str = "mine:Class", seed: int = 0, **more: Any) -> RunRecord:
    """A record of a method that is not listed, and whose module is not there."""
    return {**a_record(dataset, "iforest", seed=seed, **more), "method": method}


def write_store(results: Path, records: list[RunRecord]) -> None:
    for record in records:
        append_record(results / "runs", record)


def small_study() -> list[RunRecord]:
    """Three data sets, four columns, three seeds each, and two shares of contamination."""
    base = {("npt-ad", "paper"): 70, ("npt-ad", "default"): 72, ("transformer", "paper"): 30, ("mask-knn", ""): 40}
    records = [
        a_record(dataset, method, preset, seed, f1=level + shift + 2.0 * seed)
        for shift, dataset in enumerate(("wine", "glass", "breastw"))
        for (method, preset), level in base.items()
        for seed in range(3)
    ]
    records += [
        a_record(f"separable@{share}", method, "paper", seed, f1=100 - 500 * share - seed)
        for share in (0, 0.05)
        for method in ("npt-ad", "transformer")
        for seed in range(2)
    ]
    return [*records, a_record("pima", "npt-ad", "paper", 0, outcome="time")]
