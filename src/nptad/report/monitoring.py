"""Scored files over time as one self-contained HTML file."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nptad.io.atomic import writing, writing_explained
from nptad.report import svg
from nptad.report.html import base_style, make_environment, policy_for, resource

if TYPE_CHECKING:
    from jinja2 import Template


def render_monitoring(facts: dict[str, Any], model: str) -> str:
    """Render what :func:`nptad.scale.monitor.monitor_files` found, as plain values, as an HTML document."""
    template = _template()
    from markupsafe import Markup  # installed with jinja2

    periods = facts["periods"]
    shares = svg.series(
        [p["share"] for p in periods],
        [p["is_high"] for p in periods],
        band=[(p["low"] / p["n_rows"], p["high"] / p["n_rows"]) for p in periods],
    )
    means = svg.series([p["mean_score"] for p in periods], level=facts["mean_score"])
    highs = svg.series([p["high_score"] for p in periods], level=facts["high_score"])
    style = base_style() + resource("style.css")
    return template.render(
        f=facts,
        model=model,
        created=datetime.now().astimezone(),
        style=Markup(style),
        policy=policy_for(style, ""),
        shares=Markup(shares),
        means=Markup(means),
        highs=Markup(highs),
    )


def write_monitoring(facts: dict[str, Any], model: str, path: str | Path) -> None:
    """Write the page to a file, completely or not at all."""
    page = render_monitoring(facts, model)
    with writing_explained(path), writing(Path(path)) as file:
        file.write(page.encode())


@cache
def _template() -> Template:
    return make_environment().from_string(resource("monitoring.html.j2"))
