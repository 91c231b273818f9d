"""Locks between processes; a lock is released when its file is closed or its process ends in any way."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from nptad.errors import InputError

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF}  # what some network file systems answer


def lock(file: int | IO[Any], *, wait: bool) -> bool | None:
    """Lock an open file: True, or False if another process has the lock, or None where there are no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def open_locked(path: Path, mode: str = "a", busy: str | None = None) -> IO[Any]:
    """Open a file with a lock; where there are no locks, the file is only opened.

    If another process has the lock, ``busy`` is the message of an InputError; by default, wait for it.
    """
    file = path.open(mode)
    try:
        if lock(file, wait=busy is None) is False:
            raise InputError(busy)
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def locked_directory(path: Path) -> Iterator[None]:
    """A directory that nobody else has in such a block; waits for others."""
    directory = os.open(path, os.O_RDONLY)
    try:
        lock(directory, wait=True)
        yield
    finally:
        os.close(directory)
