"""The meaning of text: encodings, delimiters, headers and types of columns."""

from __future__ import annotations

import codecs
import datetime
from itertools import chain, pairwise, repeat

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from nptad import InputError
from nptad.io.sniff import (
    NO_DELIMITER,
    looks_like_data,
    record_blocks,
    records,
    sniff_delimiter,
    to_utf8,
    without_blank_lines,
)
from nptad.tables.cells import TIMES, VALUES, VALUES_WITH_COMMAS, TypeInference
from nptad.tables.encode import readable
from nptad.tables.frames import read_columns
from nptad.tables.schema import learn_columns


def column(*cells):
    return pa.chunked_array([pa.array(cells, pa.string())])


def inferred(cells, parsers=VALUES):
    inference = TypeInference(parsers)
    inference.look(column(*cells))
    return inference


def typed(cells, parsers=VALUES, decimal_comma=False):
    return inferred(cells, parsers).read(column(*cells), decimal_comma)


def utf8(*pieces):
    return b"".join(to_utf8(lambda: pieces, "x.csv")())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "latin-1"])
def test_encodings(encoding):
    data = "größe;naïve\n".encode(encoding)
    assert utf8(data).decode() == "größe;naïve\n"
    for cut in range(4, len(data)):
        assert utf8(data[:cut], data[cut:]).decode() == "größe;naïve\n"


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE])
def test_big_endian(mark):
    encoding = "utf-16-be" if len(mark) == 2 else "utf-32-be"
    assert utf8(mark + "größe €".encode(encoding)).decode() == "größe €"


def test_bytes_without_meaning_in_windows_1252_are_latin_1():
    assert utf8(b"\x81", b"\xe4").decode() == "\x81ä"


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 10,
        "ä,b\n1,2\n".encode("utf-16-le"),
        b"\xff\xfe\x00",
        b"\xff\xfe\x00\xd8",
        b"\x01\x02\xe4\x03",
    ],
)
def test_what_is_no_text_is_refused(data):
    with pytest.raises(InputError, match=r"^x\.csv "):
        utf8(data)


@given(st.text(alphabet='a1",;\n\r ä', max_size=30), st.sampled_from([b",", b";"]))
@example('a,"b"c"d,e"', b",")
@example('"",""a\r\n\r"\n"', b",")
def test_records_are_those_of_pyarrow(text, delimiter):
    data = text.encode()
    rows = [record.cells for record in records(data, delimiter)]
    assume(rows and all(record.closed for record in records(data, delimiter)))
    names = [str(j) for j in range(len(rows[0]))]
    try:
        table = pyarrow.csv.read_csv(
            pa.py_buffer(without_blank_lines(data, delimiter)),
            pyarrow.csv.ReadOptions(column_names=names),
            pyarrow.csv.ParseOptions(delimiter=delimiter.decode(), newlines_in_values=True),
            pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except pa.ArrowInvalid:
        assert len({len(row) for row in rows}) > 1
    else:
        seen = list(zip(*(table[name].to_pylist() for name in names), strict=True))
        assert [row for row in seen if row != ("",)] == [tuple(row) for row in rows if row != [""]]


@given(st.text(alphabet='a1",\n\r ', max_size=30), st.lists(st.integers(0, 30), max_size=4))
@example('a\r\n"\r\n",b\r\n', [2, 5, 8])
def test_blocks_are_cut_between_records(text, cuts):
    data = text.encode()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places)]
    whole = list(records(data, b","))
    if not all(record.closed for record in whole):
        with pytest.raises(InputError, match=f"^Line {whole[-1].line} of x opens a quotation mark"):
            list(record_blocks(pieces, b",", "x"))
        return
    blocks = list(record_blocks(pieces, b",", "x"))
    assert b"".join(block for _, block in blocks) == data
    cut = [record for line, block in blocks for record in records(block, b",", line)]
    assert [(record.line, record.cells) for record in cut] == [(record.line, record.cells) for record in whole]


def test_a_row_that_fills_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr("nptad.io.sniff._LARGEST_RECORD", 1 << 20)
    with pytest.raises(InputError, match="Line 3 of x begins a row of more than 1 MB"):
        list(record_blocks(chain([b'a,b\n1,2\n"'], repeat(b"x" * 1000)), b",", "x"))


def test_records_know_their_lines_and_whether_quotes_are_closed():
    found = list(records(b'a,b\r\n"1\n2\r3",4\r\r\n5,"6', b","))
    assert [(record.line, record.cells, record.closed) for record in found] == [
        (1, ["a", "b"], True),
        (2, ["1\n2\r3", "4"], True),
        (6, ["5", "6"], False),
    ]


