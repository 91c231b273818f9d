"""What the bytes of a text table mean: its encoding, its delimiter, its records, its header.

Nothing here knows of files. Every rule looks at the text alone, so the same text gives the same table on any machine.
"""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import NamedTuple

from nptad.errors import InputError
from nptad.tables.cells import COMMA_NUMBER, MISSING, TIME_STAMP

NO_DELIMITER = b"\x1f"
"""Stands in for the delimiter of a table of one column: ASCII's unit separator, which no cell contains."""

# Comma last: it is the one that stands in prices, names and decimal numbers, too.
_DELIMITERS = (b"\t", b"|", b";", b",")

_SAMPLE_RECORDS, _SAMPLE_BYTES = 100, 1 << 18

_LARGEST_RECORD = 1 << 26
"""Bytes of a row at most: a quotation mark that is never closed must not fill the memory with the rest of the file."""

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

_COMMENTS = re.compile(rb"(?:#[^\r\n]*(?:\r\n?|\n))+")
_HEADER_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


class TextRecord(NamedTuple):
    """One record of a delimited text."""

    line: int  # on which it begins, from 1
    cells: list[str]
    quoted: list[bool]  # which cells stand in quotation marks as a whole
    end: int  # where the next record begins, in bytes
    closed: bool  # false if a quotation mark was opened and the text ended before it was closed


def to_utf8(pieces: Callable[[], Iterable[bytes]], where: str) -> Callable[[], Iterator[bytes]]:
    r"""A text in UTF-8 without byte order mark: from UTF-8, from UTF-16 or 32 with such a mark, else Windows-1252.

    ``pieces()`` is the text from its beginning, in pieces of any size, and so is what the result returns.

    >>> b"".join(to_utf8(lambda: [b"caf", b"\xe9"], "menu.csv")()).decode()
    'café'
    """
    mark, encoding = _sniff_encoding(pieces, where)
    if encoding == "utf-8":
        return lambda: _without_mark(pieces(), mark)

    def decoded() -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            for piece in _without_mark(pieces(), mark):
                yield decoder.decode(piece).encode()
            yield decoder.decode(b"", final=True).encode()
        except UnicodeError as error:
            raise InputError(
                f"{where} begins like {encoding.upper()} text but is not; it is damaged or of another format."
            ) from error

    return decoded


def _without_mark(pieces: Iterable[bytes], mark: int) -> Iterator[bytes]:
    for piece in pieces:
        yield piece[mark:] if mark else piece
        mark = 0


def _sniff_encoding(pieces: Callable[[], Iterable[bytes]], where: str) -> tuple[int, str]:
    """The length of the byte order mark of a text, and its encoding."""
    first = next(iter(pieces()), b"")
    mark, encoding = next(((m, name) for m, name in _BYTE_ORDER_MARKS if first.startswith(m)), (b"", "utf-8"))
    if encoding != "utf-8" or _is_utf8(pieces()):
        return len(mark), encoding
    sample = first[:_SAMPLE_BYTES]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if controls > _CONTROL_SHARE * len(sample) or any(b"\0" in piece for piece in pieces()):
        raise InputError(
            f"{where} is not a text file, or one in an unknown encoding; save the table as CSV with encoding UTF-8."
        )
    is_cp1252 = all(len(piece.translate(None, _NOT_IN_CP1252)) == len(piece) for piece in pieces())
    return len(mark), "cp1252" if is_cp1252 else "latin-1"


def _is_utf8(pieces: Iterable[bytes]) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in chain(pieces, [b""]):
            decoder.decode(piece, final=not piece)
    except UnicodeDecodeError:
        return False
    return True


def count_lines(data: bytes) -> int:
    r"""How many lines end in a text: at \n, \r or \r\n."""
    return data.count(b"\n") + (data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else 0)


class _Patterns(NamedTuple):
    blank_lines: re.Pattern[bytes]
    cell: re.Pattern[bytes]  # and what ends it
    closed: re.Pattern[bytes]  # all up to a quotation mark that is opened and not closed
    complete: re.Pattern[bytes]  # the records up to one that does not end
    quoted_or_blank: re.Pattern[bytes]  # a cell in quotation marks or the white space of a blank line


@functools.cache
def _patterns(delimiter: bytes) -> _Patterns:
    """What a text consists of; a quotation mark quotes only at the beginning of a cell, as in pyarrow."""
    d, space = re.escape(delimiter), b" \t\f\v".replace(delimiter, b"")
    content = rb'(?:[^"]++|"")*+'
    quoted, stray = rb'(?<![^%b\r\n])"%b"' % (d, content), rb'(?<=[^%b\r\n])"' % d
    return _Patterns(
        re.compile(rb"(?:[%b]*+(?:\r\n?|\n))*+(?:[%b]*+\Z)?+" % (space, space)),
        re.compile(rb'(?:"(%b)("?)|)([^%b\r\n]*+)(%b|\r\n?|\n|\Z)' % (content, d, d)),
        re.compile(rb'(?:[^"]++|%b|%b)*+' % (quoted, stray)),
        # The second half of \r\n may be yet to come.
        re.compile(rb'(?:(?:[^"\r\n]++|%b|%b)*+(?:\r\n|\n|\r(?!\Z)))*+' % (quoted, stray)),
        re.compile(rb"(%b)|(?<![^\r\n])[%b]++(?![^\r\n])" % (quoted, space)),
    )


