"""Files at URLs, through fsspec: read whole, listed, and written whole or not at all."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nptad.errors import InputError
from nptad.io.extras import import_extra
from nptad.io.places import name_of
from nptad.io.text import one_line

_NEEDED = {
    "s3": ("s3fs", "remote"),
    "gs": ("gcsfs", "gs"),
    "http": ("aiohttp", "remote"),
    "https": ("aiohttp", "remote"),
}
"""The package that fsspec needs for a scheme, and the extra that has it."""


def read_url(url: str, most: int) -> bytes:
    """The content of a file, or its first bytes up to ``most`` if that is not negative."""
    with _explained(url, "read"):
        system, path = _system(url)
        if most < 0:
            return bytes(system.cat_file(path))
        with system.open(path, "rb", block_size=0 if url.startswith("http") else None) as file:
            return bytes(file.read(most))


def files_at(url: str) -> list[str]:
    """The URLs of the files in a folder, if the URL ends with a slash, or that match a pattern; sorted by name."""
    with _explained(url, "listed"):
        system, path = _system(url)
        if not url.endswith("/") and system.isfile(path):
            return [url]  # its name looks like a pattern
        found = system.ls(path, detail=False) if url.endswith("/") else system.glob(path)
        return sorted(system.unstrip_protocol(name) for name in found if system.isfile(name))


def write_url(written: Path, url: str) -> None:
    """Upload a file; an object store shows it only when it is complete."""
    with _explained(url, "written"):
        system, path = _system(url)
        system.put_file(str(written), path)


def require_remote_room(url: str) -> None:
    """Refuse a place in a bucket that does not exist or cannot be reached."""
    with _explained(url, "written"):
        system, path = _system(url)
        bucket = path.partition("/")[0]
        if not system.exists(bucket):
            raise InputError(f"{name_of(url)} cannot be written: there is no bucket {bucket}.")


def _system(url: str) -> tuple[Any, str]:
    scheme = url.partition("://")[0].lower()
    package, extra = _NEEDED[scheme]
    import_extra(package, extra, f"A file at {scheme}://")
    fsspec = import_extra("fsspec", extra, f"A file at {scheme}://")
    system = fsspec.filesystem(scheme, use_listings_cache=False)  # a file may be new since the last listing
    return system, url if scheme.startswith("http") else posixpath.normpath(url.partition("://")[2])


@contextmanager
def _explained(url: str, done: str) -> Iterator[None]:
    """Turn the many errors of servers and libraries into an InputError."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{name_of(url)} does not exist; check the name.") from error
    except PermissionError as error:
        raise InputError(f"{name_of(url)} cannot be {done}: the server refuses it; check the credentials.") from error
    except Exception as error:
        reason = one_line(error).replace(url, name_of(url)) or type(error).__name__
        raise InputError(
            f"{name_of(url)} cannot be {done} ({reason}); check the address and the credentials."
        ) from error
