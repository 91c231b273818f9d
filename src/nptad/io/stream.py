"""Read a table file part by part, in memory that does not grow with the file.

The parts together are what :func:`nptad.io.read.read_table` gives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from os import PathLike

import pyarrow as pa

from nptad.errors import InputError
from nptad.io.formats import format_of
from nptad.io.read import OpenTable, open_table

_LARGEST_PART_ROWS, _SMALLEST_PART_ROWS = 2**16, 2**10
_PART_CELLS = 2**23  # cells of a part at most, 64 MiB as numbers, unless its rows are very long


class TableStream(OpenTable):
    """A table file that is open for reading in parts."""

    @property
    def part_rows(self) -> int:
        """Rows of every part but the last; the same for the same file, so that a part is known by its number."""
        return max(_SMALLEST_PART_ROWS, min(_LARGEST_PART_ROWS, _PART_CELLS // max(len(self.schema), 1)))

    def parts(self, first: int = 0) -> Iterator[pa.Table]:
        """The parts from the given one on; a table without rows is one part without rows."""
        waiting, n_waiting = [self.schema.empty_table()], 0
        for block in self.blocks(first * self.part_rows):
            waiting.append(block)
            n_waiting += len(block)
            if n_waiting >= self.part_rows:
                joined = pa.concat_tables(waiting)
                end = n_waiting // self.part_rows * self.part_rows
                yield from (joined.slice(start, self.part_rows) for start in range(0, end, self.part_rows))
                waiting, n_waiting = [joined.slice(end)], n_waiting - end
        if n_waiting or not self.n_rows:
            yield pa.concat_tables(waiting)


def open_stream(path: str | PathLike[str], as_text: Collection[str] = ()) -> TableStream:
    """Open a Parquet, Arrow, CSV or TSV file; a text is read once to find out its encoding and its types.

    The columns ``as_text`` of a text are text, whatever their cells look like. Damage further on in the file shows
    when it is reached.
    """
    format = format_of(path)
    if format == "jsonl":
        raise InputError(f"{path} is JSON lines, which cannot be read in parts; convert it to Parquet or CSV.")
    return TableStream(*open_table(str(path), format, str(path), as_text))
