"""Scores for requests: the rows of several requests together, each answered as if it had come alone."""

from __future__ import annotations

import json
import math
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from nptad.detector import load
from nptad.errors import InputError, MemoryShortage, ModelFileError
from nptad.explain.batch import Batch
from nptad.explain.result import RowExplanation
from nptad.explain.sentences import reasons_text
from nptad.memory import memory_explained
from nptad.scoring.calibrate import RowScores
from nptad.service.drift import LastRows
from nptad.service.log import log
from nptad.service.messages import Answer, Request, refused
from nptad.service.openapi import example_rows
from nptad.service.rows import JSONRows, Refusal, read_json, read_table_body
from nptad.tables.encode import decode_cell, encode_cells, match, readable
from nptad.tables.frames import RawColumns, read_columns
from nptad.tables.records import read_records
from nptad.tables.schema import Category, Column

EXPLAINED_ROWS = 1000
"""Rows of a request that are explained at most: a row takes some forty times as long as its score."""

_EXAMPLES = 200  # training rows that the example is chosen from
_NAME_LETTERS = 16  # of a fingerprint that answers name the model by


@dataclass
class _Work:
    """A request on its way through the model."""

    request: Request
    rows: JSONRows | None
    """The rows of a JSON body; a table has no rows with problems."""
    columns: RawColumns
    x: np.ndarray
    notes: tuple[str, ...]
    scored: RowScores | None = None


