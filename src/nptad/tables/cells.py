"""Reads text cells as numbers, truth values or times, and finds the type of a text column."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "Null", "null", "None", "?")
"""Spellings of a missing cell; "-" and "." are two more in a column of numbers, truth values or times."""

_MISSING_AMONG_VALUES = (*MISSING, "-", ".")

# Patterns of cells.
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"
COMMA_NUMBER = r"^[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?$"  # "0.123" is no group of thousands
_MAYBE_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"
_PADDED = r"^0\d+$"
_PADDED_OR_HEXADECIMAL = r"^0(\d+$|[xX])"  # pyarrow reads 0x1F as a whole number, but not as a number
_TRUTH = r"^(?i:true|false)$"
TIME_STAMP = r"^\d{4}-\d{2}-\d{2}"
_OFFSET = r"\d{2}:\d{2}\S*([+-])(0\d|1[0-4])(?::?(\d{2}))?$"
_TIME_OF_DAY = r"^\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?$"


def looks_like(cell: str, content: str) -> bool:
    """True if a text fits into a column of numbers, truth values, times or times of day; missing cells fit too.

    >>> [looks_like(cell, "number") for cell in ("2.5", "-", "22OO", "007")]
    [True, True, False, False]
    """
    cell = cell.strip()
    pattern = {"number": _NUMBER, "boolean": _TRUTH, "time": TIME_STAMP, "duration": _TIME_OF_DAY}[content]
    fits = re.match(pattern, cell) is not None and not (content == "number" and re.match(_PADDED, cell))
    return fits or cell in _MISSING_AMONG_VALUES


class Parser(NamedTuple):
    """A way to read cells of text as values."""

    pattern: str  # of a single cell; to save time, the others are checked only if the first cell matches
    fits: Callable[[pa.ChunkedArray], bool]  # false if some cells are of another kind that pyarrow might read
    convert: Callable[[pa.ChunkedArray], pa.ChunkedArray]  # to a form that pyarrow can cast
    types: tuple[pa.DataType, ...]  # the values have the first of these that fits all cells


class TypeInference:
    """Finds the type of a column of text that comes in blocks.

    Call :meth:`look` with every block, then :meth:`read` with each of them. :meth:`read` returns whole numbers,
    numbers, truth values or times if all cells of the column are of that type; otherwise the cells stay text. Missing
    cells fit any type, however they are spelt. Padded numbers like 00123 are identifiers and stay text. The parsers are
    the types to try, in order of preference: :data:`VALUES`, :data:`TIMES`, or none for text.
    """

    def __init__(self, parsers: Sequence[Parser]) -> None:
        self.empty = True
        """True if all cells are missing."""
        self._parsers = parsers
        self._first = ""
        self._types: dict[Parser, list[pa.DataType]] = {}  # that fit all cells so far
        self._all_comma_numbers, self._commas, self._decimal_commas = False, False, False

    def look(self, block: pa.ChunkedArray) -> None:
        """Drop the types that do not fit the cells of a block."""
        self.empty = self.empty and block.null_count == len(block)
        if not self._first and self._parsers:
            self._first = _first(block[:100]) or _first(block)
            self._types = {p: _types(p, self._first) for p in self._parsers if re.match(p.pattern, self._first)}
            self._all_comma_numbers = _COMMA_NUMBERS in self._types
        if not self._types:
            return
        cells = _bare(block)
        for parser, types in reversed(self._types.items()):
            if parser is _COMMA_NUMBERS and not self._are_comma_numbers(cells):
                types.clear()
            types[:] = _fitting(cells, parser, types)
            if types[:1] == [pa.int64()]:
                return  # whole numbers are the same with decimal commas

    def _are_comma_numbers(self, cells: pa.ChunkedArray) -> bool:
        self._all_comma_numbers = self._all_comma_numbers and _all(cells, COMMA_NUMBER)
        if self._all_comma_numbers and not self._decimal_commas:
            with_comma = cells.filter(pc.match_substring(cells, ","))
            self._commas = self._commas or len(with_comma) > 0
            self._decimal_commas = not _all(with_comma, _MAYBE_THOUSANDS)
        return self._all_comma_numbers

    def has_decimal_commas(self, delimiter: bytes) -> bool:
        """True if the cells are numbers like 1,5 or 1.234,5.

        "1,234" alone could have a thousands separator: it counts only if semicolons delimit the file, as is common
        where commas are decimal.
        """
        return self._all_comma_numbers and (self._commas if delimiter == b";" else self._decimal_commas)

    def read(self, block: pa.ChunkedArray, decimal_comma: bool = False) -> pa.ChunkedArray:
        """The values of a block that was looked at."""
        if self.empty and self._parsers:
            return pa.chunked_array([pa.nulls(len(block))])
        for parser, types in self._types.items():
            if types and (decimal_comma or parser is not _COMMA_NUMBERS):
                return parser.convert(_bare(block)).cast(types[0])
        return block


def _first(column: pa.ChunkedArray) -> str:
    """The first cell that is not missing, without the space around it; empty if there is none."""
    cells = _bare(column).drop_null()
    return cells[0].as_py() if len(cells) else ""


def _types(parser: Parser, first: str) -> list[pa.DataType]:
    """The types that may fit; before UTC, times with the offset of the first cell, which all cells may have."""
    found = re.search(_OFFSET, first)
    if parser.types != _DAY_TYPES or not found or int(found[2] + (found[3] or "")) == 0:
        return list(parser.types)
    offset = f"{found[1]}{found[2]}:{found[3] or '00'}"
    return [*(pa.timestamp(unit, offset) for unit in ("s", "us", "ns")), *parser.types]


def _have_zone(cells: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Whether all cells have the offset of the type; any offset can be shown in UTC."""
    zone = getattr(kind, "tz", None)
    if zone in (None, "UTC"):
        return True
    sign, hours, minutes = zone[0], zone[1:3], zone[4:]
    return _all(cells, rf"\{sign}{hours}" + ("(:?00)?$" if minutes == "00" else f":?{minutes}$"))


