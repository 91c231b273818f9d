"""Excel workbooks: cells keep their types, and neither a damaged nor a hostile file does harm."""

from __future__ import annotations

import contextlib
import datetime
import io
import sys
import time
import zipfile

import numpy as np
import openpyxl
import pyarrow as pa
import pytest

from nptad import InputError
from nptad.io import excel
from nptad.io.read import read_table
from nptad.io.write import write_table

MIDNIGHT, NOON = datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 2, 12, 30)


def workbook(*sheets, hidden=()):
    """The bytes of a workbook; a sheet is a name and rows."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
        sheet.sheet_state = "hidden" if name in hidden else "visible"
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def read(data, **more):
    return read_table(io.BytesIO(data), "xlsx", name="x.xlsx", **more)


def column(*cells, **more):
    """The column of these cells, beside another one, so that no row is blank."""
    rows = [["a", "b"], *([cell, 1] for cell in cells)]
    return read(workbook(("Sheet", rows)), **more)["a"]


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        ([1, 2.0, None], pa.int64(), [1, 2, None]),
        ([1, 2.5], pa.float64(), [1.0, 2.5]),
        ([1, "#DIV/0!", "#N/A"], pa.int64(), [1, None, None]),
        ([True, False, None], pa.bool_(), [True, False, None]),
        ([MIDNIGHT, None], pa.date32(), [MIDNIGHT.date(), None]),
        ([MIDNIGHT, NOON], pa.timestamp("us"), [MIDNIGHT, NOON]),
        ([datetime.time(9, 30), None], pa.time64("us"), [datetime.time(9, 30), None]),
        ([datetime.timedelta(hours=30)], pa.duration("us"), [datetime.timedelta(hours=30)]),
        (["red", "NA", None, "blue"], pa.string(), ["red", None, None, "blue"]),
        (["00123", 7], pa.string(), ["00123", "7"]),
        (["1,5", "2,25"], pa.float64(), [1.5, 2.25]),
        ([1, "2.5", 3.0], pa.float64(), [1.0, 2.5, 3.0]),
        (["12", "13"], pa.int64(), [12, 13]),
        ([1, "red", True, 2.5, MIDNIGHT], pa.string(), ["1", "red", "true", "2.5", "2024-01-02"]),
        (["2024-01-02", MIDNIGHT], pa.date32(), [MIDNIGHT.date()] * 2),
        ([None, "?"], pa.null(), [None, None]),
        (["two\nlines"], pa.string(), ["two\nlines"]),
    ],
)
def test_cells_keep_their_types(cells, kind, values):
    read = column(*cells)
    assert read.type == kind
    assert read.to_pylist() == values


def test_a_column_that_was_text_in_training_is_text():
    assert column(1, 2.5, as_text=["a"]).to_pylist() == ["1", "2.5"]


def test_the_same_table_as_csv_and_as_excel():
    text = "n;w;f;d;s;c\nAnn;1,5;true;2024-01-02;2024-01-02T03:04:05;12:30\n;2;false;;2024-01-03T00:00:00;\n"
    table = read_table(io.BytesIO(text.encode()))
    file = io.BytesIO()
    write_table(table, file, "xlsx")
    back = read(file.getvalue())
    assert back.to_pydict() == table.to_pydict()
    assert back.column_names == table.column_names


def test_the_first_sheet_that_is_not_hidden_or_the_one_that_is_named():
    data = workbook(("Notes", [["a"], [1]]), ("Orders", [["b"], [2]]), ("Old", [["c"], [3]]), hidden=["Notes"])
    assert read(data).to_pydict() == {"b": [2]}
    assert read(data, sheet="Notes").to_pydict() == {"a": [1]}
    assert read(data, sheet="Old").to_pydict() == {"c": [3]}
    with pytest.raises(InputError, match=r"x\.xlsx has no sheet 'None'; it has 'Notes', 'Orders', 'Old'\."):
        read(data, sheet="None")
    with pytest.raises(InputError, match=r"x\.csv has no sheets"):
        read_table(io.BytesIO(b"a\n1\n"), name="x.csv", sheet="Orders")


def test_a_table_may_stand_anywhere_on_its_sheet():
    rows = [[], [None, "a", None, "b", None, 2019], [None, 1, None, "x"], [], [None, 2, None, None, 5]]
    assert read(workbook(("S", rows))).to_pydict() == {"a": [1, 2], "b": ["x", None], "column 3": [None, 5]} | {
        "2019": [None, None]
    }


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], r"x.xlsx \(sheet 'S'\) is empty"),
        ([[None, None]], r"x.xlsx \(sheet 'S'\) is empty"),
        (
            [["Report of May"], ["a", "b", "c"], [1, 2, 3]],
            r"Row 1 of x.xlsx \(sheet 'S'\) has a name for 1 of 3 columns",
        ),
        ([[5.5, 3.5], [4, 3]], r"Row 1 of x.xlsx \(sheet 'S'\) looks like data"),
        ([["a", "a"], [4, 3]], r"Columns 1 and 2 of x.xlsx \(sheet 'S'\) are both called 'a'"),
    ],
)
def test_errors_name_the_file_and_the_sheet(rows, message):
    with pytest.raises(InputError, match=message):
        read(workbook(("S", rows)))


def repacked(data, name, change):
    """The workbook with one of its parts changed."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.namelist():
            new.writestr(part, change(old.read(part)) if part == name else old.read(part))
    return file.getvalue()


SMALL = workbook(("S", [["a", "b"], ["x", 1], ["y", 2]]))
SHEET = "xl/worksheets/sheet1.xml"


