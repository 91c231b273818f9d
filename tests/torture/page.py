"""Slow, leaving, wrong and many clients of the page, on this machine only: it answers the others and stays quiet."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

from web_client import Browser, open_browser

from nptad.http import connections
from torture import WEB
from torture.outcomes import RESULT, Failure

SAMPLE = range(4)
MANY = 500

_PIECES = [b"GET / HTTP/1.1\r\n", b"Host: localhost\r\n", b"\r\n", b"\r\n\r\n", b"\0" * 50, b"POST /jobs HTTP/1.1\r\n"]
_PIECES += [
    b"Content-Length: 100000\r\n",
    b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"5\r\nabc",
    b"zz\r\n",
]
_PIECES += [
    b"Content-Type: multipart/form-data; boundary=x\r\n",
    b'--x\r\nContent-Disposition: form-data; name="file"; ',
]
_PIECES += [
    b"X: " + b"y" * 70_000 + b"\r\n",
    b"Expect: 100-continue\r\n",
    b"Upgrade: websocket\r\nConnection: upgrade\r\n",
]
_PIECES += [
    b"GET /jobs/../../secret HTTP/1.1\r\n",
    b"GET /%00%ff HTTP/1.1\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01",
]


class _Log(logging.Handler):
    """Keeps what the server logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def _logged() -> Iterator[_Log]:
    log = _Log()
    logging.getLogger().addHandler(log)
    try:
        yield log
    finally:
        logging.getLogger().removeHandler(log)


def case(seed: int, folder: Path) -> str:
    """Some hostile clients at once, and one that is not."""
    random = Random(seed)
    os.environ["PYTHONPATH"] = os.pathsep.join([WEB, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
    kept, connections.PATIENCE_SECONDS = connections.PATIENCE_SECONDS, 0.5
    try:
        with _logged() as log, open_browser(folder / "home", max_bytes=10**6) as browser:
            cookie = "; ".join(f"{name}={value}" for name, value in _session(browser).items())
            head = f"Origin: {browser.origin}\r\nHost: {browser.origin[7:]}\r\nCookie: {cookie}\r\n".encode()
            with ExitStack() as stack:
                for _ in range(random.choice([1, 5, 30])):
                    client = stack.enter_context(
                        socket.create_connection(("127.0.0.1", int(browser.origin.rsplit(":")[-1])))
                    )
                    client.settimeout(0.5)
                    with suppress(OSError):
                        _attack(random, client, head)
                        if random.random() < 0.3:
                            client.close()
                if browser.get("/").status_code != 200:
                    raise Failure("the page does not answer")
            job = browser.start_job("honest.csv")
            browser.wait_for(job, "done")
            if [path.name for path in (folder / "home" / "jobs").iterdir()] != [job.id]:
                raise Failure("something was left in the folder of jobs")
    finally:
        connections.PATIENCE_SECONDS = kept
    if any("Traceback" in line for line in log.lines):
        raise Failure("\n".join(log.lines)[-2000:])
    return RESULT


def _session(browser: Browser) -> dict[str, str]:
    browser.get("/")
    return dict(browser.client.cookies)


def _attack(random: Random, client: socket.socket, head: bytes) -> None:
    for _ in range(random.randint(1, 8)):
        piece = random.choice([*_PIECES, head, head])
        client.sendall(piece[: random.randint(1, len(piece))] if random.random() < 0.2 else piece)
        if random.random() < 0.1:
            time.sleep(random.uniform(0, 0.7))
    if random.random() < 0.3:
        client.recv(100)
