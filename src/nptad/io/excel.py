"""Excel workbooks (.xlsx): one sheet becomes a table, a table becomes one sheet.

openpyxl reads and writes them. python-calamine reads several times as fast, but it makes room for the whole rectangle
that the cells of a sheet span: a small file with a cell in the last corner ends the process, without an error that
could be explained. defusedxml refuses XML entities, of which a small file could make gigabytes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa

from nptad.errors import EmptyFileError, InputError
from nptad.io.extras import import_extra
from nptad.io.packed import archive_of
from nptad.io.text import header_names, one_line, require_plain_cells
from nptad.tables.cells import MISSING, VALUES_WITH_COMMAS, TypeInference

_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1 << 14  # of a sheet
_MOST_CELLS = 1 << 24
"""Cells that a sheet may span: one cell far to the right makes each row as wide."""

_ROWS_AT_ONCE = 1 << 12
_EXACT_DIGITS = 15  # more digits of a number Excel replaces by zeros
_FIRST_YEAR = 1900

_ERRORS = ("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#SPILL!", "#CALC!", "#GETTING_DATA")
_MISSING = frozenset((*MISSING, *_ERRORS))


def read_workbook(data: bytes, where: str, as_text: Collection[str], sheet: str | None, limit: int) -> pa.Table:
    """Read a sheet of a workbook, by default the first that is not hidden.

    Cells keep their types. A column whose cells are not all numbers, truth values, dates, times or durations is read
    as if it stood in a CSV file. Empty cells and errors such as #N/A are missing; of a formula, Excel's last result
    counts. Blank rows are skipped.
    """
    openpyxl = _openpyxl()
    with archive_of(data, where, limit) as archive, _damage_explained(where):
        workbook = openpyxl.load_workbook(archive.fp, read_only=True, data_only=True, keep_links=False)
        found = _sheet_of(workbook, sheet, where)
        place = f"{where} (sheet {found.title!r})"
        rows = _rows(found, place)
    if not rows:
        raise EmptyFileError(f"{place} is empty; give one with column names and rows.")
    return _table(rows, place, as_text)


def _openpyxl() -> Any:
    import_extra("defusedxml", "excel", "An Excel workbook")  # before openpyxl, which uses it if it is there
    return import_extra("openpyxl", "excel", "An Excel workbook")


@contextmanager
def _damage_explained(where: str) -> Iterator[None]:
    """Turn any failure of openpyxl into an InputError; on a damaged file it raises errors of all kinds."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and other parts that are not read
            yield
    except InputError:
        raise
    except Exception as error:
        cause = error.__cause__ or error.__context__ or error  # openpyxl tells its own part of the story first
        reason = one_line(cause) or type(cause).__name__
        raise InputError(
            f"{where} cannot be read as an Excel workbook ({reason}); it is damaged or another file."
        ) from error


def _sheet_of(workbook: Any, name: str | None, where: str) -> Any:
    sheets = {sheet.title: sheet for sheet in workbook.worksheets}
    if name is None:
        visible = [sheet for sheet in sheets.values() if sheet.sheet_state == "visible"]
        if not visible:
            raise InputError(f"{where} has no sheet that is not hidden; name one with --sheet.")
        return visible[0]
    if name not in sheets:
        raise InputError(f"{where} has no sheet {name!r}; it has {', '.join(map(repr, list(sheets)[:20]))}.")
    return sheets[name]


def _rows(sheet: Any, place: str) -> list[tuple[int, tuple[Any, ...]]]:
    """The rows that are not blank, with their numbers in Excel."""
    sheet.reset_dimensions()  # which some programs write wrongly
    rows, width = [], 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        if number > _MOST_ROWS:
            raise InputError(f"{place} has a row beyond the last of Excel; the file is damaged.")
        if any(cell is not None for cell in row):
            rows.append((number, row))
            width = max(width, len(row))
            if len(rows) * width > _MOST_CELLS:
                raise InputError(f"{place} spans more than {_MOST_CELLS / 1e6:.0f} million cells; save it as CSV.")
    return rows


