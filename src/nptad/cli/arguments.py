"""What commands make of their arguments: names and numbers in them, and what is refused before any work is done."""

from __future__ import annotations

import os
from collections.abc import Collection
from glob import has_magic
from os import PathLike
from pathlib import Path

from nptad.errors import InputError
from nptad.io.atomic import require_writable_parent

_SHOWN_NAMES = 20


def require_known(option: str, names: Collection[str], existing: Collection[str]) -> None:
    """Refuse names that no column has."""
    unknown = next((name for name in names if name not in existing), None)
    if unknown is not None:
        shown = ", ".join(list(existing)[:_SHOWN_NAMES])
        raise InputError(f"{option} names {unknown!r}, which is no column to look at; these are {shown}.")


def row_numbers(text: str, n_rows: int) -> list[int]:
    """The rows in a list of numbers and ranges, counted from 0.

    Examples
    --------
    >>> row_numbers("3,5-7", 10)
    [3, 5, 6, 7]
    """
    rows: list[int] = []
    for part in filter(None, map(str.strip, text.split(","))):
        first, dash, last = part.partition("-")
        is_range = first.isdecimal() and (last.isdecimal() if dash else not last) and int(first) <= int(last or first)
        if not is_range:
            raise InputError(f"--rows {text!r} is not a list of row numbers such as 3,17 or 5-9.")
        if int(last or first) >= n_rows:
            count = f"{n_rows:,} row{'s' if n_rows != 1 else ''}"
            raise InputError(f"There is no row {int(last or first)}: the table has {count}, counted from 0.")
        rows += range(int(first), int(last or first) + 1)
    if not rows:
        raise InputError("--rows names no row; give row numbers such as 3,17 or 5-9.")
    return rows


def check_places(*places: str | PathLike[str] | None) -> None:
    """Refuse files that cannot be written; now, not after minutes of training."""
    for place in places:
        if place is None or str(place) == "-":
            continue
        path = Path(place)
        if path.is_dir():
            raise InputError(f"{place} cannot be written: it is a directory; name a file.")
        if not path.exists() or path.is_file():  # which is replaced, so that its folder matters
            require_writable_parent(path.resolve())
        elif not os.access(path, os.W_OK):
            raise InputError(f"{place} cannot be written: you may not write to it.")


def writes_parts(output: str) -> bool:
    """True if the output of ``nptad score`` is a directory of parts."""
    return output.endswith("/") or Path(output).is_dir()


def refuse_mixture(
    data: str, output: str, fdr: float | None, label: str | None, jobs: int | None, engine: str, json: bool
) -> None:
    """Refuse options of ``nptad score`` that do not go together."""
    if writes_parts(output):
        if fdr is not None:
            raise InputError(
                "A false discovery rate needs the p-values of all rows, so that it cannot be held part by part; give "
                "a --false-alarm-rate, or apply --fdr to the finished p-values as docs/scaling.md shows."
            )
        if label is not None:
            raise InputError("--label needs all rows at once; carry the column along with --ignore instead.")
        if data == "-":
            raise InputError("Standard input cannot be scored in parts; name files, or an output file.")
        return
    if output != "-" and not Path(output).suffix:
        raise InputError(f"{output} has no suffix that says its format, such as .csv; for a directory write {output}/.")
    if has_magic(data) and not Path(data).exists():
        raise InputError(f"{data} stands for several files, whose scores need a directory: --output scores/.")
    if jobs is not None or engine != "local":
        raise InputError("--jobs and --engine are for a directory as output, such as --output scores/.")
    refuse_two_results(output, json)


def refuse_two_results(output: str | None, json: bool) -> None:
    """Refuse a table and a summary that would both go to standard output."""
    if json and output == "-":
        raise InputError("--json and the scores would both go to standard output; name a file with --output.")
