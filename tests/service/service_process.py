"""The service as a process of its own on a free port."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil


class Served:
    """A service that is up, its log so far, and a client."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.lines = process, list[str]()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_until(lambda: bool(self.events("started")) or process.poll() is not None)
        self.port: int = self.events("started")[0]["port"]
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of the log about one kind of event."""
        return [entry for entry in map(json.loads, list(self.lines)) if entry["event"] == name]

    def workers(self) -> list[psutil.Process]:
        """The processes that score."""
        return psutil.Process(self.process.pid).children()

    def end(self) -> int:
        """Wait for the end, and for the rest of the log."""
        code = self.process.wait(60)
        self._reader.join(60)
        return code

    @staticmethod
    def wait_until(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)


@contextmanager
def served(model: Path, *arguments: str, **environment: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "nptad.cli", "api", str(model), "--port", "0", *arguments]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables) as process:
        try:
            service = Served(process)
            with service.client:
                yield service
        finally:
            process.kill()
