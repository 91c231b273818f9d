"""Write files whole or not at all.

A file is written under a temporary name beside its target and then renamed. It is locked while it is written. A
temporary file without a lock was left by a process that was killed; the next write to the same directory removes it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, TextIO
from uuid import uuid4

from nptad.errors import InputError
from nptad.io.locks import lock

TEMPORARY = ".nptad-*.tmp"
"""The names of temporary files."""

_PRIVATE = 0o600


def followed(path: Path) -> Path:
    """Where the links of a path lead; an InputError if that is in a circle."""
    with writing_explained(path), suppress(FileNotFoundError):
        path.stat()
    return Path(os.path.realpath(path))


def require_writable_parent(path: Path) -> None:
    """Refuse a path where nothing can be written; its directories need not exist yet."""
    above = next(parent for parent in path.absolute().parents if os.path.exists(parent))
    try:
        TemporaryFile(dir=above).close()  # permissions alone do not tell
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror} ({above}).") from error


@contextmanager
def writing_explained(where: str | Path) -> Iterator[None]:
    """Turn the failure to write into an InputError, but for a pipe whose reader went away."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{where} cannot be written: {error.strerror or error}.") from error


@contextmanager
def replacing(path: Path, mode: int | None = None) -> Iterator[Path]:
    """A temporary file beside ``path``: renamed to ``path`` when the block ends, deleted if an error ends it.

    ``mode`` is that of the file; by default that of the file which it replaces, or that of any new file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent)
    if mode is None:
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(path.stat().st_mode) & 0o777
    temporary, file = _new_file(path.parent, 0o666 if mode is None else _PRIVATE)
    try:
        yield temporary
        os.fsync(file)
        if mode is not None:
            with suppress(PermissionError):  # a file system without modes
                temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
        os.close(file)


def _new_file(directory: Path, mode: int) -> tuple[Path, int]:
    """The name of a new file, and the file, open and locked."""
    while True:
        path = directory / TEMPORARY.replace("*", uuid4().hex)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        try:
            lock(file, wait=True)
            if _is_same(path, file):  # otherwise somebody took it for left, before it was locked
                return path, file
        except BaseException:
            path.unlink(missing_ok=True)
            os.close(file)
            raise
        os.close(file)


def remove_leftovers(directory: Path) -> None:
    """Remove the temporary files of processes that were killed; where there are no locks, nobody can tell."""
    for path in directory.glob(TEMPORARY):
        with suppress(OSError):  # gone meanwhile, a directory, or another user's
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if stat.S_ISREG(os.fstat(file).st_mode) and lock(file, wait=False):
                    path.unlink()
            finally:
                os.close(file)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """An open file that replaces ``path`` when the block ends without error; links, devices and pipes stay."""
    streams = [stream for stream in (sys.stdout, sys.stderr) if stream and _is_stream(path, stream)]
    if streams:  # /dev/stdout: opened anew, it would begin at the start of the file that it may be
        streams[0].flush()
        with open(os.dup(streams[0].fileno()), "wb") as file:
            yield file
    elif path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
    else:
        with replacing(followed(path)) as temporary, temporary.open("wb") as file:
            yield file


def _is_stream(path: Path, stream: TextIO) -> bool:
    with suppress(OSError, ValueError):  # the stream is none
        return _is_same(path, stream.fileno())
    return False


def _is_same(path: Path, file: int) -> bool:
    with suppress(OSError):  # there is no such file
        return os.path.samestat(os.stat(path), os.fstat(file))
    return False
