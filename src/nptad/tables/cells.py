"""What cells of text can be read as: numbers, truth values, times; and the type of a column of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "Null", "null", "None", "?")
"""Spellings of a missing cell; "-" and "." are two more in a column of numbers, truth values or times."""


_MISSING_AMONG_VALUES = (*MISSING, "-", ".")


_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"


# "0.123" is no group of thousands.
COMMA_NUMBER = r"^[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?$"


_MAYBE_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"


_PADDED = r"^0\d+$"


_HEXADECIMAL = r"^0[xX]"


_TRUTH = r"^(?i:true|false)$"


TIME_STAMP = r"^\d{4}-\d{2}-\d{2}"


_TIME_OF_DAY = r"^\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?$"


_TIME_TYPES = (pa.date32(), *(pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("s", "us", "ns")))


class Reading(NamedTuple):
    """A way to read cells of text as values."""

    prepare: Callable[[pa.ChunkedArray], pa.ChunkedArray | None]
    """The cells in a form that can be cast, or None if they are of another kind."""
    types: tuple[pa.DataType, ...]
    """Of these, the values have the first that fits all cells."""


Readings = dict[str, Reading]
"""Ways to read a column, by the pattern of its first cell."""


def has_decimal_commas(columns: Sequence[pa.ChunkedArray], delimiter: bytes) -> bool:
    """True if a column of text cells is one of numbers like 1,5 or 1.234,5.

    "1,234" alone could be a thousand: it counts only if semicolons delimit, as where commas are decimal.
    """
    if delimiter == b",":
        return False
    for column in columns:
        if re.match(COMMA_NUMBER, _first(column)):
            cells = _bare(column)
            with_comma = cells.filter(pc.match_substring(cells, ","))
            certain = delimiter == b";" or not _all(with_comma, _MAYBE_THOUSANDS)
            if len(with_comma) and certain and _all(cells, COMMA_NUMBER):
                return True
    return False


def looks_like(cell: str, content: str) -> bool:
    """True if a text could stand in a column of numbers, truth values, times or times of day, as a missing cell too.

    Examples
    --------
    >>> [looks_like(cell, "number") for cell in ("2.5", "-", "22OO", "007")]
    [True, True, False, False]
    """
    cell = cell.strip()
    pattern = {"number": _NUMBER, "boolean": _TRUTH, "time": TIME_STAMP, "duration": _TIME_OF_DAY}[content]
    fits = re.match(pattern, cell) is not None and not (content == "number" and re.match(_PADDED, cell))
    return fits or cell in _MISSING_AMONG_VALUES


def infer_type(column: pa.ChunkedArray, decimal_comma: bool = False) -> pa.ChunkedArray:
    """Cells of text as whole numbers, numbers, truth values or times, if all of them are; else as they were.

    Padded numbers like 00123 are names of something and stay text. Missing cells fit any type, however spelt.

    Examples
    --------
    >>> import pyarrow as pa
    >>> infer_type(pa.chunked_array([["1.234,5", "7", "NA"]]), decimal_comma=True).to_pylist()
    [1234.5, 7.0, None]
    """
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column))])
    return _first_fitting(column, _readings(decimal_comma))


def infer_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells of text as dates, ISO time stamps or times of day, if all of them are; else as they were."""
    return _first_fitting(column, _TIMES)


def _readings(decimal_comma: bool) -> Readings:
    return ({COMMA_NUMBER: _COMMA_NUMBERS} if decimal_comma else {}) | {_NUMBER: _NUMBERS, _TRUTH: _TRUTHS} | _TIMES


def _first_fitting(column: pa.ChunkedArray, readings: Readings) -> pa.ChunkedArray:
    """The column in the first reading that reads all cells; the first cell says which are tried, to save time."""
    first = _first(column)
    cells = None
    for pattern, reading in readings.items():
        if re.match(pattern, first):
            cells = _bare(column) if cells is None else cells
            prepared = reading.prepare(cells)
            typed = (None if prepared is None else _cast(prepared, kind) for kind in reading.types)
            values = next((values for values in typed if values is not None), None)
            if values is not None:
                return values
    return column