class ModelScorer:
    """A saved model that answers requests."""

    def __init__(self, directory: str, false_alarm_rate: float | None, most_rows: int) -> None:
        self._detector = load(directory, "cpu").set_params(verbose=False)
        self._schema, self._scorer = self._detector.schema_, self._detector.model_.scorer
        self._rule = self._detector.decision_rule(None, false_alarm_rate)
        self._most_rows = most_rows
        self._fingerprint = str(self._detector.model_.fingerprint)
        self._name = self._fingerprint[:_NAME_LETTERS]
        self.last_rows = LastRows(self._detector)

    def facts(self) -> dict[str, Any]:
        """What is known of the model, as plain values."""
        schema, cells = self._schema, self._ordinary_row()
        facts = {
            "model": self._name,
            "fingerprint": self._fingerprint,
            "nptad": version("nptad"),
            "training_rows": schema.n_rows,
            "false_alarm_rate": float(self._rule.rate),
            "score": "network" if self._detector.model_.network else "views",
            "named": schema.named,
            "columns": [
                {"name": c.name, "kind": c.kind, "content": c.content, "role": c.role, "example": cells.get(c.name)}
                for c in schema.columns
            ],
        }
        example = self._read([Request("score", "json", json.dumps(example_rows(facts)).encode())])
        works = [work for work in example if isinstance(work, _Work)]
        self._score(works)
        return {**facts, "answer": json.loads(self._told(works[0]).body)}

    def _ordinary_row(self) -> dict[str | int, Category | None]:
        """A training row that is not odd, as an example: means of columns need not go together."""
        x = self._detector.model_.compared_rows[1][:_EXAMPLES]
        gaps = np.isnan(x).sum(axis=1)
        x = x[gaps == gaps.min()]
        row = x[self._scorer.score_rows(x, lambda _: None).score.argmin()]
        return {column.name: _shown(column, float(cell)) for column, cell in zip(self._schema.used, row, strict=True)}

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Answer requests of one kind; what is wrong with one of them is said to that one only."""
        try:
            return self._answer(requests)
        except Exception as error:
            if len(requests) > 1:
                return [answer for request in requests for answer in self.answer([request])]
            if isinstance(error, MemoryShortage):
                return [refused(413, "These rows need more memory than there is; send fewer at a time.")]
            log("failed", error=traceback.format_exc())
            return [refused(500, "Something went wrong here that is no fault of yours; the log says more.")]

    def _answer(self, requests: Sequence[Request]) -> list[Answer]:
        with warnings.catch_warnings(), memory_explained():
            warnings.simplefilter("ignore")
            read = self._read(requests)
            works = [work for work in read if isinstance(work, _Work)]
            self._score(works)
            answers = [refused(w.status, w.sentence) if isinstance(w, Refusal) else self._told(w) for w in read]
            for work in works:
                if work.scored is not None:
                    self.last_rows.add(work.x, self._flags(work.scored)[1])
            return answers

    def _read(self, requests: Sequence[Request]) -> list[_Work | Refusal]:
        """Read and encode all rows; the JSON rows of all requests together, which costs little more than one."""
        read: list[_Work | Refusal | JSONRows] = []
        for request in requests:
            most = min(self._most_rows, EXPLAINED_ROWS) if request.kind == "explain" else self._most_rows
            try:
                is_json = request.format == "json"
                read.append(read_json(request.body, self._schema, most) if is_json else self._table(request, most))
            except Refusal as refusal:
                read.append(refusal)
        columns = read_records(self._schema, [r for rows in read if isinstance(rows, JSONRows) for r in rows.records])
        x, place = encode_cells(self._schema, match(self._schema, columns)), 0
        works: list[_Work | Refusal] = []
        for request, found in zip(requests, read, strict=True):
            if isinstance(found, JSONRows):
                part = slice(place, place := place + len(found.records))
                works.append(_Work(request, found, columns.take(part), x[part], found.notes))
            else:
                works.append(found)
        return works

    def _table(self, request: Request, most_rows: int) -> _Work:
        table = read_table_body(request, self._schema, most_rows)
        try:
            columns, batch = read_columns(table), Batch(self._schema)
            return _Work(request, None, columns, batch.encode(columns), batch.notes)
        except InputError as error:
            raise Refusal(422, str(error)) from error

    def _score(self, works: list[_Work]) -> None:
        """Score the rows of all requests at once.

        The training table is recognised as a whole: in one request, but not if several happen to make it up.
        """
        n_rows = self._schema.n_rows
        works = [work for work in works if len(work.x)]
        groups = [[work] for work in works if len(work.x) == n_rows]
        rest = [work for work in works if len(work.x) != n_rows]
        makes_it_up = sum(len(work.x) for work in rest) == n_rows
        groups += [[work] for work in rest] if makes_it_up else [rest] if rest else []
        for group in groups:
            self._score_together(group)

    def _score_together(self, works: list[_Work]) -> None:
        x = np.concatenate([work.x for work in works])
        scored = self._scorer.score_rows(x, lambda _: None)
        if not np.isfinite(scored.score).all():
            raise ModelFileError("The model gives scores that are not finite; fit it again.")
        place = 0
        for work in works:
            part = slice(place, place := place + len(work.x))
            work.scored = RowScores(scored.by_member[part], scored.score[part], scored.training_row[part])

    def _flags(self, scored: RowScores) -> tuple[np.ndarray, np.ndarray]:
        p_values = self._scorer.p_values(scored)
        return p_values, self._rule.flag(p_values)[0]

    def _told(self, work: _Work) -> Answer:
        """The answer to a request whose rows are scored."""
        rows: list[dict[str, Any]] = []
        if work.scored is not None:
            p_values, flags = self._flags(work.scored)
            numbers = zip(work.scored.score.tolist(), p_values.tolist(), flags.tolist(), strict=True)
            rows = [{"score": score, "p_value": p, "anomaly": anomaly} for score, p, anomaly in numbers]
            for row, j in np.argwhere(np.isinf(work.x)):
                rows[row].setdefault("unreadable", []).append(self._schema.used[j].name)
            if work.request.kind == "explain":
                for row, why in zip(rows, self._explained(work, work.scored), strict=True):
                    row |= why
        flagged = sum(row["anomaly"] for row in rows)
        problems = work.rows.problems if work.rows is not None else {}
        if work.rows is not None and problems:
            wrong = {"score": None, "p_value": None, "anomaly": None}
            told = {place: {**wrong, "error": sentence} for place, sentence in problems.items()}
            told |= dict(zip(work.rows.places, rows, strict=True))
            rows = [told[place] for place in range(work.rows.n_rows)]
        content = {"model": self._name, "rows": rows, "flagged": flagged, "notes": work.notes}
        return Answer(200, json.dumps(content).encode(), len(rows), flagged, len(problems))

    def _explained(self, work: _Work, scored: RowScores) -> list[dict[str, Any]]:
        explanation = self._detector.explain(work.columns, scored.by_member, scored.training_row)
        records = work.rows.records if work.rows is not None else [{}] * len(explanation)
        return [_reasons(why, record) for why, record in zip(explanation, records, strict=True)]


def _shown(column: Column, encoded: float) -> Category | None:
    """A cell as a client would send it."""
    cell = readable(column, decode_cell(column, encoded))
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def _reasons(why: RowExplanation, record: Any) -> dict[str, Any]:
    """An explanation as plain values; a cell that could not be read is shown as it was sent."""
    reasons = tuple(
        replace(reason, seen=record.get(reason.column)) if reason.seen in (math.inf, -math.inf) else reason
        for reason in why.reasons
    )
    why = replace(why, reasons=reasons)
    told = _plain(asdict(why))
    return {"reasons_text": reasons_text(why)} | {
        name: part for name, part in told.items() if name not in ("row", "score")
    }


def _plain(value: Any) -> Any:
    """The same without numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