def test_an_unclosed_quote_in_a_large_text_takes_no_time():
    data = b'a,"' + b"x\n" * 2_000_000
    assert [record.closed for record in records(data, b",")] == [False]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", b","),
        ("a;b\n1;2\n", b";"),
        ("a\tb\n1\t2\n", b"\t"),
        ("a|b\n1|2\n", b"|"),
        ("a;b;c\n1,5;2,5;3,5\n", b";"),
        ("a\tb\n1,5\t2;5\n", b"\t"),
        ("Weight, kg;Height, m\n1,5;2,5\n", b";"),
        ("Weight, kg;Height, m\n1.5;2.5\n", b";"),
        ("Name, first\tAge, years\nSmith, John\t30\nDoe, Jane\t31\n", b"\t"),
        ("name,tags\nx,a;b\ny,c;d;e\n", b","),
        ("name,tags|more\nx,a|b|c\ny,c\n", b","),
        ('"a;b","c;d"\n"1;2","3;4"\n', b","),
        ('a,b\n"x;y\nz;w;v",1\n', b","),
        ("a;b\n1;2\n3\n4;5\n", b";"),
        ("\n\n  \na;b\n1;2\n", b";"),
        ("a,b", b","),
        ('"id",";\n;"\n1,1\n', b","),
        ('"id",";\n;"\n1,1\n2,2\n', b","),
        ("a\n1\n2\n", NO_DELIMITER),
        ("a\n1,5\n2,75\n", NO_DELIMITER),
        ("text\nhello, world\nfoo\na, b, c\n", NO_DELIMITER),
        ("a", NO_DELIMITER),
        ("", NO_DELIMITER),
        ("Report of May\na,b,c\n1,2,3\n", b","),
    ],
)
def test_delimiters(text, delimiter):
    assert sniff_delimiter(text.encode()) == delimiter


@pytest.mark.parametrize(
    "names",
    ["a", "a;", ";0;1", "0;1;2", "2019;2020", "x;2020;2019", "id;5", "id;0.25;0.5;0.75", "id;2020-01-01", "NA;b"],
)
def test_headers(names):
    assert not looks_like_data(names.split(";"))


@pytest.mark.parametrize(
    "names",
    [
        *("5", "0", "5.1;3.5", "1;1", "1;3", ";", "NA;?", "2020-01-01;7", "red;0.5"),
        *("39;State-gov;77516;Bachelors;13", "1,5;2,5", "1e3;-4", "5.1;3.5;Iris-setosa"),
    ],
)
def test_first_rows_that_are_no_headers(names):
    assert looks_like_data(names.split(";"))


@pytest.mark.parametrize(
    ("cells", "type_", "values"),
    [
        (["1", " 2 ", "-3"], pa.int64(), [1, 2, -3]),
        (["1", "", "NaN", None], pa.int64(), [1, None, None, None]),
        (["-", "1", "."], pa.int64(), [None, 1, None]),
        (["-", "1", "x"], pa.string(), ["-", "1", "x"]),
        (["1.5", "2", "+3", ".5", "5.", "1e3"], pa.float64(), [1.5, 2, 3, 0.5, 5, 1000]),
        (["9223372036854775808", "1"], pa.float64(), [2.0**63, 1]),
        (["9" * 400, "-inf"], pa.float64(), [float("inf"), -float("inf")]),
        (["00123", "5"], pa.string(), ["00123", "5"]),
        (["5", "007"], pa.string(), ["5", "007"]),
        (["0", "0.5", "-0.25"], pa.float64(), [0, 0.5, -0.25]),
        (["1", "x"], pa.string(), ["1", "x"]),
        (["0x1F", "0x20"], pa.string(), ["0x1F", "0x20"]),
        (["1", "0x20"], pa.string(), ["1", "0x20"]),
        (["1", "1,5"], pa.string(), ["1", "1,5"]),
        (["1_000"], pa.string(), ["1_000"]),
        (["true", "False", "TRUE", None], pa.bool_(), [True, False, True, None]),
        (["true", "1"], pa.string(), ["true", "1"]),
        (["2024-02-29", None], pa.date32(), [datetime.date(2024, 2, 29), None]),
        (["2024-02-30"], pa.string(), ["2024-02-30"]),
        (["2024-01-02", "2024-01-02 03:04"], pa.timestamp("s"), None),
        (["2024-01-02T03:04:05.678"], pa.timestamp("us"), [datetime.datetime(2024, 1, 2, 3, 4, 5, 678000)]),
        (["2024-01-02T03:04:05.123456789"], pa.timestamp("ns"), None),
        (["2024-01-02T03:04:05Z", "2024-01-02T03:04:05+02:00"], pa.timestamp("s", "UTC"), None),
        (["2024-01-02T03:04+02:00", None, "2024-07-02 03:04:05+02"], pa.timestamp("s", "+02:00"), None),
        (["2024-01-02T03:04:05.5-0330"], pa.timestamp("us", "-03:30"), None),
        (["2024-01-02T03:04+01:00", "2024-07-02T03:04+02:00"], pa.timestamp("s", "UTC"), None),
        (["2024-01-02T03:04+00:00"], pa.timestamp("s", "UTC"), None),
        (["2024-01-02T03:04-02:00", "2024-01-02"], pa.string(), None),
        (["2024-01-02T03:04+99:00"], pa.string(), None),
        (["2024-01-02T03:04:05Z", "2024-01-02T03:04:05"], pa.string(), None),
        (["23:59", "00:00:01.5"], pa.time64("us"), [datetime.time(23, 59), datetime.time(0, 0, 1, 500000)]),
        (["23:59", "24:01"], pa.string(), ["23:59", "24:01"]),
        (["23:59", "12"], pa.string(), ["23:59", "12"]),
        ([None, None], pa.null(), [None, None]),
        (["", "NA"], pa.string(), ["", "NA"]),
        ([], pa.null(), []),
        (["a", "", " b "], pa.string(), ["a", "", " b "]),
    ],
)
def test_types(cells, type_, values):
    found = typed(cells)
    assert found.type == type_
    if values is not None:
        assert found.to_pylist() == values


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,5", "7"], [1.5, 7]),
        (["1.234,5", "1.234.567", "-2,5e3"], [1234.5, 1234567, -2500]),
        (["1.234", "5"], [1234, 5]),
        (["0.123", "0.5"], [0.123, 0.5]),
        (["1.5", "2.25"], [1.5, 2.25]),
        (["1,5", "x"], ["1,5", "x"]),
        (["0,5", "007"], ["0,5", "007"]),
        (["01.02.2024"], ["01.02.2024"]),
    ],
)
def test_decimal_commas(cells, values):
    assert typed(cells, VALUES_WITH_COMMAS, decimal_comma=True).to_pylist() == values


