"""The workers: who gets which requests, what happens when one ends, and how another model takes over.

Everything here runs in the event loop but the exchange with a worker, for which each worker has a thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nptad.errors import ModelFileError, NPTADError
from nptad.models.config import CONFIG
from nptad.models.folder import fingerprint
from nptad.processes import threads_for_each
from nptad.service.log import log
from nptad.service.messages import Answer, Request, refused
from nptad.service.metrics import Metrics
from nptad.service.worker import Worker, WorkerOptions

_BATCH_REQUESTS, _BATCH_BYTES = 64, 1 << 20
"""Requests that are scored together at most; a larger body is scored alone."""

_WATCH_SECONDS = 2.0
"""Between two looks at config.json, which is replaced last when a model is saved."""

_LONGEST_PAUSE = 30.0  # between two attempts to start a worker, in seconds
_ATTEMPTS = 3  # to load the same model into all workers while it is replaced again and again


@dataclass(eq=False)
class _Job:
    """A request that waits for its answer."""

    request: Request
    answer: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    suspect: bool = False
    """Whether a worker has ended while it had this request: the next one gets it alone."""

    def goes_with(self, other: _Job) -> bool:
        """Whether both may be scored together; explaining takes long, so that every explanation is asked for alone."""
        alone = self.suspect or other.suspect
        return not alone and self.request.kind == other.request.kind == "score"


class Pool:
    """Workers that share the waiting requests.

    ``start`` is called first, in the running loop. ``make_worker`` is replaced in tests.
    """

    def __init__(
        self,
        options: WorkerOptions,
        n_workers: int,
        seconds: float,
        metrics: Metrics,
        make_worker: Callable[[WorkerOptions, int], Worker] = Worker,
    ) -> None:
        self._options, self._n_workers, self._seconds, self._metrics = options, n_workers, seconds, metrics
        self._make_worker = make_worker
        self._threads = ThreadPoolExecutor(2 * n_workers + 2)  # while a model is replaced there are twice as many
        self._waiting: deque[_Job] = deque()
        self._wake = asyncio.Event()
        self._reloading = asyncio.Lock()
        self._workers: set[Worker] = set()
        self._opening: set[Worker] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.facts: dict[str, Any] = {}
        """What is known of the model (:meth:`nptad.service.scoring.ModelScorer.facts`)."""

    async def start(self) -> None:
        """Load the model; an NPTADError if it cannot be loaded."""
        self._seen = self._config_state()
        self._adopt(await self._open_all())
        self._run(self._watch())

    def close(self) -> None:
        """End all workers, even in the middle of their work."""
        for task in self._tasks:
            task.cancel()
        for worker in self._workers | self._opening:
            worker.close()
        self._threads.shutdown(wait=False)

    @property
    def waiting(self) -> int:
        """Requests that no worker has taken yet."""
        return sum(not job.answer.done() for job in self._waiting)

    @property
    def workers(self) -> list[Worker]:
        """The workers that have the present model."""
        return [worker for worker in self._workers if not worker.retired]

    async def submit(self, request: Request, deadline: float) -> Answer:
        """Have a request answered, by a time of the loop's clock; whoever is cancelled is not answered any more."""
        job = _Job(request)
        self._waiting.append(job)
        self._wake.set()
        try:
            async with asyncio.timeout_at(deadline):
                return await job.answer
        except TimeoutError:
            return refused(503, f"This has taken longer than {self._seconds:g} seconds; send fewer rows, or try later.")

    def _take(self) -> list[_Job]:
        """The next requests for a worker: what waits and may be scored together."""
        batch: list[_Job] = []
        size = 0
        while self._waiting:
            job = self._waiting[0]
            if job.answer.done():  # its client has left, or its time is up
                self._waiting.popleft()
                continue
            size += len(job.request.body)
            if batch and (len(batch) == _BATCH_REQUESTS or size > _BATCH_BYTES or not job.goes_with(batch[0])):
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _serve(self, worker: Worker) -> None:
        """Give a worker what waits, until it is retired or ends."""
        has_ended = False
        try:
            while not worker.retired:
                batch = self._take()
                if batch:
                    await self._answer(batch, worker)
                else:
                    self._wake.clear()
                    await self._wake.wait()
        except Exception:
            has_ended = True
        self._workers.discard(worker)
        await self._in_thread(worker.close)
        if has_ended:
            self._run(self._replace())

    async def _answer(self, batch: list[_Job], worker: Worker) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                answers = await self._in_thread(worker.exchange, [job.request for job in batch])
        except Exception as error:
            reasons = {TimeoutError: "too slow", EOFError: "gone"}
            self._metrics.worker_ends += 1
            log("worker_ended", reason=reasons.get(type(error), repr(error)), requests=len(batch))
            for job in reversed(batch):
                if job.suspect and not job.answer.done():
                    job.answer.set_result(refused(500, "Scoring these rows has ended the process that did it, twice."))
                job.suspect = True
                self._waiting.appendleft(job)
            self._wake.set()
            raise
        self._metrics.batches += 1
        for job, answer in zip(batch, answers, strict=True):
            if not job.answer.done():
                job.answer.set_result(answer)

    async def _replace(self) -> None:
        """Start a worker in the place of one that has ended; if the model is another one by now, all of them."""
        pause = 0.0
        while len(self.workers) < self._n_workers:
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, 2 * pause + 1)
            try:
                worker = await self._open()
            except (NPTADError, OSError) as error:
                log("worker_failed", error=str(error), next_attempt_seconds=pause)
                continue
            is_same = worker.facts["fingerprint"] == self.facts["fingerprint"]
            if is_same and len(self.workers) < self._n_workers:
                self._add(worker)
                return
            await self._in_thread(worker.close)
            if not is_same:
                await self.reload()

    def reload_soon(self) -> None:
        """Begin to :meth:`reload`."""
        self._run(self.reload())

    async def reload(self) -> None:
        """Take over the model that is in the folder now; if it cannot be loaded, the present one stays."""
        async with self._reloading:
            try:
                same = await self._in_thread(fingerprint, self._options.directory) == self.facts["fingerprint"]
                if same and len(self.workers) == self._n_workers:
                    log("model_unchanged", model=self.facts["model"])
                    return
                workers = await self._open_all()
            except (NPTADError, OSError) as error:
                self._metrics.reloads["failed"] += 1
                log("reload_failed", error=str(error), model=self.facts["model"])
                return
            for worker in self.workers:
                worker.retired = True
            self._wake.set()
            self._metrics.reloads["done"] += 1
            self._adopt(workers)

    def _adopt(self, workers: list[Worker]) -> None:
        self.facts = workers[0].facts
        log("model_loaded", model=self.facts["model"], workers=len(workers))
        for worker in workers:
            self._add(worker)

    def _add(self, worker: Worker) -> None:
        self._workers.add(worker)
        self._run(self._serve(worker))

    async def _open_all(self) -> list[Worker]:
        """All workers with the same model, whoever replaces it meanwhile."""
        for _ in range(_ATTEMPTS):
            opened = await asyncio.gather(*(self._open() for _ in range(self._n_workers)), return_exceptions=True)
            workers = [worker for worker in opened if isinstance(worker, Worker)]
            if len(workers) == len(opened) and len({worker.facts["fingerprint"] for worker in workers}) == 1:
                return workers
            for worker in workers:
                worker.close()
            for error in opened:
                if isinstance(error, BaseException):
                    raise error
        raise ModelFileError(f"{self._options.directory} is replaced again and again; save one model there.")

    async def _open(self) -> Worker:
        worker = self._make_worker(self._options, threads_for_each(self._n_workers))
        self._opening.add(worker)
        try:
            await self._in_thread(worker.open)
        except BaseException:
            worker.close()
            raise
        finally:
            self._opening.discard(worker)
        return worker

    async def _watch(self) -> None:
        """Reload when config.json is another file."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            state = self._config_state()
            if state not in (None, self._seen):
                self._seen = state
                await self.reload()

    def _config_state(self) -> tuple[int, ...] | None:
        with suppress(OSError):
            status = (Path(self._options.directory) / CONFIG).stat()
            return status.st_ino, status.st_mtime_ns, status.st_size
        return None

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
