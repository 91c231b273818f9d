"""One process of the benchmark: runs some seeds of one method on one data set.

Its parent sends it a task. It answers with ``{"start": seeds}`` before a stack of seeds, then a record for each.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nptad.bench.store import RunRecord, config_hash
from nptad.processes import Parent


@dataclass(frozen=True)
class Task:
    """Some seeds of one method on one data set."""

    dataset: str  # a data set, or ``separable@0.05`` for the separable set with 5 % of contamination
    method: str
    preset: str  # empty for methods whose configuration does not depend on it
    version: int
    config: dict[str, Any]
    seeds: Sequence[int]
    data: str | None
    threads: int
    stack: int  # seeds that are fitted side by side
    protocol: str = "paper"  # or "one-table"
    unfinished: str | None = None  # the folder of what runs have done so far, if they keep it

    def record(self, seed: int, outcome: str, **more: Any) -> RunRecord:
        """A record of one of the runs."""
        return {
            "dataset": self.dataset,
            "method": self.method,
            "preset": self.preset,
            "version": self.version,
            "config": self.config,
            "config_hash": config_hash(self.config),
            "seed": seed,
            "outcome": outcome,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            **more,
        }

    def unfinished_run(self, seed: int) -> Path | None:
        """The folder of what a run has done so far."""
        name = f"{self.dataset}-{self.method}-{self.version}-{config_hash(self.config)}-{seed}"
        return None if self.unfinished is None else Path(self.unfinished) / name


def run_task(task: Task) -> Iterator[dict[str, Any]]:
    """Run the seeds of a task, stack by stack, or one by one if they do not fit together; an error is a record too."""
    from nptad.bench.datasets import Table, content_sha256, load
    from nptad.bench.one_table import find_spec, flag_metrics, whole_table
    from nptad.bench.protocol import Split, contaminated_split, metrics, parse_name, split_table
    from nptad.errors import MaskBankWarning

    warnings.simplefilter("ignore", MaskBankWarning)
    name, share = parse_name(task.dataset)

    def split(table: Table, seed: int) -> Split:
        if task.protocol == "one-table":
            return whole_table(table, seed)
        return split_table(table, seed) if share is None else contaminated_split(table, seed, share)

    for first in range(0, len(task.seeds), task.stack):
        seeds = list(task.seeds[first : first + task.stack])
        yield {"start": seeds}
        todo = list(seeds)
        try:
            table = load(name, task.data)
            splits = [split(table, seed) for seed in seeds]
            spec = find_spec(task.method, task.protocol)
            kept = {"unfinished": task.unfinished_run(seeds[0])} if spec.goes_on and len(seeds) == 1 else {}
            runs = spec.run(splits, seeds, task.config, **kept)
            for one, scored in zip(splits, runs, strict=True):
                yield task.record(
                    todo[0],
                    "done",
                    **metrics(one.truth, scored.scores),
                    **flag_metrics(one.truth, scored),
                    rules={rule: metrics(one.truth, scores) for rule, scores in scored.rules.items()},
                    content=content_sha256(table),
                    n_train=len(one.train),
                    n_test=len(one.test),
                    seconds={phase: round(value, 3) for phase, value in scored.clock.seconds.items()},
                    cpu_seconds={phase: round(value, 3) for phase, value in scored.clock.cpu_seconds.items()},
                    stack=scored.stack,
                    peak_mib=_peak_mib(),
                    environment=_environment(task.threads),
                )
                del todo[0]
        except Exception as error:
            reason = reason_of(error)
            out_of_memory = isinstance(error, MemoryError) or "can't allocate memory" in reason  # the latter is torch's
            if out_of_memory and len(todo) > 1:
                yield from run_task(replace(task, seeds=tuple(todo), stack=1))
                continue
            yield from (task.record(seed, "memory" if out_of_memory else "failed", reason=reason) for seed in todo)


def reason_of(error: Exception) -> str:
    r"""An error in one line, without the colours that Ray and others give it.

    Examples
    --------
    >>> reason_of(ValueError("\033[31mno rows\033[0m\nmore"))
    'ValueError: no rows'
    """
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", f"{type(error).__name__}: {error}").splitlines()[0]


def _peak_mib() -> int:
    """Peak memory of this process; what the system says of the process before it became this program left out."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (2**20 if sys.platform == "darwin" else 2**10)
    return int(status.partition("VmHWM:")[2].split()[0]) // 2**10


def _environment(threads: int) -> dict[str, Any]:
    return {
        **{package: version(package) for package in ("nptad", "torch", "numpy", "scikit-learn")},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
    }


def _processor() -> str:
    """The model of the processor, as far as the system tells."""
    with suppress(OSError):
        if match := re.search(r"^model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
            return match[1]
    return platform.processor()


def work(parent: Parent) -> None:
    """Run a task; what the process does."""
    import torch

    task = Task(**parent.receive()[0])

    torch.set_num_threads(task.threads)
    for message in run_task(task):
        parent.send(message)
