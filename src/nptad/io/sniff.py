"""What the bytes of a text table mean: its encoding, its delimiter, its header.

Nothing here knows of files. Every rule looks at the text alone, so the same text gives the same table on any machine.
"""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import NamedTuple

from nptad.errors import InputError
from nptad.tables.cells import COMMA_NUMBER, MISSING, TIME_STAMP

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


_HEADER_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


class TextRecord(NamedTuple):
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


def records(data: bytes, delimiter: bytes) -> Iterator[TextRecord]:
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
        yield TextRecord(line, cells, in_quotes, position, closed)
        line += len(data[start:position].splitlines())


def _sample(data: bytes, delimiter: bytes) -> list[TextRecord]:
    sample: list[TextRecord] = []
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


def _fit(sample: list[TextRecord], delimiter: bytes) -> tuple[float, float]:
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


def _is_decimal_comma(delimiter: bytes, sample: list[TextRecord]) -> bool:
    return delimiter == b"," and all(re.match(COMMA_NUMBER, ",".join(record.cells)) for record in sample)


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
    if len(numbers) + sum(re.match(TIME_STAMP, name) is not None for name in filled) == len(filled):
        return not (whole and len(numbers) == len(filled) > 1 and all(step == 1 for step in steps))
    rise, fall = all(step > 0 for step in steps), all(step < 0 for step in steps)
    return not (whole and (rise or fall)) and not (rise and len(numbers) > 1)
