"""Read table files: CSV and its kin, JSON, Excel, Parquet, Arrow. The same code reads whole tables and streams."""

from __future__ import annotations

import errno
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, pairwise
from os import PathLike
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from nptad.errors import InputError
from nptad.io.excel import read_workbook
from nptad.io.formats import ARCHIVE, ARROW_STREAM, BINARY_FORMATS, GZIP, ZIP, format_for, format_in
from nptad.io.json_array import lines_of_array
from nptad.io.packed import most_bytes, require_size, unzip
from nptad.io.places import Place, is_stream, is_url, name_of
from nptad.io.remote import read_url
from nptad.io.text import one_line, open_delimited, read_json_lines, utf8_pieces
from nptad.memory import require_memory
from nptad.tables.selection import require_distinct

_BLOCK_ROWS = 2**16
_BEGINNING = 4096
_LARGEST_PART_ROWS, _SMALLEST_PART_ROWS = 2**16, 2**10
_PART_CELLS = 2**23  # cells of a part at most, 64 MiB as numbers, unless its rows are very long

Source = str | bytes  # the path of a file, or the content of one, unpacked


class OpenTable(NamedTuple):
    """A table that is open for reading."""

    schema: pa.Schema
    n_rows: int
    blocks: Callable[[int], Iterator[pa.Table]]  # the rows from the given one on, in blocks of any size

    @property
    def part_rows(self) -> int:
        """Rows of every part but the last; the same for the same file, so that a part is known by its number."""
        return max(_SMALLEST_PART_ROWS, min(_LARGEST_PART_ROWS, _PART_CELLS // max(len(self.schema), 1)))

    def parts(self, first: int = 0) -> Iterator[pa.Table]:
        """The parts from the given one on; a table without rows is one part without rows."""
        waiting, n_waiting = [self.schema.empty_table()], 0
        for block in self.blocks(first * self.part_rows):
            waiting.append(block)
            n_waiting += len(block)
            if n_waiting >= self.part_rows:
                joined = pa.concat_tables(waiting)
                end = n_waiting // self.part_rows * self.part_rows
                yield from (joined.slice(start, self.part_rows) for start in range(0, end, self.part_rows))
                waiting, n_waiting = [joined.slice(end)], n_waiting - end
        if n_waiting or not self.n_rows:
            yield pa.concat_tables(waiting)


def read_table(
    source: Place,
    format: str | None = None,
    as_text: Collection[str] = (),
    *,
    name: str | None = None,
    max_bytes: int | None = None,
    sheet: str | None = None,
) -> pa.Table:
    r"""Read a whole table.

    Parameters
    ----------
    source : path, URL, "-" or binary file
        A file, one at http://, https://, s3:// or gs://, standard input, or an open binary file, which is read to its
        end.
    format : {"csv", "tsv", "json", "jsonl", "xlsx", "parquet", "arrow", "zip"}, optional
        Default: what the suffix of the path says, otherwise what the first bytes say.
    as_text : names
        Columns of a text format that are text, whatever their cells look like. For a table that is to be scored, pass
        :attr:`nptad.tables.schema.Schema.text_columns`: of true, false and unknown it may have only the first two.
    name : str, optional
        What error messages call the table; by default its path.
    max_bytes : int, optional
        Size at most, when unpacked; by default, what is packed may become half of the memory of this machine.
    sheet : str, optional
        Sheet of a workbook; by default the first that is not hidden.

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
    * Blank lines are skipped, except in a table of one column, where they are missing cells. A row has at most 64 MB.
    * Missing are empty cells and NA, N/A, n/a, #N/A, <NA>, NaN, nan, NaT, NULL, Null, null, None and ?. In quotation
      marks these are text, unless all other cells of the column are numbers, truth values or times; among those, a
      mere - or . is missing, too.
    * A column has the type that fits all its cells: whole numbers, numbers, truth values (true, false), ISO dates,
      time stamps and times of day, else text. Padded numbers like 00123 stay text. Numbers have decimal commas if
      commas do not delimit and a column of the file is written like 1,5 or 1.234,5.

    JSON: an array of flat objects, or one flat object a line. A column of mixed types becomes text.

    Excel: cells keep their types; a column of mixed types is read as if it stood in a CSV file. Errors such as #DIV/0!
    are missing, blank rows are skipped.

    zip: the archive contains one table file.

    Examples
    --------
    >>> import io
    >>> read_table(io.BytesIO(b"name;weight\nAnn;61,5\nBob;?\n")).to_pydict()
    {'name': ['Ann', 'Bob'], 'weight': [61.5, None]}
    """
    if format is not None or Path(str(source)).suffix:
        format = format_for(source, format)
    where = name or name_of(source)
    with reading_explained(where):
        data = _content(source, max_bytes)
        limit = most_bytes() if max_bytes is None else max_bytes
        if max_bytes is not None:
            require_size(len(data), limit, where)
        data = _gunzipped(data, format, where, limit)
        if format == ARCHIVE or (format is None and data.startswith(ZIP)):
            data, format, where = unzip(data, format, where, limit)
            data = _gunzipped(data, format, where, limit)
    if format == "xlsx":
        format_in(data[:_BEGINNING], format, where)
        return read_workbook(data, where, as_text, sheet, limit)
    if sheet is not None:
        raise InputError(f"{where} has no sheets; give a sheet only of a workbook.")
    table = open_table(data, format, where, as_text)
    rows_and_columns = f"{table.n_rows:,} rows and {len(table.schema):,} columns"
    require_memory(table.n_rows * sum(map(_cell_bytes, table.schema.types)), f"{where} has {rows_and_columns}, which")
    return pa.concat_tables([table.schema.empty_table(), *table.blocks(0)])


def _gunzipped(data: bytes, format: str | None, where: str, limit: int) -> bytes:
    packed = io.BytesIO(data)
    unpacked = _unpacked(packed, format)
    if unpacked is packed:
        return data
    data = unpacked.read(limit + 1)
    require_size(len(data), limit, where)
    return data


def _content(source: Place, max_bytes: int | None) -> bytes:
    """All bytes of a source, or one more than the limit."""
    most = -1 if max_bytes is None else max_bytes + 1
    if not isinstance(source, str | PathLike):
        return source.read(most)
    if is_stream(source):
        return sys.stdin.buffer.read(most)
    if is_url(source):
        return read_url(str(source), most)
    with open(source, "rb") as file:
        return file.read(most)


def open_stream(path: str | PathLike[str], as_text: Collection[str] = ()) -> OpenTable:
    """Open a Parquet, Arrow, CSV or TSV file to read it part by part, in memory that does not grow with the file.

    The parts together are what :func:`read_table` gives. A text is read once to find out its encoding and its types.
    Damage further on in the file shows when it is reached.
    """
    format = format_for(path, None)
    if format in ("json", "jsonl", "xlsx", ARCHIVE):
        raise InputError(f"{path} is {format}, which cannot be read in parts; convert it to Parquet or CSV.")
    return open_table(str(path), format, str(path), as_text)


def _cell_bytes(kind: pa.DataType) -> float:
    """What a cell takes at least in memory."""
    try:
        return float(kind.bit_width) / 8
    except ValueError:  # of no fixed size
        return 0.0 if pa.types.is_null(kind) else 4.0


@contextmanager
def reading_explained(where: str) -> Iterator[None]:
    """Turn the failure to open, read or unpack a file into an InputError."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{where} does not exist; check the name.") from error
    except IsADirectoryError as error:
        raise InputError(f"{where} is a directory; name a file.") from error
    except InputError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{where} cannot be unpacked ({error}); it is truncated or damaged.") from error
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ENOMEM:
            raise MemoryError(one_line(error)) from error
        raise InputError(f"{where} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


def _unpacked(file: BinaryIO, format: str | None) -> BinaryIO:
    """The file, gunzipped if it is gzipped text."""
    packed = format not in BINARY_FORMATS and file.read(len(GZIP)) == GZIP
    file.seek(0)
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file


@contextmanager
def _opened(source: Source, format: str | None, where: str) -> Iterator[BinaryIO]:
    """The open file, unpacked."""
    if isinstance(source, bytes):
        yield io.BytesIO(source)
    else:
        with reading_explained(where), open(source, "rb") as file:
            yield _unpacked(file, format)


def open_table(source: Source, format: str | None, where: str, as_text: Collection[str] = ()) -> OpenTable:
    """Open a table for reading in blocks; a text is looked through for its types.

    The blocks of content in memory can be read only once. ``where`` names the table in error messages; the columns
    ``as_text`` of a text stay text, whatever their cells look like.
    """
    with _opened(source, format, where) as file:
        beginning = file.read(_BEGINNING)
    format = format_in(beginning, format, where) or format
    if format == "parquet":
        return _open_parquet(source, where)
    if format == "arrow":
        return _open_arrow(source, beginning.startswith(ARROW_STREAM), where)
    pieces = utf8_pieces(partial(_opened, source, format, where), where)
    begins_json = format is None and next(pieces(), b"")[:_BEGINNING].lstrip().startswith((b"{", b"["))
    if begins_json or format in ("json", "jsonl"):
        text = b"".join(pieces())
        table = read_json_lines(text if format == "jsonl" else lines_of_array(text, where), where, as_text)
        return OpenTable(table.schema, len(table), lambda row: iter([table.slice(row)]))
    delimiter = b"\t" if format == "tsv" else None
    schema, n_rows, blocks = open_delimited(pieces, where, as_text, delimiter, once=isinstance(source, bytes))
    return OpenTable(schema, n_rows, lambda row: _from_row(blocks(), row))


def _open_parquet(source: Source, where: str) -> OpenTable:
    @contextmanager
    def opened() -> Iterator[pyarrow.parquet.ParquetFile]:
        with _damage_explained(where, "Parquet"), _native(source, pa.OSFile) as file:
            yield pyarrow.parquet.ParquetFile(file)

    with opened() as file:
        schema, metadata = file.schema_arrow, file.metadata
        require_distinct(schema.names, where)
        ends = list(accumulate((metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)), initial=0))

    def blocks(first_row: int) -> Iterator[pa.Table]:
        with opened() as file:
            for group, (start, end) in enumerate(pairwise(ends)):
                if end > max(start, first_row):
                    batches = file.iter_batches(_BLOCK_ROWS, [group], use_threads=False)
                    yield from _from_row(_validated(batches, schema, end - start), first_row - start)

    return OpenTable(schema, ends[-1], blocks)


def _open_arrow(source: Source, is_stream: bool, where: str) -> OpenTable:
    @contextmanager
    def opened() -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        # Mapped, so that only those pages of a batch are in memory that are looked at.
        with _damage_explained(where, "Arrow"), _native(source, pa.memory_map) as file:
            reader = (pyarrow.ipc.open_stream if is_stream else pyarrow.ipc.open_file)(file)
            yield reader.schema, reader if is_stream else map(reader.get_batch, range(reader.num_record_batches))

    with opened() as (schema, batches):
        require_distinct(schema.names, where)
        n_rows = sum(map(len, batches))

    def blocks(first_row: int) -> Iterator[pa.Table]:
        with opened() as (_, batches):
            for batch in batches:
                # A file may be one batch: looked at in slices, it need not be in memory as a whole.
                slices = (batch.slice(start, _BLOCK_ROWS) for start in range(0, len(batch), _BLOCK_ROWS))
                yield from _from_row(_validated(slices, schema, len(batch)), first_row)
                first_row -= len(batch)

    return OpenTable(schema, n_rows, blocks)


def _native(source: Source, open_path: Callable[[str], pa.NativeFile]) -> pa.NativeFile:
    return pa.BufferReader(source) if isinstance(source, bytes) else open_path(source)


def _validated(batches: Iterator[pa.RecordBatch], schema: pa.Schema, n_rows: int) -> Iterator[pa.Table]:
    """Check what pyarrow does not check: offsets beyond the data, broken UTF-8, missing rows."""
    found = 0
    for batch in batches:
        table = pa.Table.from_batches([batch], schema)
        table.validate(full=True)
        found += len(table)
        yield table
    if found != n_rows:
        raise pa.ArrowInvalid(f"{found} of {n_rows} rows found")


def _from_row(blocks: Iterator[pa.Table], first_row: int) -> Iterator[pa.Table]:
    for block in blocks:
        if first_row < len(block):
            yield block.slice(max(0, first_row))
        first_row -= len(block)


@contextmanager
def _damage_explained(where: str, format: str) -> Iterator[None]:
    """Turn the failure of pyarrow to read a file into an InputError."""
    try:
        yield
    except MemoryError:  # of Arrow, too: the file is as it should be
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None) == errno.ENOMEM:
            raise MemoryError(one_line(error)) from error
        raise InputError(
            f"{where} cannot be read as {format} ({one_line(error)}); it is truncated, damaged or of another format."
        ) from error
