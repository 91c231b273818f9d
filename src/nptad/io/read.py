"""Read a table file into a pyarrow table: CSV and its kin, JSON lines, Parquet, Arrow."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from nptad.errors import InputError
from nptad.io.formats import Place, check_format, format_of, is_stream, name_of
from nptad.io.sniff import to_utf8
from nptad.io.text import one_line, read_delimited, read_json_lines

GZIP = b"\x1f\x8b"


ARROW_STREAM = b"\xff\xff\xff\xff"


_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", ARROW_STREAM: "arrow"}


_BEGINNING = 8


_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")


def read_table(source: Place, format: str | None = None, as_text: Collection[str] = ()) -> pa.Table:
    r"""Read a whole table.

    Parameters
    ----------
    source : path, "-" or binary file
        A file, standard input, or an open binary file, which is read to its end.
    format : {"csv", "tsv", "jsonl", "parquet", "arrow"}, optional
        Default: what the suffix of the path says, otherwise what the first bytes say.
    as_text : names
        Columns of a text format that are text, whatever their cells look like. For a table that is to be scored
        :attr:`nptad.tables.schema.Schema.text_columns`: of true, false and unknown it may have only the first two.

    Returns
    -------
    pyarrow.Table
        Rows in the order of the file.

    Raises
    ------
    InputError
        In one sentence: what is wrong, where, and what to do.

    Notes
    -----
    Delimited text:

    * UTF-8, UTF-16 with byte order mark, otherwise Windows-1252; gzip is unpacked. Comma, semicolon, tab or bar
      delimit, whichever fits (a tab in TSV). Cells in quotation marks may contain delimiters and line breaks.
    * The first line holds the column names. If it looks like data, that is an error, and so are two equal names. A
      column without a name is called "column 3" by its position; without any cell, at the end of the lines, it is
      left out.
    * Blank lines are skipped, except in a table of one column, where they are missing cells.
    * Missing are empty cells and NA, N/A, n/a, #N/A, <NA>, NaN, nan, NaT, NULL, Null, null, None and ?. In quotation
      marks these are text, unless all other cells of the column are numbers, truth values or times; among those, a
      mere - or . is missing, too.
    * A column has the type that fits all its cells: whole numbers, numbers, truth values (true, false), ISO dates,
      time stamps and times of day, else text. Padded numbers like 00123 stay text. Numbers have decimal commas if
      commas do not delimit and a column of the file is written like 1,5 or 1.234,5.

    JSON lines: one flat object a line. A column of mixed types becomes text.

    Examples
    --------
    >>> import io
    >>> read_table(io.BytesIO(b"name;weight\nAnn;61,5\nBob;?\n")).to_pydict()
    {'name': ['Ann', 'Bob'], 'weight': [61.5, None]}
    """
    if format is None and not is_stream(source) and Path(str(source)).suffix:
        format = format_of(source)
    check_format(format)
    where = name_of(source, "standard input")
    data = _unpack(_read(source, where), where)
    format = check_beginning(data[:_BEGINNING], format, where) or format
    if format in _READERS:
        return _READERS[format](data, where)
    data = to_utf8(data, where)
    format = format or ("jsonl" if data[:4096].lstrip().startswith((b"{", b"[")) else "csv")
    return _TEXT_READERS[format](data, where, as_text)


def check_beginning(data: bytes, format: str | None, where: str) -> str | None:
    """The binary format that the first bytes of a file show, if any; an error if it is not the expected one."""
    if data.startswith(_WORKBOOKS):
        raise InputError(f"{where} is an Excel workbook or a zip archive; save the sheet as CSV.")
    if not data:
        raise InputError(f"{where} is empty; give a file with column names and rows.")
    found = next((name for magic, name in _MAGIC.items() if data.startswith(magic)), None)
    if found is not None and format not in (None, found):
        raise InputError(f"{where} holds {found} data, not {format}; rename it or say format={found!r}.")
    return found


def _read(source: Place, where: str) -> bytes:
    with reading_explained(where):
        if not isinstance(source, str | PathLike):
            return source.read()
        return sys.stdin.buffer.read() if is_stream(source) else Path(source).read_bytes()


@contextmanager
def reading_explained(where: str) -> Iterator[None]:
    """What to say if a file cannot be opened or read."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{where} does not exist; check the name.") from error
    except IsADirectoryError as error:
        raise InputError(f"{where} is a directory; name a file.") from error
    except PermissionError as error:
        raise InputError(f"{where} may not be read by you; ask its owner for permission.") from error
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{where} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


def _unpack(data: bytes, where: str) -> bytes:
    """Gunzip what is gzipped."""
    if not data.startswith(GZIP):
        return data
    with unpacking_explained(where):
        return gzip.decompress(data)


@contextmanager
def unpacking_explained(where: str) -> Iterator[None]:
    """What to say if gunzipping fails."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{where} cannot be unpacked ({error}); it is truncated or damaged.") from error


def _read_parquet(data: bytes, where: str) -> pa.Table:
    with damage_explained(where, "Parquet"):
        # Not read_table, which would add columns for directories called like year=2024.
        return _validated(pyarrow.parquet.ParquetFile(pa.BufferReader(data)).read())


def _read_arrow(data: bytes, where: str) -> pa.Table:
    with damage_explained(where, "Arrow"):
        open_ = pyarrow.ipc.open_stream if data.startswith(ARROW_STREAM) else pyarrow.ipc.open_file
        return _validated(open_(pa.BufferReader(data)).read_all())


def _validated(table: pa.Table) -> pa.Table:
    """The table, after a look at what pyarrow does not check when reading: offsets beyond the data, broken UTF-8."""
    table.validate(full=True)
    _ = table.column_names
    return table


@contextmanager
def damage_explained(where: str, format: str) -> Iterator[None]:
    """What to say if pyarrow cannot make sense of a file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{where} cannot be read as {format} ({one_line(error)}); it is truncated, damaged or of another format."
        ) from error


_READERS: dict[str | None, Callable[[bytes, str], pa.Table]] = {"parquet": _read_parquet, "arrow": _read_arrow}


_TEXT_READERS: dict[str, Callable[[bytes, str, Collection[str]], pa.Table]] = {
    "csv": read_delimited,
    "tsv": partial(read_delimited, delimiter=b"\t"),
    "jsonl": read_json_lines,
}
