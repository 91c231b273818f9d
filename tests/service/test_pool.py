"""Which worker gets which requests, and what happens when one ends or another model is there; with stub workers."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from nptad.errors import InputError, WorkerError
from nptad.service import pool as pool_module
from nptad.service.messages import Answer, Request
from nptad.service.metrics import Metrics
from nptad.service.pool import Pool
from nptad.service.worker import Worker, WorkerOptions


class Stub(Worker):
    """Answers with the number of requests that came together; a body "die" ends it, "hang" never comes back."""

    made: ClassVar[list[Stub]] = []
    model = "one"

    def __init__(self, options, threads):
        self.news, self.retired, self.closed = {}, False, threading.Event()
        self.batches, self.go_on = [], threading.Event()
        self.go_on.set()
        self.made.append(self)

    def open(self):
        if self.model == "broken":
            raise InputError("The model is broken.")
        self.facts = {"model": self.model, "fingerprint": self.model}

    def exchange(self, requests):
        bodies = [request.body for request in requests]
        self.batches.append(bodies)
        self.go_on.wait(30)
        if b"hang" in bodies:
            self.closed.wait(30)
        if b"die" in bodies or self.closed.is_set():
            raise EOFError
        return [Answer(200, b"%d" % len(bodies)) for _ in bodies]

    def close(self):
        self.closed.set()
        self.go_on.set()


@pytest.fixture(autouse=True)
def stubs(monkeypatch):
    monkeypatch.setattr(Stub, "made", [])
    monkeypatch.setattr(Stub, "model", "one")
    monkeypatch.setattr(pool_module, "fingerprint", lambda _: Stub.model)
    monkeypatch.setattr(pool_module, "_WATCH_SECONDS", 0.01)


@asynccontextmanager
async def opened(tmp_path, n_workers=1, seconds=30.0):
    (tmp_path / "config.json").write_text("{}")
    pool = Pool(WorkerOptions(str(tmp_path)), n_workers, seconds, Metrics(), Stub)
    await pool.start()
    try:
        yield pool
    finally:
        pool.close()


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


def asked(pool, body=b"", kind="score", seconds=30.0):
    deadline = asyncio.get_running_loop().time() + seconds
    return asyncio.ensure_future(pool.submit(Request(kind, "json", body), deadline))


async def held_up(pool):
    """The worker with a first request that keeps it busy."""
    (worker,) = Stub.made[-1:]
    worker.go_on.clear()
    first = asked(pool, b"first")
    await until(lambda: worker.batches)
    return worker, first


def test_what_waits_is_scored_together_up_to_a_bound(tmp_path):
    async def run():
        async with opened(tmp_path) as pool:
            worker, first = await held_up(pool)
            waiting = [asked(pool) for _ in range(70)]
            explained = [asked(pool, kind="explain") for _ in range(2)]
            large = asked(pool, bytes(2 << 20))
            await until(lambda: pool.waiting == 73)
            worker.go_on.set()
            sizes = [int(answer.body) for answer in await asyncio.gather(first, *waiting, *explained, large)]
            assert sizes == [1, *[64] * 64, *[6] * 6, 1, 1, 1]
            assert pool.waiting == 0

    asyncio.run(run())


def test_two_workers_share_what_waits(tmp_path):
    async def run():
        async with opened(tmp_path, n_workers=2) as pool:
            for worker in Stub.made:
                worker.go_on.clear()
            first = asked(pool)
            await until(lambda: any(worker.batches for worker in Stub.made))
            second = asked(pool)
            await until(lambda: all(worker.batches for worker in Stub.made))
            for worker in Stub.made:
                worker.go_on.set()
            await asyncio.gather(first, second)

    asyncio.run(run())


def test_who_has_left_or_waited_too_long_is_not_scored(tmp_path):
    async def run():
        async with opened(tmp_path) as pool:
            worker, first = await held_up(pool)
            left, late, patient = asked(pool, b"left"), asked(pool, b"late", seconds=0.05), asked(pool, b"patient")
            await until(lambda: pool.waiting == 3)
            left.cancel()
            assert (await late).status == 503
            worker.go_on.set()
            assert (await patient).status == (await first).status == 200
            assert worker.batches == [[b"first"], [b"patient"]]

    asyncio.run(run())


@pytest.mark.parametrize(("poison", "seconds", "status"), [(b"die", 30.0, 500), (b"hang", 0.3, 503)])
def test_a_request_that_ends_workers_ends_only_itself(tmp_path, capsys, poison, seconds, status):
    async def run():
        async with opened(tmp_path, seconds=seconds) as pool:
            worker, first = await held_up(pool)
            good, bad, other = asked(pool, b"good"), asked(pool, poison, seconds=seconds), asked(pool, b"other")
            await until(lambda: pool.waiting == 3)
            worker.go_on.set()
            answers = await asyncio.gather(first, good, bad, other)
            assert [answer.status for answer in answers] == [200, 200, status, 200]
            assert json.loads(answers[2].body)["error"].endswith(".")
            assert worker.closed.is_set()
            await until(lambda: len(pool.workers) == 1)

    asyncio.run(run())
    events = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert "worker_ended" in events


def test_another_model_takes_over_and_what_is_under_way_is_finished_with_the_old_one(tmp_path, capsys):
    async def run():
        async with opened(tmp_path) as pool:
            old, first = await held_up(pool)
            Stub.model = "two"
            (tmp_path / "config.json").write_text("{ }")  # seen without a signal
            await until(lambda: pool.facts["model"] == "two")
            assert (await asked(pool, b"new")).status == 200
            assert Stub.made[-1].batches == [[b"new"]]
            old.go_on.set()
            assert (await first).status == 200
            await until(old.closed.is_set)
            await pool.reload()  # by a signal; it is the same
            assert len(Stub.made) == 2

    asyncio.run(run())
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == [
        *("model_loaded", "model_loaded", "model_unchanged")
    ]


def test_a_model_that_cannot_be_loaded_leaves_the_present_one(tmp_path, capsys):
    async def run():
        async with opened(tmp_path) as pool:
            Stub.model = "broken"
            await pool.reload()
            assert pool.facts["model"] == "one"
            assert (await asked(pool)).status == 200

    asyncio.run(run())
    last = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (last["event"], last["error"]) == ("reload_failed", "The model is broken.")


def test_a_service_does_not_start_without_a_model(tmp_path):
    async def run():
        Stub.model = "broken"
        async with opened(tmp_path, n_workers=2):
            pass

    with pytest.raises(InputError, match="The model is broken"):
        asyncio.run(run())
    assert all(worker.closed.is_set() for worker in Stub.made)


def test_workers_that_load_different_models_are_loaded_again(tmp_path):
    class Changing(Stub):
        def open(self):
            name = "old" if self is self.made[0] else "new"
            self.facts = {"model": name, "fingerprint": name}

    async def run():
        pool = Pool(WorkerOptions(str(tmp_path)), 2, 30.0, Metrics(), Changing)
        await pool.start()
        assert pool.facts["model"] == "new"
        assert [worker.closed.is_set() for worker in Stub.made] == [True, True, False, False]
        pool.close()

    asyncio.run(run())


def test_a_worker_that_cannot_be_started_again_is_tried_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pool_module, "_LONGEST_PAUSE", 0.01)  # between attempts
    failures = [WorkerError("no"), WorkerError("no")]

    async def run():
        async with opened(tmp_path) as pool:
            monkeypatch.setattr(Stub, "open", lambda self: failures and (_ for _ in ()).throw(failures.pop()))
            monkeypatch.setattr(Stub, "facts", {"model": "one", "fingerprint": "one"}, raising=False)
            assert (await asked(pool, b"die")).status == 500
            await until(lambda: len(pool.workers) == 1)

    asyncio.run(run())
    events = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert events.count("worker_failed") == 2


def test_a_reload_while_a_worker_is_replaced_leaves_as_many_workers_as_there_should_be(tmp_path, monkeypatch):
    monkeypatch.setattr(pool_module, "_LONGEST_PAUSE", 0.05)
    opens = Stub.open

    async def run():
        async with opened(tmp_path, n_workers=2) as pool:
            monkeypatch.setattr(Stub, "open", lambda self: (_ for _ in ()).throw(WorkerError("not now")))
            dying = asked(pool, b"die")
            await until(lambda: not pool.workers)  # it was tried with both
            monkeypatch.setattr(Stub, "open", opens)
            Stub.model = "two"
            await pool.reload()
            assert (await dying).status == 500
            await asyncio.sleep(0.3)  # several attempts to replace those that ended
            assert len(pool.workers) == 2
            assert sum(not worker.closed.is_set() for worker in Stub.made) == 2

    asyncio.run(run())


def test_an_error_that_nobody_expects_in_an_exchange_is_that_of_its_worker(tmp_path, monkeypatch, capsys):
    async def run():
        async with opened(tmp_path) as pool:
            monkeypatch.setattr(Stub.made[0], "exchange", lambda requests: 1 / 0)
            assert (await asked(pool)).status == 200  # by the next worker

    asyncio.run(run())
    ended = next(line for line in capsys.readouterr().err.splitlines() if "worker_ended" in line)
    assert "ZeroDivisionError" in json.loads(ended)["reason"]
