"""What stands between a request and the page: hosts, sessions, forgery protection, limits and headers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nptad.http.addresses import called_name
from nptad.http.bodies import discard, limited

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Only our own files, no inline code, no frames."""

HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: under it browsers send "Origin: null" with the page's own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cache-control": "no-store",
}
"""On every answer that does not say otherwise itself."""

FORM_BYTES = 1 << 20  # largest body of a request that uploads nothing
_OPEN_PATH = "/static/"  # what is shown without a session: it says nothing about anybody's data
_UPLOADS = 8  # that are taken at a time; each may fill its part of the disk

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sessions:
    """Signed session cookies and the form tokens that belong to them."""

    secret: bytes  # known to this server only
    token: str | None = None  # what a browser must show once to get a session; None if every browser gets one

    @property
    def cookie(self) -> str:
        """Name of the cookie, different for each server: browsers share cookies between the ports of a host."""
        return f"nptad_{self._sign('name')[:12]}"

    def new(self) -> str:
        """A fresh session, as the cookie has it."""
        session = secrets.token_hex(16)
        return f"{session}.{self._sign(f'session {session}')}"

    def find(self, headers: Headers) -> str | None:
        """The session of a request, if its cookie is one of ours."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return None
        session, _, signature = found.value.partition(".") if found else ("", "", "")
        return found.value if found and self._equal(signature, self._sign(f"session {session}")) else None

    def admits(self, token: str) -> bool:
        """True for the token of this server."""
        return self.token is not None and self._equal(token, self.token)

    def form_token(self, session: str) -> str:
        """What every form of this session contains, and no other site can know."""
        return self._sign(f"form {session}")

    def fits(self, session: str, form_token: object) -> bool:
        """True if a form was made for this session."""
        return isinstance(form_token, str) and self._equal(form_token, self.form_token(session))

    def _sign(self, text: str) -> str:
        # The token is part of the key: no session of an earlier, open server is good for one that asks for a token.
        key = self.secret + (self.token or "").encode()
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()

    @staticmethod
    def _equal(one: str, other: str) -> bool:
        return hmac.compare_digest(one.encode(), other.encode())


@dataclass(frozen=True)
class Guard:
    """Middleware that every request passes.

    In this order: the Host header must name this server (a rebound DNS name does not), a request that changes
    something must come from a page of ours (Origin), there must be a session, the body must not be too long.
    """

    app: ASGIApp
    sessions: Sessions
    hosts: frozenset[str]  # names; if a token is asked for, any address is one too
    upload_path: str  # the one path that takes bodies of up to upload_bytes
    upload_bytes: int
    refuse: Callable[[int, str], Response]  # makes the page that says, with a status, why not
    bounce: Callable[[str], Response]  # makes a page that goes on to a path of ours
    uploads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_UPLOADS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse or hand on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        session = self.sessions.find(headers)
        fresh: str | None = None
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                answer = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    answer.setdefault(name, value)
                if message["status"] in (413, 503):
                    answer["connection"] = "close"  # the rest of the body is not even waited for
                if fresh is not None:
                    answer.append("set-cookie", f"{self.sessions.cookie}={fresh}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        refusal = self._refusal(scope, headers)
        if refusal is None and session is None and not scope["path"].startswith(_OPEN_PATH):
            refusal, fresh = self._admit(scope, headers)
            session = fresh
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        scope.setdefault("state", {})["session"] = session
        is_upload = scope["path"] == self.upload_path
        if is_upload and self.uploads.locked():
            await discard(receive)
            sentence = "Other files are being read here; repeat this in a minute."
            await self.refuse(503, sentence)(scope, receive, send_with_headers)
            return
        limit = self.upload_bytes if is_upload else FORM_BYTES
        try:
            async with self.uploads if is_upload else nullcontext():
                await self.app(scope, limited(receive, headers, limit), send_with_headers)
        except ClientDisconnect:
            _log.debug("A client left before its request was complete.")
        except Exception:
            _log.exception("A request failed.")
            if not started:
                sentence = "Something went wrong here that is no fault of yours; the terminal says more."
                await self.refuse(500, sentence)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return self.refuse(400, "This server does not answer under that name; use the address it printed.")
        if scope["method"] not in ("GET", "HEAD") and headers.get("origin") != f"{scope['scheme']}://{host}":
            return self.refuse(403, "This request did not come from a page of this server; open the page and repeat.")
        return None

    def _is_ours(self, host: str) -> bool:
        name = called_name(host)
        with suppress(ValueError):
            return name in self.hosts or (self.sessions.token is not None and bool(ip_address(name.strip("[]"))))
        return False

    def _admit(self, scope: Scope, headers: Headers) -> tuple[Response | None, str | None]:
        """For a request without a session: what to answer instead, and the session it gets."""
        if scope["method"] != "GET":
            return self.refuse(403, "This page is out of date; load it again and repeat."), None
        # Browsers send no strict cookie with a link from another site, nor along redirects from it: a page of ours that
        # goes on by itself shows whether there is one.
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if self.sessions.admits(token):
            return self.bounce("/"), self.sessions.new()
        if headers.get("sec-fetch-site") == "cross-site":
            return self.bounce(scope["path"]), None
        if self.sessions.token is None:
            return None, self.sessions.new()
        return self.refuse(401, "This page needs its token; open the whole address that `nptad serve` printed."), None
