"""Write files whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, TextIO
from uuid import uuid4

from nptad.errors import InputError


def name_beside(path: Path) -> Path:
    """An unused name in the same directory, for a file that is to become ``path`` or that was ``path``."""
    return path.with_name(f".nptad-{uuid4().hex}.tmp")


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
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path``: renamed to ``path`` when the block ends, deleted if an error ends it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = name_beside(path)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """An open file that replaces ``path`` when the block ends without error; links, devices and pipes stay."""
    streams = [stream for stream in (sys.stdout, sys.stderr) if _is_same(path, stream)]
    if streams:  # /dev/stdout: opened anew, it would begin at the start of the file that it may be
        streams[0].flush()
        with open(os.dup(streams[0].fileno()), "wb") as file:
            yield file
    elif path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
    else:
        with replacing(path.resolve()) as temporary, temporary.open("wb") as file:
            yield file


def _is_same(path: Path, stream: TextIO) -> bool:
    with suppress(OSError, ValueError):  # there is no such file, or the stream is none
        return os.path.samestat(os.stat(path), os.fstat(stream.fileno()))
    return False
