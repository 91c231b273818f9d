"""The routes of the service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HTTPRequest
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from nptad.http.bodies import discard, limited
from nptad.service import metrics
from nptad.service.docs import docs_page
from nptad.service.gate import Gate
from nptad.service.messages import FORMATS, Kind, Request
from nptad.service.metrics import Metrics
from nptad.service.openapi import describe
from nptad.service.pool import Pool

_BODIES_HELD = 8
"""Bodies of the largest size that are in memory at most."""

_RETRY = {"retry-after": "1"}


@dataclass(frozen=True)
class Limits:
    """What is taken at most."""

    body_bytes: int = 16_000_000
    """Of one request."""
    requests: int = 256
    """Requests that are being read, wait or are scored."""
    seconds: float = 30.0
    """For a request, from its first byte to its answer."""


class Room:
    """Room for requests and their bodies; beyond it, clients are asked to come again."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self.requests, self.bytes = limits, 0, 0

    @contextmanager
    def taken(self) -> Iterator[Callable[[int], None]]:
        """Take the room of a request; the function takes that of some bytes. A 429 if there is none."""
        held = 0

        def hold(n_bytes: int) -> None:
            nonlocal held
            held += n_bytes
            self.bytes += n_bytes
            self._require(self.bytes <= _BODIES_HELD * self._limits.body_bytes)

        self._require(self.requests < self._limits.requests)
        self.requests += 1
        try:
            yield hold
        finally:
            self.requests -= 1
            self.bytes -= held

    @staticmethod
    def _require(is_free: bool) -> None:
        if not is_free:
            raise HTTPException(429, "Too many requests are waiting here; try again in a moment.", _RETRY)


def create_app(pool: Pool, counted: Metrics, limits: Limits, token: str | None, hosts: Collection[str]) -> ASGIApp:
    """The service as an ASGI application; the pool is started and ended elsewhere."""
    room = Room(limits)

    async def judge(request: HTTPRequest, kind: Kind) -> Response:
        deadline = asyncio.get_running_loop().time() + limits.seconds
        with ExitStack() as stack:
            try:
                format = _format_of(request)
                hold = stack.enter_context(room.taken())
            except HTTPException:
                await discard(request.receive)
                raise
            body = await _body(request, limits, deadline, hold)
            answer = await _unless_gone(request, pool.submit(Request(kind, format, body), deadline))
        counted.rows += answer.rows
        counted.flagged += answer.flagged
        counted.refused_rows += answer.refused
        request.state.facts.update(rows=answer.rows, flagged=answer.flagged, refused=answer.refused, bytes=len(body))
        headers = _RETRY if answer.status == 503 else None
        return Response(answer.body, answer.status, headers, "application/json")

    async def score(request: HTTPRequest) -> Response:
        return await judge(request, "score")

    async def explain(request: HTTPRequest) -> Response:
        return await judge(request, "explain")

    async def model(request: HTTPRequest) -> Response:
        return JSONResponse(pool.facts)

    async def health(request: HTTPRequest) -> Response:
        is_well = bool(pool.workers)
        return JSONResponse({"status": "ok" if is_well else "no worker is running"}, 200 if is_well else 503)

    async def show_metrics(request: HTTPRequest) -> Response:
        news = [worker.news for worker in pool.workers]
        return PlainTextResponse(counted.text(pool.facts, news, pool.waiting), media_type=metrics.MEDIA_TYPE)

    async def openapi(request: HTTPRequest) -> Response:
        return JSONResponse(describe(pool.facts, limits.body_bytes))

    async def docs(request: HTTPRequest) -> Response:
        return HTMLResponse(docs_page(pool.facts, _address(request), token is not None, limits.body_bytes))

    async def style(request: HTTPRequest) -> Response:
        return Response(files("nptad.service").joinpath("docs.css").read_text(encoding="utf-8"), media_type="text/css")

    async def start(request: HTTPRequest) -> Response:
        return RedirectResponse("docs")  # relative: a proxy may put something before it

    routes = [
        Route("/score", score, methods=["POST"]),
        Route("/explain", explain, methods=["POST"]),
        Route("/model", model),
        Route("/health", health),
        Route("/metrics", show_metrics),
        Route("/openapi.json", openapi),
        Route("/docs", docs),
        Route("/docs.css", style),
        Route("/", start),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _show_error})
    return Gate(app, token, hosts, {route.path for route in routes}, counted)


async def _show_error(request: HTTPRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentences = {
        404: "There is nothing here; /docs says what there is.",
        405: "This path takes another method; see /docs.",
    }
    said = sentences.get(error.status_code, error.detail)
    return JSONResponse({"error": said}, error.status_code, error.headers)


def _format_of(request: HTTPRequest) -> str:
    declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if declared not in FORMATS:
        raise HTTPException(415, f"The content type {declared[:80]!r} is none of {', '.join(FORMATS)}.")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise HTTPException(415, "A packed body is not taken; send it without a content encoding.")
    return FORMATS[declared]


async def _body(request: HTTPRequest, limits: Limits, deadline: float, hold: Callable[[int], None]) -> bytes:
    """The body, up to the limits."""
    receive, parts = limited(request.receive, request.headers, limits.body_bytes), []
    try:
        async with asyncio.timeout_at(deadline):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                parts.append(message.get("body", b""))
                is_last = not message.get("more_body")
                try:
                    hold(len(parts[-1]))
                except HTTPException:
                    if not is_last:
                        await discard(receive)
                    raise
                if is_last:
                    return b"".join(parts)
    except TimeoutError:
        raise HTTPException(408, f"The body has not come within {limits.seconds:g} seconds.") from None


def _address(request: HTTPRequest) -> str:
    return str(request.base_url).rstrip("/")


_T = TypeVar("_T")


async def _unless_gone(request: HTTPRequest, work: Awaitable[_T]) -> _T:
    """The result of some work, which is given up when the client leaves."""

    async def until_gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(until_gone())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
