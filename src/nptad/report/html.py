"""A summary as one self-contained HTML file: it loads nothing, and every text is escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nptad import wording
from nptad.errors import InputError
from nptad.io.atomic import writing, writing_explained
from nptad.report import svg
from nptad.report.rows import HEAT_COLUMNS
from nptad.wording import duration, figure, moment, number, p_value, percent, plural

if TYPE_CHECKING:
    from jinja2 import BaseLoader, Environment, Template

HEAT_LIMITS = (0.005, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6)  # the lowest share of each colour of the heat map
SHOWN_COLUMNS = 30  # columns described; the others are folded away
_UNBROKEN = 20  # a name or a date of at most this many letters is not broken into two lines


def render(summary: dict[str, Any]) -> str:
    """Render a summary of :func:`nptad.report.summarise`, or the same read back from JSON, as an HTML document."""
    template = _template()
    from markupsafe import Markup  # installed with jinja2

    result, labels, network = summary["result"], summary["labels"], summary["training"]["network"]
    named = {reason["column_number"] for anomaly in summary["anomalies"] for reason in anomaly["reasons"]}
    columns = [(j, column["counts"]) for j, column in enumerate(summary["schema"]) if j in named]
    drawn = {
        "columns": "".join(svg.small_histogram(f"h{j}", counts) for j, counts in columns),
        "histogram": svg.histogram(
            summary["scores"],
            result["score_threshold"],
            [anomaly["score"] for anomaly in summary["anomalies"] if anomaly["flagged"]],
        ),
    }
    if network:
        drawn["training_curve"] = svg.training_curve(network["curve"])
    if labels and labels["roc"]:
        base = labels["n_anomalies"] / summary["table"]["n_rows"]
        drawn["roc"] = svg.curve(labels["roc"], [(0.0, 0.0), (1.0, 1.0)])
        drawn["precision_recall"] = svg.curve(labels["precision_recall"], [(0.0, base), (1.0, base)])
    style, script = base_style() + resource("style.css"), resource("script.js")
    return template.render(
        s=summary,
        network=network,
        created=datetime.fromisoformat(summary["created"]),
        style=Markup(style),
        script=Markup(script),
        policy=policy_for(style, script),
        data=Markup(_script_json(summary)),
        limits=HEAT_LIMITS,
        places={anomaly["row"]: place for place, anomaly in reversed([*enumerate(summary["anomalies"], 1)])},
        shown_columns=SHOWN_COLUMNS,
        heat_columns=HEAT_COLUMNS,
        **{name: Markup(picture) for name, picture in drawn.items()},
    )


def write_report(summary: dict[str, Any], path: str | Path) -> None:
    """Write the report on a summary of :func:`nptad.report.summarise` to an HTML file.

    An existing file is replaced. The file is written completely or not at all, unless it is a device or a pipe.
    """
    page = render(summary)
    with writing_explained(path), writing(Path(path)) as file:
        file.write(page.encode())


def make_environment(loader: BaseLoader | None = None) -> Environment:
    """Templates that escape every text and refuse undefined names, with our filters; the web page uses it too."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise InputError("A report needs jinja2; install it with pip install 'nptad[report]'.") from error
    from markupsafe import Markup, escape  # installed with jinja2

    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )

    def text(value: str) -> Markup:
        """A text of the user, isolated so that its direction does not turn the text around it."""
        unbroken = len(value) <= _UNBROKEN and not any(letter.isspace() for letter in value)
        return Markup('<bdi class="whole">{}</bdi>' if unbroken else "<bdi>{}</bdi>").format(value)

    def cell(value: Any, digits: int = wording.DIGITS) -> Markup:
        """A cell of a summary, which has shortened its texts already."""
        if value is None or value == "":
            return Markup('<span class="muted">{}</span>').format(wording.cell(value))
        return text(value) if isinstance(value, str) else escape(wording.cell(value, digits=digits))

    def estimate(value: Any) -> Markup:
        return cell(value, wording.ESTIMATE_DIGITS)

    def interval(similar: dict[str, Any]) -> Markup:
        """What most of the similar rows have."""
        low, high = estimate(similar["low"]), estimate(similar["high"])
        return low if low == high else Markup("{} to {}").format(low, high)

    def pieces(sentence: Sequence[tuple[str, str]]) -> Markup:
        """A sentence of :func:`nptad.explain.sentences.sentences`."""
        marks = {"column": Markup("<b>{}</b>"), "cell": Markup("{}"), "": Markup('<span class="muted">{}</span>')}
        return Markup("").join(marks[kind].format(text(words) if kind else words) for kind, words in sentence)

    filters = (text, cell, estimate, interval, pieces, number, figure, p_value, percent, plural, duration, moment)
    environment.filters |= {function.__name__: function for function in filters}
    environment.filters["count"] = lambda value: f"{value:,}"
    return environment


@cache
def _template() -> Template:
    environment = make_environment()
    from markupsafe import Markup

    environment.filters |= {
        "missing": _missing,
        "setting": _setting,
        "breakable": lambda name: Markup("_<wbr>").join(name.split("_")),
        "heat": lambda shares: Markup("".join(_heat_cell(share) for share in shares)),
    }
    environment.globals["bar"] = lambda share: Markup(svg.bar(share))
    environment.globals["marked"] = lambda column, position: Markup(svg.marked(f"h{column}", position))
    return environment.from_string(resource("template.html.j2"))


def base_style() -> str:
    """The style that the report and the page have in common."""
    return resource("base.css")


@cache
def resource(name: str) -> str:
    """The content of a file of the report."""
    return files("nptad.report").joinpath(name).read_text(encoding="utf-8")


def policy_for(style: str, script: str) -> str:
    """A content security policy that allows this style and this script and nothing else."""

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; style-src {source(style)}; script-src {source(script)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _script_json(summary: dict[str, Any]) -> str:
    """JSON for a script element: nothing in it can end the element or a line."""
    text = json.dumps(summary, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _heat_cell(share: float) -> str:
    level = sum(share >= limit for limit in HEAT_LIMITS)
    return f'<td class="h{level}">{max(1, round(100 * share))}</td>' if level else "<td></td>"


def _missing(count: int, n_rows: int) -> str:
    return f"{count:,} ({percent(count / n_rows)})" if count else "none"


def _setting(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "all" if value is None else str(value)
