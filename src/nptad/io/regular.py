"""Read a whole file that somebody else may have made."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nptad.errors import ModelFileError


def read_regular(path: Path, advice: str) -> bytes:
    """The content of a file; a ModelFileError for one that cannot be read, and for a pipe or a device, unread.

    ``advice`` ends the sentence.
    """
    try:
        with open(path, "rb", opener=_open) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error.strerror}); {advice}.") from error
    except MemoryError as error:
        raise ModelFileError(f"{path} cannot be read: it does not fit into memory; {advice}.") from error
    raise ModelFileError(f"{path} cannot be read: it is no regular file; {advice}.")


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # opening a pipe would wait for somebody who writes
