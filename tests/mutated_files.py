"""Files of all kinds, damaged, and what reading them comes to."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from nptad import InputError
from nptad.io.read import open_stream
from nptad.io.write import write_table
from order_tables import orders

TEXTS = [
    "a,b\n1,x\n,NA\n2.5,y\n",
    "a;b\r\n1,5;x\r\n1.234,5;y\r\n",
    'a\tb\n"x\t y"\t1\n"x\n""y"""\t2\n',
    "a,b,\n1,2,\n3,4,\n",
    "a\n1\n\n2\n",
    "sep=;\na;b\n1;2\n",
    "größe|b\n1|é\n   \n2|2024-01-01 10:00\n",
]
JSON = '{"a": 1, "b": "x"}\n\n{"a": "é", "c": true}\n{"d": "2024-01-02"}\n'


def written(table: pa.Table, format: str) -> bytes:
    file = io.BytesIO()
    write_table(table, file, format)
    return file.getvalue()


def arrow_stream(table: pa.Table) -> bytes:
    file = io.BytesIO()
    with pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    return file.getvalue()


def files() -> Iterator[tuple[str, bytes]]:
    encoded = [sample.encode(encoding) for sample in TEXTS for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252")]
    yield from ((".csv", data) for data in encoded)
    yield from ((".tsv", data.replace(b",", b"\t")) for data in encoded)
    yield from ((".csv.gz", gzip.compress(data, mtime=0)) for data in encoded)
    yield from ((".jsonl", JSON.encode(encoding)) for encoding in ("utf-8", "utf-16", "cp1252"))
    table = orders(20, 1)
    for _ in range(10):  # as many as there are texts
        yield from ((f".{format}", written(table, format)) for format in ("parquet", "arrow", "csv"))
        yield ".arrow", arrow_stream(table)


FILES = list(files())
INSERTED = [b"\n", b" \n", b"\r", b"\r\n", b'"', b'""', b",", b";", b"\t", b"|", b"\0", b"\xe9", b"\xff", b"\xc2\xa0"]
INSERTED += [b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f", b"\x1f\x8b", b"PAR1", b"1,5", b"NA", b"007", b"{", b"[", b"\\ud800"]


def mutated(data: bytes, mutations: list[tuple[str, float, Any]]) -> bytes:
    changed = bytearray(data)
    for kind, place, how in mutations:
        at = int(place * len(changed))
        if kind == "insert":
            changed[at:at] = how
        elif kind == "flip":
            changed[at : at + 1] = bytes(byte ^ 1 << how for byte in changed[at : at + 1])
        else:
            del changed[at : None if kind == "cut" else at + how]
    return bytes(changed)


def outcome(read: Callable[[Path], pa.Table], path: Path) -> str | tuple[pa.Schema, str]:
    """The error, or the schema and the cells; NaN equals itself in writing."""
    try:
        table = read(path)
    except InputError as error:
        return str(error)
    return table.schema, str(table.to_pydict())


def read_in_parts(path: Path) -> pa.Table:
    stream = open_stream(path)
    table = pa.concat_tables(stream.parts())
    assert (stream.schema, stream.n_rows) == (table.schema, len(table))
    return table
