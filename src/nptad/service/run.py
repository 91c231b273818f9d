"""The service from its start to its end: workers, server and signals."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Collection
from dataclasses import dataclass
from socket import socket

from nptad.http.connections import make_server
from nptad.service.app import Limits, create_app
from nptad.service.log import LogHandler, log
from nptad.service.metrics import Metrics
from nptad.service.pool import Pool
from nptad.service.worker import WorkerOptions


@dataclass(frozen=True)
class Service:
    """How a service is set up."""

    options: WorkerOptions
    workers: int
    limits: Limits
    token: str | None
    hosts: Collection[str]
    """Names under which it may be called; any, if there is a token."""


async def serve(service: Service, listener: socket) -> None:
    """Serve until SIGTERM or SIGINT, and then until all requests are answered; SIGHUP looks for another model."""
    loop, counted = asyncio.get_running_loop(), Metrics()
    pool = Pool(service.options, service.workers, service.limits.seconds, counted)
    try:
        await pool.start()
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, pool.reload_soon)
        app = create_app(pool, counted, service.limits, service.token, service.hosts)
        server = make_server(app, service.limits.seconds)
        server.config.lifespan = "off"
        _log_in_our_form()
        host, port, *_ = listener.getsockname()
        log("started", host=host, port=port, pid=os.getpid(), token=service.token is not None)
        await server.serve([listener])
    finally:
        pool.close()
        log("ended")


def _log_in_our_form() -> None:
    library = logging.getLogger("uvicorn")
    library.handlers, library.propagate = [LogHandler()], False
