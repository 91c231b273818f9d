"""One local process that scores tables.

Its first message has the scoring options, each one after that a table as payload. The worker answers a table with
``{"progress": share}`` now and then, and in the end with ``{"notes": [...]}`` and the result, or with
``{"error": sentence}``.
"""

from __future__ import annotations

import time
import warnings

import pyarrow as pa
import pyarrow.ipc

from nptad.errors import NPTADError
from nptad.processes import Parent
from nptad.progress import listening
from nptad.scale.arrow import ArrowScorer, ScoringOptions

_PROGRESS_SECONDS = 0.2


def pack(table: pa.Table) -> memoryview:
    """A table as the payload of a message."""
    payload = pa.BufferOutputStream()
    with pyarrow.ipc.new_stream(payload, table.schema) as writer:
        writer.write(table)
    return memoryview(payload.getvalue())


def unpack(payload: bytearray) -> pa.Table:
    """The table in a payload."""
    return pyarrow.ipc.open_stream(payload).read_all()


def score_table(scorer: ArrowScorer, table: pa.Table) -> tuple[pa.Table, list[str]]:
    """The result, and what there is to note about the rows."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        # Not to_batches, which makes none of a table without rows.
        columns = [column.combine_chunks() for column in table.columns]
        result = scorer(pa.RecordBatch.from_arrays(columns, schema=table.schema))
    return pa.Table.from_batches([result]), [str(note.message) for note in notes]


def work(parent: Parent) -> None:
    """Score tables until the parent ends; what the process does."""
    told = 0.0

    def tell(description: str, done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > _PROGRESS_SECONDS:
            told = time.monotonic()
            parent.send({"progress": done / max(total, 1)})

    options, _ = parent.receive()
    scorer = None
    while True:
        table = unpack(parent.receive()[1])
        try:
            scorer = scorer or ArrowScorer(ScoringOptions(**options))
            with listening(tell):
                result, notes = score_table(scorer, table)
            parent.send({"notes": notes}, pack(result))
        except NPTADError as error:
            parent.send({"error": str(error)})
