"""Commands of nptad in processes of their own, and what may happen to them.

A process is forked from one that has imported nptad, since importing takes longer than most commands; where that
matters, it begins at its beginning.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["torture.imported"])

_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link", "os.symlink"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Trouble:
    """What happens to a process."""

    limit: str = ""
    """The name of a resource that is limited, such as RLIMIT_FSIZE ..."""
    most: int = 0
    """... and how much of it there is."""
    event: int = 0
    """At which change of a file or a folder it is killed, before that; 0 for never."""
    signal: int = signal.SIGKILL
    """By which signal."""
    closed: tuple[int, ...] = ()
    """Standard streams that are closed."""
    full: tuple[int, ...] = ()
    """Standard streams that take nothing."""
    user: int = 0
    """Who runs it."""

    def begin(self) -> None:
        """Let it happen to this process."""
        if self.limit:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(getattr(resource, self.limit), (self.most, self.most))
        for place in self.full:
            os.dup2(os.open("/dev/full", os.O_RDWR), place)
        for place in self.closed:
            os.close(place)
        if self.user:
            os.setgroups([])
            os.setgid(self.user)
            os.setuid(self.user)


NOTHING = Trouble()


class Command:
    """A command that runs, or has run."""

    def __init__(self, *words: object, trouble: Trouble = NOTHING, imported: bool = True) -> None:
        self._words = [str(word) for word in words]
        self._forked: Any = None
        self._begun: Any = None
        self._said = ""
        reading, writing = _SERVER.Pipe(duplex=False)  # a pipe is no file, and never full
        if imported:
            self._forked = start_forked(_run, self._words, trouble, writing)
            self.pid = int(self._forked.pid)
        else:
            self._begun = subprocess.Popen(
                [sys.executable, "-P", "-m", "nptad.cli", *self._words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=writing.fileno(),
                preexec_fn=trouble.begin,
            )
            self.pid = self._begun.pid
        writing.close()
        os.set_blocking(reading.fileno(), False)
        self._errors = reading

    def wait(self, seconds: float = 600.0) -> subprocess.CompletedProcess[str] | None:
        """How it ended; None if it runs for longer."""
        if self._forked is not None:
            self._forked.join(seconds)
            code = self._forked.exitcode
        else:
            with suppress(subprocess.TimeoutExpired):
                self._begun.wait(seconds)
            code = self._begun.returncode
        if code is None:
            return None
        if not self._errors.closed:
            with self._errors, suppress(BlockingIOError):
                self._said = os.read(self._errors.fileno(), 2**16).decode(errors="replace")
        return subprocess.CompletedProcess(self._words, code, "", self._said)

    def end(self, number: int = signal.SIGKILL) -> subprocess.CompletedProcess[str]:
        """Send it a signal and wait for its end; a signal that it handles waits until it does."""
        while self.wait(0) is None and not (number == signal.SIGKILL or self._handles(number)):
            time.sleep(0.001)
        if self.wait(0) is None:
            os.kill(self.pid, number)
        ended = self.wait()
        assert ended is not None
        return ended

    def _handles(self, number: int) -> bool:
        """False before a command has begun, when every signal ends its process at once."""
        with suppress(OSError):  # it has ended
            status = Path(f"/proc/{self.pid}/status").read_text()
            handled = int(status.partition("SigCgt:")[2].split()[0], 16)
            return bool(handled >> (number - 1) & 1)
        return False


def run(*words: object, trouble: Trouble = NOTHING, imported: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    ended = Command(*words, trouble=trouble, imported=imported).wait()
    if ended is None:
        raise TimeoutError(f"{words} does not end")
    return ended


def measured(*words: object) -> tuple[int, float]:
    """How many files and folders a command changes, and how many seconds it takes."""
    reading, writing = _SERVER.Pipe(duplex=False)
    start = time.monotonic()
    process = start_forked(_run, [str(word) for word in words], NOTHING, None, writing)
    events = reading.recv()
    process.join()
    return events, time.monotonic() - start


def start_forked(target: Callable[..., object], *arguments: object) -> Any:
    """A process that calls a function."""
    process = _SERVER.Process(target=target, args=arguments)
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):  # the server does not get our sys.path
        process.start()
    return process


def _run(words: list[str], trouble: Trouble, errors: Any, counted: Any = None) -> None:
    """Run a command in this process, which was forked for it."""
    if "torture.imported" not in sys.modules:
        raise ImportError("the server has imported nothing")
    from nptad.cli.app import main

    nothing = os.open(os.devnull, os.O_RDWR)
    for place, opened in enumerate((nothing, nothing, nothing if errors is None else errors.fileno())):
        os.dup2(opened, place)
    events = 0

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal events
        if event in _EVENTS or (event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES):
            events += 1
            if events == trouble.event:
                os.kill(os.getpid(), trouble.signal)

    trouble.begin()
    sys.addaudithook(hear)
    sys.argv = ["nptad", *words]
    try:
        main()
    finally:
        if counted is not None:
            counted.send(events)
