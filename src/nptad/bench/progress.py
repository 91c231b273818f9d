"""A live view of a benchmark: how much is done, the last run, and the time left."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from nptad.bench.store import RunRecord, read_records
from nptad.bench.worker import Task


@contextmanager
def live_view(tasks: list[Task], results: Path, console: Console) -> Iterator[Callable[[RunRecord], None]]:
    """Yield a function to call with each record; it shows a bar on a terminal, otherwise a line per record."""
    work = Work(tasks, results)
    if not console.is_terminal:
        yield lambda record: console.print(f"{work.finish(record)}  {describe(record)}", markup=False, soft_wrap=True)
        return
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(work.summary(), total=work.expected)

        def report(record: RunRecord) -> None:
            summary = work.finish(record)
            bar.console.print(describe(record), markup=False)
            bar.update(task, description=summary, completed=work.spent)

        yield report


def describe(record: RunRecord) -> str:
    """One line about a run."""
    name = f"{record['dataset']} {record['method']} {record['preset']}".strip() + f" seed {record['seed']}"
    if record["outcome"] != "done":
        return f"{name}: {record['outcome']}, {record['reason']}"
    return f"{name}: F1 {record['f1']:.1f}, AUROC {record['auroc']:.1f}, {sum(record['seconds'].values()):.1f} s"


class Work:
    """The runs to do, weighted by the time of earlier runs of the same method on the same data set."""

    def __init__(self, tasks: list[Task], results: Path) -> None:
        seconds: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
        for r in read_records(results):
            if r["outcome"] == "done":
                seconds[r["dataset"], r["method"], r["preset"]].append(sum(r["seconds"].values()))
        typical = {key: median(values) for key, values in seconds.items()}
        overall = median(typical.values()) if typical else 1.0
        runs = [(task.dataset, task.method, task.preset, seed) for task in tasks for seed in task.seeds]
        self.weights = {run: typical.get(run[:3], overall) for run in runs}
        self.total = len(self.weights)
        self.expected = sum(self.weights.values())
        self.spent = 0.0
        self.started = time.monotonic()

    def finish(self, record: RunRecord) -> str:
        """Count a record and return the summary."""
        key = (record["dataset"], record["method"], record["preset"], record["seed"])
        self.spent += self.weights.pop(key, 0.0)
        return self.summary()

    def summary(self) -> str:
        """Number of runs done, and the time left at the speed so far."""
        done = self.total - len(self.weights)
        text = f"{done}/{self.total} runs"
        if self.spent > 0:
            left = (time.monotonic() - self.started) / self.spent * (self.expected - self.spent)
            text += f", about {left / 60:.0f} min left"
        return text
