"""Several files or a folder are one table, as if all rows stood in one file."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from nptad import InputError
from nptad.errors import TableWarning
from nptad.io.places import is_url, name_of
from nptad.io.read import read_table
from nptad.io.sources import read_source, table_files
from nptad.io.write import write_table


@pytest.fixture
def folder(tmp_path):
    """Writes files into a folder."""

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


def read(*place, **more):
    return read_source(*map(str, place), **more)


def test_a_folder_is_one_table_with_the_file_of_each_row(folder):
    place = folder(**{"b.csv": "x,y\n3,r\n", "a.csv": "x,y\n1,p\n2,q\n", ".c.csv": "z\n1\n", "_SUCCESS": ""})
    table, keys = read(place)
    assert keys == ["file"]
    assert table.drop_columns("file").to_pydict() == {"x": [1, 2, 3], "y": ["p", "q", "r"]}
    assert table["file"].to_pylist() == ["a.csv", "a.csv", "b.csv"]


def test_a_pattern_and_a_name(folder):
    place = folder(**{"b1.csv": "x\n1\n", "b2.csv": "x\n2\n", "c.csv": "x\n3\n"})
    assert read(place / "b*.csv").table["x"].to_pylist() == [1, 2]
    assert read(place / "**/*.csv").table["x"].to_pylist() == [1, 2, 3]
    assert read(place / "c.csv") == (read_table(place / "c.csv"), [])
    assert table_files("-") == ["-"]


def test_files_of_several_folders_keep_the_folders_that_differ(tmp_path):
    for name in ("year=2023/a.csv", "year=2024/a.csv", "year=2024/b/c.csv"):
        write_table(pa.table({"x": [1]}), tmp_path / name)
    found = read(tmp_path / "**" / "*.csv").table["file"].to_pylist()
    assert found == ["year=2023/a.csv", "year=2024/a.csv", "year=2024/b/c.csv"]


def test_a_file_whose_name_looks_like_a_pattern(folder):
    place = folder(**{"a[1].csv": "x\n1\n", "a1.csv": "x\n2\n"})
    assert read(place / "a[1].csv").table["x"].to_pylist() == [1]


def test_formats_and_orders_of_columns_may_differ(tmp_path):
    table = pa.table({"x": [1.5, None], "y": ["p", "q"]})
    for name in ("a.csv", "b.xlsx", "c.parquet", "d.json", "e.csv.gz"):
        write_table(table.select(["y", "x"]) if name == "c.parquet" else table, tmp_path / name)
    joined = read(tmp_path).table
    assert joined.column_names == ["x", "y", "file"]
    assert joined["x"].to_pylist() == [1.5, None] * 5
    assert joined["y"].to_pylist() == ["p", "q"] * 5


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1\n2", "2.5"),
        ("1\n2", "NA"),
        ("1\n2", "007"),
        ("1\n2", "red"),
        ("1\n2", "true"),
        ("2024-01-02", "2024-01-03T10:00:00"),
        ("2024-01-02", "2024-01-03T10:00:00Z"),
        ("2024-01-02T10:00:00", "2024-01-03T10:00:00.5"),
        ("2024-01-02T10:00:00+02:00", "2024-01-03T10:00:00.5+02:00"),
        ("2024-01-02T10:00:00+01:00", "2024-07-03T10:00:00.5+02:00"),
        ("2024-01-02T10:00:00+01:00", "2024-07-03T10:00:00Z"),
        ("10:00", "2024-01-03"),
        ("true", "false"),
        ('"NA"', "red"),
        ("NA", "NA"),
    ],
)
def test_a_column_has_the_type_that_fits_all_files(folder, first, second):
    place = folder(**{"a.csv": f"x\n{first}\n", "b.csv": f"x\n{second}\n"})
    whole = folder(**{"all.txt": f"x\n{first}\n{second}\n"}) / "all.txt"
    joined = read(place / "*.csv").table["x"]
    assert joined.to_pylist() == read_table(whole)["x"].to_pylist()
    assert joined.type == read_table(whole)["x"].type


def test_a_column_that_was_text_in_training_is_text(folder):
    place = folder(**{"a.csv": "x\n1\n", "b.csv": "x\n2\n"})
    assert read_source(str(place), ["x"]).table["x"].to_pylist() == ["1", "2"]


def test_parquet_files_say_their_types_themselves(tmp_path):
    day = datetime.datetime(2024, 1, 2)
    for name, cells in {"a": [1], "b": [2.5]}.items():
        write_table(pa.table({"x": cells, "t": pa.array(["p"]).dictionary_encode()}), tmp_path / f"{name}.parquet")
    assert read(tmp_path).table.drop_columns("file").to_pydict() == {"x": [1.0, 2.5], "t": ["p", "p"]}
    write_table(pa.table({"x": [day], "t": ["q"]}), tmp_path / "c.parquet")
    with pytest.raises(InputError, match=r"Column 'x' is int64 in .*a\.parquet and timestamp\[us\] in .*c\.parquet"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("x,z\n1,2\n", r"b\.csv has no column 'y', which .*a\.csv has|a\.csv has no column 'z', which .*b\.csv has"),
        ("x\n1\n", r"b\.csv has no column 'y'"),
        ("x,y,z\n1,2,3\n", r"a\.csv has no column 'z'"),
        ("x,y\n1\n", r"Line 2 of .*b\.csv has 1 cell"),
        ("", r"b\.csv is empty"),
    ],
)
def test_errors_name_the_file(folder, second, message):
    place = folder(**{"a.csv": "x,y\n1,2\n", "b.csv": second})
    with pytest.raises(InputError, match=message):
        read(place)


def test_a_column_called_file_stays(folder):
    table, keys = read(folder(**{"a.csv": "file,x\nf,1\n", "b.csv": "file,x\ng,2\n"}))
    assert keys == ["nptad_file"]
    assert table["file"].to_pylist() == ["f", "g"]


def test_other_files_of_a_folder_are_left_out_with_a_note(folder):
    place = folder(**{"a.csv": "x\n1\n", "b.csv": "x\n2\n", "notes.pdf": "", "Makefile": ""})
    with pytest.warns(TableWarning, match=r": 2 files without the suffix of a table left out"):
        assert read(place).table["x"].to_pylist() == [1, 2]


def test_a_note_beside_the_tables_of_a_folder_is_no_table(folder):
    place = folder(**{"a.csv": "x\n1\n", "README.txt": "Hello"})
    with pytest.warns(TableWarning, match=r": 1 file without the suffix of a table left out"):
        assert read(place).table["file"].to_pylist() == ["a.csv"]
    (place / "a.csv").rename(place / "a.txt")
    (place / "README.txt").write_text("x\n2\n")
    assert sorted(read(place).table["x"].to_pylist()) == [1, 2]


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match="There is no table in the folder"):
        read(tmp_path)
    with pytest.raises(InputError, match=r"There is no file .*\*\.csv; check the name or the pattern"):
        read(tmp_path / "*.csv")
    with pytest.raises(InputError, match=r"none\.csv does not exist; check the name"):
        read(tmp_path / "none.csv")


def test_sheets_of_several_workbooks(tmp_path):
    for name in ("a", "b"):
        write_table(pa.table({"x": [name]}), tmp_path / f"{name}.xlsx")
    assert read_source(str(tmp_path), sheet="nptad").table["x"].to_pylist() == ["a", "b"]
    with pytest.raises(InputError, match=r"a\.xlsx has no sheet 'other'"):
        read_source(str(tmp_path), sheet="other")


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("orders.csv", "orders.csv"),
        ("-", "standard input"),
        ("https://ann:secret@example.org:81/in/a.csv?key=secret#top", "https://example.org:81/in/a.csv"),
        ("s3://shop/in/a.csv", "s3://shop/in/a.csv"),
        ("postgresql:///shop?password=secret#select 1", "postgresql:///shop"),
        ("duckdb:in/shop.db#select 'secret'", "duckdb:in/shop.db"),
    ],
)
def test_messages_name_places_without_secrets(place, name):
    assert name_of(place) == name


def test_only_some_schemes_are_urls():
    assert all(is_url(f"{scheme}://x/a.csv") for scheme in ("http", "https", "s3", "gs", "HTTPS"))
    assert not any(
        is_url(f"{scheme}://x/a.csv") for scheme in ("file", "ftp", "github", "simplecache::s3", "reference")
    )