class StreamedColumn:
    """What :func:`infer_type` does, for a column of text that comes in blocks and is never held as a whole.

    :meth:`look` at all blocks first; then :meth:`read` gives each in the type that fits all of them, or as the text
    that it is if ``as_text`` is true.

    Examples
    --------
    >>> import pyarrow as pa
    >>> blocks = [pa.chunked_array([["1", "NA"]]), pa.chunked_array([["2.5"]])]
    >>> column = StreamedColumn()
    >>> for block in blocks:
    ...     column.look(block)
    >>> [column.read(block, decimal_comma=False).to_pylist() for block in blocks]
    [[1.0, None], [2.5]]
    """

    def __init__(self, as_text: bool = False) -> None:
        self.empty = True
        """True if all cells are missing."""
        self._as_text = as_text
        self._first = ""
        self._fitting: dict[str, list[pa.DataType]] = {}
        self._all_comma_numbers, self._with_comma, self._surely_decimal = True, False, False

    def look(self, block: pa.ChunkedArray) -> None:
        """Take note of what the cells of a block can be."""
        self.empty = self.empty and block.null_count == len(block)
        if not self._first and not self._as_text:
            self._first = _first(block)
            readings = _readings(decimal_comma=True).items()
            self._fitting = {pattern: list(r.types) for pattern, r in readings if re.match(pattern, self._first)}
        if not self._fitting:
            return
        cells = _bare(block)
        if COMMA_NUMBER in self._fitting:
            self._all_comma_numbers = self._all_comma_numbers and _all(cells, COMMA_NUMBER)
            with_comma = cells.filter(pc.match_substring(cells, ","))
            self._with_comma = self._with_comma or len(with_comma) > 0
            self._surely_decimal = self._surely_decimal or not _all(with_comma, _MAYBE_THOUSANDS)
        for pattern, reading in _readings(decimal_comma=True).items():
            if kinds := self._fitting.get(pattern):
                prepared = reading.prepare(cells)
                kinds[:] = [] if prepared is None else [k for k in kinds if _cast(prepared, k) is not None]

    def has_decimal_commas(self, delimiter: bytes) -> bool:
        """What :func:`has_decimal_commas` says of one column."""
        if delimiter == b"," or COMMA_NUMBER not in self._fitting:
            return False
        return self._all_comma_numbers and self._with_comma and (delimiter == b";" or self._surely_decimal)

    def read(self, block: pa.ChunkedArray, decimal_comma: bool) -> pa.ChunkedArray:
        """The values of a block that was looked at."""
        if self.empty:
            return pa.chunked_array([pa.nulls(len(block))])
        for pattern, reading in _readings(decimal_comma).items():
            if kinds := self._fitting.get(pattern):
                prepared = reading.prepare(_bare(block))
                assert prepared is not None, "only readings that fitted when the block was looked at are left"
                return prepared.cast(kinds[0])
        return block


def _first(column: pa.ChunkedArray) -> str:
    """The first cell that is not missing, without the space around it; empty if there is none."""
    cells = (cell.as_py().strip() for cell in (column.drop_null() if column.null_count else column))
    return next((cell for cell in cells if cell not in _MISSING_AMONG_VALUES), "")


def _bare(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells without the space around them; null if they are missing, in quotation marks or not."""
    cells = pc.ascii_trim_whitespace(column)
    return pc.if_else(pc.is_in(cells, pa.array(_MISSING_AMONG_VALUES)), pa.scalar(None, cells.type), cells)


def _plain_numbers(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    padded = cells.filter(pc.starts_with(cells, "0"))
    # A whole number may be 0x1F to pyarrow, a number may not.
    return None if _any(padded, _PADDED) or _any(padded, _HEXADECIMAL) else cells


def _without_comma(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    if not _all(cells, COMMA_NUMBER):
        return None
    return _plain_numbers(pc.replace_substring(pc.replace_substring(cells, ".", ""), ",", "."))


def _truths(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    return pc.equal(pc.ascii_lower(cells), "true") if _all(cells, _TRUTH) else None


def _times_of_day(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    if not _all(cells, _TIME_OF_DAY):
        return None
    # pyarrow reads a time of day only together with a day.
    return _cast(pc.binary_join_element_wise("1970-01-01", cells, " "), pa.timestamp("us"))


_NUMBERS = Reading(_plain_numbers, (pa.int64(), pa.float64()))


_COMMA_NUMBERS = Reading(_without_comma, (pa.int64(), pa.float64()))


_TRUTHS = Reading(_truths, (pa.bool_(),))


_TIMES: Readings = {
    TIME_STAMP: Reading(lambda cells: cells, _TIME_TYPES),
    _TIME_OF_DAY: Reading(_times_of_day, (pa.time64("us"),)),
}


def _cast(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return cells.cast(kind)
    except pa.ArrowInvalid:
        return None


def _all(cells: pa.ChunkedArray, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(cells, pattern), min_count=0).as_py()


def _any(cells: pa.ChunkedArray, pattern: str) -> bool:
    return pc.any(pc.match_substring_regex(cells, pattern), min_count=0).as_py()
