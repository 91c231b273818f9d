"""Templates, and the words in which the page talks about jobs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from nptad.web.jobs import Job
from nptad.web.runner import Runner

PHASES = {
    "Training": "Learn what normal rows look like",
    "Scoring": "Score every row",
    "Explaining": "Explain the flagged rows",
    "Writing": "Write the report",
}
"""What a job does, in this order."""

_LONGEST_NAME = 80


def render(template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page."""
    return HTMLResponse(_environment().get_template(f"{template}.html.j2").render(context), status)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nptad.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[[Any], str]] = {
        "count": lambda value: f"{value:,}",
        "tight": lambda sentence: sentence.replace(" %", "\N{NO-BREAK SPACE}%"),
        "moment": moment,
        "duration": duration,
        "cell": cell,
    }
    environment.filters |= filters
    environment.globals |= {"version": version("nptad"), "phases": PHASES}
    return environment


def status_of(job: Job, runner: Runner, position: int) -> dict[str, Any]:
    """How a job stands, for the script of the page and for pages without script.

    ``position`` is its place in the queue, from 1.
    """
    progress = runner.progress if runner.running is job else {}
    share, left = progress.get("share", 0.0), progress.get("left")
    return {
        "state": job.state,
        "line": _line(job, share, position),
        "phase": progress.get("phase"),
        "share": round(share, 4),
        "left": "" if job.state != "running" else remaining(left),
    }


def _line(job: Job, share: float, position: int) -> str:
    if job.state == "queued":
        return "waiting, next in line" if position == 1 else f"waiting, number {position} in line"
    if job.state == "running":
        return f"running, {100 * share:.0f} %"
    return {"draft": "not started", "done": job.headline}.get(job.state, job.state)


def remaining(seconds: float | None) -> str:
    """Time left, no more exact than it can be known.

    Examples
    --------
    >>> [remaining(seconds) for seconds in (None, 2, 33, 100, 1234, 9000)]
    ['estimating the time left', 'a few seconds left', 'about 35 s left', 'about 2 min left', 'about 21 min left', \
'about 2.5 h left']
    """
    if seconds is None:
        return "estimating the time left"
    if seconds < 5:
        return "a few seconds left"
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"


def duration(seconds: float) -> str:
    """How long something took.

    Examples
    --------
    >>> duration(0.4), duration(45), duration(600)
    ('1 s', '45 s', '10 min')
    """
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def moment(seconds: float) -> str:
    """A time as this machine's clock has it."""
    then = time.localtime(seconds)
    return f"{then.tm_mday} {time.strftime('%b %Y, %H:%M', then)}"


def cell(value: Any) -> str:
    """A cell of the table, or what was expected in its place."""
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def shown_name(name: str) -> str:
    r"""What to call an uploaded file: the last part of its name, printable and not too long.

    Examples
    --------
    >>> shown_name("C:\\fakepath\\wine.csv"), shown_name("../../etc/passwd\n.csv"), shown_name("/")
    ('wine.csv', 'passwd.csv', 'table')
    """
    last = re.split(r"[\\/]", name)[-1]
    printable = "".join(letter for letter in last if letter.isprintable()).strip()
    return printable[-_LONGEST_NAME:] or "table"


def download_name(name: str, kind: str) -> str:
    """A harmless file name for a download.

    Examples
    --------
    >>> download_name("Müller's wine.csv", "scores.csv"), download_name("…", "model.zip")
    ('M-ller-s-wine-scores.csv', 'table-model.zip')
    """
    stem = re.sub("[^A-Za-z0-9_]+", "-", name.rpartition(".")[0] or name)[:40].strip("-")
    return f"{stem or 'table'}-{kind}"
