"""Score files of any size on one machine: part by part, several workers, and after a kill -9 go on where it ended.

This process reads and writes, the workers score. Each has a thread here that takes the next part, has it scored and
keeps the result; so no more parts are in memory than there are workers.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nptad.errors import InputError, NPTADError, warn
from nptad.io.read import open_stream
from nptad.io.sources import table_files
from nptad.progress import progress_bar
from nptad.scale.arrow import ArrowScorer, ScoringOptions
from nptad.scale.folder import OutputFolder, Part, open_folder
from nptad.scale.processes import Engine, Worker, local_workers
from nptad.tables.selection import named_beside

_SHOWN_NOTES = 5


@dataclass(frozen=True)
class FilesScored:
    """What a finished run has written."""

    files: int
    parts: int
    rows: int
    anomalies: int
    rate: float

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, in the words of the other commands."""
        return {**asdict(self), "rule": "false_alarm_rate", "text": self.text()}

    def text(self) -> str:
        """The same in one sentence."""
        rate = f"a false-alarm rate of {self.rate:.3g}"
        return f"{self.anomalies:,} of {self.rows:,} rows flagged, at {rate}; {self.parts:,} part(s) written."


def find_files(pattern: str | Path) -> list[str]:
    """The files that a name, a folder or a pattern such as ``in/*.parquet`` stands for, in the order of their names."""
    files = table_files(str(pattern))
    missing = next((path for path in files if not os.path.isfile(path)), None)
    if missing is not None:
        raise InputError(f"There is no file {missing}; check the name or the pattern.")
    return files


def score_files(
    options: ScoringOptions,
    inputs: Sequence[str],
    output: str | Path,
    *,
    jobs: int | None = None,
    engine: Engine = local_workers,
    verbose: bool = False,
) -> FilesScored:
    """Score Parquet, Arrow, CSV or TSV files into a directory of Parquet parts.

    The parts are called ``part-<input>-<part>.parquet``: in the order of their names, they have the rows of all inputs
    in their order, with the columns ``file``, ``row`` (in that file, from 1), the carried ones and the results. Run
    again after it was stopped in any way, it goes on with the parts that are missing.

    If a file is damaged or does not fit the model, the other files are scored before the InputError is raised. If a
    worker was killed, what is finished is kept.
    """
    scorer = ArrowScorer(replace(options, device="cpu"))  # a model that cannot be used shows now
    made_with = {
        "model": scorer.fingerprint,
        "list of ignored columns": list(options.ignore),
        "false-alarm rate": options.false_alarm_rate,
        "choice of reasons": options.reasons,
        "choice of columns": options.all_columns or None,  # not in directories of earlier versions
    }
    options = replace(options, fingerprint=scorer.fingerprint)
    with open_folder(Path(output), made_with, inputs) as folder:
        run = _Run(options, list(inputs), scorer.detector.schema_.text_columns, folder)
        run.carry_out(engine(options, jobs), verbose)
        parts, rows, anomalies = folder.total()
        return FilesScored(len(inputs), parts, rows, anomalies, scorer.false_alarm_rate)


@dataclass(frozen=True)
class _Piece:
    """A part of an input on its way to a worker."""

    file: int
    number: int
    first_row: int
    rows_of_file: int
    table: pa.Table


