"""Where a table is: a path, standard input, a URL, or in a data base; and what messages call it."""

from __future__ import annotations

import re
from os import PathLike, fspath
from typing import BinaryIO, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from nptad.errors import InputError

Place = str | PathLike[str] | BinaryIO
"""A path, a URL, a query, "-" for standard input or output, or an open binary file."""

READABLE = ("http", "https", "s3", "gs")
WRITABLE = ("s3", "gs")
"""Schemes of URLs. Others that fsspec knows are left out: some run code or read other files of this machine."""

_POSTGRESQL = ("postgresql", "postgres")
_TABLE = r"(?:([A-Za-z_][A-Za-z0-9_]*)\.)?([A-Za-z_][A-Za-z0-9_]*)"


class Query(NamedTuple):
    """A query to a data base."""

    engine: str  # "duckdb" or "postgresql"
    target: str  # a file, or the address of a server
    statement: str


class StoredTable(NamedTuple):
    """A table in a data base."""

    engine: str  # "duckdb" or "postgresql"
    target: str  # a file, or the address of a server
    schema: str | None
    name: str


def is_stream(place: Place) -> bool:
    """True for standard input or output and for an open file."""
    return not isinstance(place, str | PathLike) or str(place) == "-"


def is_url(place: Place) -> bool:
    """True for the URL of a file, such as s3://bucket/orders.csv.

    >>> is_url("https://example.org/orders.csv"), is_url("orders.csv"), is_url("file:///etc/passwd")
    (True, False, False)
    """
    return isinstance(place, str) and _scheme(place) in READABLE


def query_of(place: Place) -> Query | None:
    """The query that a place is, if it is one.

    >>> query_of("duckdb:orders.db#select * from orders")
    Query(engine='duckdb', target='orders.db', statement='select * from orders')
    """
    engine = _engine(place)
    if engine is None:
        return None
    address, _, statement = str(place).partition("#")
    if not statement.strip():
        raise InputError(f"{name_of(place)} needs a query; write it after a #, as in '...#select * from orders'.")
    return Query(engine, address.removeprefix("duckdb:"), statement)


def table_of(place: Place) -> StoredTable | None:
    """The table in a data base that a place for results is, if it is one; case makes no difference, as in a query.

    >>> table_of("duckdb:orders.db#Scores")
    StoredTable(engine='duckdb', target='orders.db', schema=None, name='scores')
    """
    engine = _engine(place)
    if engine is None:
        return None
    address, _, table = str(place).partition("#")
    if not table.strip():
        raise InputError(f"{name_of(place)} needs the name of a table; write it after a #, as in '...#scores'.")
    found = re.fullmatch(_TABLE, table.strip().lower())
    if found is None:
        raise InputError(f"{table!r} is no name of a table; write letters, digits and _, as in '...#scores'.")
    target = address.removeprefix("duckdb:")
    if not target:
        raise InputError("duckdb: names no file; write one after it, as in 'duckdb:orders.db#scores'.")
    return StoredTable(engine, target, *found.groups())


def path_part(place: Place) -> str:
    """The path in a place, whose suffix says the format; a URL may go on after it.

    >>> path_part("https://example.org/my%20orders.csv?key=1")
    '/my orders.csv'
    """
    if not is_url(place):
        return str(place)
    # In the key of an object store, ? and % are letters.
    return unquote(_split(str(place)).path) if _scheme(str(place)).startswith("http") else str(place)


def name_of(place: Place, standard: str = "standard input") -> str:
    """What a message calls the place; without a password, a key or the text of a query.

    >>> name_of("postgresql://ann:secret@db.example.org/shop#select * from orders")
    'postgresql://db.example.org/shop'
    """
    if not isinstance(place, str | PathLike):
        name = getattr(place, "name", None)
        return name if isinstance(name, str) else "the table"
    if is_stream(place):
        return standard
    name = fspath(place)
    if name.startswith("duckdb:"):
        return name.partition("#")[0]
    if _scheme(name) not in (*_POSTGRESQL, "http", "https"):
        return name
    parts = _split(name)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _engine(place: Place) -> str | None:
    """The kind of data base that a place is in."""
    if not isinstance(place, str):
        return None
    if place.startswith("duckdb:"):
        return "duckdb"
    return "postgresql" if _scheme(place) in _POSTGRESQL else None


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise InputError(f"This URL cannot be understood ({error}); correct its beginning.") from error


def _scheme(place: str) -> str:
    return place.partition("://")[0].lower() if "://" in place else ""