def without_blank_lines(data: bytes, delimiter: bytes) -> bytes:
    """A text with nothing on its blank lines."""
    return _patterns(delimiter).quoted_or_blank.sub(rb"\1", data)


def records(data: bytes, delimiter: bytes, line: int = 1) -> Iterator[TextRecord]:
    r"""The records of a text in UTF-8 that begins on the given line, without blank lines; slow, for a part of a text.

    >>> [(record.line, record.cells) for record in records(b'a,b\n"1\n2",3\n\n4,5', b",")]
    [(1, ['a', 'b']), (2, ['1\n2', '3']), (5, ['4', '5'])]
    """
    patterns = _patterns(delimiter)
    position = 0
    while position < len(data):
        start, position = position, _end(patterns.blank_lines, data, position)
        line += count_lines(data[start:position])
        if position == len(data):
            break
        start, cells, in_quotes, closed, end = position, [], [], True, delimiter
        while end == delimiter:
            found = patterns.cell.match(data, position)
            assert found is not None  # an empty cell at the end of the text matches, too
            content, closing, plain, end = found.groups()
            cell = plain if content is None else content.replace(b'""', b'"') + plain
            cells.append(cell.decode(errors="replace"))  # the text may end within a character
            in_quotes.append(closing == b'"' and not plain)
            closed = closed and closing != b""
            position = found.end()
        yield TextRecord(line, cells, in_quotes, position, closed)
        line += count_lines(data[start:position])


def record_blocks(
    pieces: Iterable[bytes], delimiter: bytes, where: str, start: int = 0, line: int = 1
) -> Iterator[tuple[int, bytes]]:
    r"""A text in UTF-8 cut between records, about where the pieces end, and the line on which each block begins.

    The ``start`` bytes before the given line are left out.

    >>> list(record_blocks([b'a,b\n"1', b'\n2",3\n4', b",5"], b",", "x.csv"))
    [(1, b'a,b\n'), (2, b'"1\n2",3\n'), (4, b'4,5')]
    """
    rest = b""
    for piece in pieces:
        rest += piece[start:]
        start = max(0, start - len(piece))
        if end := _end_of_records(rest, delimiter):
            block, rest = rest[:end], rest[end:]
            yield line, block
            line += count_lines(block)
        elif len(rest) > _LARGEST_RECORD:
            size = _LARGEST_RECORD >> 20
            raise InputError(
                f"Line {line} of {where} begins a row of more than {size} MB; close its quotation marks or shorten it."
            )
    if _end_of_records(rest + b"\n", delimiter) <= len(rest):
        raise InputError(f"Line {line} of {where} opens a quotation mark that is never closed; close it.")
    if rest:
        yield line, rest


def _end_of_records(data: bytes, delimiter: bytes) -> int:
    """Where the last complete record of a text ends."""
    patterns = _patterns(delimiter)
    end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
    # Mostly the last line ends outside of quotation marks, which is seen fast.
    return end if patterns.closed.fullmatch(data, 0, end) else _end(patterns.complete, data)


def _end(pattern: re.Pattern[bytes], data: bytes, position: int = 0) -> int:
    found = pattern.match(data, position)
    return position if found is None else found.end()


def _sample(data: bytes, delimiter: bytes) -> list[TextRecord]:
    sample: list[TextRecord] = []
    for record in islice(records(data, delimiter), _SAMPLE_RECORDS):
        sample.append(record)
        if record.end > _SAMPLE_BYTES and len(sample) > 1:
            break
    return sample


def sniff_delimiter(data: bytes) -> bytes:
    r"""The delimiter of a text with a header: comma, semicolon, tab or bar, or NO_DELIMITER for a single column.

    Only what splits the header is considered. Of that, it is the one by which most records have as many cells as the
    header, then the one by which most cells are quoted as a whole, or decimal numbers, or free of quotation marks and
    other delimiters.

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


def comments_above(data: bytes, delimiter: bytes | None = None) -> tuple[int, int]:
    r"""Length and number of the lines above the header that begin with #; the header itself may do so, too.

    The last one is the header if it has as many cells as the next line, and that looks like data or there is no space
    behind the #.

    >>> comments_above(b"# Source: NOAA, 1983\nx,y\n1,2\n"), comments_above(b"# 1983\n#x,y\n1,2\n")
    ((21, 1), (7, 1))
    """
    found = _COMMENTS.match(data)
    if found is None or not (below := data[found.end() :]).strip():
        return 0, 0
    delimiter = delimiter or sniff_delimiter(below)
    *_, last = re.finditer(rb"[^\r\n]+", found[0])
    above, first = (next(records(part, delimiter)).cells for part in (last[0], below))
    is_header = len(above) == len(first) and (looks_like_data(first) or not last[0].startswith(b"# "))
    end = last.start() if is_header else found.end()
    return end, count_lines(data[:end])


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
