"""The queue: one job at a time, and uploaded files read beside it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nptad.errors import InputError
from nptad.processes import Child
from nptad.web.choices import Choices
from nptad.web.jobs import Job, Store

WORKER = "nptad.web.worker:work"  # what runs in the processes

CRASHED = "The process that worked on it crashed or was killed, perhaps for lack of memory; nothing else was harmed."

READING_SECONDS = 600.0  # time for reading an upload
TERM_SECONDS = 3.0  # time for a process to end before it is killed


class Runner:
    """Runs the jobs of a store, in the order in which they were submitted.

    All methods belong to one event loop, so that states change one after the other. ``worker`` is the function that
    runs in the processes, as ``package.module:function``.
    """

    def __init__(self, store: Store, max_bytes: int, max_rows: int, worker: str = WORKER) -> None:
        self._store, self._worker = store, worker
        self._limits = {"max_bytes": max_bytes, "max_rows": max_rows}
        self._reading = asyncio.Semaphore(1)
        self._judging = asyncio.Semaphore(1)
        self._wake = asyncio.Event()
        self._active: dict[Child, asyncio.Task[dict[str, Any]]] = {}
        self._closing = False
        self._cancelled = False
        self.running: Job | None = None  # the job that is being done
        self.process: Child | None = None  # its process
        self.progress: dict[str, Any] = {}  # its phase, share done and seconds left, as far as known

    async def start(self) -> None:
        """Begin with the jobs that wait already."""
        self._loop = asyncio.create_task(self._work_off())

    async def stop(self) -> None:
        """End all processes; the job that was running counts as interrupted, those that wait go on waiting."""
        self._closing = True
        self._wake.set()
        await asyncio.gather(*(self._end(process) for process in list(self._active)))
        await self._loop

    async def inspect(self, directory: Path, name: str, format: str | None) -> dict[str, Any]:
        """Have an upload read: its rows, columns and proposed choices."""
        task = {"do": "inspect", "directory": str(directory), "name": name, "format": format, **self._limits}
        async with self._reading:
            try:
                outcome = await asyncio.wait_for(self._run(task), READING_SECONDS)
            except TimeoutError as error:
                raise InputError(f"Reading {name} takes too long; use a part of its rows.") from error
        if "failed" in outcome:
            raise InputError(outcome["failed"])
        return dict(outcome["done"])

    async def judge(self, job: Job, row: int, verdict: str) -> None:
        """Have the model of a finished job told what the user says about a row; an InputError if that fails."""
        async with self._judging:
            outcome = await self._run(
                {"do": "judge", "directory": str(self._store.path(job)), "row": row, "verdict": verdict}
            )
        if "failed" in outcome:
            raise InputError(outcome["failed"])

    def submit(self, job: Job, choices: Choices) -> None:
        """Put a job at the end of the queue."""
        self._store.save(job, state="queued", choices=choices, queued=time.time(), message="", notes=[])
        self._wake.set()

    async def cancel(self, job: Job) -> None:
        """Take a job out of the queue or end it; returns when that is done."""
        if job.state == "queued":
            self._store.save(job, state="cancelled", finished=time.time())
        elif job is self.running and self.process is not None:
            self._cancelled = True
            await self._end(self.process)
            while job.state == "running":
                await asyncio.sleep(0)

    async def _work_off(self) -> None:
        while not self._closing:
            queue = self._store.queue()
            if not queue:
                self._wake.clear()
                await self._wake.wait()
                continue
            job = queue[0]
            try:
                await self._do(job)
            except OSError as error:  # a full disk must not end the queue
                job.state, job.message = "failed", f"The job cannot be kept on disk: {error.strerror}."
            self.running = self.process = None

    async def _do(self, job: Job) -> None:
        self._store.save(job, state="running", started=time.time())
        place = {"directory": str(self._store.path(job)), "name": job.name}
        task = {"do": "detect", **place, "columns": job.columns, "choices": asdict(job.choices)}
        self.running, self.progress, self._cancelled = job, {}, False
        outcome = await self._run(task)
        ended: dict[str, Any] = {"state": "failed", "message": outcome.get("failed", "")}
        if "done" in outcome:
            ended = {"state": "done", **outcome["done"]}
        elif self._cancelled or self._closing:
            ended = {"state": "cancelled" if self._cancelled else "interrupted"}
        self._store.drop_unfinished(job, keep_result="done" in outcome)
        self._store.save(job, finished=time.time(), **ended)

    async def _run(self, task: dict[str, Any]) -> dict[str, Any]:
        """Do a task in a process; end the process if nobody waits for it any more."""
        try:
            process = Child(self._worker)
        except OSError:  # for instance too many processes
            return {"failed": CRASHED}
        if task["do"] == "detect":
            self.process = process
        running = asyncio.create_task(asyncio.to_thread(self._follow, process, task))
        self._active[process] = running
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await self._end(process)
            raise
        finally:
            del self._active[process]

    async def _end(self, process: Child) -> None:
        running = self._active.get(process)
        if running is None:
            return
        process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(running), TERM_SECONDS)
        if not running.done():
            await asyncio.to_thread(process.kill)
            await running

    def _follow(self, process: Child, task: dict[str, Any]) -> dict[str, Any]:
        """Give a process its task and wait until it ends; returns ``{"done": ...}`` or ``{"failed": one sentence}``."""
        outcome: dict[str, Any] = {"failed": CRASHED}
        with process, suppress(EOFError):
            process.send(task)
            while True:
                message, _ = process.receive()
                if "progress" in message:
                    self.progress = message["progress"]  # from another thread, in one step
                else:
                    outcome = message
        return outcome
