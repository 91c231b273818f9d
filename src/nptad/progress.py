"""Progress of long work: bars on a terminal, lines now and then in a file or a pipe, and calls to a listener."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nptad.wording import duration, percent

Listener = Callable[[str, int, int], None]
"""Called with the name of the work, the amount done and the total amount."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)

_FIRST_LINE = 5.0
"""Seconds to the first line; the next ones come after twice the time."""
_LONGEST_PAUSE = 600.0
"""Seconds between two lines at most, if there is progress."""
_LONG = 60.0
"""Work that is expected to take at least these seconds is announced."""


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Report all progress inside the block to a function, whether bars are visible or not."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(work: str, seconds: float, visible: bool) -> None:
    """Say how long work will take, if that is long."""
    if visible and seconds >= _LONG:
        say(f"{work} takes about {duration(seconds)} on one core")


def say(line: str) -> None:
    """Print a line on standard error, above the bars."""
    print(f"nptad: {line}", file=sys.stderr, flush=True)


@contextmanager
def progress_bar(
    description: str, total: int, visible: bool, *, in_bytes: bool = False
) -> Iterator[Callable[..., None]]:
    """Yield ``advance(count, note=...)``, which moves a progress bar and may be called from any thread."""
    listener, done, one_at_a_time = _listener.get(), 0.0, Lock()
    console = Console(stderr=True) if visible else None
    lines = _Lines(description, total) if console and not (console.is_terminal or console.is_jupyter) else None

    def tell(count: float, note: str = "") -> None:
        nonlocal done
        with one_at_a_time:
            done += count
            if listener is not None:
                listener(description, round(done), total)
            if lines is not None:
                lines.update(done, note)

    tell(0)
    if console is None or lines is not None:
        yield lambda count=1, note="": tell(count, note)
        if lines is not None:
            lines.end()
        return
    name, note = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    with Progress(name, BarColumn(), amount, TimeRemainingColumn(), note, console=console) as bar:
        task = bar.add_task(description, total=total, note="")

        def advance(count: float = 1, note: str = "") -> None:
            bar.update(task, advance=count, note=note)
            tell(count)

        yield advance


class _Lines:
    """Lines about the progress, the first after a few seconds, then rarer and rarer; none of short work."""

    def __init__(self, description: str, total: int) -> None:
        self._description, self._total = description, total
        self._started, self._next, self._any = time.monotonic(), _FIRST_LINE, False

    def update(self, done: float, note: str) -> None:
        seconds, share = time.monotonic() - self._started, min(1.0, done / self._total) if self._total else 1.0
        if seconds < self._next or not 0 < share < 1:
            return
        self._next, self._any = min(2 * seconds, seconds + _LONGEST_PAUSE), True
        left = duration(seconds * (1 - share) / share)
        say(f"{self._description}: {percent(share)}, about {left} left{f' ({note})' * bool(note)}")

    def end(self) -> None:
        if self._any:
            say(f"{self._description}: done in {duration(time.monotonic() - self._started)}")
