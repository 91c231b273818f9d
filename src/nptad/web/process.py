"""A task in a process of its own, as seen from the server: started, heard, ended."""

from __future__ import annotations

import json
import multiprocessing
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

Heard = Callable[[dict[str, Any]], None]
Target = Callable[[Connection, dict[str, Any]], None]

CRASHED = "The process that worked on it crashed or was killed, perhaps for lack of memory; nothing else was harmed."

# Importing torch takes seconds. On Linux that happens once, in a process that does nothing but start the others.
_PRELOADED = ["nptad.web.worker", "nptad.cli.app"]
_LINUX = sys.platform == "linux"
_CONTEXT: Any = multiprocessing.get_context("forkserver" if _LINUX else "spawn")


def prepare() -> None:
    """Import ahead what every process needs, without waiting for it."""
    if _LINUX:
        from multiprocessing import forkserver

        forkserver.set_forkserver_preload(_PRELOADED)
        forkserver.ensure_running()


def do_task(server: Connection, task: dict[str, Any]) -> None:
    """What runs in the process; the import is in here because the server can do without torch."""
    from nptad.web.worker import work

    work(server, task)


class Process:
    """One task in a process of its own; :meth:`run` and :meth:`stop` are called from different threads.

    Parameters
    ----------
    target : function of a connection and a task
        What runs there; sends JSON objects: ``progress``, in the end ``done`` or ``failed``.
    task : dict
        What to do.
    heard : function of a dict
        Called with the progress.
    """

    def __init__(self, target: Target, task: dict[str, Any], heard: Heard) -> None:
        self._ours, self._theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=target, args=(self._theirs, task), daemon=True)
        self._heard = heard
        self._lock = threading.Lock()
        self._unwanted = self._ended = False

    def run(self) -> dict[str, Any]:
        """Do it and wait for the end; gives ``{"done": ...}`` or ``{"failed": one sentence}``."""
        outcome: dict[str, Any] = {"failed": CRASHED}
        with suppress(EOFError, OSError), self._lock:  # no room for a process: as bad as a crash
            if not self._unwanted:
                self._process.start()
        self._theirs.close()
        with suppress(EOFError, OSError):
            while self._process.pid is not None:
                message = json.loads(self._ours.recv_bytes())
                if "progress" in message:
                    self._heard(message["progress"])
                else:
                    outcome = message
        self._ours.close()
        if self._process.pid is not None:
            self._process.join()
        with self._lock:
            self._ended = True
            self._process.close()
        return outcome

    def stop(self, force: bool = False) -> None:
        """End the process: ask it, or kill it."""
        with self._lock:
            self._unwanted = True
            if not self._ended and self._process.pid is not None:
                (self._process.kill if force else self._process.terminate)()

    @property
    def pid(self) -> int | None:
        """Its number, as long as it runs."""
        with self._lock:
            return None if self._ended else self._process.pid
