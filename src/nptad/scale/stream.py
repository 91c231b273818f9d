"""Score an endless stream: a JSON object in a line comes in, a line with its score goes out.

Whatever lines have arrived are scored together and written at once; further ones wait in the pipe. So a line waits at
most for one block before its own, and memory stays that of a block and of a line. Each line is judged by itself: its
result does not depend on what arrived with it, and a line that cannot be read becomes a line with an error.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from nptad.detector import NPTAD
from nptad.errors import InputError, NPTADError
from nptad.explain.sentences import reasons_text
from nptad.scoring.view_score import ViewScore
from nptad.tables.encode import encode
from nptad.tables.frames import Content, RawColumns
from nptad.tables.schema import listed
from nptad.tables.selection import named_beside

LONGEST_LINE = 2**20
"""Bytes of a line at most."""

_LINES_AT_ONCE = 256
_BYTES_AT_ONCE = 2**16
_BYTES_WRITTEN = 4096  # so many fit into a pipe that select calls writable
_LAST_WRITE_SECONDS = 1.0
"""How long a reader that does not read is waited for when the stream is to end."""


@dataclass
class Counts:
    """What became of the lines so far."""

    rows: int = 0
    flagged: int = 0
    errors: int = 0


class LineScorer:
    """A fitted detector that turns lines into results, each independent of the others.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=60)
    >>> import pandas as pd
    >>> detector = NPTAD(random_state=0).fit(pd.DataFrame({"x": x, "y": 2 * x}))
    >>> scorer = LineScorer(detector, ignore=["id"])
    >>> for result in scorer([b'{"id": 7, "x": 1.0, "y": -8.0}', b"hello"]):
    ...     print(result.get("anomaly"), result.get("id"), result.get("error"))
    True 7 None
    None None The line is not a JSON object.
    """

    def __init__(
        self,
        detector: NPTAD,
        *,
        ignore: Sequence[str] = (),
        false_alarm_rate: float | None = None,
        reasons: bool = False,
    ) -> None:
        if not detector.schema_.named:
            raise InputError("This model was fitted without column names; a stream of JSON objects needs them.")
        self._detector, self._ignore, self._reasons = detector, list(ignore), reasons
        self._rule = detector.decision_rule(None, false_alarm_rate)
        names = {"row": None, "score": None, "p_value": None, "anomaly": None, "reasons": None, "error": None}
        self.names = dict(zip(names, named_beside(self._ignore, names), strict=True))
        """What each result is called, beside the ignored columns."""
        self._rows = 1

    def __call__(self, lines: Sequence[bytes | None]) -> list[dict[str, Any]]:
        """The results of some lines, None for one that is too long, in their order; rows are counted from 1."""
        results: list[dict[str, Any]] = []
        groups: dict[Any, list[tuple[int, dict[str, Any]]]] = {}
        for place, line in enumerate(lines):
            result: dict[str, Any] = {self.names["row"]: self._rows + place}
            try:
                row = _parsed(line)
                result |= {name: _plain(row[name]) for name in self._ignore if name in row}
                cells = {name: value for name, value in row.items() if name not in self._ignore}
                groups.setdefault(self._kinds(cells, place), []).append((place, cells))
            except InputError as error:
                result[self.names["error"]] = str(error)
            results.append(result)
        self._rows += len(lines)
        for kinds, group in groups.items():
            table = self._columns(kinds[0], [row for _, row in group])
            try:
                found = self._judged(table)
            except NPTADError as error:
                found = [{"error": str(error)}] * len(group)
            for (place, _), judged in zip(group, found, strict=True):
                results[place] |= {self.names[name]: value for name, value in judged.items()}
        return results

    def _kinds(self, row: dict[str, Any], place: int) -> tuple[tuple[str, ...], int]:
        """What tells the lines that may be read together: the kind of each cell, ``-`` for a missing one.

        Where a line shows only together with others how its cells are written, it is read alone: they would make a
        difference.
        """
        used = self._detector.schema_.used
        missing = [column.name for column in used if column.name not in row]
        if len(missing) > len(used) / 2:
            raise InputError(f"The line is missing {listed(missing)}.")
        kinds = tuple(_kind(str(column.name), row.get(str(column.name))) for column in used)
        alone = any(
            kind == "text" and column.content != "text" and not column.convention
            for kind, column in zip(kinds, used, strict=True)
        )
        return kinds, place if alone else -1

    def _columns(self, kinds: tuple[str, ...], rows: Sequence[dict[str, Any]]) -> RawColumns:
        cells: dict[str | int, np.ndarray] = {}
        content: dict[str | int, Content] = {}
        for column, kind in zip(self._detector.schema_.used, kinds, strict=True):
            if kind == "-":
                continue
            values = [row[str(column.name)] for row in rows]
            if kind == "number":
                content[column.name], cells[column.name] = "number", np.array(values, dtype=np.float64)
            else:
                content[column.name] = "text" if kind == "text" else "boolean"
                cells[column.name] = np.array(values, dtype=object)
        return RawColumns(cells, content, len(rows), named=True, backend="pandas")

    def _judged(self, table: RawColumns) -> list[dict[str, Any]]:
        scorer = self._detector.model_.scorer
        x = encode(self._detector.schema_, table)
        if isinstance(scorer, ViewScore):  # each line is a new row, even if together they are the training table
            scores = scorer.score(x)
            p_values = np.exp(-scores)
        else:
            scored = scorer.score_rows(x, lambda _: None)
            scores, p_values = scored.score, scorer.p_values(scored)
        flags = self._rule.flag(p_values)[0]
        found = []
        for i, flag in enumerate(flags.tolist()):
            result = {"score": float(scores[i]), "p_value": float(p_values[i]), "anomaly": flag}
            if self._reasons:
                why = self._detector.explain(table.take(np.array([i])))[0] if flag else None
                result["reasons"] = why and reasons_text(why)
            found.append(result)
        return found


def score_stream(score: LineScorer, source: int, sink: int) -> Counts:
    """Score lines from one file descriptor to another until the first ends, or SIGINT, SIGTERM or SIGHUP comes.

    No line is written in part, unless nobody reads it. BrokenPipeError if whoever read the results has gone.
    """
    counts = Counts()
    with _stopping() as stop:
        for lines in _blocks(source, stop):
            results = score(lines)
            counts.rows += len(results)
            counts.flagged += sum(result.get(score.names["anomaly"], False) for result in results)
            counts.errors += sum(score.names["error"] in result for result in results)
            text = "".join(json.dumps(result) + "\n" for result in results)
            if not _write(sink, text.encode(), stop):
                break
    return counts


def _blocks(source: int, stop: int) -> Iterator[list[bytes | None]]:
    """The lines as they arrive, some at a time; None for one that is too long."""
    rest, too_long, ended = bytearray(), False, False
    while not ended:
        ready, _, _ = select.select([source, stop], [], [])
        if stop in ready:
            return
        data = os.read(source, _BYTES_AT_ONCE)
        ended = not data
        rest += data if data else b"\n"
        lines: list[bytes | None] = []
        *whole, last = bytes(rest).split(b"\n")
        for line in whole:
            if too_long or len(line) > LONGEST_LINE:
                lines.append(None)
                too_long = False
            elif line.strip():
                lines.append(line)
        rest = bytearray(last)
        if too_long or len(rest) > LONGEST_LINE:
            too_long, rest = True, bytearray()
        for start in range(0, len(lines), _LINES_AT_ONCE):
            if select.select([stop], [], [], 0)[0]:
                return
            yield lines[start : start + _LINES_AT_ONCE]


def _write(sink: int, data: bytes, stop: int) -> bool:
    """Write all; False if the stream is to end and nobody reads."""
    while data:
        stopped, writable, _ = select.select([stop], [sink], [])
        if stopped and not writable:
            writable = select.select([], [sink], [], _LAST_WRITE_SECONDS)[1]
        if not writable:
            return False
        data = data[os.write(sink, data[:_BYTES_WRITTEN]) :]
    return True


@contextmanager
def _stopping() -> Iterator[int]:
    """A file descriptor that becomes readable at the first signal to end; in the main thread only."""
    numbers = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    before = {number: signal.getsignal(number) for number in numbers}
    old_descriptor = signal.set_wakeup_fd(woken)
    try:
        for number in numbers:
            if before[number] is not signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        yield wake
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(old_descriptor)
        for descriptor in (wake, woken):
            with suppress(OSError):
                os.close(descriptor)


def _parsed(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise InputError(f"The line has more than {LONGEST_LINE:,} bytes.")
    try:
        row = json.loads(line.decode("utf-8"), parse_constant=_constant)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise InputError("The line is not a JSON object.")
    return row


def _constant(text: str) -> float | None:
    return None if text == "NaN" else float(text.replace("Infinity", "inf"))


def _plain(value: Any) -> Any:
    """A carried value as JSON can have it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _kind(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float):
        try:
            float(value)
        except OverflowError as error:
            raise InputError(f"The number in column {name!r} is too large.") from error
        return "number"
    raise InputError(f"Column {name!r} has a list or an object.")
