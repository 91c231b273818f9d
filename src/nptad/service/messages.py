"""A request and its answer, on their way between the service and the process that scores."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

Kind = Literal["score", "explain"]

FORMATS = {
    "application/json": "json",
    "text/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/vnd.apache.arrow.file": "arrow",
}
"""The format of a body by its content type."""


@dataclass(frozen=True)
class Request:
    """The body of one request, unread."""

    kind: Kind
    format: str
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What a request gets, and what is counted of it."""

    status: int
    body: bytes
    rows: int = 0
    flagged: int = 0
    refused: int = 0
    """Rows that got an error."""


def refused(status: int, sentence: str) -> Answer:
    """An answer that is one sentence."""
    return Answer(status, json.dumps({"error": sentence}).encode())
