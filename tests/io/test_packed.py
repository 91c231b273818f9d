"""Zip archives around one table and JSON arrays; what is packed does not become more than its limit."""

from __future__ import annotations

import gzip
import io
import json
import zipfile

import pyarrow as pa
import pytest

from nptad import InputError
from nptad.io import packed
from nptad.io.read import read_table
from nptad.io.write import write_table

TABLE = pa.table({"a": [1, 2], "b": ["x", None]})


def written(format):
    file = io.BytesIO()
    write_table(TABLE, file, format)
    return file.getvalue()


def archive(**files):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    return file.getvalue()


def read(data, **more):
    return read_table(io.BytesIO(data), name="x.zip", **more)


@pytest.mark.parametrize("format", ["csv", "tsv", "json", "jsonl", "xlsx", "parquet", "arrow"])
def test_the_table_of_an_archive_is_read(tmp_path, format):
    data = archive(
        **{
            f"in/orders.{format}": written(format),
            "README.md": "#",
            "readme.txt": "Hello",
            "__MACOSX/._a.csv": "",
            "in/.b.csv": "",
        }
    )
    assert read(data).to_pydict() == TABLE.to_pydict()
    (tmp_path / "x.zip").write_bytes(data)
    assert read_table(tmp_path / "x.zip").to_pydict() == TABLE.to_pydict()


def test_a_workbook_without_a_suffix_is_known_by_its_content():
    assert read(written("xlsx")).to_pydict() == TABLE.to_pydict()


def test_gzip_in_an_archive():
    assert read(archive(**{"a.csv.gz": gzip.compress(written("csv"), mtime=0)})).to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"x.zip must contain one table file, and has 0 \(none\)"),
        ({"a.txt/": "", "b.pdf": ""}, r"has 0 \(none\)"),
        ({"a.csv": "a\n1\n", "b.csv": "a\n1\n"}, r"has 2 \(a.csv, b.csv\); unpack it"),
        ({"a.csv": "a,b\n1\n"}, "Line 2 of a.csv in x.zip has 1 cell"),
        ({"a.csv": ""}, "a.csv in x.zip is empty"),
        ({"a.zip": "PK"}, r"has 0 \(none\)"),
    ],
)
def test_errors_name_the_archive_and_the_file_in_it(files, message):
    with pytest.raises(InputError, match=message):
        read(archive(**files), format="zip")


def test_an_archive_that_is_damaged_or_has_a_password():
    data = archive(**{"a.csv": "a\n1\n" * 50})
    with pytest.raises(InputError, match=r"x\.zip cannot be unpacked \(File is not a zip file\)"):
        read(b"a,b\n1,2\n", format="zip")
    for broken in (data[:20], data[:-30], data.replace(data[35:45], b"\xff" * 10, 1)):
        with pytest.raises(InputError, match=r"x\.zip cannot be unpacked"):
            read(broken)
    locked = bytearray(data)
    locked[6] |= 1  # the flag of encryption, in the file and in the list of files
    locked[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(InputError, match=r"x\.zip cannot be unpacked .*encrypted"):
        read(bytes(locked))


BOMBS = {
    "gz": gzip.compress(b"a\n" + b"1\n" * 10**6, mtime=0),
    "zip": archive(**{"a.csv": b"a\n" + b"1\n" * 10**6}),
    "several": archive(**{"a.csv": b"a\n", **{f"{i}.bin": bytes(300_000) for i in range(4)}}),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_what_is_packed_is_limited(monkeypatch, kind):
    assert len(BOMBS[kind]) < 10_000
    with pytest.raises(InputError, match=r"x\.zip is larger than 1 MB when unpacked"):
        read(BOMBS[kind], max_bytes=10**6)
    monkeypatch.setattr("nptad.io.read.most_bytes", lambda: 10**6)  # the limit if there is no other
    with pytest.raises(InputError, match=r"x\.zip is larger than 1 MB when unpacked"):
        read(BOMBS[kind])
    read(b"a\n" + b"1\n" * 10**6)  # this is not packed


def test_an_archive_that_lies_about_its_sizes():
    data = archive(**{"a.csv": b"a\n" + b"1\n" * 10**6})
    size = (2 + 2 * 10**6).to_bytes(4, "little")
    assert data.count(size) == 2
    with pytest.raises(InputError, match=r"x\.zip cannot be unpacked"):
        read(data.replace(size, (100).to_bytes(4, "little")), max_bytes=10**6)


def test_the_limit_is_half_of_the_memory():
    assert 1 << 28 < packed.most_bytes() < 1 << 50


# JSON arrays


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"a": 1, "b": "x"}, {"b": "y"}]', {"a": [1, None], "b": ["x", "y"]}),
        ('\n [\n{"a": 1},\n{"a": NaN}\n]\n', {"a": [1, None]}),
        ('{"a": 1}\n{"a": 2}\n', {"a": [1, 2]}),
        ('[{"a": 1}, {"a": "x"}]', {"a": ["1", "x"]}),
        ('[{"a": "\\u00fc\\n"}]', {"a": ["ü\n"]}),
    ],
)
def test_json_arrays(text, expected):
    for format in (None, "json"):
        assert read(text.encode(), format=format).to_pydict() == expected
    assert read(text.encode("utf-16"), format="json").to_pydict() == expected


def test_a_column_of_an_array_that_was_text_in_training_is_text():
    assert read(b'[{"a": 1}]', as_text=["a"]).to_pydict() == {"a": ["1"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"a": 1}, 2]', "Element 2 of x.zip is not a JSON object"),
        ('[{"a": 1}, {"a": [1]}]', "Element 2 of x.zip has a list or an object in column 'a'"),
        ('[{"a": 1}, {"a"', "x.zip cannot be read as JSON"),
        ("[" * 100_000, "x.zip cannot be read as JSON"),
        ("[]", "x.zip has no columns"),
        ("[{}]", "x.zip has no columns"),
    ],
)
def test_errors_of_json_arrays(text, message):
    with pytest.raises(InputError, match=message):
        read(text.encode(), format="json")


def test_a_json_array_as_written():
    rows = json.loads(written("json"))
    assert rows == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    empty = io.BytesIO()
    write_table(TABLE[:0], empty, "json")
    assert json.loads(empty.getvalue()) == []


def test_no_archive_is_written(tmp_path):
    with pytest.raises(InputError, match=r"x\.zip would be a zip archive, which is only read; use \.csv\.gz"):
        write_table(TABLE, tmp_path / "x.zip")
    assert not list(tmp_path.iterdir())
