"""Workers that score tables, in processes on this machine: both sides, and the messages between them.

The first message to a process has the scoring options, each one after that a table as payload. The process answers a
table with ``{"progress": share}`` now and then, and in the end with ``{"notes": [...]}`` and the result, or with
``{"error": ...}``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.ipc
import torch

from nptad.errors import NPTADError, WorkerError
from nptad.memory import memory_explained
from nptad.processes import (
    Child,
    Parent,
    available_cores,
    error_from_dict,
    error_to_dict,
    threads_for_each,
)
from nptad.progress import listening
from nptad.scale.arrow import ArrowScorer, ScoringOptions, open_scorer

_PROGRESS_SECONDS = 0.2

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
        self._child = Child("nptad.scale.processes:work", threads=options.threads or 1)
        with suppress(EOFError):  # a process that is gone already shows with the first table
            self._child.send(asdict(options))

    def score(self, table: pa.Table, report: Report) -> tuple[pa.Table, list[str]]:
        """See :class:`Worker`."""
        try:
            self._child.send({}, _pack(table))
            while True:
                message, result = self._child.receive()
                if "error" in message:
                    raise error_from_dict(message["error"])
                if "notes" in message:
                    return _unpack(result), message["notes"]
                report(message["progress"])
        except EOFError as error:
            raise WorkerError(f"A worker process {self._child.ending()}.") from error

    def close(self) -> None:
        """See :class:`Worker`."""
        self._child.kill()


def work(parent: Parent) -> None:
    """Score tables until the parent ends; what the process does."""
    told = 0.0

    def tell(description: str, done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > _PROGRESS_SECONDS:
            told = time.monotonic()
            parent.send({"progress": done / max(total, 1)})

    options = ScoringOptions(**parent.receive()[0])
    while True:
        table = _unpack(parent.receive()[1])
        try:
            with listening(tell), memory_explained():
                result, notes = score_table(open_scorer(options), table)
            parent.send({"notes": notes}, _pack(result))
        except NPTADError as error:
            parent.send({"error": error_to_dict(error)})


def score_table(scorer: ArrowScorer, table: pa.Table) -> tuple[pa.Table, list[str]]:
    """The result, and what there is to note about the rows."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        # Not to_batches, which makes none of a table without rows.
        columns = [column.combine_chunks() for column in table.columns]
        result = scorer(pa.RecordBatch.from_arrays(columns, schema=table.schema))
    return pa.Table.from_batches([result]), [str(note.message) for note in notes]


def _pack(table: pa.Table) -> memoryview:
    payload = pa.BufferOutputStream()
    with pyarrow.ipc.new_stream(payload, table.schema) as writer:
        writer.write(table)
    return memoryview(payload.getvalue())


def _unpack(payload: bytearray) -> pa.Table:
    return pyarrow.ipc.open_stream(payload).read_all()
