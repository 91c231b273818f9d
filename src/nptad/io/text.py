"""Delimited text and JSON lines: from text in UTF-8 to pyarrow tables and back."""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from nptad.errors import EmptyFileError, InputError
from nptad.io.sniff import (
    comments_above,
    count_lines,
    looks_like_data,
    record_blocks,
    records,
    sniff_delimiter,
    to_utf8,
    without_blank_lines,
)
from nptad.tables.cells import MISSING, TIMES, VALUES, VALUES_WITH_COMMAS, TypeInference

BLOCK_BYTES, _LARGEST_BLOCK = 1 << 22, (1 << 31) - 1
_ROWS_AT_ONCE = 1 << 16
# Spreadsheets may take full-width and small signs for signs, and drop white space and characters without a glyph, such
# as controls and byte order marks, before them.
_SIGNS = r"[=+\-@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}\x{fe66}\x{fe62}\x{fe63}\x{fe6b}]"
_FORMULA = rf"^([\p{{Z}}\p{{Cc}}\p{{Cf}}]*{_SIGNS}|[\t\r\n])"
_SHOWN_CELLS, _SHOWN_CHARACTERS = 4, 40


class _Header(NamedTuple):
    """What the beginning of a delimited text says about the rest."""

    delimiter: bytes
    names: list[str]
    unnamed: list[bool]  # which columns have no name of their own
    end: int  # where the first row begins, in bytes
    line: int  # on which the first row begins


def utf8_pieces(opened: Callable[[], AbstractContextManager[BinaryIO]], where: str) -> Callable[[], Iterator[bytes]]:
    """The text of a file in UTF-8, as often as it is asked for, in pieces of ``BLOCK_BYTES`` of the file."""

    def pieces() -> Iterator[bytes]:
        with opened() as file:
            yield from iter(lambda: file.read(BLOCK_BYTES), b"")

    return to_utf8(pieces, where)


def open_delimited(
    pieces: Callable[[], Iterator[bytes]],
    where: str,
    as_text: Collection[str] = (),
    delimiter: bytes | None = None,
    once: bool = False,
) -> tuple[pa.Schema, int, Callable[[], Iterator[pa.Table]]]:
    """Look through a table with a header line: its schema, its number of rows, and the rows in blocks of a few MB.

    ``pieces`` is what :func:`utf8_pieces` returns, ``where`` names the table in error messages, the columns ``as_text``
    stay text, a missing ``delimiter`` is sniffed. Blocks that are read only ``once`` are kept in memory until then;
    otherwise the text is parsed again for each reading.
    """
    header = _read_header(pieces, where, delimiter)
    parsers = VALUES if header.delimiter == b"," else VALUES_WITH_COMMAS
    columns = [TypeInference(() if name in as_text else parsers) for name in header.names]

    def text_blocks() -> Iterator[pa.Table]:
        return _text_blocks(pieces(), header, where)

    kept = []
    if once:  # one block, whose columns are read faster than those of many
        kept = [pa.concat_tables([_no_cells(len(columns)), *text_blocks()]).columns]
    n_rows = 0
    for block in kept or (block.columns for block in text_blocks()):
        n_rows += len(block[0])
        for column, cells in zip(columns, block, strict=True):
            column.look(cells)
    decimal_comma = any(column.has_decimal_commas(header.delimiter) for column in columns)
    # Lines may end with delimiters, which makes columns without names and cells.
    used = [not (unnamed and column.empty) for unnamed, column in zip(header.unnamed, columns, strict=True)]
    n_columns = max((j for j, is_used in enumerate(used, 1) if is_used), default=1)

    def typed(block: list[pa.ChunkedArray]) -> pa.Table:
        for j, column in enumerate(columns):  # in place: the text of a column is not needed any more
            block[j] = column.read(block[j], decimal_comma)
        return pa.table(block[:n_columns], header.names[:n_columns])

    def read_again() -> Iterator[pa.Table]:
        n_left = n_rows
        try:
            for block in text_blocks():
                n_left -= len(block)
                yield typed(block.columns)
        except pa.ArrowInvalid:
            n_left = -1
        if n_left:
            raise InputError(f"{where} has changed while it was read; run this again.")

    schema = typed(_no_cells(len(columns)).columns).schema
    return schema, n_rows, (lambda: map(typed, kept)) if once else read_again


def _no_cells(n_columns: int) -> pa.Table:
    return pa.table([pa.array([], pa.string())] * n_columns, [str(j) for j in range(n_columns)])


