"""How requests are taken: clients that are slow, silent or too many take nothing from the others."""

from __future__ import annotations

import functools
import math
from asyncio import Transport
from contextlib import suppress
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 200
_FILES_EACH = 5  # a connection, one that is accepted before it can be refused, and the files of an upload
_FILES_WANTED = 4096

PATIENCE_SECONDS = 20.0  # for a request line and headers, and for every LEAST_BYTES of a body or an answer
LEAST_BYTES = 1 << 14


class Connection(H11Protocol):
    """A connection that ends when its client keeps it waiting, or when others need its place.

    A client may take ``PATIENCE_SECONDS`` for the head of a request, and as long for every ``LEAST_BYTES`` of the rest.
    While it waits for us, no time runs.
    """

    _timer: Any = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request; with too many connections, the one that waits longest ends."""
        super().connection_made(transport)
        self._wait_anew()
        open_ones = [c for c in self.connections if isinstance(c, Connection) and not c.transport.is_closing()]
        if len(open_ones) > most_connections():
            silent = [connection for connection in open_ones if connection.conn.their_state is h11.IDLE]
            min(silent, key=lambda connection: connection._since).transport.abort()  # perhaps this one

    def data_received(self, data: bytes) -> None:
        """Take what the client sends."""
        state = self.conn.their_state
        super().data_received(data)
        self._received += len(data)
        if self._received >= LEAST_BYTES or self.conn.their_state is not state:
            self._wait_anew()

    def resume_writing(self) -> None:
        """Go on with an answer that the client has taken a part of."""
        super().resume_writing()
        self._taken = True

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._wait_anew()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        self._timer.cancel()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; after the beginning of another answer nothing can be said any more."""
        with suppress(h11.LocalProtocolError):
            super().send_400_response(msg)
            return
        self.transport.abort()

    def _wait_anew(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._received, self._taken, self._unsent = 0, False, self.transport.get_write_buffer_size()
        self._since = self.loop.time()
        if not self.transport.is_closing() or self._unsent:
            self._timer = self.loop.call_later(PATIENCE_SECONDS, self._check)

    def _check(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        more_to_come = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.flow.read_paused
        takes_nothing = unsent > max(0, self._unsent - LEAST_BYTES) and not self._taken
        if takes_nothing or (more_to_come and not unsent):
            self.transport.abort()
        else:
            self._wait_anew()


@functools.cache
def most_connections() -> int:
    """How many connections this process may have at once; first it asks the system for as many files as it may have."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MOST_CONNECTIONS
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY:
        wanted = _FILES_WANTED if most == resource.RLIM_INFINITY else min(_FILES_WANTED, most)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(allowed, wanted), most))
            allowed = max(allowed, wanted)
        return max(1, min(MOST_CONNECTIONS, allowed // _FILES_EACH))
    return MOST_CONNECTIONS


def make_server(app: ASGIApp, patience: float = 3.0) -> uvicorn.Server:
    """A server; when it is to end, what is under way has some seconds of patience left."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="error",  # not a line for every client that does not speak HTTP
            access_log=False,
            server_header=False,
            proxy_headers=False,
            loop="asyncio",
            http=Connection,
            ws="none",
            lifespan="on",
            backlog=max(1, most_connections() // 4),  # of these, asyncio accepts all before it looks at the first
            timeout_graceful_shutdown=math.ceil(patience),
        )
    )
