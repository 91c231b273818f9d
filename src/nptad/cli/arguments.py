"""The arguments of commands: parsing names and numbers, and refusing mistakes before any work is done."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from nptad.errors import InputError
from nptad.io.atomic import followed, require_writable_parent
from nptad.io.places import is_url, name_of, query_of, table_of
from nptad.io.remote import require_remote_room
from nptad.io.sql_results import require_table_room
from nptad.wording import plural

if TYPE_CHECKING:
    from nptad.tables.schema import Use


def row_numbers(text: str, n_rows: int, option: str = "--rows") -> list[int]:
    """The positions of the rows in a list of numbers and ranges, which count from 1; messages name the ``option``.

    >>> row_numbers("3,5-7", 10)
    [2, 4, 5, 6]
    """
    rows: list[int] = []
    for part in filter(None, map(str.strip, text.split(","))):
        found = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if first > last:
            raise InputError(f"{option} {text!r} is not a list of row numbers such as 3,17 or 5-9.")
        if not 1 <= first <= last <= n_rows:
            none = last if last > n_rows else first
            raise InputError(f"There is no row {none}: the table has {plural(n_rows, 'row')}, counted from 1.")
        rows += range(first - 1, last)
    if not rows:
        raise InputError(f"{option} is empty; give row numbers such as 3,17 or 5-9.")
    return rows


def column_uses(pairs: Sequence[str], names: Sequence[str]) -> dict[str | int, Use]:
    """The chosen use of columns, from ``name=use``.

    >>> column_uses(["price=number", "a=b=category"], ["price", "a=b"])
    {'price': 'number', 'a=b': 'category'}
    """
    from nptad.tables.schema import Use  # which `nptad --help` does not need
    from nptad.tables.selection import require_columns

    uses: dict[str | int, Use] = {}
    for pair in pairs:
        name, _, use = pair.rpartition("=")
        known = next((known for known in get_args(Use) if known == use), None)
        if known is None:
            raise InputError(f"--as {pair!r} is no use of a column; write name=number, name=category or name=ignore.")
        require_columns([name], names, "--as: ")
        uses[name] = known
    return uses


def check_places(*places: str | PathLike[str] | None) -> None:
    """Refuse outputs that cannot be written, before minutes of training."""
    for place in places:
        if place is None or str(place) == "-":
            continue
        if is_url(place):
            require_remote_room(str(place))
            continue
        stored = table_of(place)
        if stored is not None:
            require_table_room(stored, name_of(place))
            continue
        path = Path(place)
        if path.is_dir():
            raise InputError(f"{place} cannot be written: it is a directory; give a file name.")
        if not path.exists() or path.is_file():  # a file is replaced, so its directory must be writable
            require_writable_parent(followed(path))
        elif not os.access(path, os.W_OK):
            raise InputError(f"{place} cannot be written: Permission denied.")


def writes_parts(output: str) -> bool:
    """Whether the output of ``nptad score`` is a directory of parts."""
    return table_of(output) is None and ((output.endswith("/") and not is_url(output)) or Path(output).is_dir())


def refuse_mixture(
    data: str,
    output: str,
    report: Path | None,
    sheet: str | None,
    fdr: float | None,
    label: str | None,
    jobs: int | None,
    engine: str,
    json: bool,
) -> None:
    """Refuse options of ``nptad score`` that cannot be combined."""
    if writes_parts(output):
        if fdr is not None:
            raise InputError(
                "--fdr needs the p-values of all rows at once, and a directory is written part by part; use "
                "--false-alarm-rate, or apply a false discovery rate to the p-values afterwards (docs/scaling.md)."
            )
        if label is not None:
            raise InputError(
                "--label needs all rows at once, not a directory of parts; use --ignore to keep the column."
            )
        if report is not None:
            raise InputError("--report needs all rows at once, not a directory of parts; give an output file.")
        if data == "-" or is_url(data) or query_of(data) is not None or sheet is not None:
            raise InputError("Only files of this machine can be scored in parts, no workbooks; give an output file.")
        return
    if output != "-" and table_of(output) is None and not Path(output).suffix:
        raise InputError(f"{output} has no suffix such as .csv; for a directory write {output}/.")
    if jobs is not None or engine != "local":
        raise InputError("--jobs and --engine need a directory as output, such as --output scores/.")
    refuse_two_results(output, json)


def refuse_with_stream(data: str, output: str, refused: dict[str, object]) -> None:
    """Refuse what a stream cannot have: files, and options (by their names) that need all rows at once."""
    if (data, output) != ("-", "-"):
        raise InputError("--stream reads JSON lines from standard input and writes to standard output; give - as data.")
    given = [name for name, value in refused.items() if value]
    if given:
        raise InputError(f"{given[0]} is not for --stream, whose rows are judged one by one.")


def refuse_two_results(output: str | None, json: bool) -> None:
    """Refuse to write both a table and a summary to standard output."""
    if json and output == "-":
        raise InputError("--json and the scores would both go to standard output; give a file with --output.")
