"""Table files are read as people mean them and written whole; whatever is wrong is one sentence."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import io
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
import unicodedata
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from nptad import InputError
from nptad.io.formats import SUFFIXES
from nptad.io.read import read_table
from nptad.io.write import write_table
from nptad.tables.frames import read_columns

FORMATS = ("csv", "tsv", "json", "jsonl", "xlsx", "parquet", "arrow")
SMALL = pa.table({"name": ["Ann", None, "Bob, jr"], "weight": [61.5, 70.25, None], "age": [30, 31, 32]})


def read(data, format=None):
    return read_table(io.BytesIO(data.encode() if isinstance(data, str) else data), format)


def written(table, format=None):
    file = io.BytesIO()
    write_table(table, file, format)
    return file.getvalue()


def again(table, format):
    return read(written(table, format), format)


# Reading delimited text


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize(("delimiter", "point"), [pair for pair in product(",;\t|", ".,") if pair != (",", ",")])
def test_every_dialect_gives_the_same_table(delimiter, encoding, point, newline):
    lines = ["name;größe;note;id", "Ann;1.5;'two\nlines, ''so''';001", "'Bob; jr | x\t,';1234.25;;002", ";NA;ok;"]
    text = newline.join(line.translate(str.maketrans(";.'", delimiter + point + '"')) for line in lines) + newline
    table = read(text.encode(encoding))
    assert table.to_pydict() == {
        "name": ["Ann", f"Bob{delimiter} jr | x\t,".replace(".", point), None],
        "größe": [1.5, 1234.25, None],
        "note": ['two\nlines, "so"', None, "ok"],
        "id": ["001", "002", None],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,x\n2,y", {"a": [1, 2], "b": ["x", "y"]}),
        ("a\n1\n2\n", {"a": [1, 2]}),
        ("a\n1\n\n2\n", {"a": [1, None, 2]}),
        ("a,b\n\n1,2\n   \n3,4\n\n", {"a": [1, 3], "b": [2, 4]}),
        ("a,b\n", {"a": [], "b": []}),
        ("a,b\n\n\n", {"a": [], "b": []}),
        ("a", {"a": []}),
        (" a , b\n1, 2\n", {"a": [1], "b": [2]}),
        (",a,\n0,1,2\n", {"column 1": [0], "a": [1], "column 3": [2]}),
        ("a;b;;\n1;2;;\n", {"a": [1], "b": [2]}),
        ("a;;b\n1;;2\n", {"a": [1], "column 2": [None], "b": [2]}),
        ("sep=;\r\na;b\r\n1;2,5\r\n", {"a": [1], "b": [2.5]}),
        ("a,b\r1,2\r", {"a": [1], "b": [2]}),
        ('# Source: example.org\n# "2, 3, 4, 5\na;b\n1;2,5\n', {"a": [1], "b": [2.5]}),
        ("# Source\r\n#a,b\r\n1,2\r\n", {"#a": [1], "b": [2]}),
        ("#a\n1\n", {"#a": [1]}),
        ("#1\n", {"#1": []}),
        ("# a,b\n1.5,x\n", {"# a": [1.5], "b": ["x"]}),
        ("# Source, 2024\na,b\nx,2\n", {"a": ["x"], "b": [2]}),
        ("#a,b\nx,y\n", {"#a": ["x"], "b": ["y"]}),
        ("sep=;\n# Source\na;b\n1;2\n", {"a": [1], "b": [2]}),
        ('"a","b"\n"1",""\n"","2.5"\n', {"a": [1, None], "b": [None, 2.5]}),
        ('a,b\n"NA","?"\nNA,?\nx,y\n', {"a": ["NA", None, "x"], "b": ["?", None, "y"]}),
        ('a,b\n1,5" pipe\n', {"a": [1], "b": ['5" pipe']}),
        ("a,b\nx\0y,\0\n", {"a": ["x\0y"], "b": ["\0"]}),
        ("0,1\n5,6\n", {"0": [5], "1": [6]}),
        ("a,b\n=cmd|' /C calc'!A0,<script>\n", {"a": ["=cmd|' /C calc'!A0"], "b": ["<script>"]}),
        ("a\tb\n1,234\t5\n", {"a": ["1,234"], "b": [5]}),
    ],
)
def test_delimited_text(text, expected):
    assert read(text).to_pydict() == expected


@pytest.mark.parametrize("spelling", ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "?", "NaT"])
def test_missing_cells(spelling):
    assert read(f"a,b\n1,x\n{spelling},{spelling}\n").to_pydict() == {"a": [1, None], "b": ["x", None]}


def test_the_type_of_a_column_comes_from_all_its_cells():
    numbers = "".join(f"{i},{i}\n" for i in range(400_000))  # more than a block of pyarrow's
    assert len(numbers) > 1 << 22
    table = read(f"late,never\n{numbers}x,7\n")
    assert table.schema.types == [pa.string(), pa.int64()]
    assert table["late"][-2:].to_pylist() == ["399999", "x"]


def test_large_cells_and_rows():
    huge = "x" * 5_000_000
    assert read(f'a,b\n1,"{huge}"\n2,y\n')["b"].to_pylist() == [huge, "y"]
    assert read(f'{{"a": 1, "b": "{huge}"}}\n')["b"].to_pylist() == [huge]
    assert read(" " * 5_000_000 + "\na,b\n1,2\n").to_pydict() == {"a": [1], "b": [2]}


@pytest.mark.parametrize("blank", ["\n", " \n", "\r\n"])
def test_a_million_blank_lines_take_no_time(blank):
    started = time.process_time()
    for text in (f"{blank * 10**6}a,b\n1,2\n", f"a,b\n1,2\n{blank * 10**6}"):
        assert read(text).to_pydict() == {"a": [1], "b": [2]}
    assert time.process_time() - started < 4


def test_a_limit_on_unpacked_bytes():
    packed = io.BytesIO(gzip.compress(b"a,b\n" + bytes(10**6)))
    with pytest.raises(InputError, match="upload is larger than 1 MB when unpacked"):
        read_table(packed, name="upload", max_bytes=10**6)


def test_thousands_of_columns():
    names = [f"c{j}" for j in range(3000)]
    table = read("\n".join([";".join(names), *[";".join(["1,5"] * 3000)] * 3]))
    assert table.column_names == names
    assert table["c2999"].to_pylist() == [1.5] * 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "the table is empty"),
        ("\n \n", "the table is empty"),
        ("a,b\n1,2\n3\n", "Line 3 of the table has 1 cell(s), the header has 2"),
        ('a,b\n"1\n2",2\n\n3,4,5\n', "Line 5 of the table has 3 cell(s), the header has 2"),
        ("Report\na,b\n1,2\n", "Line 2 of the table has 2 cell(s), the header has 1"),
        ('a,b\n1,"x\n2,y\n3,z\n', "Line 2 of the table opens a quotation mark that is never closed"),
        ('"a,b\n1,2\n', "Line 1 of the table opens a quotation mark"),
        ("5.1,3.5,1.4,0.2,0.3\n4,3,2,1,0\n", "Line 1 of the table looks like data, not like column names ('5.1'"),
        (",\n1,2\n", "looks like data"),
        ("a,b,a\n1,2,3\n", "Columns 1 and 3 of the table are both called 'a'"),
        ("a,column 1\n1,2\n".replace("a", "", 1), "Columns 1 and 2 of the table are both called 'column 1'"),
        ("a\0,b\n1,2\n", "the table is not a text file"),
        ("a,b\n1,2\n".encode("utf-16-le"), "the table is not a text file"),
        (bytes(range(256)) * 8, "the table is not a text file"),
        (b"PK\x03\x04\x14\x00", "the table cannot be unpacked"),
        (b"\xd0\xcf\x11\xe0", "the table is a workbook of an old Excel or with a password"),
        (b"\x1f\x8b\x08\x00", "the table cannot be unpacked"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "the table cannot be unpacked"),
        (gzip.compress(b"", mtime=0), "the table is empty"),
        (gzip.compress(gzip.compress(b"a,b\n", mtime=0), mtime=0), "the table is gzipped"),
        ("\n" * 5_000_000, "the table is empty"),
    ],
)
def test_errors_of_delimited_text(data, message):
    with pytest.raises(InputError) as raised:
        read(data)
    assert str(raised.value).startswith(message) or message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(raised.value).endswith(".")


@given(st.binary(max_size=60), st.sampled_from(FORMATS))
@example(b'"', "csv")
@example(b"\x1f", "csv")
@example(b'{"a"', "jsonl")
@example(b"PAR1PAR1", "parquet")
def test_any_bytes_are_a_table_or_an_input_error(data, format):
    with contextlib.suppress(InputError):
        assert read(data, format).num_columns > 0


@given(st.text(alphabet='a1",;\t|\n\r .-{}[]:', max_size=40), st.sampled_from([None, "csv", "tsv", "jsonl"]))
def test_any_text_is_a_table_or_an_input_error(text, format):
    with contextlib.suppress(InputError):
        assert read(text, format).num_columns > 0


# JSON lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1, "b": "x"}\n\n{"b": "y", "c": true}\n', {"a": [1, None], "b": ["x", "y"], "c": [None, True]}),
        ('{"a": 1}\r\n{"a": 2.5}', {"a": [1, 2.5]}),
        ('{"a": 1, "b": 1}\n{"a": "x", "b": 2}\n{"a": true, "b": null}', {"a": ["1", "x", "true"], "b": [1, 2, None]}),
        ('{"a": "{[x"}', {"a": ["{[x"]}),
        ('{"a": "00123"}', {"a": ["00123"]}),
        ('{"a": 123456789012345678901234567890}', {"a": [1.2345678901234568e29]}),
        ('{"a": "2024-01-02"}', {"a": [datetime.datetime(2024, 1, 2)]}),
        ('{"a": null}', {"a": [None]}),
    ],
)
def test_json_lines(text, expected):
    assert read(text).to_pydict() == expected
    assert read("\ufeff" + text).to_pydict() == expected


def test_json_lines_of_types_that_change_late():
    lines = "".join(f'{{"late": {i}, "long": "{"x" * 500}"}}\n' for i in range(10_000))
    assert len(lines) > 1 << 22
    assert read(lines + '{"late": "x"}\n')["late"][-2:].to_pylist() == ["9999", "x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": [1]}', "Line 2 of the table has a list or an object in column 'a'"),
        ('{"a": {"b": 1}}', "Line 1 of the table has a list or an object in column 'a'"),
        ('{"a": 1}\n{"a": 2', "Line 2 of the table is not a JSON object"),
        ('[{"a": 1}]', "Line 1 of the table is not a JSON object"),
        ('{"a": 1}\n3', "Line 2 of the table is not a JSON object"),
        ('{"a":' + "[" * 300_000, "Line 1 of the table is not a JSON object"),
        ('{"a":\n' * 100_000, "Line 1 of the table is not a JSON object"),
        ("{}", "the table has no columns"),
        ('{"a": "\\ud800"}', "the table cannot be read as JSON lines"),
    ],
)
def test_errors_of_json_lines(text, message):
    with pytest.raises(InputError) as raised:
        read(text, "jsonl")
    assert str(raised.value).startswith(message)


# Parquet and Arrow


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_binary_formats_keep_everything(format):
    table = pa.table(
        {"d": pa.array(["a", None]).dictionary_encode(), "n": [[1], [2]], "f": pa.array([1, 2], pa.int8())}
    )
    assert again(table, format).equals(table)
    assert read_columns(again(table, format)).content == {"d": "text", "n": "nested", "f": "number"}


def test_arrow_streams():
    file = io.BytesIO()
    with pyarrow.ipc.new_stream(file, SMALL.schema) as writer:
        writer.write_table(SMALL)
    assert read(file.getvalue()).equals(SMALL)


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_damaged_binary_files(format):
    data = written(pa.table({"a": np.arange(500), "b": [f"text {i}" for i in range(500)]}), format)
    random = np.random.default_rng(0)
    for cut in [0, 4, 8, len(data) // 2, len(data) - 1]:
        with pytest.raises(InputError, match="the table"):
            read(data[:cut], format)
    for _ in range(200):  # no crash, no other error
        noisy = bytearray(data)
        for position in random.integers(len(data), size=5):
            noisy[position] = random.integers(256)
        with contextlib.suppress(InputError):
            read(bytes(noisy), format).to_pylist()


def test_a_directory_called_like_a_partition_adds_no_column(tmp_path):
    write_table(SMALL, tmp_path / "year=2024" / "x.parquet")
    assert read_table(tmp_path / "year=2024" / "x.parquet").equals(SMALL)


# Places and formats


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".csv.gz", ".txt.gz", ".TSV.GZ", ".jsonl.gz", ".ndjson.gz", ".CSV"])
def test_every_suffix(tmp_path, suffix):
    path = tmp_path / f"some.table{suffix}"
    write_table(SMALL, str(path))
    assert read_table(path).to_pydict() == SMALL.to_pydict()
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == suffix.lower().endswith(".gz")
    assert os.listdir(tmp_path) == [path.name]


def test_a_format_that_is_named_is_packed_all_the_same(tmp_path):
    write_table(SMALL, tmp_path / "x.gz", "tsv")
    assert gzip.decompress((tmp_path / "x.gz").read_bytes()) == written(SMALL, "tsv")


@pytest.mark.parametrize("format", FORMATS)
def test_without_a_suffix_the_content_says_the_format(tmp_path, format):
    data = written(SMALL, format)
    assert read(data).to_pydict() == SMALL.to_pydict()
    assert read(gzip.compress(data, mtime=0)).to_pydict() == SMALL.to_pydict()
    (tmp_path / "data").write_bytes(data)
    assert read_table(tmp_path / "data").to_pydict() == SMALL.to_pydict()


def test_an_open_file_is_read_and_named(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1\n")
    with path.open("rb") as file, pytest.raises(InputError, match=r"Line 2 of .*x\.csv has 1 cell"):
        read_table(file)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.csv", "does not exist; check the name"),
        ("folder.csv", "is a directory; name a file"),
        ("none.csv/x.csv", "does not exist"),
        ("file.csv/x.csv", "cannot be read: Not a directory"),
        ("x.xls", "is a workbook of another kind by its suffix; save it as .xlsx or CSV"),
        ("x.docx", "has no suffix that says its format; use one of .csv, .txt"),
        ("x.parquet.gz", "has no suffix that says its format"),
        ("x.gz", "has no suffix that says its format"),
        ("parquet.csv", "holds parquet data, not csv; rename it."),
        ("file.parquet", "cannot be read as Parquet"),
        ("file.arrow", "cannot be read as Arrow"),
        ("\0.csv", "cannot be read"),
    ],
)
def test_errors_of_files(tmp_path, name, message):
    (tmp_path / "folder.csv").mkdir()
    for suffix in ("csv", "parquet", "arrow"):
        (tmp_path / f"file.{suffix}").write_text("a,b\n1,2\n")
    (tmp_path / "parquet.csv").write_bytes(written(SMALL, "parquet"))
    with pytest.raises(InputError) as raised:
        read_table(tmp_path / name)
    assert str(raised.value).startswith(f"{tmp_path / name} {message}")


@contextlib.contextmanager
def nobody():
    """Without the powers of root, whom permissions do not stop."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_no_permission(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    path.chmod(0)
    tmp_path.chmod(0o500)
    try:
        with nobody(), pytest.raises(InputError, match=r"x\.csv cannot be read: Permission denied"):
            read_table(path)
        with nobody(), pytest.raises(InputError, match=r"y\.csv cannot be written: Permission denied"):
            write_table(SMALL, tmp_path / "y.csv")
    finally:
        tmp_path.chmod(0o700)


