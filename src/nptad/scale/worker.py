"""One local process that scores tables: it is handed them on standard input and gives results on standard output.

A message is a JSON object and a table as Arrow stream, each with its length in front. The first message to a worker
holds the scoring options; then every table is answered by ``{"progress": share}``, in the end by ``{"notes": [...]}``
with the result, or by ``{"error": sentence}``. When standard input closes, the parent is gone and so is the worker.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import warnings
from typing import IO, Any

import pyarrow as pa
import pyarrow.ipc

from nptad.errors import NPTADError
from nptad.progress import listening
from nptad.scale.arrow import ArrowScorer, ScoringOptions

_LENGTH = 8
_PROGRESS_SECONDS = 0.2


def send(stream: IO[bytes], message: dict[str, Any], table: pa.Table | None = None) -> None:
    """Write a message."""
    payload = pa.BufferOutputStream()
    if table is not None:
        with pyarrow.ipc.new_stream(payload, table.schema) as writer:
            writer.write(table)
    for part in (json.dumps(message).encode(), payload.getvalue()):
        stream.write(len(part).to_bytes(_LENGTH, "big"))
        stream.write(part)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], pa.Table | None]:
    """Read a message; EOFError if the other side is gone."""
    message, payload = (_read(stream, int.from_bytes(_read(stream, _LENGTH), "big")) for _ in range(2))
    return json.loads(message), pyarrow.ipc.open_stream(payload).read_all() if payload else None


def _read(stream: IO[bytes], n_bytes: int) -> bytes:
    data = stream.read(n_bytes)
    if len(data) < n_bytes:
        raise EOFError
    return data


def _listen(stream: IO[bytes], messages: queue.Queue) -> None:
    try:
        while True:
            messages.put(receive(stream))
    except EOFError:
        os._exit(1)  # also in the middle of a table, which nobody waits for any more


def score_table(scorer: ArrowScorer, table: pa.Table) -> tuple[pa.Table, list[str]]:
    """The result, and what there is to note about the rows."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        # Not to_batches, which makes none of a table without rows.
        columns = [column.combine_chunks() for column in table.columns]
        result = scorer(pa.RecordBatch.from_arrays(columns, schema=table.schema))
    return pa.Table.from_batches([result]), [str(note.message) for note in notes]


def main() -> None:
    """Serve until the parent goes away."""
    messages: queue.Queue = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, messages), daemon=True).start()
    # Whatever a library prints must not mix with our messages.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    told = 0.0

    def tell(description: str, done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > _PROGRESS_SECONDS:
            told = time.monotonic()
            send(answers, {"progress": done / max(total, 1)})

    options, _ = messages.get()
    scorer = None
    while True:
        _, table = messages.get()
        try:
            scorer = scorer or ArrowScorer(ScoringOptions(**options))
            with listening(tell):
                result, notes = score_table(scorer, table)
            send(answers, {"notes": notes}, result)
        except NPTADError as error:
            send(answers, {"error": str(error)})


if __name__ == "__main__":
    main()
