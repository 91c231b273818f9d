"""The table formats that we read and write, by suffix. Needs no reader: pages and arguments only look at names."""

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
"""Format by suffix; that of a text format may be followed by .gz."""

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow")

BINARY_FORMATS = ("parquet", "arrow")

_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")


def unknown_suffix(name: str) -> str:
    """What to say of a file whose suffix says no format that we read and write."""
    if name.lower().endswith(_WORKBOOKS):
        return f"{name} is a workbook by its suffix; save the sheet as CSV or Parquet, and name that file."
    return f"{name} has no suffix that says its format; use one of {', '.join(SUFFIXES)} (text also with .gz)."


Place = str | PathLike[str] | BinaryIO
"""A path, "-" for standard input or output, or an open binary file."""


PACKED_SUFFIX = ".gz"


def output_format(target: str | PathLike[str]) -> str:
    """The format in which :func:`write_table` would write to a path or "-"; an error if the suffix says none.

    Examples
    --------
    >>> output_format("scores.csv.gz"), output_format("-")
    ('csv', 'csv')
    """
    return "csv" if is_stream(target) else format_of(target)


def format_of(path: Place) -> str:
    """The format that the suffix of a path says."""
    suffixes = [suffix.lower() for suffix in Path(str(path)).suffixes]
    packed = suffixes[-1:] == [PACKED_SUFFIX]
    format = SUFFIXES.get("".join(suffixes[-2:-1] if packed else suffixes[-1:]))
    if format is None or (packed and format in BINARY_FORMATS):
        raise InputError(unknown_suffix(str(path)))
    return format


def check_format(format: str | None) -> str | None:
    """Refuse a format that we do not know."""
    if format is not None and format not in FORMATS:
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
