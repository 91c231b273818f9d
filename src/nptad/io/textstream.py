"""Read delimited text block by block, with the types that a look at the whole file gives.

Three passes, each in constant memory: the encoding, the types of the columns, the values.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.csv

from nptad.errors import InputError
from nptad.io.read import GZIP, unpacking_explained
from nptad.io.sniff import bad_encoding, sniff_encoding
from nptad.io.text import BLOCK_BYTES, Header, bad_text, count_columns, read_header, text_options
from nptad.tables.cells import StreamedColumn

_STEP = 1 << 20


@dataclass(frozen=True)
class TextStream:
    """A delimited text whose types are known."""

    n_rows: int
    n_columns: int
    blocks: Callable[[], Iterator[pa.Table]]
    """All rows, in blocks of a few MB."""


def open_text(where: str, delimiter: bytes | None = None, as_text: Collection[str] = ()) -> TextStream:
    """Look through a text once for its types; a missing ``delimiter`` is sniffed, columns ``as_text`` stay text."""
    with _bytes_of(where) as file:
        mark, encoding = sniff_encoding(iter(lambda: file.read(_STEP), b""), where)
    with _utf8_of(where, mark, encoding) as text:
        header = read_header(text.read(2 * _STEP), where, delimiter)

    columns = [StreamedColumn(name in as_text) for name in header.names]
    n_rows = 0
    with _utf8_of(where, mark, encoding) as text:
        for block in _text_blocks(text, header, where):
            n_rows += len(block)
            for column, cells in zip(columns, block.columns, strict=True):
                column.look(cells)
        if text.quotation_marks % 2:  # pyarrow takes the rest of the file for one cell
            raise InputError(f"{where} opens a quotation mark that is never closed; close it.")
    n_columns = count_columns(header, [column.empty for column in columns])
    decimal_comma = any(column.has_decimal_commas(header.delimiter) for column in columns)

    def typed(block: pa.Table) -> pa.Table:
        values = [c.read(cells, decimal_comma) for c, cells in zip(columns, block.columns, strict=True)]
        return pa.table(values[:n_columns], header.names[:n_columns])

    def blocks() -> Iterator[pa.Table]:
        empty = [pa.chunked_array([], pa.string()) for _ in header.names]
        yield typed(pa.table(empty, list(map(str, range(len(empty))))))  # the columns, even if there are no rows
        with _utf8_of(where, mark, encoding) as text:
            yield from map(typed, _text_blocks(text, header, where))

    return TextStream(n_rows, n_columns, blocks)


class _Utf8:
    """A text as UTF-8, as a file that pyarrow can read; counts quotation marks."""

    closed = False

    def __init__(self, source: Any) -> None:
        self._source = source
        self.quotation_marks = 0

    def read(self, n_bytes: int) -> bytes:
        data = self._source.read(n_bytes)
        self.quotation_marks += data.count(b'"')
        return data


@contextmanager
def _bytes_of(where: str) -> Iterator[BinaryIO]:
    """The open file, gunzipped if it is gzipped."""
    with open(where, "rb") as file, unpacking_explained(where):
        packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        if not packed:
            yield file
        else:
            with gzip.open(file) as unpacked:
                yield cast(BinaryIO, unpacked)


@contextmanager
def _utf8_of(where: str, mark: int, encoding: str) -> Iterator[_Utf8]:
    with _bytes_of(where) as file:
        file.read(mark)
        try:
            if encoding == "utf-8":
                yield _Utf8(file)
            else:
                yield _Utf8(pa.transcoding_input_stream(pa.PythonFile(file), encoding, "utf-8"))
        except UnicodeError as error:
            raise InputError(bad_encoding(encoding, where)) from error


def _text_blocks(text: _Utf8, header: Header, where: str) -> Iterator[pa.Table]:
    """The rows as text."""
    text.read(header.end)
    options = text_options(header, newlines_in_values=True)
    options["read_options"].use_threads = False
    try:
        for batch in pyarrow.csv.open_csv(pa.PythonFile(text, "r"), **options):
            yield pa.Table.from_batches([batch])
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return
        if "straddling" in str(error):
            size = BLOCK_BYTES >> 20
            raise InputError(
                f"{where} has a row of more than {size} MB, or opens a quotation mark that is never closed; correct it."
            ) from error
        raise InputError(bad_text(where, error)) from error