class _Run:
    """What the threads of one run share."""

    def __init__(
        self, options: ScoringOptions, inputs: list[str], as_text: Collection[str], folder: OutputFolder
    ) -> None:
        self._options, self._inputs, self._as_text, self._folder = options, inputs, as_text, folder
        self._sizes = [os.path.getsize(path) for path in inputs]
        self._failed: dict[int, str] = {}
        self._notes: dict[str, str] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._pieces = self._missing_pieces()
        self._rows, self._started = 0, time.monotonic()
        self._advance: Callable[..., None] = lambda *_: None
        self._workers: list[Worker] = []

    def carry_out(self, makers: list[Callable[[], Worker]], verbose: bool) -> None:
        with progress_bar("Scoring", sum(self._sizes), verbose, in_bytes=True) as self._advance:
            for file, parts in self._folder.parts.items():
                for part in parts.values():
                    self._advance(self._bytes(file, part.rows, part.rows_of_file))
            with ThreadPoolExecutor(len(makers)) as threads:
                running = [threads.submit(self._serve, make_worker) for make_worker in makers]
                try:
                    wait(running)
                except BaseException:  # Ctrl-C: what is under way is given up
                    self._stop.set()
                    for worker in self._workers:
                        worker.close()
                    raise
        for note, path in list(self._notes.items())[:_SHOWN_NOTES]:
            warn(f"{path}: {note}")
        for ended in running:
            error = ended.exception()
            if isinstance(error, NPTADError):
                n_parts, n_rows, _ = self._folder.total()
                raise type(error)(
                    f"{error} {n_parts:,} part(s) with {n_rows:,} rows are finished and kept in {self._folder.path}; "
                    "run the same command again to go on."
                ) from error
            ended.result()
        if self._failed:
            self._refuse_failed()

    def _serve(self, make_worker: Callable[[], Worker]) -> None:
        """Have pieces scored by one worker until there are none; started only if there is one."""
        worker: Worker | None = None
        try:
            while (piece := self._next_piece()) is not None:
                if worker is None:
                    worker = make_worker()
                    self._workers.append(worker)
                self._score(piece, worker)
        except BaseException:
            self._stop.set()
            raise
        finally:
            if worker is not None:
                worker.close()

    def _next_piece(self) -> _Piece | None:
        with self._lock:
            return None if self._stop.is_set() else next(self._pieces, None)

    def _missing_pieces(self) -> Iterator[_Piece]:
        for file, path in enumerate(self._inputs):
            if self._folder.is_done(file):
                continue
            finished = set(self._folder.parts.get(file, ()))
            first = next(number for number in range(len(finished) + 1) if number not in finished)
            try:
                stream = open_stream(path, self._as_text)
                for number, table in enumerate(stream.parts(first), first):
                    if file in self._failed:
                        break
                    if number not in finished:
                        yield _Piece(file, number, number * stream.part_rows, stream.n_rows, table)
            except InputError as error:
                self._failed.setdefault(file, str(error))

    def _score(self, piece: _Piece, worker: Worker) -> None:
        path = self._inputs[piece.file]
        size, shown = self._bytes(piece.file, len(piece.table), piece.rows_of_file), 0

        def report(share: float, rows: int = 0) -> None:
            nonlocal shown
            self._rows += rows
            done = int(share * size)
            pace = self._rows / (time.monotonic() - self._started)
            self._advance(done - shown, f"{self._rows:,} rows, {pace:,.0f} a second")
            shown = done

        try:
            result, notes = worker.score(piece.table, report)
        except InputError as error:
            counted = f", counting from row {piece.first_row + 1:,}" if piece.first_row else ""
            self._failed.setdefault(piece.file, f"{path}{counted}: {error}")
            return
        self._notes |= {note: path for note in notes if note not in self._notes}
        table, anomalies = self._with_place(result, path, piece.first_row)
        self._folder.write_part(piece.file, piece.number, table, Part(len(table), anomalies, piece.rows_of_file))
        report(1.0, len(table))

    def _with_place(self, result: pa.Table, path: str, first_row: int) -> tuple[pa.Table, int]:
        """The result with file and row in front, and how many rows are flagged."""
        rows = np.arange(first_row + 1, first_row + 1 + len(result))  # files are counted from 1
        files = pa.DictionaryArray.from_arrays(np.zeros(len(result), np.int32), pa.array([path]))
        place = named_beside(result.column_names, {"file": files, "row": pa.array(rows)})
        columns = {**place, **dict(zip(result.column_names, result.columns, strict=True))}
        flags = result.columns[-2 if self._options.reasons else -1]
        return pa.table(columns), int(pc.sum(flags).as_py() or 0)

    def _bytes(self, file: int, rows: int, rows_of_file: int) -> int:
        """The share of an input file that some of its rows are, rounded up so that all parts make a whole."""
        return -(-self._sizes[file] * rows // rows_of_file) if rows_of_file else self._sizes[file]

    def _refuse_failed(self) -> None:
        first = self._failed[min(self._failed)]
        more = f" {len(self._failed) - 1:,} more file(s) have failed as well." if len(self._failed) > 1 else ""
        others = len(self._inputs) - len(self._failed)
        raise InputError(
            f"{first}{more} The other {others:,} file(s) are scored and kept in {self._folder.path}; correct "
            f"{'it' if len(self._failed) == 1 else 'them'} and run the same command again."
        )
