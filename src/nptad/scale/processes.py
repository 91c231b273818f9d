"""Workers that score tables, in processes on this machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Protocol

import pyarrow as pa
import torch

from nptad.errors import InputError, WorkerError
from nptad.processes import Child, available_cores, threads_for_each
from nptad.scale.arrow import ScoringOptions
from nptad.scale.worker import pack, unpack

Report = Callable[[float], None]
"""Told which share of a table is done."""


class Worker(Protocol):
    """Something that scores tables elsewhere, one at a time."""

    def score(self, table: pa.Table, report: Report) -> tuple[pa.Table, list[str]]:
        """The result and notes about the rows; InputError if they cannot be scored, WorkerError if it has ended."""

    def close(self) -> None:
        """End it, even in the middle of a table."""


Engine = Callable[[ScoringOptions, int | None], list[Callable[[], Worker]]]
"""Gives functions that start one worker each: as many as asked for, or a sensible number."""


def local_workers(options: ScoringOptions, jobs: int | None) -> list[Callable[[], Worker]]:
    """Processes on this machine: by default one for each GPU, or for each core; they share out the cores."""
    n_gpus = torch.cuda.device_count() if options.device in ("auto", "cuda") and torch.cuda.is_available() else 0
    jobs = jobs or n_gpus or available_cores()
    devices = [f"cuda:{job % n_gpus}" if n_gpus else options.device for job in range(jobs)]
    threads = threads_for_each(jobs)
    return [partial(LocalWorker, replace(options, device=device, threads=threads)) for device in devices]


class LocalWorker:
    """A process of its own on this machine."""

    def __init__(self, options: ScoringOptions) -> None:
        self._child = Child("nptad.scale.worker:work", threads=options.threads or 1)
        with suppress(EOFError):  # a process that is gone already shows with the first table
            self._child.send(asdict(options))

    def score(self, table: pa.Table, report: Report) -> tuple[pa.Table, list[str]]:
        """See :class:`Worker`."""
        try:
            self._child.send({}, pack(table))
            while True:
                message, result = self._child.receive()
                if "error" in message:
                    raise InputError(message["error"])
                if "notes" in message:
                    return unpack(result), message["notes"]
                report(message["progress"])
        except EOFError as error:
            raise WorkerError(f"A worker process {self._child.ending()}.") from error

    def close(self) -> None:
        """See :class:`Worker`."""
        self._child.kill()
