"""Zip archives around one table, and how much a packed file may become."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from nptad.errors import InputError
from nptad.io.formats import PACKED_SUFFIX, SUFFIXES, format_of, without_notes

_WORKBOOK_PART = "xl/workbook.xml"


def most_bytes() -> int:
    """What a packed file may become if nobody sets a limit: half of the memory of this machine."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):  # Windows
        return 1 << 32


def require_size(n_bytes: int, limit: int, where: str) -> None:
    """Refuse content that is larger than the limit."""
    if n_bytes > limit:
        raise InputError(f"{where} is larger than {limit / 1e6:,.0f} MB when unpacked; use a part of its rows.")


@contextmanager
def archive_of(data: bytes, where: str, limit: int) -> Iterator[zipfile.ZipFile]:
    """An open zip archive, all of whose files together fit into the limit.

    The archive itself says how large its files are; zipfile reads no more of a file than that.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            require_size(sum(entry.file_size for entry in archive.infolist()), limit, where)
            yield archive
    # RuntimeError and NotImplementedError: a password, a compression that zipfile does not know.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, UnicodeDecodeError) as error:
        raise InputError(f"{where} cannot be unpacked ({error}); it is damaged or has a password.") from error


def unzip(data: bytes, format: str | None, where: str, limit: int) -> tuple[bytes, str, str]:
    """The one table of an archive, its format and what messages call it; a workbook, which is an archive, as it is."""
    with archive_of(data, where, limit) as archive:
        files = [entry for entry in archive.infolist() if not entry.is_dir()]
        if format is None and any(entry.filename == _WORKBOOK_PART for entry in files):
            return data, "xlsx", where
        tables = without_notes([entry.filename for entry in files if _is_table(entry.filename)])
        if len(tables) != 1:
            found = ", ".join(tables[:5]) or "none"
            raise InputError(f"{where} must contain one table file, and has {len(tables)} ({found}); unpack it.")
        (name,) = tables
        return archive.read(name), format_of(name), f"{name} in {where}"


def _is_table(name: str) -> bool:
    path = PurePosixPath(name)
    suffix = PurePosixPath(name.lower().removesuffix(PACKED_SUFFIX)).suffix
    hidden = path.name.startswith((".", "_")) or path.parts[0] == "__MACOSX"
    return suffix in SUFFIXES and not hidden
