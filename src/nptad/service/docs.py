"""The page that describes the service; it loads nothing from elsewhere."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from nptad.service.messages import FORMATS
from nptad.service.openapi import describe, example_rows

_SHOWN_COLUMNS = 100


def docs_page(facts: dict[str, Any], url: str, has_token: bool, body_bytes: int) -> str:
    """The page for the present model, as HTML."""
    document = describe(facts, body_bytes)
    example = json.dumps({"rows": example_rows(facts)}, indent=2, ensure_ascii=False)
    used = [
        {**column, "shown": _shown(column["example"])} for column in facts["columns"] if column["kind"] != "ignored"
    ]
    return _template().render(
        facts=facts,
        url=url,
        has_token=has_token,
        example=example,
        answer=json.dumps(facts["answer"], indent=2, ensure_ascii=False),
        used=used[:_SHOWN_COLUMNS],
        n_more=len(used) - len(used[:_SHOWN_COLUMNS]),
        formats=list(FORMATS),
        paths=[
            (method.upper(), path, operation["summary"])
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ],
        refusals=[
            (status, answer["description"])
            for status, answer in document["paths"]["/score"]["post"]["responses"].items()
            if status != "200"
        ],
    )


def _shown(cell: Any) -> str:
    return cell if isinstance(cell, str) else "" if cell is None else json.dumps(cell)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("nptad.service", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("docs.html.j2")
