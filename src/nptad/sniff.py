"""What the bytes of a text table mean: its encoding, its delimiter, its header, the type of a column of cells.

Nothing here knows of files. Every rule looks at the text alone, so the same text gives the same table on any machine.
"""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nptad.errors import InputError

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "Null", "null", "None", "?")
"""Spellings of a missing cell; "-" and "." are two more in a column of numbers, truth values or times."""

_MISSING_AMONG_VALUES = (*MISSING, "-", ".")

NO_DELIMITER = b"\x1f"
"""Stands in for the delimiter of a table of one column: ASCII's unit separator, which no cell contains."""

# Comma last: it is the one that stands in prices, names and decimal numbers, too.
_DELIMITERS = (b"\t", b"|", b";", b",")
_SAMPLE_RECORDS, _SAMPLE_BYTES = 100, 1 << 18

# UTF-32 before UTF-16, whose mark is the first half of its own.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f"))
_CONTROL_SHARE = 0.02
_NOT_IN_CP1252 = b"\x81\x8d\x8f\x90\x9d"

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"
# "0.123" is no group of thousands.
_COMMA_NUMBER = r"^[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?$"
_MAYBE_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"
_PADDED = r"^0\d+$"
_HEXADECIMAL = r"^0[xX]"
_TRUTH = r"^(?i:true|false)$"
_TIME_STAMP = r"^\d{4}-\d{2}-\d{2}"
_TIME_OF_DAY = r"^\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?$"
_TIME_TYPES = (pa.date32(), *(pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("s", "us", "ns")))

_HEADER_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


class Reading(NamedTuple):
    """A way to read cells of text as values."""

    prepare: Callable[[pa.ChunkedArray], pa.ChunkedArray | None]
    """The cells in a form that can be cast, or None if they are of another kind."""
    types: tuple[pa.DataType, ...]
    """Of these, the values have the first that fits all cells."""


Readings = dict[str, Reading]
"""Ways to read a column, by the pattern of its first cell."""


class Record(NamedTuple):
    """One record of a delimited text."""

    line: int
    """The line it begins on, from 1."""
    cells: list[str]
    quoted: list[bool]
    """Which cells stand in quotation marks as a whole."""
    end: int
    """Where the next record begins, in bytes."""
    closed: bool
    """False if a quotation mark was opened and the text ended before it was closed."""

    @property
    def blank(self) -> bool:
        """True if there is nothing on the line."""
        return len(self.cells) == 1 and not self.cells[0].strip()


def to_utf8(data: bytes, where: str) -> bytes:
    r"""Text in UTF-8 without byte order mark: from UTF-8, from UTF-16 or 32 with such a mark, else from Windows-1252.

    Examples
    --------
    >>> to_utf8(b"caf\xe9", "menu.csv").decode()
    'café'
    """
    step = 1 << 20  # a string of the whole would take up to four times the memory
    mark, encoding = sniff_encoding((data[start : start + step] for start in range(0, len(data), step)), where)
    data = data[mark:]
    try:
        return data if encoding == "utf-8" else data.decode(encoding).encode()
    except UnicodeError as error:
        raise InputError(bad_encoding(encoding, where)) from error


def sniff_encoding(pieces: Iterable[bytes], where: str) -> tuple[int, str]:
    """The length of the byte order mark of a text that comes in pieces, and its encoding."""
    pieces = iter(pieces)
    first = next(pieces, b"")
    mark, encoding = next(((m, name) for m, name in _BYTE_ORDER_MARKS if first.startswith(m)), (b"", "utf-8"))
    if encoding != "utf-8":
        return len(mark), encoding
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_utf8, has_zero, is_cp1252 = True, False, True
    for piece in chain([first[len(mark) :]], pieces, [b""]):
        if is_utf8:
            try:
                decoder.decode(piece, final=not piece)
            except UnicodeDecodeError:
                is_utf8 = False
        has_zero = has_zero or b"\0" in piece
        is_cp1252 = is_cp1252 and len(piece.translate(None, _NOT_IN_CP1252)) == len(piece)
    if is_utf8:
        return len(mark), "utf-8"
    sample = first[:_SAMPLE_BYTES]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if has_zero or controls > _CONTROL_SHARE * len(sample):
        raise InputError(
            f"{where} is not a text file, or one in an unknown encoding; save the table as CSV with encoding UTF-8."
        )
    return len(mark), "cp1252" if is_cp1252 else "latin-1"


