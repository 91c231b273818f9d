"""Write a table to a file or a data base: complete, or not there at all."""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from nptad.errors import InputError
from nptad.io.atomic import writing, writing_explained
from nptad.io.excel import write_workbook
from nptad.io.formats import PACKED_SUFFIX, format_for, output_format
from nptad.io.json_array import write_json_array
from nptad.io.places import Place, is_stream, is_url, name_of, table_of
from nptad.io.remote import write_url
from nptad.io.sql_results import write_rows
from nptad.io.text import one_line, write_delimited, write_json_lines
from nptad.tables.selection import require_distinct


def write_table(table: pa.Table, target: Place, format: str | None = None) -> None:
    r"""Write a whole table; its place is complete or, after an error or an interruption, as it was before.

    Parameters
    ----------
    table : pyarrow.Table
        What to write.
    target : path, URL, table of a data base, "-" or binary file
        A file, one at s3:// or gs://, a table such as ``"duckdb:orders.db#scores"``, standard output, or an open binary
        file.
    format : {"csv", "tsv", "json", "jsonl", "xlsx", "parquet", "arrow"}, optional
        Default: what the suffix of the path says, otherwise CSV.

    Raises
    ------
    InputError
        If the table does not fit the format or the file cannot be written, for instance because the disk is full.
    BrokenPipeError
        If the reader of standard output went away.

    Notes
    -----
    CSV and TSV are UTF-8. A text cell or a column name that begins with = + - @ (also wide or small ones, also after
    white space and characters that nobody sees) or a tab or line break gets an apostrophe in front, so that no
    spreadsheet takes it for a formula; numbers stay as they are. Text stands in quotation marks, a missing cell is
    empty. In JSON, times are text and numbers that are not finite are null. In
    Excel, text is never a formula; whole numbers of more than 15 digits, infinite numbers, times with a zone and times
    before 1900 are text.

    Examples
    --------
    >>> import io, pyarrow as pa
    >>> file = io.BytesIO()
    >>> write_table(pa.table({"name": ["Ann", "=1+1"], "score": [-0.5, 2.0]}), file)
    >>> print(file.getvalue().decode(), end="")
    "name","score"
    "Ann",-0.5
    "'=1+1",2
    """
    stored = table_of(target)
    if stored is not None:
        write_rows(table, stored, name_of(target))
        return
    if format is None and isinstance(target, str | PathLike):
        format = output_format(target)
    write = _WRITERS[format_for(target, format) or "csv"]
    where = name_of(target, "standard output")
    if not table.num_columns:
        raise InputError("The table has no columns; there is nothing to write.")
    require_distinct(table.column_names, "The table")  # no reader could read it again
    try:
        with writing_explained(where), _opened(target) as sink:
            write(table, sink)
            sink.flush()
    except pa.ArrowException as error:
        raise InputError(f"{where} cannot be written ({one_line(error)}); try another format.") from error


@contextmanager
def _opened(target: Place) -> Iterator[BinaryIO]:
    """The open target; for a file a temporary one, which takes its place in the end."""
    if not isinstance(target, str | PathLike):
        yield target
    elif is_stream(target):
        sys.stdout.flush()  # what was printed before comes before
        yield sys.stdout.buffer
    elif is_url(target):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "table"
            with path.open("wb") as whole, _packing(whole, target) as sink:
                yield sink
            write_url(path, str(target))
    else:
        with writing(Path(target)) as file, _packing(file, target) as sink:
            yield sink


@contextmanager
def _packing(file: BinaryIO, target: str | PathLike[str]) -> Iterator[BinaryIO]:
    """The file, or one around it that packs what is written."""
    if Path(target).suffix.lower() != PACKED_SUFFIX:
        yield file
    else:
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as gzipped:
            yield gzipped  # type: ignore[misc]


def _write_arrow(table: pa.Table, sink: BinaryIO) -> None:
    with pyarrow.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


_WRITERS: dict[str, Callable[[pa.Table, BinaryIO], None]] = {
    "csv": partial(write_delimited, delimiter=","),
    "tsv": partial(write_delimited, delimiter="\t"),
    "json": write_json_array,
    "jsonl": write_json_lines,
    "xlsx": write_workbook,
    "parquet": pyarrow.parquet.write_table,
    "arrow": _write_arrow,
}