def _fitting(cells: pa.ChunkedArray, parser: Parser, types: Sequence[pa.DataType]) -> list[pa.DataType]:
    """The types that fit all cells, out of those that fitted the cells before."""
    if not types or not parser.fits(cells):
        return []
    converted = parser.convert(cells)
    if types[0] == pa.int64() and _can_cast(converted, pa.int64()):
        return list(types)  # a whole number is a number, too
    return [kind for kind in types if _have_zone(converted, kind) and _can_cast(converted, kind)]


@cache
def _missing_among_values() -> pa.Array:
    return pa.array(_MISSING_AMONG_VALUES)  # imports pandas, so not before it is needed


def _bare(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells without the space around them; null if they are missing, in quotation marks or not."""
    cells = pc.ascii_trim_whitespace(column)
    return pc.if_else(pc.is_in(cells, _missing_among_values()), pa.scalar(None, cells.type), cells)


def _all(cells: pa.ChunkedArray, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(cells, pattern), min_count=0).as_py()


def _none_padded(cells: pa.ChunkedArray) -> bool:
    from_zero = cells.filter(pc.starts_with(cells, "0"))
    return not pc.any(pc.match_substring_regex(from_zero, _PADDED_OR_HEXADECIMAL), min_count=0).as_py()


def _can_cast(cells: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        cells[:1].cast(kind)  # pyarrow is slow to reject many cells
        cells.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _with_points(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.replace_substring(pc.replace_substring(cells, ".", ""), ",", ".")


def _are_times_of_day(cells: pa.ChunkedArray) -> bool:
    return _all(cells, _TIME_OF_DAY) and _can_cast(_with_day(cells), pa.timestamp("us"))


def _with_day(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise("1970-01-01", cells, " ")


def _times_of_day(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    return _with_day(cells).cast(pa.timestamp("us"))  # pyarrow reads a time of day only together with a day


_DAY_TYPES = (pa.date32(), *(pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("s", "us", "ns")))

_COMMA_NUMBERS = Parser(COMMA_NUMBER, _none_padded, _with_points, (pa.int64(), pa.float64()))

TIMES = (
    Parser(TIME_STAMP, lambda _: True, lambda cells: cells, _DAY_TYPES),
    Parser(_TIME_OF_DAY, _are_times_of_day, _times_of_day, (pa.time64("us"),)),
)

VALUES = (
    Parser(_NUMBER, _none_padded, lambda cells: cells, (pa.int64(), pa.float64())),
    Parser(_TRUTH, partial(_all, pattern=_TRUTH), lambda cells: pc.equal(pc.ascii_lower(cells), "true"), (pa.bool_(),)),
    *TIMES,
)

VALUES_WITH_COMMAS = (_COMMA_NUMBERS, *VALUES)
"""For a text that commas do not delimit, so that they may be decimal."""