def bad_encoding(encoding: str, where: str) -> str:
    """What to say of a text that is not what its byte order mark promises."""
    return f"{where} begins like {encoding.upper()} text but is none; it is damaged or of another format."


@functools.cache
def _scanner(delimiter: bytes) -> re.Pattern[bytes]:
    """One cell and what ends it. A quotation mark quotes only at the beginning of a cell, as in pyarrow."""
    plain = rb"[^%b\r\n]*+" % re.escape(delimiter)
    return re.compile(rb'(?:"((?:[^"]++|"")*+)("?)|)(%b)(%b|\r\n?|\n|\Z)' % (plain, re.escape(delimiter)))


def records(data: bytes, delimiter: bytes) -> Iterator[Record]:
    r"""Split UTF-8 text into records, one by one; for the beginning of a text and for finding an error.

    Examples
    --------
    >>> [(record.line, record.cells) for record in records(b'a,b\n"1\n2",3\n4,5', b",")]
    [(1, ['a', 'b']), (2, ['1\n2', '3']), (4, ['4', '5'])]
    """
    scan = _scanner(delimiter).match
    position, line = 0, 1
    while position < len(data):
        start, cells, in_quotes, closed, end = position, [], [], True, delimiter
        while end == delimiter:
            cell = scan(data, position)
            assert cell is not None  # an empty cell at the end of the text matches, too
            content, closing, plain, end = cell.groups()
            cells.append((plain if content is None else content.replace(b'""', b'"') + plain).decode())
            in_quotes.append(closing == b'"' and not plain)
            closed = closed and closing != b""
            position = cell.end()
        yield Record(line, cells, in_quotes, position, closed)
        line += len(data[start:position].splitlines())


def _sample(data: bytes, delimiter: bytes) -> list[Record]:
    sample: list[Record] = []
    for record in islice((record for record in records(data, delimiter) if not record.blank), _SAMPLE_RECORDS):
        sample.append(record)
        if record.end > _SAMPLE_BYTES and len(sample) > 1:
            break
    return sample


def sniff_delimiter(data: bytes) -> bytes:
    r"""The delimiter of a text with a header: comma, semicolon, tab or bar, or NO_DELIMITER for a single column.

    Only what splits the header is considered. Of that, it is the one by which most records have as many cells as the
    header, then the one by which most cells are quoted as a whole, or decimal numbers, or free of quotation marks and
    other delimiters.

    Examples
    --------
    >>> sniff_delimiter(b"Weight, kg;Height, m\n71,5;1,83\n")
    b';'
    >>> sniff_delimiter(b"Weight, kg\tHeight, m\n71.5\t1.83\n")
    b'\t'
    """
    samples = {delimiter: _sample(data, delimiter) for delimiter in _DELIMITERS}
    splitting = [delimiter for delimiter, sample in samples.items() if sample and len(sample[0].cells) > 1]
    if splitting:
        return max(splitting, key=lambda delimiter: _fit(samples[delimiter], delimiter))
    for delimiter, sample in samples.items():
        # All records but the header are split alike: a title above it, for instance. Reading will point at them.
        widths = {len(record.cells) for record in sample[1:]}
        if len(widths) == 1 and widths != {1} and not _is_decimal_comma(delimiter, sample[1:]):
            return delimiter
    return NO_DELIMITER


def _fit(sample: list[Record], delimiter: bytes) -> tuple[float, float]:
    """Share of records as wide as the header; share of cells that look like one cell and not like a part of some."""
    body = sample[1:] or sample
    wide = sum(len(record.cells) == len(sample[0].cells) for record in body)
    others = b"".join(_DELIMITERS).replace(delimiter, b"").decode()
    whole = []
    for record in sample:
        foreign = re.compile('"' if record is sample[0] else f'["{others}]')  # a name may well be "Weight, kg"
        for cell, quoted in zip(record.cells, record.quoted, strict=True):
            whole.append(record.closed and (quoted or not foreign.search(cell) or _is_number(cell)))
    return wide / len(body), sum(whole) / len(whole)


