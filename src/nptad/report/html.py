"""A summary as one self-contained HTML file: no network, no CDN, every text escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nptad.errors import InputError
from nptad.io.atomic import writing
from nptad.report import svg
from nptad.wording import figure, number, percent

if TYPE_CHECKING:
    from jinja2 import Template

HEAT_LIMITS = (0.005, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6)
"""Shares from which on a cell of the heat map has the next colour."""

_WHOLE = 20
"""Letters up to which a name or a date is not broken into two lines."""


def render(summary: dict[str, Any]) -> str:
    """Make the page.

    Parameters
    ----------
    summary : dict
        From :func:`nptad.report.summarise`, or the same read back from JSON.

    Returns
    -------
    str
        A whole HTML document. The same summary gives the same document.

    Raises
    ------
    InputError
        If jinja2 is not installed.
    """
    template = _template()
    from markupsafe import Markup  # which comes with jinja2

    result, labels = summary["result"], summary["labels"]
    drawn = {
        "histogram": svg.histogram(
            summary["scores"],
            result["score_threshold"],
            [anomaly["score"] for anomaly in summary["anomalies"] if anomaly["flagged"]],
        ),
        "training_curve": svg.training_curve(summary["training"]["curve"]),
    }
    if labels and labels["roc"]:
        base = labels["n_anomalies"] / summary["table"]["n_rows"]
        drawn["roc"] = svg.curve(labels["roc"], [(0.0, 0.0), (1.0, 1.0)])
        drawn["precision_recall"] = svg.curve(labels["precision_recall"], [(0.0, base), (1.0, base)])
    style, script = _resource("style.css"), _resource("script.js")
    return template.render(
        s=summary,
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
        data=Markup(_script_json(summary)),
        limits=HEAT_LIMITS,
        **{name: Markup(picture) for name, picture in drawn.items()},
    )


def write_report(summary: dict[str, Any], path: str | Path) -> None:
    """Write the page to a file, whole or not at all; into a device or a pipe as it is.

    Parameters
    ----------
    summary : dict
        From :func:`nptad.report.summarise`.
    path : path
        The HTML file; one that exists is replaced.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    page = render(summary)
    try:
        with writing(Path(path)) as file:
            file.write(page.encode())
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error


@cache
def _template() -> Template:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise InputError("A report needs jinja2; install it with pip install 'nptad[report]'.") from error
    from markupsafe import Markup, escape

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)

    def text(value: str) -> Markup:
        """A text of the table, isolated so that its direction does not turn what is around it."""
        whole = len(value) <= _WHOLE and not any(letter.isspace() for letter in value)
        return Markup('<bdi class="whole">{}</bdi>' if whole else "<bdi>{}</bdi>").format(value)

    def cell(value: Any, digits: int = 6) -> Markup:
        if value is None:
            return Markup('<span class="muted">missing</span>')
        if value == "":
            return Markup('<span class="muted">empty text</span>')
        if isinstance(value, bool):
            return escape(str(value).lower())
        return text(value) if isinstance(value, str) else escape(number(value, digits))

    environment.filters |= {
        "text": text,
        "cell": cell,
        "number": number,
        "figure": figure,
        "percent": lambda share: percent(share).replace(" ", "\N{NO-BREAK SPACE}"),
        "tight": lambda sentence: sentence.replace(" %", "\N{NO-BREAK SPACE}%"),
        "count": lambda value: f"{value:,}",
        "duration": _duration,
        "moment": _moment,
        "missing": _missing,
        "setting": _setting,
        "breakable": lambda name: Markup("_<wbr>").join(name.split("_")),
        "heat": lambda shares: Markup("".join(_heat_cell(share) for share in shares)),
    }
    environment.globals["bar"] = lambda share: Markup(svg.bar(share))
    return environment.from_string(_resource("template.html.j2"))


@cache
def _resource(name: str) -> str:
    return files("nptad.report").joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """A content security policy under which this style and this script are all that counts."""

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; style-src {source(style)}; script-src {source(script)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _script_json(summary: dict[str, Any]) -> str:
    """JSON that can stand in a script element: nothing in it can end the element or a line."""
    text = json.dumps(summary, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _heat_cell(share: float) -> str:
    level = sum(share >= limit for limit in HEAT_LIMITS)
    return f'<td class="h{level}">{max(1, round(100 * share))}</td>' if level else "<td></td>"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "under a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _moment(created: str) -> str:
    moment = datetime.fromisoformat(created)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _missing(count: int, n_rows: int) -> str:
    return f"{count:,} ({percent(count / n_rows)})" if count else "none"


def _setting(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "all" if value is None else str(value)
