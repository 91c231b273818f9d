"""Plan the runs that are missing and carry them out: processes of their own, limits, a live view, nothing twice."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import psutil
from joblib import Parallel, delayed

from nptad.bench.one_table import find_spec
from nptad.bench.presets import Preset
from nptad.bench.registry import METHODS, Config, MethodSpec, shape_of
from nptad.bench.store import Key, RunRecord, append_record, key_of, read_records
from nptad.bench.worker import Task
from nptad.errors import DataError, InputError
from nptad.processes import Child

WORKER = "nptad.bench.worker:work"  # what runs in the processes
_POLL_SECONDS = 0.2
_SEEDS_PER_PROCESS = 8
"""A process does at most this many seeds, so that jobs share out evenly; starting one takes a few seconds."""


@dataclass(frozen=True)
class Limits:
    """What one run may use."""

    seconds: float | None = None
    memory_mib: float | None = None


@dataclass(frozen=True)
class Plan:
    """What was asked for."""

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    preset: Preset
    changes: tuple[tuple[str, object], ...] = ()  # settings that differ from the preset's
    protocol: str = "paper"  # or "one-table"


def configuration(spec: MethodSpec, dataset: str, plan: Plan) -> Config:
    """The configuration of a method on a data set, with the asked changes."""
    if spec.presets and plan.preset not in spec.presets:
        raise InputError(f"{spec.name} has no preset {plan.preset!r}; it has {', '.join(spec.presets)}.")
    config = spec.configure(plan.preset, shape_of(dataset))
    changes = dict(plan.changes) if spec.presets else {}
    free = [name for name in config if name not in spec.fixed]
    unknown = [name for name in changes if name not in free]
    if unknown:
        raise InputError(f"{spec.name} has no setting {unknown[0]!r} to change; it has {', '.join(free)}.")
    return {**config, **{name: value for name, value in changes.items() if value != config[name]}}


def wanted_runs(plan: Plan) -> Iterator[Task]:
    """Every run of the plan as a task of one seed, data set by data set."""
    if plan.changes and not any(find_spec(method, plan.protocol).presets for method in plan.methods):
        takers = " and ".join(spec.name for spec in METHODS.values() if spec.presets)
        raise InputError(f"--set changes settings of {takers}; {', '.join(plan.methods)} take none.")
    for dataset in plan.datasets:
        for method in plan.methods:
            spec = find_spec(method, plan.protocol)
            config = configuration(spec, dataset, plan)
            stack = spec.stack(config, shape_of(dataset))
            preset = plan.preset if spec.presets else ""
            for seed in plan.seeds:
                version = spec.version_under(preset)
                yield Task(dataset, method, preset, version, config, (seed,), None, 1, stack, plan.protocol)


def missing_tasks(
    plan: Plan, results: Path, *, retry: bool = False, again: bool = False, shard: tuple[int, int] = (1, 1)
) -> list[Task]:
    """The runs of the plan that have no record yet, gathered into tasks.

    Runs that had no data are missing too. ``retry`` repeats all that failed, ``again`` those that are done as well.
    """
    records = [] if again else read_records(results)
    no_data = f"{DataError.__name__}:"
    known = {
        key_of(r) for r in records if r["outcome"] == "done" or not (retry or r.get("reason", "").startswith(no_data))
    }
    todo = [run for run in _share(plan, shard) if _key(run) not in known]
    tasks = []
    for _, group in groupby(todo, key=lambda run: (run.dataset, run.method)):
        runs = list(group)
        size = max(runs[0].stack, _SEEDS_PER_PROCESS // runs[0].stack * runs[0].stack)
        for first in range(0, len(runs), size):
            seeds = tuple(run.seeds[0] for run in runs[first : first + size])
            tasks.append(replace(runs[0], seeds=seeds))
    return tasks


def count_failed(plan: Plan, results: Path, shard: tuple[int, int] = (1, 1)) -> int:
    """How many runs of the plan have failed; one over a limit has not."""
    failed = {key_of(r) for r in read_records(results) if r["outcome"] == "failed"}
    return sum(_key(run) in failed for run in _share(plan, shard))


def _share(plan: Plan, shard: tuple[int, int]) -> Iterator[Task]:
    index, count = shard
    return (run for place, run in enumerate(wanted_runs(plan)) if place % count == index - 1)


def _key(run: Task) -> Key:
    return key_of(run.record(run.seeds[0], "planned"))


def run_tasks(
    tasks: Iterable[Task],
    results: Path,
    *,
    jobs: int = 1,
    threads: int = 1,
    data: str | None = None,
    limits: Limits | None = None,
    shard: tuple[int, int] = (1, 1),
    report: Callable[[RunRecord], None] = lambda record: None,
    carry_out: Callable[[Task, Limits], Iterator[RunRecord]] | None = None,
) -> None:
    """Carry out tasks, ``jobs`` at a time, and store every record as soon as it is there.

    ``carry_out`` runs one task and gives its records, by default :func:`supervise`, in a process on this machine. There
    a stopped run goes on where it was.
    """
    unfinished = results / "unfinished" if carry_out is None else None
    suffix = "" if shard == (1, 1) else f".shard-{shard[0]}-of-{shard[1]}"
    lock = threading.Lock()

    def follow(task: Task) -> None:
        task = replace(
            task, data=data, threads=threads, unfinished=None if unfinished is None else str(unfinished.resolve())
        )
        for record in (carry_out or supervise)(task, limits or Limits()):
            with lock:
                append_record(results, record, suffix)
                report(record)
            folder = task.unfinished_run(record["seed"])
            if record["outcome"] == "done" and folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    # Threads only wait here: each task runs in a process of its own.
    Parallel(n_jobs=jobs, backend="threading")(delayed(follow)(task) for task in tasks)


def supervise(task: Task, limits: Limits) -> Iterator[RunRecord]:
    """Run a task in a worker process and watch it.

    A seed that exceeds a limit, or takes the process with it, gets a record that says so; the rest of the seeds go on
    in a new process. Seeds that together need more memory than a run may take are run again one by one.
    """
    left = list(task.seeds)
    while left:
        current: list[int] = []
        begun = False
        deadline = float("inf")
        messages: queue.Queue[Any] = queue.Queue()
        with Child(WORKER, threads=task.threads) as child:
            child.listen(messages.put)
            with suppress(EOFError):  # a child that is gone already sends no message but None
                child.send(asdict(replace(task, seeds=tuple(left))))
            while True:
                try:
                    message = messages.get(timeout=_POLL_SECONDS)
                except queue.Empty:
                    if time.monotonic() > deadline:
                        outcome = ("time", f"More than {limits.seconds:g} seconds per run")
                        break
                    if limits.memory_mib is not None and _memory_mib(child.pid) > limits.memory_mib:
                        outcome = ("memory", f"More than {limits.memory_mib:g} MiB")
                        break
                    continue
                if message is None:
                    outcome = ("failed", f"The worker process {child.ending()}")
                    break
                if "start" in message:
                    current, begun = message["start"], True
                    if limits.seconds is not None:
                        deadline = time.monotonic() + limits.seconds * len(current)
                    continue
                current.remove(message["seed"])
                left.remove(message["seed"])
                if not current:
                    deadline = float("inf")  # until the next ones start
                yield message
        if left:
            if outcome[0] == "memory" and task.stack > 1 and len(current) > 1:
                task = replace(task, stack=1)
                continue
            # A worker that ends without having begun would do so again.
            lost = current if begun else list(left)
            left = [seed for seed in left if seed not in lost]
            yield from (task.record(seed, outcome[0], reason=outcome[1]) for seed in lost)


def _memory_mib(pid: int) -> float:
    """What a process and those that it has started take."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0.0
    total = 0.0
    for member in family:
        with suppress(psutil.Error):
            total += member.memory_info().rss / 2**20
    return total