def test_unknown_formats():
    with pytest.raises(
        InputError, match="format must be one of csv, tsv, json, jsonl, xlsx, parquet, arrow, got 'xml'"
    ):
        read(b"", "xml")
    with pytest.raises(InputError, match="got 'xml'"):
        write_table(SMALL, io.BytesIO(), "xml")
    with pytest.raises(InputError, match="no suffix"):
        write_table(SMALL, "scores")


def test_standard_input_and_output_of_a_process():
    script = (
        "from nptad.io.read import read_table\nfrom nptad.io.write import write_table\n"
        "print('first'); write_table(read_table('-'), '-', 'jsonl')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], input="a;größe\n1;2,5\n".encode("cp1252"), capture_output=True, timeout=60
    )
    assert ran.stderr == b""
    first, row = ran.stdout.splitlines()
    assert first == b"first"
    assert json.loads(row) == {"a": 1, "größe": 2.5}


def test_standard_input_is_named_in_errors(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1\n")))
    with pytest.raises(InputError, match="Line 2 of standard input has 1 cell"):
        read_table("-")


# Writing


def test_csv_as_written():
    table = SMALL.append_column("when", [[datetime.datetime(2024, 1, 2), None, None]])
    assert written(table).decode() == (
        '"name","weight","age","when"\n"Ann",61.5,30,2024-01-02 00:00:00.000000\n,70.25,31,\n"Bob, jr",,32,\n'
    )
    assert written(table, "tsv").decode().splitlines()[3] == '"Bob, jr"\t\t32\t'


def test_json_lines_as_written():
    table = pa.table(
        {
            "text": ['a"b\n\0ü', None],
            "number": [float("nan"), 1.5],
            "whole": [1, None],
            "time": pa.array([0, None], pa.timestamp("ns", "UTC")),
            "day": [datetime.date(2024, 1, 2), None],
            "category": pa.array(["=x", "y"]).dictionary_encode(),
            "length": [datetime.timedelta(seconds=1), None],
            "flag": [True, None],
            "nothing": pa.nulls(2),
            "infinite": [float("inf"), -float("inf")],
        }
    )
    rows = [json.loads(line) for line in written(table, "jsonl").splitlines()]
    assert [list(row.values()) for row in rows] == [
        ['a"b\n\0ü', None, 1, "1970-01-01 00:00:00.000000000Z", "2024-01-02", "=x", 1000000, True, None, None],
        [None, 1.5, None, None, None, "y", None, None, None, None],
    ]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
@pytest.mark.parametrize("delimiter", ["csv", "tsv"])
def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe(kind, delimiter):
    cells = ["=1+1", "+1", "-1", "@A1", "\t=1", "\r=1", "\n=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff20A1"]
    cells += ["\xa0=1", "\ufeff=1", " =1", "\u200b=1", "\u200e=1", "\xad\u2060=1"]
    cells += ["\ufe661", "\ufe621", "\ufe631", "\ufe6bA1"]
    n_run = len(cells)
    cells += ["\u200bx", "a=1", "", None, "x", " x"]
    table = pa.table({"=a": pa.array(cells, pa.string()).cast(kind), "n": [-float(i) for i in range(len(cells))]})
    back = again(table, delimiter)
    assert back.column_names == ["'=a", "n"]
    assert back["'=a"].to_pylist() == [f"'{cell}" for cell in cells[:n_run]] + cells[n_run:]
    assert back["n"].to_pylist() == table["n"].to_pylist()


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize("cell", [[1], {"a": 1}, b"=1"])
def test_what_text_cannot_hold_is_refused_by_name(format, cell):
    table = pa.table({"good": [1], "bad": pa.array([cell])})
    file = io.BytesIO()
    with pytest.raises(InputError, match=r"Column 'bad' holds .*; write Parquet or Arrow"):
        write_table(table, file, format)
    assert file.getvalue() == b""


@pytest.mark.parametrize("format", FORMATS)
def test_tables_that_cannot_be_written(format):
    with pytest.raises(InputError, match="'a'"):
        written(pa.table([[1], [2]], ["a", "a"]), format)
    with pytest.raises(InputError, match="no columns"):
        written(pa.table({}), format)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
COLUMNS = {
    "text": st.none() | TEXT,
    "hostile": st.none() | st.text(alphabet="=+-@\t\r\n\"',;|.01 NAx\0", max_size=6),
    "float": st.none() | st.floats(allow_nan=False),
    "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
    "truth": st.none() | st.booleans(),
    "day": st.none() | st.dates(),
    "time": st.none() | st.datetimes(),
    "clock": st.none() | st.times(),
}
TYPES = {"text": pa.string(), "hostile": pa.string(), "float": pa.float64(), "whole": pa.int64()}
TYPES |= {"truth": pa.bool_(), "day": pa.date32(), "time": pa.timestamp("us"), "clock": pa.time64("us")}


def as_in_a_spreadsheet(cell):
    if not isinstance(cell, str) or not cell:
        return cell
    unseen = [character for character in cell if character.isspace() or unicodedata.category(character) in ("Cc", "Cf")]
    runs = cell.lstrip("".join(unseen))[:1] in set("=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b")
    return f"'{cell}" if runs or cell[0] in "\t\r\n" else cell


@given(st.lists(st.tuples(*COLUMNS.values()), max_size=6), st.sampled_from(["csv", "tsv"]))
def test_delimited_text_round_trip(rows, format):
    rows = [("x", "x", *rows[0][2:]), *rows] if rows else rows  # so that numbers among the text stay text
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    arrays = [pa.array(cells, TYPES[name]) for name, cells in zip(COLUMNS, columns, strict=True)]
    back = again(pa.table(arrays, list(COLUMNS)), format)
    assert back.column_names == list(COLUMNS)
    assert [column.to_pylist() for column in back.columns] == [list(map(as_in_a_spreadsheet, c)) for c in columns]


@given(st.lists(st.none() | st.text(alphabet="=a,;\t|\"'\n\r 1.", max_size=5), max_size=5))
def test_one_column_round_trip(cells):
    cells = ["x", *cells]
    assert again(pa.table({"a": cells}), "csv")["a"].to_pylist() == list(map(as_in_a_spreadsheet, cells))


@given(st.lists(st.text(alphabet="=ab,;\t|\"'\n -ü", max_size=5), min_size=1, max_size=4))
@example([";\n;"])
def test_column_names_round_trip(names):
    names = ["id", *names]
    expected = [as_in_a_spreadsheet(name).strip() or f"column {j}" for j, name in enumerate(names, 1)]
    assume(len(set(expected)) == len(names) == len(set(names)))
    assert again(pa.table([[1]] * len(names), names), "csv").column_names == expected


@given(st.lists(st.tuples(*COLUMNS.values()), min_size=1, max_size=6))
def test_json_lines_round_trip(rows):
    rows = [("x", "x", *rows[0][2:]), *rows]
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        [pa.array(cells, TYPES[name]) for name, cells in zip(COLUMNS, columns, strict=True)], list(COLUMNS)
    )
    back = again(table.set_column(5, "day", table["day"].cast(pa.timestamp("s"))), "jsonl")
    for name, cells in zip(COLUMNS, columns, strict=True):
        finite = [None if isinstance(cell, float) and np.isinf(cell) else cell for cell in cells]
        midnight = [datetime.datetime(*c.timetuple()[:3]) if type(c) is datetime.date else c for c in finite]
        assert back[name].to_pylist() == midnight


