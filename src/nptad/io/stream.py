"""Read a table file part by part, in memory that does not grow with the file.

The parts together are what :func:`nptad.io.read.read_table` gives, type by type and cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from nptad.errors import InputError
from nptad.io.formats import format_of
from nptad.io.read import ARROW_STREAM, check_beginning, damage_explained, reading_explained
from nptad.io.textstream import open_text

_LARGEST_PART_ROWS, _SMALLEST_PART_ROWS = 2**16, 2**10
_PART_CELLS = 2**23
"""Cells of a part at most, 64 MiB as numbers, unless its rows are very long."""

Blocks = Iterator[pa.Table | pa.RecordBatch]


@dataclass(frozen=True)
class TableStream:
    """A table file that is open for reading in parts."""

    path: str
    n_rows: int
    n_columns: int
    blocks: Callable[[int], Blocks]
    """The rows from the given one on, in blocks of any size."""

    @property
    def part_rows(self) -> int:
        """Rows of every part but the last; the same for the same file, so that a part is known by its number."""
        return part_rows(self.n_columns)

    def parts(self, first: int = 0) -> Iterator[pa.Table]:
        """The parts from the given one on; a table without rows is one part without rows."""
        waiting: list[pa.Table] = []
        n_waiting = 0
        for block in self.blocks(first * self.part_rows):
            table = block if isinstance(block, pa.Table) else pa.Table.from_batches([block])
            table.validate(full=True)  # pyarrow does not look for offsets beyond the data and broken UTF-8 itself
            waiting, n_waiting = [*waiting, table], n_waiting + len(table)
            if n_waiting >= self.part_rows:
                joined = pa.concat_tables(waiting)
                whole = n_waiting // self.part_rows * self.part_rows
                for start in range(0, whole, self.part_rows):
                    yield joined.slice(start, self.part_rows)
                waiting, n_waiting = [joined.slice(whole)], n_waiting - whole
        if n_waiting or (waiting and not self.n_rows):
            yield pa.concat_tables(waiting)


def part_rows(n_columns: int) -> int:
    """Rows of a part of a table with so many columns.

    Examples
    --------
    >>> part_rows(10), part_rows(1000)
    (65536, 8388)
    """
    return max(_SMALLEST_PART_ROWS, min(_LARGEST_PART_ROWS, _PART_CELLS // max(n_columns, 1)))


def open_stream(path: str | Path, as_text: Collection[str] = ()) -> TableStream:
    """Open a Parquet, Arrow, CSV or TSV file; a text is read once to find out its encoding and its types.

    The columns ``as_text`` of a text are text, whatever their cells look like.

    Raises
    ------
    InputError
        In one sentence: what is wrong, where, and what to do. Damage further on in the file shows when it is reached.
    """
    where = str(path)
    format = format_of(where)
    if format == "jsonl":
        raise InputError(f"{where} is JSON lines, which cannot be read in parts; convert it to Parquet or CSV.")
    with reading_explained(where):
        with open(where, "rb") as file:
            beginning = file.read(8)
        check_beginning(beginning, format, where)
        if format == "parquet":
            return _open_parquet(where)
        if format == "arrow":
            return _open_arrow(where, beginning.startswith(ARROW_STREAM))
        text = open_text(where, b"\t" if format == "tsv" else None, as_text)
        return TableStream(where, text.n_rows, text.n_columns, lambda row: _from_row(text.blocks(), row))


def _open_parquet(where: str) -> TableStream:
    with damage_explained(where, "Parquet"):
        metadata = pyarrow.parquet.read_metadata(where)
        schema = pyarrow.parquet.read_schema(where)
    _check_names(schema, where)
    starts = list(accumulate((metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)), initial=0))

    def blocks(first_row: int) -> Blocks:
        yield pa.Table.from_batches([], schema)  # the columns, even if there are no rows
        with damage_explained(where, "Parquet"), pyarrow.parquet.ParquetFile(where) as file:
            for group, (start, end) in enumerate(pairwise(starts)):
                if end > max(start, first_row):
                    batches = file.iter_batches(_LARGEST_PART_ROWS, [group], use_threads=False)
                    yield from _from_row(batches, max(0, first_row - start))

    return TableStream(where, metadata.num_rows, len(schema.names), blocks)


def _open_arrow(where: str, is_stream: bool) -> TableStream:
    def read() -> Blocks:
        # Mapped, so that of a batch only those pages are in memory that are looked at.
        with damage_explained(where, "Arrow"), pa.memory_map(where) as file:
            if is_stream:
                yield from pyarrow.ipc.open_stream(file)
            else:
                reader = pyarrow.ipc.open_file(file)
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))

    with damage_explained(where, "Arrow"), pa.memory_map(where) as file:
        schema = (pyarrow.ipc.open_stream if is_stream else pyarrow.ipc.open_file)(file).schema
    _check_names(schema, where)
    n_rows = sum(len(batch) for batch in read())

    def blocks(first_row: int) -> Blocks:
        yield pa.Table.from_batches([], schema)
        for block in _from_row(read(), first_row):
            # A file may be one batch: looked at in pieces, it need not be in memory as a whole.
            yield from (block.slice(i, _LARGEST_PART_ROWS) for i in range(0, len(block), _LARGEST_PART_ROWS))

    return TableStream(where, n_rows, len(schema.names), blocks)


def _from_row(blocks: Blocks, first_row: int) -> Blocks:
    for block in blocks:
        if first_row < len(block) or not len(block):
            yield block.slice(first_row) if first_row else block
        first_row = max(0, first_row - len(block))


def _check_names(schema: pa.Schema, where: str) -> None:
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{where} has two columns called {twice!r}; give each column its own name.")
