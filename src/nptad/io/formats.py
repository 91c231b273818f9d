"""The table formats that we read and write, by suffix and by first bytes; imports no reader."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import BinaryIO

from nptad.errors import InputError

SUFFIXES = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""Format by suffix; the suffix of a text format may be followed by .gz."""

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow")
BINARY_FORMATS = ("parquet", "arrow")
PACKED_SUFFIX = ".gz"

GZIP, ARROW_STREAM = b"\x1f\x8b", b"\xff\xff\xff\xff"
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", ARROW_STREAM: "arrow"}

_WORKBOOK_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
_WORKBOOK_MAGIC = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")

Place = str | PathLike[str] | BinaryIO
"""A path, "-" for standard input or output, or an open binary file."""


def format_of(path: Place) -> str:
    """The format that the suffix of a path says.

    >>> format_of("Table.TXT"), format_of("scores.tsv.gz")
    ('csv', 'tsv')
    """
    name = str(path).lower()
    unpacked = name.removesuffix(PACKED_SUFFIX)
    format = SUFFIXES.get(Path(unpacked).suffix)
    if format is not None and (unpacked == name or format not in BINARY_FORMATS):
        return format
    if name.endswith(_WORKBOOK_SUFFIXES):
        raise InputError(f"{path} is a workbook by its suffix; save the sheet as CSV or Parquet, and name that file.")
    raise InputError(
        f"{path} has no suffix that says its format; use one of {', '.join(SUFFIXES)} (text also with .gz)."
    )


def output_format(target: str | PathLike[str]) -> str:
    """The format in which :func:`nptad.io.write.write_table` would write to a path or "-".

    >>> output_format("scores.csv.gz"), output_format("-")
    ('csv', 'csv')
    """
    return "csv" if str(target) == "-" else format_of(target)


def format_in(beginning: bytes, format: str | None, where: str) -> str | None:
    """The binary format that the first bytes of a file show, if any; an error if it is not the expected one."""
    if not beginning:
        raise InputError(f"{where} is empty; give a file with column names and rows.")
    if beginning.startswith(_WORKBOOK_MAGIC):
        raise InputError(f"{where} is an Excel workbook or a zip archive; save the sheet as CSV.")
    if beginning.startswith(GZIP):  # one layer is removed before, around text
        raise InputError(f"{where} is gzipped, which only text may be, and only once; unpack it.")
    found = next((name for magic, name in _MAGIC.items() if beginning.startswith(magic)), None)
    if found is not None and format not in (None, found):
        raise InputError(f"{where} holds {found} data, not {format}; rename it.")
    return found


def format_for(place: Place, format: str | None) -> str | None:
    """The given format if it is a known one; without one what the suffix of a path says, and None for a stream."""
    if format is None:
        return None if is_stream(place) else format_of(place)
    if format not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}, got {format!r}.")
    return format


def is_stream(place: Place) -> bool:
    """True for standard input or output and for an open file."""
    return not isinstance(place, str | PathLike) or str(place) == "-"


def name_of(place: Place, standard: str) -> str:
    """What a message calls the place."""
    if isinstance(place, str | PathLike):
        return standard if is_stream(place) else str(place)
    name = getattr(place, "name", None)
    return name if isinstance(name, str) else "the table"
