"""Results in a table of a data base: a transaction writes all rows, or changes nothing.

An existing table is replaced only if it is one of results, so that a slip in a name costs nobody's orders. Its rows are
replaced, not the table: what belongs to it, such as rights, indexes and views, stays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nptad.errors import InputError
from nptad.io.atomic import followed, require_writable_parent
from nptad.io.extras import import_extra
from nptad.io.places import StoredTable
from nptad.io.sql import DUCKDB
from nptad.io.text import one_line
from nptad.tables.selection import require_distinct

_OF_RESULTS = ("score", "p_value", "anomaly")
"""Columns that show a table to be one of results."""

_LARGEST = 2**63 - 1


class _Transaction(NamedTuple):
    """What is done without a commit is undone."""

    run: Callable[[str], list[Any]]
    insert: Callable[[pa.Table, str, bool], None]  # rows, schema, whether the table is new
    commit: Callable[[], None]


def write_rows(table: pa.Table, target: StoredTable, where: str) -> None:
    """Make these the rows of a new table, or of one of earlier results that has the same columns."""
    require_distinct(table.column_names, "The table")
    rows = _storable(table)
    with _begun(target, where) as transaction:
        schema, existing = _existing(transaction, target, where)
        others = sorted(set(existing) ^ set(rows.column_names)) if existing else []
        if others:
            raise InputError(
                f"Table {target.name} of {where} has other columns than these results: {others[0]!r} is in one of them "
                "only; name another table, or drop this one."
            )
        if existing:
            _clear(transaction, target, schema)
        transaction.insert(rows, schema, not existing)
        transaction.commit()


def require_table_room(target: StoredTable, where: str) -> None:
    """Refuse a table that cannot be written, by doing it without rows and without a commit."""
    if target.engine == "duckdb" and not os.path.exists(target.target):
        import_extra("duckdb", "sql", "A DuckDB file")
        require_writable_parent(followed(Path(target.target)))
        return
    with _begun(target, where) as transaction:
        schema, existing = _existing(transaction, target, where)
        if existing:
            _clear(transaction, target, schema)
        else:
            transaction.run(f'create table "{schema}"."{target.name}" (score double precision)')


def _existing(transaction: _Transaction, target: StoredTable, where: str) -> tuple[str, list[str]]:
    """The schema of the table, and its columns; none if there is no such table."""
    schema = target.schema or transaction.run("select current_schema()")[0][0]
    names = [
        name
        for (name,) in transaction.run(
            "select column_name from information_schema.columns "
            f"where table_schema = '{schema}' and table_name = '{target.name}' order by ordinal_position"
        )
    ]
    missing = [name for name in _OF_RESULTS if name not in names]
    if names and missing:
        raise InputError(
            f"Table {target.name} of {where} has no column {missing[0]!r}, so it is no table of results; name another."
        )
    return schema, names


def _clear(transaction: _Transaction, target: StoredTable, schema: str) -> None:
    if target.engine == "postgresql":  # or two commands at the same time would both leave their rows; readers go on
        transaction.run(f'lock table "{schema}"."{target.name}" in share row exclusive mode')
    transaction.run(f'delete from "{schema}"."{target.name}"')


@contextmanager
def _begun(target: StoredTable, where: str) -> Iterator[_Transaction]:
    """An open transaction; an error of the data base becomes an InputError."""
    begun = _begun_duckdb if target.engine == "duckdb" else _begun_postgresql
    try:
        with begun(target) as transaction:
            yield transaction
    except InputError:
        raise
    except Exception as error:  # the libraries have no common class of errors
        raise InputError(f"Table {target.name} of {where} cannot be written: {one_line(error)}.") from error


@contextmanager
def _begun_duckdb(target: StoredTable) -> Iterator[_Transaction]:
    duckdb = import_extra("duckdb", "sql", "A DuckDB file")
    path = Path(target.target).absolute()  # otherwise `:memory:` is no file
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(duckdb.connect(path, config=DUCKDB)) as connection:

            def insert(rows: pa.Table, schema: str, new: bool) -> None:
                table = f'"{schema}"."{target.name}"'
                connection.register("nptad_rows", rows)
                start = f"create table {table} as" if new else f"insert into {table} by name"
                connection.execute(f"{start} select * from nptad_rows")

            connection.begin()
            yield _Transaction(lambda statement: connection.execute(statement).fetchall(), insert, connection.commit)
    except BaseException:
        if is_new:
            for file in (path, path.with_name(f"{path.name}.wal")):
                with suppress(OSError):
                    file.unlink()
        raise


@contextmanager
def _begun_postgresql(target: StoredTable) -> Iterator[_Transaction]:
    dbapi = import_extra("adbc_driver_postgresql.dbapi", "sql", "PostgreSQL")
    with closing(dbapi.connect(target.target)) as connection, closing(connection.cursor()) as cursor:

        def run(statement: str) -> list[Any]:
            cursor.execute(statement)
            return list(cursor.fetchall())

        def insert(rows: pa.Table, schema: str, new: bool) -> None:
            cursor.adbc_ingest(target.name, rows, mode="create" if new else "append", db_schema_name=schema)

        yield _Transaction(run, insert, connection.commit)


def _storable(table: pa.Table) -> pa.Table:
    """The table with types that both kinds of data bases have."""
    return pa.table([_column(column) for column in table.columns], table.column_names)


def _column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_nested(kind):
        texts = [None if value is None else json.dumps(value, default=str) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_date64(kind):
        return column.cast(pa.date32())
    if pa.types.is_uint64(kind):
        is_large = (pc.max(column).as_py() or 0) > _LARGEST
        return column.cast(pa.decimal128(20, 0) if is_large else pa.int64())
    return column