def test_what_was_read_can_be_learnt_from():
    text = "n;w;t;f;d;s;c;nothing\n1,5;1;x;true;2024-01-02;2024-01-02T03:04:05Z;12:30;\n2,5;;y;false;;;;\n"
    raw = read_columns(read(text))
    assert list(raw.content.values())[:4] == ["number", "number", "text", "boolean"]
    assert raw.n_rows == 2


# Whole or not at all


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl", ".parquet", ".arrow"])
def test_a_full_disk_leaves_the_earlier_file(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    path.write_text("earlier")
    table = pa.table({"a": np.random.default_rng(0).normal(size=50_000)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(InputError, match=r"cannot be written: File too large"):
            write_table(table, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_text() == "earlier"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("format", FORMATS)
def test_a_full_device(format):
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        write_table(SMALL, "/dev/full", format)


def write_forever(table, path):
    while True:
        write_table(table, path)


# An interruption between opening a file and the with statement that closes it leaves that to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl", ".parquet", ".arrow"])
def test_an_interruption_leaves_a_whole_file(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    table = pa.table({"a": np.arange(100_000), "b": ["text"] * 100_000})
    write_table(table, path)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for delay in (0.002, 0.02, 0.05):
            signal.setitimer(signal.ITIMER_REAL, delay)
            with pytest.raises(KeyboardInterrupt):
                write_forever(table, path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert os.listdir(tmp_path) == [path.name]
    assert read_table(path).equals(table)


@pytest.mark.parametrize("format", FORMATS)
def test_a_broken_pipe_is_passed_on(format):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as file, pytest.raises(BrokenPipeError):
        write_table(SMALL, file, format)


def test_a_named_pipe_is_written_to_and_stays(tmp_path):
    pipe, received = tmp_path / "pipe.csv", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_table(SMALL, pipe)
    reader.join()
    assert received == [written(SMALL)]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "file.csv")
    write_table(SMALL, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert read_table(tmp_path / "file.csv").equals(SMALL)


def test_a_directory_is_not_written_over(tmp_path):
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(InputError, match=r"x\.csv cannot be written: Is a directory"):
        write_table(SMALL, tmp_path / "x.csv")
