"""Tables that a query to a data base gives: DuckDB files, PostgreSQL servers. Nothing is changed there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pyarrow as pa

from nptad.errors import InputError
from nptad.io.extras import import_extra
from nptad.io.places import Query
from nptad.io.text import one_line
from nptad.tables.selection import require_distinct

DUCKDB = {"enable_external_access": "false", "autoload_known_extensions": "false"}
"""Settings: no other file of this machine, no extension from the network. A statement stays in its data base."""


def read_query(query: Query, where: str) -> pa.Table:
    """The rows of a query; types are those of the data base, if Arrow has them."""
    table = (_read_duckdb if query.engine == "duckdb" else _read_postgresql)(query, where)
    if not table.num_columns:
        raise InputError(f"The query to {where} gives no table; write one that begins with SELECT.")
    require_distinct(table.column_names, f"The result of the query to {where}")
    return pa.table(
        [_plain(column, field) for column, field in zip(table.columns, table.schema, strict=True)], table.column_names
    )


def _read_duckdb(query: Query, where: str) -> pa.Table:
    duckdb = import_extra("duckdb", "sql", "A DuckDB file")
    if not os.path.isfile(query.target):
        raise InputError(f"{where} does not exist; check the name.")
    with _explained(where), closing(duckdb.connect(query.target, read_only=True, config=DUCKDB)) as connection:
        rows = connection.sql(query.statement)
        return pa.table({}) if rows is None else rows.to_arrow_table()


def _read_postgresql(query: Query, where: str) -> pa.Table:
    dbapi = import_extra("adbc_driver_postgresql.dbapi", "sql", "PostgreSQL")
    with _explained(where), closing(dbapi.connect(query.target)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute(query.statement)
        return cursor.fetch_arrow_table()


@contextmanager
def _explained(where: str) -> Iterator[None]:
    """Turn an error of the data base into an InputError; the libraries have no common class of errors."""
    try:
        yield
    except Exception as error:
        raise InputError(f"The query to {where} has failed: {one_line(error)}; correct it.") from error


def _plain(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Decimal numbers as floats, and as text what only data bases know, such as UUIDs and intervals.

    The driver of PostgreSQL gives decimal numbers as text, since in Arrow they have a scale.
    """
    is_numeric = (field.metadata or {}).get(b"ADBC:postgresql:typname") == b"numeric"
    if is_numeric or pa.types.is_decimal(field.type):
        return column.cast(pa.float64())
    if isinstance(field.type, pa.BaseExtensionType) or pa.types.is_interval(field.type):
        texts = [None if value is None else str(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    return column
