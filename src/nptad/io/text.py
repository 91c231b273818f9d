"""Delimited text and JSON lines: from UTF-8 bytes to a pyarrow table and back."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from nptad.errors import InputError
from nptad.io.sniff import TextRecord, looks_like_data, records, sniff_delimiter
from nptad.tables.cells import MISSING, has_decimal_commas, infer_times, infer_type

BLOCK_BYTES, _LARGEST_BLOCK = 1 << 22, (1 << 31) - 1
_ROWS_AT_ONCE = 1 << 16
_SHOWN_CELLS, _SHOWN_CHARACTERS = 4, 40


class Header(NamedTuple):
    """What the beginning of a delimited text says about the rest."""

    delimiter: bytes
    names: list[str]
    unnamed: list[bool]
    """Which columns have no name of their own."""
    end: int
    """Where the first row begins, in bytes."""


def read_header(data: bytes, where: str, delimiter: bytes | None = None) -> Header:
    """The header line of a text, or of its beginning; a missing ``delimiter`` is sniffed."""
    data, told = _hide_excel_line(data)
    delimiter = told or delimiter or sniff_delimiter(data)
    header = next((record for record in records(data, delimiter) if not record.blank), None)
    if header is None:
        raise InputError(f"{where} is empty; give a file with column names and rows.")
    unnamed = [not cell.strip() for cell in header.cells]
    return Header(delimiter, _column_names(header, where), unnamed, header.end)


def _hide_excel_line(data: bytes) -> tuple[bytes, bytes | None]:
    """The text with a blank line for "sep=;", which Excel writes and hides, and the delimiter that it tells."""
    if excel := re.match(rb"sep=([,;\t|])\r?\n", data):
        return b" " * (excel.end() - 1) + b"\n" + data[excel.end() :], excel[1]
    return data, None


def read_delimited(data: bytes, where: str, as_text: Collection[str] = (), delimiter: bytes | None = None) -> pa.Table:
    """Read a table with a header line.

    ``where`` names it in errors, the columns ``as_text`` stay text, a missing ``delimiter`` is sniffed.
    """
    header = read_header(data, where, delimiter)
    data, _ = _hide_excel_line(data)
    if data.count(b'"') % 2:  # pyarrow would take the rest of the file for one cell
        _refuse_bad_record(data, header.delimiter, where)
    columns = _parse_cells(data, header, where)
    of_values = [j for j, name in enumerate(header.names) if name not in as_text]
    decimal_comma = has_decimal_commas([columns[j] for j in of_values], header.delimiter)
    for j in of_values:  # one by one in place: the text of a column is not needed any more
        columns[j] = infer_type(columns[j], decimal_comma)
    n_columns = count_columns(header, [column.null_count == len(column) for column in columns])
    return pa.table(columns[:n_columns], header.names[:n_columns])


def count_columns(header: Header, empty: list[bool]) -> int:
    """The columns that are some: lines may end with delimiters, which makes columns without names and cells."""
    n_columns = len(header.names)
    while n_columns > 1 and header.unnamed[n_columns - 1] and empty[n_columns - 1]:
        n_columns -= 1
    return n_columns


def _column_names(header: TextRecord, where: str) -> list[str]:
    names = [cell.strip() for cell in header.cells]
    if any("\0" in name for name in names):
        raise InputError(f"{where} is not a text file, or UTF-16 without byte order mark; save the table as UTF-8 CSV.")
    if looks_like_data(names):
        shown = [_shown(name) for name in names[:_SHOWN_CELLS]] + ["..."] * (len(names) > _SHOWN_CELLS)
        raise InputError(
            f"Line {header.line} of {where} looks like data, not like column names ({', '.join(shown)}); put "
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


def text_options(header: Header, newlines_in_values: bool) -> dict[str, Any]:
    """How pyarrow is to read the rows: all cells as text, in columns called "0", "1" and so on.

    Types are inferred later, from whole columns and by our own rules.
    """
    n_columns = len(header.names)
    names = [str(j) for j in range(n_columns)]
    parse = pyarrow.csv.ParseOptions(
        delimiter=header.delimiter.decode(),
        newlines_in_values=newlines_in_values,
        ignore_empty_lines=n_columns > 1,
        invalid_row_handler=lambda row: "error" if row.text.strip() else "skip",
    )
    convert = pyarrow.csv.ConvertOptions(
        check_utf8=False,
        column_types=dict.fromkeys(names, pa.string()),
        null_values=MISSING,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    read = pyarrow.csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES)
    return {"read_options": read, "parse_options": parse, "convert_options": convert}


def _parse_cells(data: bytes, header: Header, where: str) -> list[pa.ChunkedArray]:
    n_columns = len(header.names)
    if not re.compile(rb"[^\r\n]" if n_columns > 1 else rb"[\s\S]").search(data, header.end):
        return [pa.chunked_array([], pa.string())] * n_columns
    options = text_options(header, newlines_in_values=b'"' in data)
    body = pa.py_buffer(data).slice(header.end)

    def read(block_size: int) -> pa.Table:
        options["read_options"].block_size = block_size
        return pyarrow.csv.read_csv(pa.BufferReader(body), **options)

    try:
        return list(_in_blocks(read, len(data)).columns)
    except pa.ArrowInvalid as error:
        _refuse_bad_record(data, header.delimiter, where)
        raise InputError(bad_text(where, error)) from error


def bad_text(where: str, error: Exception) -> str:
    """What to say of a text that pyarrow cannot split into cells."""
    return f"{where} cannot be read as a table ({one_line(error)}); check its delimiters and quotation marks."


def _refuse_bad_record(data: bytes, delimiter: bytes, where: str) -> None:
    """Say which line keeps the text from being a table, if one does."""
    n_columns = 0
    for record in records(data, delimiter):
        if not record.closed:
            raise InputError(f"Line {record.line} of {where} opens a quotation mark that is never closed; close it.")
        if record.blank:
            continue
        n_columns = n_columns or len(record.cells)
        if len(record.cells) != n_columns:
            raise InputError(
                f"Line {record.line} of {where} has {len(record.cells)} cell(s), the header has {n_columns}; make them "
                f"equal, with quotation marks around cells that contain {delimiter.decode()!r}."
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
        raise InputError(f'{where} has no columns; give one JSON object per line, like {{"a": 1}}.')
    columns = {
        name: infer_times(column) if column.type == pa.string() and name not in as_text else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
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


def _parse_json(data: bytes, as_text: Collection[str] = ()) -> pa.Table:
    types = pyarrow.json.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in as_text]))

    def read(block_size: int) -> pa.Table:
        options = pyarrow.json.ReadOptions(block_size=block_size)
        return pyarrow.json.read_json(pa.BufferReader(data), options, types)

    return _in_blocks(read, len(data))


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


def _in_blocks(read: Callable[[int], pa.Table], n_bytes: int) -> pa.Table:
    """Read in blocks of a few MB, or in one block if a single row is larger than that."""
    try:
        return read(BLOCK_BYTES)
    except pa.ArrowInvalid as error:
        if "straddling" not in str(error):
            raise
        return read(min(n_bytes + 1, _LARGEST_BLOCK))


def write_delimited(table: pa.Table, sink: BinaryIO, delimiter: str) -> None:
    """Write a header and rows; no text begins like a formula."""
    options = pyarrow.csv.WriteOptions(delimiter=delimiter)
    parts = _parts(table, _csv_column)
    names = _guarded(pa.array(table.column_names)).to_pylist()
    for number, part in enumerate(parts):
        options.include_header = number == 0
        pyarrow.csv.write_csv(part.rename_columns(names), sink, options)


def _csv_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return _guarded(column) if _is_text(column.type) else column


def _guarded(texts: Any) -> Any:
    """Texts with an apostrophe before what a spreadsheet would run as a formula."""
    return pc.replace_substring_regex(texts, r"^([=+\-@\t\r\n])", r"'\1")


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
    for field in table.schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not (_is_text(kind) or pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
            raise InputError(
                f"Column {_shown(field.name)} holds {kind}, which a text file cannot hold; write Parquet or Arrow."
            )
    for start in range(0, max(table.num_rows, 1), _ROWS_AT_ONCE):
        part = table.slice(start, _ROWS_AT_ONCE)
        yield pa.table([convert(_decoded(column)) for column in part.columns], table.column_names)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string()) if _is_text(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _shown(text: str) -> str:
    """A cell or name in a message: short, and harmless to a terminal."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")


def one_line(error: Exception) -> str:
    """The message of a library, for the middle of a sentence of ours."""
    return " ".join(str(error).split())[:200]