def _read_header(pieces: Callable[[], Iterator[bytes]], where: str, delimiter: bytes | None) -> _Header:
    beginning = next((piece for piece in pieces() if not piece.isspace()), b"")
    start, line = 0, 1
    if excel := re.match(rb"sep=([,;\t|])\r?\n", beginning):  # Excel writes this line and hides it
        delimiter, start, line = excel[1], excel.end(), 2
    n_bytes, n_lines = comments_above(beginning[start:], delimiter)
    start, line = start + n_bytes, line + n_lines
    delimiter = delimiter or sniff_delimiter(beginning[start:])
    for first_line, block in record_blocks(pieces(), delimiter, where, start, line):
        header = next(records(block, delimiter, first_line), None)
        if header is not None:
            unnamed = [not cell.strip() for cell in header.cells]
            names = header_names(header.cells, f"Line {header.line}", where)
            line = first_line + count_lines(block[: header.end])
            return _Header(delimiter, names, unnamed, start + header.end, line)
        start += len(block)
    raise EmptyFileError(f"{where} is empty; give a file with column names and rows.")


def header_names(cells: Sequence[str], line: str, where: str) -> list[str]:
    """The names of columns in the cells of a header, which stands on a ``line``; an InputError if they are none."""
    names = [cell.strip() for cell in cells]
    if any("\0" in name for name in names):
        raise InputError(f"{where} is not a text file, or UTF-16 without byte order mark; save the table as UTF-8 CSV.")
    if looks_like_data(names):
        shown = [_shown(name) for name in names[:_SHOWN_CELLS]] + ["..."] * (len(names) > _SHOWN_CELLS)
        raise InputError(
            f"{line} of {where} looks like data, not like column names ({', '.join(shown)}); put "
            "a line with a name for each column on top."
        )
    names = [name or f"column {j}" for j, name in enumerate(names, 1)]
    first: dict[str, int] = {}
    for j, name in enumerate(names, 1):
        if first.setdefault(name, j) != j:
            raise InputError(
                f"Columns {first[name]} and {j} of {where} are both called {_shown(name)}; give each its own name."
            )
    return names


def _text_blocks(pieces: Iterator[bytes], header: _Header, where: str) -> Iterator[pa.Table]:
    """The rows with all cells as text; types are inferred later, from whole columns and by our own rules."""
    names = [str(j) for j in range(len(header.names))]
    convert = pyarrow.csv.ConvertOptions(
        check_utf8=False,
        column_types=dict.fromkeys(names, pa.string()),
        null_values=MISSING,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )

    def parse(block: bytes) -> pa.Table:
        options = pyarrow.csv.ParseOptions(
            delimiter=header.delimiter.decode(), newlines_in_values=b'"' in block, ignore_empty_lines=len(names) > 1
        )
        if block.startswith(codecs.BOM_UTF8):  # pyarrow drops one, and ours is gone: this one belongs to a cell
            block = codecs.BOM_UTF8 + block
        read = pyarrow.csv.ReadOptions(column_names=names, block_size=len(block) + 1)
        return pyarrow.csv.read_csv(pa.BufferReader(block), read, options, convert)

    for line, block in record_blocks(pieces, header.delimiter, where, header.end, header.line):
        try:
            yield parse(block)
        except pa.ArrowInvalid:
            try:  # to pyarrow a line with a space is not blank
                yield parse(without_blank_lines(block, header.delimiter) + b"\n")
            except pa.ArrowInvalid as error:
                _refuse_bad_record(block, line, header, where)
                raise InputError(
                    f"{where} cannot be read as a table ({one_line(error)}); check its delimiters and quotation marks."
                ) from error


def _refuse_bad_record(block: bytes, line: int, header: _Header, where: str) -> None:
    """Say which line has too few or too many cells, if one does."""
    for record in records(block, header.delimiter, line):
        if len(record.cells) != len(header.names):
            raise InputError(
                f"Line {record.line} of {where} has {len(record.cells)} cell(s), the header has {len(header.names)}; "
                f"make them equal, with quotation marks around cells that contain {header.delimiter.decode()!r}."
            )


def read_json_lines(data: bytes, where: str, as_text: Collection[str] = ()) -> pa.Table:
    """Read one flat object a line; ``where`` names the table in errors, the columns ``as_text`` stay text."""
    for number, line in _lines(data):
        # Only to pass pyarrow what is flat: it would crash the process on thousands of brackets within each other.
        if line.count(b"{") != 1 or b"[" in line or line[:1] != b"{" or line[-1:] != b"}":
            _parse_line(line, number, where)
    try:
        try:
            table = _parse_json(data)
            mixed = any(field.name in as_text and field.type not in (pa.string(), pa.null()) for field in table.schema)
        except pa.ArrowInvalid:
            mixed = True
        if mixed:
            table = _parse_mixed_json(data, where, as_text)
    except pa.ArrowInvalid as error:
        raise InputError(f"{where} cannot be read as JSON lines ({one_line(error)}); correct it.") from error
    if not table.num_columns:
        kind = InputError if any(_lines(data)) else EmptyFileError
        raise kind(f'{where} has no columns; give one JSON object per line, like {{"a": 1}}.')
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, column in columns.items():
        if column.type == pa.string() and name not in as_text:
            inference = TypeInference(TIMES)
            inference.look(column)
            columns[name] = inference.read(column)
    return pa.table(columns)


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(io.BytesIO(data), 1):
        if stripped := line.strip():
            yield number, stripped