@pytest.mark.parametrize(
    ("delimiter", "cells", "expected"),
    [
        (b";", ["1,5", "2"], True),
        (b";", ["1,234", "2"], True),
        (b"\t", ["1,234", "2"], False),
        (b"\t", ["0,234", "2"], True),
        (b"\t", ["1,234", "1,23"], True),
        (b"|", ["1.234,5"], True),
        (NO_DELIMITER, ["1,5"], True),
        (b";", ["1", "2"], False),
        (b";", ["1,5", "x"], False),
        (b";", ["1,234,567"], False),
        (b";", ["1,234.5"], False),
        (b";", [None, ""], False),
    ],
)
def test_whether_commas_are_decimal(delimiter, cells, expected):
    assert inferred(cells, VALUES_WITH_COMMAS).has_decimal_commas(delimiter) is expected


def test_times_with_one_offset_are_written_as_they_were_read():
    cells = ["2024-01-02T03:04:05+02:00", "2024-07-02T23:00:00+02:00"]
    times = typed(cells)
    assert [time.isoformat() for time in times.to_pylist()] == cells
    (learnt,) = learn_columns(read_columns(pa.table({"at": times})))
    assert [readable(learnt, moment) for moment in (learnt.low, learnt.high)] == cells


def test_only_times_are_inferred_from_json_text():
    assert typed(["1", "2"], TIMES).type == pa.string()
    assert typed(["2024-01-02T03:04:05.678Z"], TIMES).type == pa.timestamp("us", "UTC")
    assert typed(["2024-01-02", "soon"], TIMES).type == pa.string()
    assert typed([None], TIMES).to_pylist() == [None]


def test_text_stays_text():
    assert typed(["1", None], ()).equals(column("1", None))
    assert typed([None], ()).type == pa.string()


CELLS = ["1", "-7", "0.5", "+3", "007", "0x1F", "NAN", "1,5", "1.234,5", "1,234", "99999999999999999999", "true", "no"]
CELLS += ["2024-01-01", "2024-01-01 10:00", "2024-01-01T10:00:00.123456789", "1500-01-01", "2024-01-01T10:00Z", "10:30"]
CELLS += ["2024-01-01T10:00+02:00", "2024-01-01T10:00:00.5+0200", "2024-01-01T10:00-03:00"]
CELLS += ["-", ".", "NA", " 4 ", None]


@given(st.lists(st.lists(st.sampled_from(CELLS), max_size=3), min_size=1, max_size=4), st.booleans())
@example([["1,5"], ["007"]], True)
@example([["1500-01-01"], ["2024-01-01T10:00:00.123456789"]], False)
@example([["-"], ["1"], ["NAN"]], True)
def test_types_do_not_depend_on_blocks(blocks, decimal_comma):
    cells = [cell for block in blocks for cell in block]
    whole, in_blocks = inferred(cells, VALUES_WITH_COMMAS), TypeInference(VALUES_WITH_COMMAS)
    for block in blocks:
        in_blocks.look(column(*block))
    for delimiter in (b";", b"\t"):
        assert in_blocks.has_decimal_commas(delimiter) == whole.has_decimal_commas(delimiter)
    values = whole.read(column(*cells), decimal_comma)
    parts = [in_blocks.read(column(*block), decimal_comma) for block in blocks]
    assert {part.type for part in parts} == {values.type}
    read = pa.chunked_array([chunk for part in parts for chunk in part.chunks], values.type)
    assert str(read.to_pylist()) == str(values.to_pylist())  # NaN equals itself in writing
