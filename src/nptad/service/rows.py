"""What clients ask: the body of a request as rows that a model can score, or one sentence why not."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from nptad.errors import InputError
from nptad.io.read import open_table
from nptad.service.messages import Request
from nptad.tables.encode import check_columns
from nptad.tables.frames import RawColumns
from nptad.tables.records import Record, record_problem
from nptad.tables.schema import Schema
from nptad.wording import plural

_BODY = "The body"
_EXPECTED = 'an array of rows, or an object {"rows": [...]}'


class Refusal(Exception):
    """A request that gets no result: its status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclass
class JSONRows:
    """The rows of a JSON body: those that can be scored, and what is wrong with the others."""

    n_rows: int
    records: list[Record] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Where these records stand in the body."""
    problems: dict[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_json(body: bytes, schema: Schema, most_rows: int) -> JSONRows:
    """Read a JSON body; NaN and Infinity, which are not JSON but common, are missing cells."""
    try:
        content = json.loads(body, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"{_BODY} cannot be read as JSON ({error}); send {_EXPECTED}.") from error
    if isinstance(content, dict):
        content = content.get("rows")
    if not isinstance(content, list):
        raise Refusal(422, f"{_BODY} is JSON, but has no rows; send {_EXPECTED}.")
    require_few(len(content), most_rows)
    rows = JSONRows(len(content))
    names: dict[str | int, None] = {}
    for place, row in enumerate(content):
        record = _record(row, schema)
        problem = record if isinstance(record, str) else record_problem(schema, record)
        if isinstance(record, str) or problem is not None:
            rows.problems[place] = str(problem)
            continue
        rows.records.append(record)
        rows.places.append(place)
        names |= dict.fromkeys(record)
    if rows.records:
        rows.notes = _notes(schema, names)
    return rows


def _record(row: Any, schema: Schema) -> Record | str:
    """A row as a record, or what it lacks to be one."""
    if schema.named:
        return row if isinstance(row, dict) else 'The row is not an object; write it as {"column": value, ...}.'
    if isinstance(row, list) and len(row) == len(schema.columns):
        return dict(enumerate(row))
    return f"The row is not a list of {plural(len(schema.columns), 'cell')}; the columns of this model have no names."


def _notes(schema: Schema, names: dict[str | int, None]) -> tuple[str, ...]:
    """Sentences about columns that are in no row, or that the model does not know."""
    empty = np.empty(0)
    raw = RawColumns(dict.fromkeys(names, empty), {}, 0, schema.named, "pyarrow")
    return tuple(f"{note[0].upper()}{note[1:]}." for note in check_columns(schema, raw))


def read_table_body(request: Request, schema: Schema, most_rows: int) -> pa.Table:
    """Read a body that is a table: CSV, Parquet or Arrow."""
    try:
        table = open_table(request.body, request.format, _BODY, schema.text_columns)
        require_few(table.n_rows, most_rows)
        return pa.concat_tables([table.schema.empty_table(), *table.blocks(0)])
    except InputError as error:
        raise Refusal(400, str(error)) from error


def require_few(n_rows: int, most: int) -> None:
    """Refuse a body of too many rows."""
    if n_rows > most:
        raise Refusal(413, f"{_BODY} has {n_rows:,} rows, and {most:,} are taken at a time; send it in parts.")