def _parse_line(line: bytes, number: int, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise InputError(f'Line {number} of {where} is not a JSON object; give one per line, like {{"a": 1}}.')
    for name, value in row.items():
        if isinstance(value, dict | list):
            raise InputError(
                f"Line {number} of {where} has a list or an object in column {_shown(name)}; give each of its values a "
                "column of its own."
            )
    return row


def _parse_json(data: bytes, as_text: Collection[str] = (), block_bytes: int = BLOCK_BYTES) -> pa.Table:
    types = pyarrow.json.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in as_text]))
    options = pyarrow.json.ReadOptions(block_size=block_bytes)
    try:
        return pyarrow.json.read_json(pa.BufferReader(data), options, types)
    except pa.ArrowInvalid as error:
        if "straddling" not in str(error) or block_bytes > BLOCK_BYTES:
            raise
        return _parse_json(data, as_text, min(len(data) + 1, _LARGEST_BLOCK))  # a row that is larger than a block


def _parse_mixed_json(data: bytes, where: str, as_text: Collection[str]) -> pa.Table:
    """The table with text in the given columns and in those that hold several types, which pyarrow refuses."""
    rows = [_parse_line(line, number, where) for number, line in _lines(data)]
    kinds: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            kinds.setdefault(name, set()).add(float if type(value) is int else type(value))
    mixed = [name for name, found in kinds.items() if name in as_text or len(found - {type(None)}) > 1]
    for row in rows:
        row |= {name: json.dumps(row[name]) for name in mixed if not isinstance(row.get(name), str | None)}
    return _parse_json(b"\n".join(json.dumps(row).encode() for row in rows), mixed).select(list(kinds))


def write_delimited(table: pa.Table, sink: BinaryIO, delimiter: str) -> None:
    """Write a header and rows; no text begins like a formula."""
    options = pyarrow.csv.WriteOptions(delimiter=delimiter)
    parts = _parts(table, lambda column: _guarded(column) if _is_text(column.type) else column)
    names = _guarded(pa.array(table.column_names)).to_pylist()
    for number, part in enumerate(parts):
        options.include_header = number == 0
        pyarrow.csv.write_csv(part.rename_columns(names), sink, options)


def _guarded(texts: Any) -> Any:
    """Texts with an apostrophe before what a spreadsheet would run as a formula."""
    return pc.replace_substring_regex(texts, _FORMULA, r"'\1")


def write_json_lines(table: pa.Table, sink: BinaryIO) -> None:
    """Write one object a row."""
    names = [json.dumps(name, ensure_ascii=False) for name in table.column_names]
    keys = [f"{comma}{name}: " for comma, name in zip(["{"] + [", "] * (len(names) - 1), names, strict=True)]
    for part in _parts(table, _json_column):
        pieces = [piece for key, column in zip(keys, part.columns, strict=True) for piece in (key, column)]
        texts = [pa.scalar(x, pa.large_string()) if isinstance(x, str) else x for x in (*pieces, "}\n", "")]
        sink.write("".join(pc.binary_join_element_wise(*texts).to_pylist()).encode())


def _json_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The cells as JSON, column by column for speed."""
    if _is_text(column.type):
        encode = json.JSONEncoder(ensure_ascii=False).encode
        return pa.chunked_array([[encode(cell) for cell in column.to_pylist()]], pa.large_string())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    texts = (column.cast(pa.int64()) if pa.types.is_duration(column.type) else column).cast(pa.large_string())
    if pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
        texts = pc.replace_substring_regex(texts, r"^(.*)$", r'"\1"')
    return texts.fill_null("null")


def _parts(table: pa.Table, convert: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> Iterator[pa.Table]:
    """Slices of a flat table with converted columns, so that only a part of it is in memory twice."""
    require_plain_cells(table)
    for start in range(0, max(table.num_rows, 1), _ROWS_AT_ONCE):
        part = table.slice(start, _ROWS_AT_ONCE)
        yield pa.table([convert(_decoded(column)) for column in part.columns], table.column_names)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string()) if _is_text(column.type) else column


def require_plain_cells(table: pa.Table) -> None:
    """Refuse a table with lists or bytes, which no text file and no sheet can hold."""
    for field in table.schema:
        if not fits_text_file(field.type):
            held = f"Column {_shown(field.name)} holds {field.type}"
            raise InputError(f"{held}, which a text file cannot hold; write Parquet or Arrow.")


def fits_text_file(kind: pa.DataType) -> bool:
    """Whether a text file can hold cells of this type: no lists, no bytes."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return _is_text(kind) or pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _shown(text: str) -> str:
    """A cell or name in a message: short, and harmless to a terminal."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")


def one_line(error: BaseException) -> str:
    """The message of a library, for the middle of a sentence of ours."""
    return " ".join(str(error).split())[:200]