def test_entities_are_refused():
    def laugh(xml):
        lines = [b'<!ENTITY l0 "ha">', *(b'<!ENTITY l%d "%s">' % (i, b"&l%d;" % (i - 1) * 9) for i in range(1, 9))]
        declared = b"<!DOCTYPE x [" + b"".join(lines) + b"]>"
        return declared + xml[xml.index(b"<worksheet") :].replace(b"<v>1</v>", b"<v>&l8;</v>")

    def steal(xml):
        return b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + xml[xml.index(b"<worksheet") :]

    for change in (laugh, steal):
        with pytest.raises(InputError, match=r"x\.xlsx cannot be read as an Excel workbook \(EntitiesForbidden"):
            read(repacked(SMALL, SHEET, change))


def test_a_workbook_that_unpacks_beyond_the_limit_is_refused():
    data = repacked(SMALL, SHEET, lambda xml: xml.replace(b"<sheetData>", b"<sheetData>" + b" " * 3_000_000))
    assert len(data) < 20_000
    with pytest.raises(InputError, match=r"x\.xlsx is larger than 1 MB when unpacked"):
        read(data, max_bytes=10**6)


def test_a_cell_in_the_last_corner_costs_nothing():
    book = openpyxl.load_workbook(io.BytesIO(SMALL))
    book.active.cell(1 << 20, 1 << 14, "stray")
    file = io.BytesIO()
    book.save(file)
    started = time.process_time()
    table = read(file.getvalue())
    assert time.process_time() - started < 10
    assert table.to_pydict() == {"a": ["x", "y", None], "b": [1, 2, None], "column 3": [None, None, "stray"]}


def test_a_sheet_that_spans_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(excel, "_MOST_CELLS", 1000)
    rows = [[*["a"] * 20]] * 51
    with pytest.raises(InputError, match=r"spans more than 0 million cells; save it as CSV"):
        read(workbook(("S", rows)))


def test_rows_beyond_the_last_of_excel_are_refused():
    data = repacked(SMALL, SHEET, lambda xml: xml.replace(b'<row r="3"', b'<row r="99999999999"'))
    started = time.process_time()
    with pytest.raises(InputError, match="has a row beyond the last of Excel"):
        read(data)
    assert time.process_time() - started < 10


def test_wrong_dimensions_are_no_matter():
    data = repacked(SMALL, SHEET, lambda xml: xml.replace(b'ref="A1:B3"', b'ref="A1"'))
    assert data != SMALL
    assert read(data).to_pydict() == {"a": ["x", "y"], "b": [1, 2]}


def test_damaged_workbooks():
    random = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"x\.xlsx is a workbook of an old Excel or with a password"):
        read(b"\xd0\xcf\x11\xe0")
    with pytest.raises(InputError, match=r"x\.xlsx cannot be unpacked \(File is not a zip file\)"):
        read(b"a,b\n1,2\n")
    for cut in (0, 10, len(SMALL) // 2, len(SMALL) - 1):
        with pytest.raises(InputError, match=r"x\.xlsx"):
            read(SMALL[:cut])
    for part in zipfile.ZipFile(io.BytesIO(SMALL)).namelist():
        for _ in range(10):

            def spoil(xml):
                noisy = bytearray(xml)
                for position in random.integers(len(noisy), size=4):
                    noisy[position] = random.integers(256)
                return bytes(noisy)

            with contextlib.suppress(InputError):
                assert read(repacked(SMALL, part, spoil)).num_columns


def test_a_csv_file_in_a_zip_is_no_workbook():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
    with pytest.raises(InputError, match=r"x\.xlsx cannot be read as an Excel workbook"):
        read(file.getvalue())


def test_without_openpyxl_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    for use in (lambda: read(SMALL), lambda: write_table(pa.table({"a": [1]}), io.BytesIO(), "xlsx")):
        with pytest.raises(InputError, match=r"needs openpyxl; install it with pip install 'nptad\[excel\]'"):
            use()


# Writing


def written_and_read(**columns):
    file = io.BytesIO()
    write_table(pa.table(columns), file, "xlsx")
    return read(file.getvalue())


def test_text_is_never_a_formula():
    cells = ["=1+1", "+1", "@A1", "#REF!", "\x0bx", "two\nlines", "00123"]
    file = io.BytesIO()
    write_table(pa.table({"=a": cells}), file, "xlsx")
    sheet = openpyxl.load_workbook(file).active
    assert {cell.data_type for (cell,) in sheet.iter_rows()} <= {"s", "inlineStr"}
    assert [cell.value for (cell,) in sheet.iter_rows()] == ["=a", *cells[:4], "\ufffdx", *cells[5:]]


def test_what_excel_cannot_hold_becomes_text_or_a_gap():
    zoned = pa.array([0], pa.timestamp("ns", "UTC"))
    table = written_and_read(
        whole=[10**17], near=[10**14], infinite=[float("inf")], nothing=[float("nan")], zoned=zoned
    )
    assert table["whole"].to_pylist() == [10**17]
    assert table["near"].to_pylist() == [10**14]
    assert table["infinite"].to_pylist() == [float("inf")]
    assert table["nothing"].to_pylist() == [None]
    assert table["zoned"].to_pylist() == [datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)]
    assert written_and_read(old=[datetime.date(1850, 1, 2)])["old"].to_pylist() == [datetime.date(1850, 1, 2)]


def test_tables_that_no_sheet_can_hold():
    with pytest.raises(InputError, match="Column 'a' holds list"):
        written_and_read(a=[[1]])
    with pytest.raises(InputError, match="1,048,576 rows and 16,384 columns at most; write CSV or Parquet"):
        written_and_read(a=pa.nulls(1 << 20))
