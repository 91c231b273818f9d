"""JSON arrays of objects, as web services return them: read and written by way of JSON lines."""

from __future__ import annotations

import io
import json
from typing import BinaryIO

import pyarrow as pa

from nptad.errors import EmptyFileError, InputError
from nptad.io.text import write_json_lines


def lines_of_array(data: bytes, where: str) -> bytes:
    r"""The objects of an array in UTF-8, one a line; content that begins otherwise is JSON lines and stays as it is.

    >>> lines_of_array(b'[{"a": 1}, {"a": NaN}]', "x.json")
    b'{"a": 1}\n{"a": null}'
    """
    if data.lstrip()[:1] != b"[":
        return data
    try:
        rows = json.loads(data, parse_constant=lambda _: None)  # NaN and Infinity are not JSON, but common
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} cannot be read as JSON ({error}); it is truncated or damaged.") from error
    if not any(rows):
        kind = InputError if rows else EmptyFileError
        raise kind(f'{where} has no columns; give an array of objects like [{{"a": 1}}].')
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f'Element {number} of {where} is not a JSON object; give an array like [{{"a": 1}}].')
        nested = next((name for name, value in row.items() if isinstance(value, dict | list)), None)
        if nested is not None:
            raise InputError(
                f"Element {number} of {where} has a list or an object in column {nested[:40]!r}; give each of its "
                "values a column of its own."
            )
    return b"\n".join(json.dumps(row).encode() for row in rows)


def write_json_array(table: pa.Table, sink: BinaryIO) -> None:
    """Write one array with an object a row."""
    lines = io.BytesIO()
    write_json_lines(table, lines)
    sink.write(b"[" + b",\n".join(lines.getvalue().splitlines()) + b"]\n")
