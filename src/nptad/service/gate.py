"""What every request passes: the name of the server, the token, the headers of answers, the count and the log."""

from __future__ import annotations

import base64
import binascii
import hmac
import time
import traceback
from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nptad.http.addresses import called_name
from nptad.http.bodies import discard
from nptad.service.log import log
from nptad.service.metrics import Metrics

OPEN_PATH = "/health"
"""Asked without a token; it says nothing about the model."""

_QUIET_PATHS = (OPEN_PATH, "/metrics")  # asked every few seconds: not logged if all is well
_LEFT = 499  # the status in the log of a request whose client has left

_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Gate:
    """Middleware around the routes.

    Without a token the Host header must name this server: a page in a browser of this machine could reach it otherwise,
    under a name of its own that it points to 127.0.0.1.
    """

    app: ASGIApp
    token: str | None
    hosts: Collection[str]
    paths: Collection[str]  # that there are; others are counted together
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse or hand on."""
        if scope["type"] != "http":
            return
        started, status = time.perf_counter(), 0
        facts = scope.setdefault("state", {}).setdefault("facts", {})

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            refusal = self._refusal(Headers(scope=scope), scope["path"])
            if refusal is not None:
                await discard(receive)
                await refusal(scope, receive, send_with_headers)
            else:
                await self.app(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = _LEFT
        except Exception:
            log("failed", error=traceback.format_exc())
            if not status:
                sentence = "Something went wrong here that is no fault of yours; the log says more."
                await JSONResponse({"error": sentence}, 500)(scope, receive, send_with_headers)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            seconds = time.perf_counter() - started
            self.metrics.count_request(path, status, seconds)
            if path not in _QUIET_PATHS or status != 200:
                log("request", method=scope["method"], path=path, status=status, seconds=round(seconds, 4), **facts)

    def _refusal(self, headers: Headers, path: str) -> JSONResponse | None:
        if self.token is None:
            if called_name(headers.get("host", "")) in self.hosts:
                return None
            return JSONResponse({"error": "This service does not answer under that name; use its address."}, 400)
        if path == OPEN_PATH or _is_equal(_shown_token(headers.get("authorization", "")), self.token):
            return None
        sentence = "This service needs its token; send the header Authorization: Bearer TOKEN."
        refusal = JSONResponse({"error": sentence}, 401)
        for challenge in ("Bearer", 'Basic realm="nptad"'):  # browsers expect one in each header
            refusal.headers.append("www-authenticate", challenge)
        return refusal


def _shown_token(authorization: str) -> str:
    """The token that a request shows: as bearer, or as the password that a browser asks for.

    >>> _shown_token("Bearer abc"), _shown_token("Basic " + base64.b64encode(b"me:abc").decode()), _shown_token("abc")
    ('abc', 'abc', '')
    """
    scheme, _, content = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return content.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(content, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            pass
    return ""


def _is_equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
