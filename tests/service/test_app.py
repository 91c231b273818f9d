"""The routes without a network and with a stub in place of the workers: limits of time and room, and the page."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from nptad.service.app import Limits, create_app
from nptad.service.messages import Answer
from nptad.service.metrics import Metrics

FACTS = {
    "model": "0123456789abcdef",
    "nptad": "0.2.0",
    "training_rows": 1200,
    "false_alarm_rate": 0.01,
    "named": True,
    "columns": [
        {"name": "<b>&\"'\\\n", "kind": "categorical", "content": "text", "role": "", "example": "</pre><script>"},
        {"name": "id", "kind": "ignored", "content": "number", "role": "identifier", "example": None},
    ],
    "answer": {"rows": []},
}
JSON = {"content-type": "application/json"}


class StubPool:
    """Answers when it is told to."""

    def __init__(self):
        self.facts, self.workers, self.waiting, self.go_on = FACTS, [], 0, asyncio.Event()

    async def submit(self, request, deadline):
        await self.go_on.wait()
        return Answer(200, b"{}", rows=5, flagged=2, refused=1)


def asking(ask, token=None, hosts=("localhost",), counted=None, **limits):
    """Run a coroutine function with a client and the pool."""

    async def run():
        pool = StubPool()
        app = create_app(pool, counted or Metrics(), Limits(**limits), token, hosts)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await ask(client, pool)

    return asyncio.run(run())


def test_a_body_that_stops_coming_is_given_up():
    async def body():
        yield b"["
        await asyncio.sleep(30)

    async def ask(client, pool):
        return await client.post("/score", content=body(), headers=JSON)

    answer = asking(ask, seconds=0.05)
    assert answer.status_code == 408
    assert answer.json() == {"error": "The body has not come within 0.05 seconds."}


def test_room_is_counted_in_requests_and_in_bytes_and_given_back():
    async def ask(client, pool):
        async def post(n_bytes):
            return (await client.post("/score", content=bytes(n_bytes), headers=JSON)).status_code

        waiting = [asyncio.ensure_future(post(100)) for _ in range(8)]
        await asyncio.sleep(0.05)
        assert await post(1) == 429  # as many bytes as there may be
        pool.go_on.set()
        assert await asyncio.gather(*waiting) == [200] * 8
        pool.go_on.clear()
        waiting = [asyncio.ensure_future(post(0)) for _ in range(9)]
        await asyncio.sleep(0.05)
        assert await post(0) == 429  # as many requests
        pool.go_on.set()
        assert await asyncio.gather(*waiting) == [200] * 9
        assert await post(100) == 200

    asking(ask, body_bytes=100, requests=9)


def test_without_a_token_only_names_of_this_machine_are_answered():
    async def ask(client, pool):
        hosts = ("localhost", "LOCALHOST:80", "evil.example", "localhost.evil.example", "[", "")
        return [(await client.get("/model", headers={"host": host})).status_code for host in hosts]

    assert asking(ask) == [200, 200, 400, 400, 400, 400]
    assert asking(ask, token="x") == [401] * 6


def test_the_state_of_health_is_that_of_the_workers():
    async def ask(client, pool):
        ill = await client.get("/health")
        pool.workers = [object()]
        return ill, await client.get("/health")

    ill, well = asking(ask)
    assert (ill.status_code, well.status_code) == (503, 200)


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/metrics"])
def test_names_and_cells_of_any_kind_are_only_text(path):
    async def ask(client, pool):
        return await client.get(path)

    answer = asking(ask)
    assert answer.status_code == 200
    if path == "/docs":
        assert "<b>" not in answer.text
        assert "<script" not in answer.text
        assert "&lt;b&gt;" in answer.text
    elif path == "/metrics":
        assert 'nptad_column_drift{column="<b>&\\"\'\\\\\\n"} 0' in answer.text.splitlines()
    else:
        assert json.loads(answer.text)["openapi"] == "3.1.0"


def test_what_is_counted_can_be_read_by_prometheus():
    counted = Metrics()

    async def ask(client, pool):
        pool.go_on.set()
        for _ in range(3):
            await client.post("/score", content=b"", headers=JSON)
        await client.get("/what?token=secret")
        return (await client.get("/metrics")).text

    text = asking(ask, counted=counted)
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert samples['nptad_requests_total{path="/score",status="200"}'] == "3"
    assert samples['nptad_requests_total{path="other",status="404"}'] == "1"
    assert samples['nptad_request_seconds_bucket{path="/score",le="+Inf"}'] == "3"
    counts = [samples["nptad_" + name] for name in ("rows_total", "flagged_rows_total", "refused_rows_total")]
    assert counts == ["12", "6", "3"]
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(set(families)) == len(families)
    assert all(name.startswith(tuple(families)) for name in samples)
