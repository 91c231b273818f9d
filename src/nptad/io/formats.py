"""The table formats that we read and write, by suffix and by first bytes; imports no reader."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from nptad.errors import EmptyFileError, InputError
from nptad.io.places import WRITABLE, Place, is_stream, is_url, name_of, path_part, table_of

SUFFIXES = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""Format by suffix; the suffix of a text format may be followed by .gz."""

FORMATS = ("csv", "tsv", "json", "jsonl", "xlsx", "parquet", "arrow")
BINARY_FORMATS = ("xlsx", "parquet", "arrow")
PACKED_SUFFIX, ARCHIVE_SUFFIX = ".gz", ".zip"
ARCHIVE = "zip"
"""Stands for the format of an archive until the name of the file in it says that."""

GZIP, ZIP, ARROW_STREAM = b"\x1f\x8b", b"PK\x03\x04", b"\xff\xff\xff\xff"
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", ARROW_STREAM: "arrow"}

_OTHER_WORKBOOKS = (".xlsb", ".xls", ".ods", ".numbers")
_OLD_WORKBOOK = b"\xd0\xcf\x11\xe0"


def format_of(path: Place) -> str:
    """The format that the suffix of a path says.

    >>> format_of("Table.TXT"), format_of("scores.tsv.gz"), format_of("orders.zip")
    ('csv', 'tsv', 'zip')
    """
    name = path_part(path).lower()
    if name.endswith(ARCHIVE_SUFFIX):
        return ARCHIVE
    unpacked = name.removesuffix(PACKED_SUFFIX)
    format = SUFFIXES.get(Path(unpacked).suffix)
    if format is not None and (unpacked == name or format not in BINARY_FORMATS):
        return format
    if name.endswith(_OTHER_WORKBOOKS):
        raise InputError(f"{name_of(path)} is a workbook of another kind by its suffix; save it as .xlsx or CSV.")
    raise InputError(
        f"{name_of(path)} has no suffix that says its format; use one of {', '.join(SUFFIXES)} (text also with .gz)."
    )


def without_notes(names: Sequence[str]) -> list[str]:
    """The table files of a folder or an archive: a README.txt beside other tables is none.

    >>> without_notes(["a.csv", "README.txt"]), without_notes(["a.txt", "b.txt.gz"])
    (['a.csv'], ['a.txt', 'b.txt.gz'])
    """
    others = [name for name in names if not name.lower().removesuffix(PACKED_SUFFIX).endswith(".txt")]
    return others or list(names)


def output_format(target: str | PathLike[str]) -> str:
    """The format, or the kind of data base, in which :func:`nptad.io.write.write_table` would write to a place.

    >>> output_format("scores.csv.gz"), output_format("-"), output_format("duckdb:orders.db#scores")
    ('csv', 'csv', 'duckdb')
    """
    if str(target) == "-":
        return "csv"
    stored = table_of(target)
    if stored is not None:
        return stored.engine
    if is_url(str(target)) and not str(target).startswith(WRITABLE):
        raise InputError(f"{name_of(target)} cannot be written to; name a file, or one at s3:// or gs://.")
    format = format_of(target)
    if format == ARCHIVE:
        raise InputError(f"{name_of(target)} would be a zip archive, which is only read; use .csv.gz, for instance.")
    return format


def format_in(beginning: bytes, format: str | None, where: str) -> str | None:
    """The binary format that the first bytes of a file show, if any; an error if it is not the expected one."""
    if not beginning:
        raise EmptyFileError(f"{where} is empty; give a file with column names and rows.")
    if beginning.startswith(_OLD_WORKBOOK):
        raise InputError(f"{where} is a workbook of an old Excel or with a password; save it as .xlsx without one.")
    if beginning.startswith(ZIP) and format != "xlsx":
        raise InputError(f"{where} is an Excel workbook or a zip archive, not {format}; rename it.")
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
    if format not in (*FORMATS, ARCHIVE):
        raise InputError(f"format must be one of {', '.join(FORMATS)}, got {format!r}.")
    return format
