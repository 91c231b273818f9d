"""Progress of long work: bars on standard error, and calls to a listener."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Listener = Callable[[str, int, int], None]
"""Called with the name of the work, the amount done and the total amount."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Report all progress inside the block to a function, whether bars are visible or not."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(text: str) -> None:
    """Print a line on standard error, above the bars."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def progress_bar(
    description: str, total: int, visible: bool, *, in_bytes: bool = False
) -> Iterator[Callable[..., None]]:
    """Yield ``advance(count, note=...)``, which moves a progress bar and may be called from any thread."""
    listener, done, one_at_a_time = _listener.get(), 0.0, Lock()

    def tell(count: float) -> None:
        nonlocal done
        with one_at_a_time:
            done += count
            if listener is not None:
                listener(description, round(done), total)

    tell(0)
    if not visible:
        yield lambda count=1, note="": tell(count)
        return
    name, note = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    with Progress(name, BarColumn(), amount, TimeRemainingColumn(), note, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, note="")

        def advance(count: float = 1, note: str = "") -> None:
            bar.update(task, advance=count, note=note)
            tell(count)

        yield advance