def _table(rows: list[tuple[int, tuple[Any, ...]]], place: str, as_text: Collection[str]) -> pa.Table:
    line, header = rows[0]
    width = max(len(row) for _, row in rows)
    header = header + (None,) * (width - len(header))
    columns = [[row[j] if j < len(row) else None for _, row in rows[1:]] for j in range(width)]
    used = [j for j in range(width) if header[j] is not None or any(cell is not None for cell in columns[j])]
    named = sum(header[j] is not None for j in used)
    if 2 * named < len(used):
        raise InputError(
            f"Row {line} of {place} has a name for {named} of {len(used)} columns; delete what is above the names."
        )
    names = header_names(["" if header[j] is None else _as_text(header[j]) for j in used], f"Row {line}", place)
    read = [_Column(columns[j], name in as_text) for j, name in zip(used, names, strict=True)]
    decimal_commas = any(column.has_decimal_commas() for column in read)
    return pa.table([column.values(decimal_commas) for column in read], names)


class _Column:
    """The cells of a column, which become values when all columns have been looked at."""

    def __init__(self, cells: list[Any], as_text: bool) -> None:
        self._cells = cells = [None if isinstance(cell, str) and cell in _MISSING else cell for cell in cells]
        self._kind = None if as_text else _kind_of(cells)
        self._inference = TypeInference(() if as_text else VALUES_WITH_COMMAS)
        if self._kind is None:
            texts = [None if cell is None else _as_text(cell) for cell in cells]
            self._texts = pa.chunked_array([pa.array(texts, pa.string())])
            self._inference.look(self._texts)

    def has_decimal_commas(self) -> bool:
        return self._kind is None and self._inference.has_decimal_commas(b"\t")

    def values(self, decimal_commas: bool) -> pa.ChunkedArray:
        if self._kind is None:
            return self._inference.read(self._texts, decimal_commas)
        return pa.chunked_array([pa.array(self._cells, self._kind)])


def _kind_of(cells: list[Any]) -> pa.DataType | None:
    """The type of cells that are all of one kind; None if they are to be read as text is."""
    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds and kinds <= {int, float}:
        whole = all(cell is None or (float(cell).is_integer() and abs(cell) < 2**53) for cell in cells)
        return pa.int64() if whole else pa.float64()
    if kinds == {datetime}:
        days = all(cell is None or cell.time() == time() for cell in cells)
        return pa.date32() if days else pa.timestamp("us")
    others = {bool: pa.bool_(), time: pa.time64("us"), timedelta: pa.duration("us")}
    return others.get(kinds.pop()) if len(kinds) == 1 else None


def _as_text(cell: Any) -> str:
    """A cell as it would stand in a CSV file."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime):
        return str(cell.date() if cell.time() == time() else cell)
    return str(cell).strip() if isinstance(cell, str) else str(cell)


def write_workbook(table: pa.Table, sink: BinaryIO) -> None:
    """Write one sheet. What Excel cannot hold exactly becomes text: long whole numbers, zones, times before 1900."""
    openpyxl = _openpyxl()
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    require_plain_cells(table)
    if table.num_rows >= _MOST_ROWS or table.num_columns > _MOST_COLUMNS:
        raise InputError(
            f"A sheet of Excel has {_MOST_ROWS:,} rows and {_MOST_COLUMNS:,} columns at most; write CSV or Parquet."
        )
    workbook = openpyxl.Workbook(write_only=True)
    sheet = workbook.create_sheet("nptad")

    def written(value: Any) -> Any:
        value = _for_excel(value)
        if not isinstance(value, str):
            return value
        cell = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("\ufffd", value))
        cell.data_type = "s"  # not a formula, whatever it begins with
        return cell

    try:
        sheet.append([written(name) for name in table.column_names])
        for start in range(0, table.num_rows, _ROWS_AT_ONCE):
            part = table.slice(start, _ROWS_AT_ONCE)
            for row in zip(*(_microseconds(column).to_pylist() for column in part.columns), strict=True):
                sheet.append([written(value) for value in row])
    finally:
        sheet.close()  # it would otherwise write on when it is collected as garbage
    whole = io.BytesIO()  # so would an archive around a sink that is full
    workbook.save(whole)
    sink.write(whole.getbuffer())


def _microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times without the nanoseconds that Python does not know."""
    kind = column.type
    if getattr(kind, "unit", None) != "ns":
        return column
    kinds = {"timestamp": lambda: pa.timestamp("us", kind.tz), "duration": lambda: pa.duration("us")}
    return column.cast(kinds.get(str(kind).partition("[")[0], lambda: pa.time64("us"))(), safe=False)


def _for_excel(value: Any) -> Any:
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None if value != value else str(value)
    if isinstance(value, int):
        return value if abs(value) < 10**_EXACT_DIGITS else str(value)
    if isinstance(value, date) and (value.year < _FIRST_YEAR or getattr(value, "tzinfo", None) is not None):
        return str(value)
    return value
