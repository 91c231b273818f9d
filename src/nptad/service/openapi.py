"""The description of the service for the present model, in the words of OpenAPI."""

from __future__ import annotations

import json
from typing import Any

from nptad.service.messages import FORMATS
from nptad.wording import plural

_CELL = {"type": ["number", "string", "boolean", "null"]}
_SENTENCE = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
_NUMBER_OR_NONE, _FLAG_OR_NONE = {"type": ["number", "null"]}, {"type": ["boolean", "null"]}

_CONTENT = {
    "number": "a number",
    "text": "a text",
    "boolean": "true or false",
    "time": "a time, as ISO text",
    "duration": "a duration, such as 08:30:00",
}

_REFUSALS = {
    "400": "The body cannot be read.",
    "401": "The token is missing or wrong.",
    "408": "The body has not come in time.",
    "413": "The body is too long, or has too many rows.",
    "415": "The content type is unknown.",
    "422": "The rows do not fit the model.",
    "429": "Too many requests are waiting; try again after the seconds in Retry-After.",
    "500": "An error of the service; the log says more.",
    "503": "The time for the request is up, or no worker is running.",
}
_OF_EVERY_PATH = ("401", "500")

_ROW = {
    "type": "object",
    "properties": {
        "score": {**_NUMBER_OR_NONE, "description": "How odd the row is; 4.6 is as odd as one normal row in 100."},
        "p_value": {**_NUMBER_OR_NONE, "description": "The share of normal rows that are at least as odd."},
        "anomaly": {**_FLAG_OR_NONE, "description": "Whether the row is flagged."},
        "unreadable": {
            "type": "array",
            "items": {"type": ["string", "integer"]},
            "description": "Columns whose cell could not be read; each counts as an oddity of its row.",
        },
        "error": {"type": "string", "description": "Why the row has no score."},
    },
    "required": ["score", "p_value", "anomaly"],
}
_REASONS = {
    "reasons_text": {"type": "string", "description": "The reasons in one line."},
    "reasons": {"type": "array", "items": {"type": "object"}, "description": "The cells, the most suspicious first."},
}


def example_rows(facts: dict[str, Any]) -> list[Any]:
    """Rows that the model can score: an ordinary one of its training rows."""
    columns = facts["columns"]
    if not facts["named"]:
        return [[column["example"] for column in columns]]
    return [{column["name"]: column["example"] for column in columns if column["kind"] != "ignored"}]


def describe(facts: dict[str, Any], body_bytes: int) -> dict[str, Any]:
    """The OpenAPI document; ``facts`` are those of the model."""
    parameters: dict[str, Any] = {"example": example_rows(facts)}
    json_body = {"schema": _rows_schema(facts), **parameters}
    csv = {"schema": {"type": "string"}, "example": csv_text(facts)}
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {
        name: json_body if kind == "json" else csv if kind == "csv" else binary for name, kind in FORMATS.items()
    }
    body = {"required": True, "content": content, "description": f"Up to {body_bytes / 1e6:,.0f} MB."}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nptad",
            "version": facts["nptad"],
            "description": f"Scores rows with the model {facts['model']}, trained on "
            f"{plural(facts['training_rows'], 'row')}.",
        },
        "paths": {
            "/score": {"post": _judging("Score rows", body, _ROW)},
            "/explain": {"post": _judging("Score rows and say why", body, _explained_row())},
            "/model": {"get": _asking("The model: its columns and its false-alarm rate", {"type": "object"})},
            "/health": {"get": _asking("Whether rows can be scored; asked without a token", {"type": "object"})},
            "/metrics": {"get": _asking("Counts for Prometheus", {"type": "string"}, "text/plain")},
        },
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }


def csv_text(facts: dict[str, Any]) -> str:
    """The example as CSV."""
    row = example_rows(facts)[0]
    cells = row if isinstance(row, list) else row.values()
    names = [f"column {j}" for j in range(len(row))] if isinstance(row, list) else row
    return f"{','.join(map(_quoted, names))}\n{','.join(map(_quoted, cells))}\n"


def _quoted(cell: Any) -> str:
    text = cell if isinstance(cell, str) else json.dumps(cell) if cell is not None else ""
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n; ') else text


def _rows_schema(facts: dict[str, Any]) -> dict[str, Any]:
    if facts["named"]:
        properties = {
            column["name"]: {**_CELL, "description": _CONTENT[column["content"]], "example": column["example"]}
            for column in facts["columns"]
            if column["kind"] != "ignored"
        }
        row: dict[str, Any] = {"type": "object", "properties": properties}
    else:
        n_columns = len(facts["columns"])
        row = {"type": "array", "items": _CELL, "minItems": n_columns, "maxItems": n_columns}
    rows = {"type": "array", "items": row}
    return {"anyOf": [rows, {"type": "object", "properties": {"rows": rows}, "required": ["rows"]}]}


def _explained_row() -> dict[str, Any]:
    return {**_ROW, "properties": {**_ROW["properties"], **_REASONS}}  # type: ignore[dict-item]


def _judging(summary: str, body: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    result = {
        "type": "object",
        "properties": {
            "model": {"type": "string", "description": "Which model has scored the rows."},
            "rows": {"type": "array", "items": row, "description": "One for each row, in their order."},
            "flagged": {"type": "integer"},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["model", "rows", "flagged", "notes"],
    }
    answers = {"200": _content("The scores.", result)}
    answers |= {status: _content(sentence, _SENTENCE) for status, sentence in _REFUSALS.items()}
    return {"summary": summary, "requestBody": body, "responses": answers}


def _asking(summary: str, schema: dict[str, Any], media_type: str = "application/json") -> dict[str, Any]:
    answers = {"200": _content(summary, schema, media_type)}
    answers |= {status: _content(_REFUSALS[status], _SENTENCE) for status in _OF_EVERY_PATH}
    return {"summary": summary, "responses": answers}


def _content(description: str, schema: dict[str, Any], media_type: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {media_type: {"schema": schema}}}
