"""Locks between processes."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from nptad.errors import InputError


def open_locked(path: Path, mode: str = "a", busy: str | None = None) -> IO[Any]:
    """Open a file with a lock, which is released when the file is closed or the process ends.

    Where the system has no such locks, the file is only opened. If another process has the lock, ``busy`` is the
    message of an InputError; by default, wait for it.
    """
    file = path.open(mode)
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
    except ImportError:  # Windows
        pass
    except BaseException as error:
        file.close()
        if busy and isinstance(error, BlockingIOError):
            raise InputError(busy) from error
        raise
    return file