def _is_decimal_comma(delimiter: bytes, sample: list[Record]) -> bool:
    return delimiter == b"," and all(re.match(_COMMA_NUMBER, ",".join(record.cells)) for record in sample)


def _is_number(cell: str) -> bool:
    return _HEADER_NUMBER.fullmatch(cell.strip()) is not None


def looks_like_data(names: Sequence[str]) -> bool:
    """True if the first record can hardly be a header: no names, or numbers that are no labels.

    Numbers alone are labels only if they count (0, 1, 2 or 2019, 2020). Numbers among names are if they rise (0.25,
    0.5, 0.75), and whole ones if they fall.

    Examples
    --------
    >>> looks_like_data(["5.1", "3.5", "Iris-setosa"]), looks_like_data(["country", "2019", "2020"])
    (True, False)
    """
    filled = [name for name in names if name not in MISSING]
    numbers = [float(name.replace(",", ".")) for name in filled if _is_number(name)]
    whole = all(number.is_integer() for number in numbers)
    steps = [after - before for before, after in pairwise(numbers)]
    if len(numbers) + sum(re.match(_TIME_STAMP, name) is not None for name in filled) == len(filled):
        return not (whole and len(numbers) == len(filled) > 1 and all(step == 1 for step in steps))
    rise, fall = all(step > 0 for step in steps), all(step < 0 for step in steps)
    return not (whole and (rise or fall)) and not (rise and len(numbers) > 1)


def has_decimal_commas(columns: Sequence[pa.ChunkedArray], delimiter: bytes) -> bool:
    """True if a column of text cells is one of numbers like 1,5 or 1.234,5.

    "1,234" alone could be a thousand: it counts only if semicolons delimit, as where commas are decimal.
    """
    if delimiter == b",":
        return False
    for column in columns:
        if re.match(_COMMA_NUMBER, _first(column)):
            cells = _bare(column)
            with_comma = cells.filter(pc.match_substring(cells, ","))
            certain = delimiter == b";" or not _all(with_comma, _MAYBE_THOUSANDS)
            if len(with_comma) and certain and _all(cells, _COMMA_NUMBER):
                return True
    return False


def looks_like(cell: str, holds: str) -> bool:
    """True if a text could stand in a column of numbers, truth values, times or times of day, as a missing cell too.

    Examples
    --------
    >>> [looks_like(cell, "number") for cell in ("2.5", "-", "22OO", "007")]
    [True, True, False, False]
    """
    cell = cell.strip()
    pattern = {"number": _NUMBER, "boolean": _TRUTH, "time": _TIME_STAMP, "duration": _TIME_OF_DAY}[holds]
    fits = re.match(pattern, cell) is not None and not (holds == "number" and re.match(_PADDED, cell))
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
    return ({_COMMA_NUMBER: _COMMA_NUMBERS} if decimal_comma else {}) | {_NUMBER: _NUMBERS, _TRUTH: _TRUTHS} | _TIMES


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
        if _COMMA_NUMBER in self._fitting:
            self._all_comma_numbers = self._all_comma_numbers and _all(cells, _COMMA_NUMBER)
            with_comma = cells.filter(pc.match_substring(cells, ","))
            self._with_comma = self._with_comma or len(with_comma) > 0
            self._surely_decimal = self._surely_decimal or not _all(with_comma, _MAYBE_THOUSANDS)
        for pattern, reading in _readings(decimal_comma=True).items():
            if kinds := self._fitting.get(pattern):
                prepared = reading.prepare(cells)
                kinds[:] = [] if prepared is None else [k for k in kinds if _cast(prepared, k) is not None]

    def has_decimal_commas(self, delimiter: bytes) -> bool:
        """What :func:`has_decimal_commas` says of one column."""
        if delimiter == b"," or _COMMA_NUMBER not in self._fitting:
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
    if not _all(cells, _COMMA_NUMBER):
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
    _TIME_STAMP: Reading(lambda cells: cells, _TIME_TYPES),
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
