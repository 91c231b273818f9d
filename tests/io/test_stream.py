"""Files read in parts are the files read as a whole."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from nptad import InputError
from nptad.io.read import open_stream, read_table
from nptad.io.write import write_table
from order_tables import orders

TEXTS = [
    "a;b\n1,5;x\n2;y\n",
    "a\tb\n1,5\tx\n1.234,5\ty\n",
    "a,b\n1,x\n,NA\n2.5,y\n",
    'a,b\n"x, y",1\n"x\n""y""",2\n',
    "a,b,\n1,2,\n3,4,\n",
    "a\n\n1\n",
    "sep=;\na;b\n1;2\n",
    "# Source\na,b\n1,2\n",
    "größe;b\n1;é\n",
    "a,b\n2024-01-01,1\n2024-01-01 10:00,2\n",
    "a,b\n",
    "a,b",
    "a,b\n\n\n",
    "a\n",
]


def require_same(path):
    stream, whole = open_stream(path), read_table(path)
    parts = list(stream.parts())
    assert (stream.n_rows, stream.schema) == (len(whole), whole.schema)
    assert [len(part) for part in parts[:-1]] == [stream.part_rows] * (len(parts) - 1)
    assert pa.concat_tables(parts).equals(whole)
    for first in range(1, len(parts)):
        assert pa.concat_tables(stream.parts(first)).equals(whole.slice(first * stream.part_rows))
    return len(parts)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.csv", "a.csv.gz", "a.tsv"])
@pytest.mark.parametrize("n_rows", [0, 1, 1700])
def test_every_format_in_parts(tmp_path, small_parts, name, n_rows):
    write_table(orders(n_rows, 1).append_column("number", pa.array(range(n_rows), pa.int64())), tmp_path / name)
    assert require_same(tmp_path / name) == max(1, -(-n_rows // 500))


@pytest.mark.parametrize("group", [1, 300, 500, 1200, 5000])
def test_parts_do_not_depend_on_row_groups(tmp_path, small_parts, group):
    pq.write_table(orders(1700 if group > 1 else 40, 1), tmp_path / "a.parquet", row_group_size=group)
    require_same(tmp_path / "a.parquet")


def test_a_stream_of_arrow_batches_of_all_sizes(tmp_path, small_parts):
    table = orders(2000, 1)
    with pyarrow.ipc.new_stream(tmp_path / "a.arrow", table.schema) as writer:
        for start, end in ((0, 10), (10, 10), (10, 1500), (1500, 2000)):
            writer.write_table(table.slice(start, end - start))
    require_same(tmp_path / "a.arrow")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_texts_are_read_as_people_mean_them(tmp_path, text, encoding):
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    require_same(tmp_path / "a.csv")


def test_types_are_those_of_the_whole_file(tmp_path, small_parts, monkeypatch):
    """The first block of a few rows says nothing about the last."""
    monkeypatch.setattr("nptad.io.text.BLOCK_BYTES", 4096)
    for last in ("5", "5.5", "five", "NA", "005"):
        rows = [f"{i},{i % 2 == 0},2024-01-0{i % 9 + 1}" for i in range(1500)]
        (tmp_path / "a.csv").write_text("\n".join(["a,b,c", *rows, f"{last},true,2024-01-01T10:00:00.5"]))
        require_same(tmp_path / "a.csv")


def test_latin_text_that_windows_does_not_know(tmp_path):
    (tmp_path / "a.csv").write_bytes("a,b\n1,é\x81\n".encode("latin-1"))
    require_same(tmp_path / "a.csv")


def whole_parquet():
    sink = pa.BufferOutputStream()
    pq.write_table(orders(100, 1), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("name", "data", "named"),
    [
        ("a.parquet", whole_parquet()[:-20], "truncated, damaged"),
        ("a.parquet", b"", "is empty"),
        ("a.csv", b"", "is empty"),
        ("a.csv", whole_parquet(), "holds parquet data"),
        ("a.arrow", b"ARROW1 and nonsense", "truncated, damaged"),
        ("a.csv", b'a,b\n1,"2\n3,4\n', r"Line 2 of .*a\.csv opens a quotation mark that is never closed"),
        ("a.csv", b"a,b\n1,2\n3\n", r"Line 3 of .*a\.csv has 1 cell"),
        ("a.csv", b"a,a\n1,2\n", "both called 'a'"),
        ("a.csv", b"\xff\xfea\x00,\x00b\x00\n\x00\x00\xd8", "UTF-16"),
        ("a.csv", b"a,b\n1,\x00\xff2\n", "not a text file"),
        ("a.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 999, mtime=0)[:-9], "cannot be unpacked"),
        ("a.csv", b'a,b\n1,"' + b"x" * 5_000_000, "never closed"),
        ("a.jsonl", b'{"a": 1}\n', "is jsonl, which cannot be read in parts"),
        ("a.xlsx", b"PK", "is xlsx, which cannot be read in parts"),
        ("a.zip", b"PK", "is zip, which cannot be read in parts"),
        ("a.xyz", b"a,b\n", "no suffix"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_name(tmp_path, name, data, named):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=named) as refused:
        list(open_stream(tmp_path / name).parts())
    assert name in str(refused.value)
    assert "\n" not in str(refused.value)


def test_damage_in_the_middle_shows_when_it_is_reached(tmp_path, small_parts):
    pq.write_table(orders(2000, 1), tmp_path / "a.parquet", row_group_size=500, compression="none")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    start = pq.read_metadata(tmp_path / "a.parquet").row_group(2).column(1).data_page_offset
    data[start : start + 200] = b"\xff" * 200
    (tmp_path / "a.parquet").write_bytes(data)
    parts = open_stream(tmp_path / "a.parquet").parts()
    assert [len(next(parts)) for _ in range(2)] == [500, 500]
    with pytest.raises(InputError, match=r"a\.parquet cannot be read as Parquet"):
        next(parts)


def test_a_text_that_changes_between_its_two_readings(tmp_path):
    for more in ("x\n", "3\n", "4,5\n"):
        (tmp_path / "a.csv").write_text("a;b\n1;2\n")
        stream = open_stream(tmp_path / "a.csv")
        (tmp_path / "a.csv").write_text(f"a;b\n1;2\n3;{more}")
        with pytest.raises(InputError, match=r"a\.csv has changed while it was read"):
            list(stream.parts())


def test_two_columns_of_one_name_are_refused(tmp_path):
    pq.write_table(pa.table([[1], [2]], ["a", "a"]), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="2 columns called 'a'"):
        open_stream(tmp_path / "a.parquet")
