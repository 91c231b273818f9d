"""A worker process as its parent sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import torch

from nptad.errors import InputError, WorkerError
from nptad.scale.arrow import ScoringOptions
from nptad.scale.worker import receive, send

Report = Callable[[float], None]
"""Told which share of a table is done."""


class Worker(Protocol):
    """Something that scores tables elsewhere, one at a time."""

    def score(self, table: pa.Table, report: Report) -> tuple[pa.Table, list[str]]:
        """The result and notes about the rows; InputError if they cannot be scored, WorkerError if it is gone."""

    def close(self) -> None:
        """End it, whatever it does."""


Engine = Callable[[ScoringOptions, int | None], list[Callable[[], Worker]]]
"""Functions that start a worker each, as many as are asked for or as are sensible."""


def local_workers(options: ScoringOptions, jobs: int | None) -> list[Callable[[], Worker]]:
    """Processes on this machine: with several GPUs one each, and threads that do not fight over the cores."""
    n_gpus = torch.cuda.device_count() if options.device in ("auto", "cuda") and torch.cuda.is_available() else 0
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jobs = jobs or n_gpus or n_cores
    asked = os.environ.get("OMP_NUM_THREADS", "")
    threads = min(max(1, n_cores // jobs), int(asked) if asked.isdecimal() else n_cores)
    devices = [f"cuda:{job % n_gpus}" if n_gpus else options.device for job in range(jobs)]
    return [partial(LocalWorker, replace(options, device=device, threads=threads)) for device in devices]


class LocalWorker:
    """A process of its own on this machine."""

    def __init__(self, options: ScoringOptions) -> None:
        threads = str(options.threads or 1)
        self._process: subprocess.Popen[Any] = subprocess.Popen(
            [sys.executable, "-m", "nptad.scale.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
            start_new_session=True,  # else Ctrl-C would reach the workers first
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        with suppress(BrokenPipeError):  # of one that is gone already the first table will tell
            send(self._stdin, asdict(options))

    def score(self, table: pa.Table, report: Report) -> tuple[pa.Table, list[str]]:
        """See :class:`Worker`."""
        try:
            send(self._stdin, {}, table)
            while True:
                message, result = receive(self._stdout)
                if "error" in message:
                    raise InputError(message["error"])
                if result is not None:
                    return result, message["notes"]
                report(message["progress"])
        except (EOFError, BrokenPipeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise WorkerError(self._ending()) from error

    def _ending(self) -> str:
        code = self._process.wait()
        if code < 0:
            cause = f"was killed by signal {-code} ({signal.strsignal(-code)}), perhaps for lack of memory"
        else:
            cause = f"ended with exit code {code}"
        return f"A worker process {cause}."

    def close(self) -> None:
        """See :class:`Worker`."""
        self._process.kill()
        self._process.wait()
        for stream in (self._stdin, self._stdout):
            with suppress(BrokenPipeError, ValueError):
                stream.close()
