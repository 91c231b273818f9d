"""Child processes: one way to start them, to talk to them and to end them.

A child runs one function, ``package.module:function``, which gets a :class:`Parent` to talk to. A message is a JSON
object with an optional payload of bytes. A child ends when its parent does, even in the middle of its work, and takes
everything that it has started with it.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import FileIO
from typing import Any, NoReturn

from nptad import errors
from nptad.errors import NPTADError

Message = dict[str, Any]

_LENGTH = 8
_ENDING_SECONDS = 10  # how long a child may take to end after it has closed its messages


def send(stream: Any, message: Message, payload: bytes | memoryview = b"") -> None:
    """Write a message; EOFError if the other side is gone."""
    text, data = json.dumps(message).encode(), memoryview(payload)
    lengths = len(text).to_bytes(_LENGTH, "big") + data.nbytes.to_bytes(_LENGTH, "big")
    try:
        for part in (memoryview(lengths + text), data):
            while part.nbytes:
                part = part[stream.write(part) :]
        stream.flush()
    except (OSError, ValueError) as error:  # a broken pipe, or one that another thread has closed
        raise EOFError("The other process is gone.") from error


def receive(stream: Any) -> tuple[Message, bytearray]:
    """Read a message and its payload; EOFError if the other side is gone."""
    lengths = _read(stream, 2 * _LENGTH)
    text, payload = (_read(stream, int.from_bytes(length, "big")) for length in (lengths[:_LENGTH], lengths[_LENGTH:]))
    return json.loads(text), payload


def _read(stream: Any, n_bytes: int) -> bytearray:
    data, done = bytearray(n_bytes), 0
    while done < n_bytes:
        try:
            count = stream.readinto(memoryview(data)[done:])
        except (OSError, ValueError) as error:
            raise EOFError("The other process is gone.") from error
        if not count:
            raise EOFError("The other process is gone.")
        done += count
    return data


def error_to_dict(error: NPTADError) -> dict[str, str]:
    """An error as part of a message."""
    return {"type": type(error).__name__, "text": str(error)}


def error_from_dict(content: Mapping[str, str]) -> NPTADError:
    """The error in a message; only errors of ours can be made from one.

    >>> error_from_dict(error_to_dict(errors.InputError("The table has no rows.")))
    InputError('The table has no rows.')
    >>> error_from_dict({"type": "SystemExit", "text": "stop"})
    NPTADError('stop')
    """
    kind = getattr(errors, content["type"], None)
    if not (isinstance(kind, type) and issubclass(kind, NPTADError)):
        kind = NPTADError
    return kind(content["text"])


class Stopped(KeyboardInterrupt):
    """A signal asks the process to end; what has to be done for Ctrl-C is done for it too."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__()
        self.number = number


def raise_when_stopped() -> None:
    """Let the signals that end a process raise :class:`Stopped`, unless they are ignored, as under nohup."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def stop(number: int, frame: object) -> NoReturn:
        for other in numbers:  # more of them must not disturb the clearing up
            signal.signal(other, signal.SIG_IGN)
        raise Stopped(signal.Signals(number))

    for number in numbers:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, stop)


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for_each(n_processes: int) -> int:
    """Threads for each of several processes that share the cores; at most OMP_NUM_THREADS if that is set."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    share = max(1, available_cores() // n_processes)
    return min(share, int(asked)) if asked.isdecimal() else share


class Child:
    """A process that runs one function, ``package.module:function``; killed at the end of a ``with`` block.

    Modules in the current folder are not found. The number of threads is what the environment says by default.
    """

    def __init__(
        self, target: str, *, threads: int | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        # PYTHONSAFEPATH keeps the current folder out of the child's own children too. OpenMP threads that wait
        # actively slow a busy machine down by up to 100 times.
        variables = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, "PYTHONSAFEPATH": "1", **(environment or {})}
        if threads is not None:
            variables |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nptad.processes", target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables,
            start_new_session=True,  # Ctrl-C reaches the parent only, and a signal to the group ends grandchildren too
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._lock = threading.Lock()
        self._gone = False

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def send(self, message: Message, payload: bytes | memoryview = b"") -> None:
        """Send a message; EOFError if the child is gone."""
        send(self._stdin, message, payload)

    def receive(self) -> tuple[Message, bytearray]:
        """Wait for a message and its payload; EOFError if the child is gone."""
        return receive(self._stdout)

    def listen(self, heard: Callable[[Message | None], None]) -> None:
        """Call a function with each message, from another thread, and with None after the last."""

        def follow() -> None:
            with suppress(EOFError):
                while True:
                    heard(self.receive()[0])
            heard(None)

        threading.Thread(target=follow, daemon=True).start()

    def ending(self) -> str:
        """How the child ended that sends no more messages, for a sentence that starts with the process."""
        try:
            code = self._process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        if code < 0:
            reason = ", perhaps for lack of memory" if -code == getattr(signal, "SIGKILL", None) else ""
            return f"was killed by signal {-code} ({signal.strsignal(-code)}){reason}"
        return f"ended with exit code {code}"

    def terminate(self) -> None:
        """Ask the child and everything that it started to end."""
        self._signal(signal.SIGTERM)

    def kill(self, patience: float = 0.0) -> None:
        """Kill the child, if it does not end by itself within some seconds, and everything that it started."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        self._process.wait()
        with self._lock:
            self._gone = True
        for stream in (self._stdin, self._stdout):
            with suppress(BrokenPipeError):  # what was left to write
                stream.close()

    def _signal(self, number: int) -> None:
        with self._lock, suppress(ProcessLookupError, PermissionError):
            if self._gone:  # its number may be another's by now
                return
            if hasattr(os, "killpg"):
                os.killpg(self.pid, number)
            else:
                self._process.terminate()


class Parent:
    """The parent process, as its child sees it.

    When the parent is gone, the child is killed with everything that it started.
    """

    def __init__(self, stdin: FileIO, stdout: FileIO) -> None:
        self._stdin, self._stdout = stdin, stdout
        self._messages: queue.Queue[tuple[Message, bytearray]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, message: Message, payload: bytes | memoryview = b"") -> None:
        """Send a message."""
        try:
            send(self._stdout, message, payload)
        except EOFError:
            _end()

    def receive(self) -> tuple[Message, bytearray]:
        """Wait for a message and its payload."""
        return self._messages.get()

    def _listen(self) -> None:
        try:
            while True:
                self._messages.put(receive(self._stdin))
        except EOFError:
            _end()


def _end() -> NoReturn:
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """Run the function that the parent has named."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means for its children
    # Unbuffered: a buffered stream that a thread waits for cannot be closed when Python ends.
    stdin, stdout = FileIO(os.dup(0)), FileIO(os.dup(1), "w")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what a library prints must not mix with the messages
    module, _, function = sys.argv[1].partition(":")
    parent = Parent(stdin, stdout)
    getattr(importlib.import_module(module), function)(parent)


if __name__ == "__main__":
    main()
