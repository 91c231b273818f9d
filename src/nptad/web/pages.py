"""Templates, and the state of jobs in words."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader
from starlette.responses import HTMLResponse

from nptad.report.html import make_environment
from nptad.web.jobs import Job, Store
from nptad.web.runner import Runner
from nptad.wording import duration, moment

PHASES = {
    "Fitting": "Learn what normal rows look like",
    "Explaining": "Explain the flagged rows",
    "Writing": "Write the report",
}
"""The phases of a job, in order."""

_LONGEST_NAME = 80


def render(template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Render a page."""
    return HTMLResponse(_environment().get_template(f"{template}.html.j2").render(context), status)


@cache
def _environment() -> Environment:
    environment = make_environment(PackageLoader("nptad.web"))
    environment.filters["local_moment"] = lambda seconds: moment(datetime.fromtimestamp(seconds))
    environment.globals |= {"version": version("nptad"), "phases": PHASES}
    return environment


def status_of(job: Job, store: Store, runner: Runner) -> dict[str, Any]:
    """The state of a job, for the script of the page and for pages without script."""
    progress = runner.progress if runner.running is job else {}
    share = progress.get("share", 0.0)
    line = {"draft": "not started", "done": job.headline, "running": f"running, {100 * share:.0f}%"}
    if job.state == "queued":
        position = store.queue().index(job)
        line["queued"] = f"waiting, number {position + 1} in line" if position else "waiting, next in line"
    return {
        "state": job.state,
        "line": line.get(job.state, job.state),
        "phase": progress.get("phase"),
        "share": round(share, 4),
        "left": remaining(progress.get("left")) if job.state == "running" else "",
    }


def remaining(seconds: float | None) -> str:
    """The time left, rounded to what can be known.

    >>> [remaining(seconds) for seconds in (None, 2, 33, 100, 1234, 9000)]
    ['estimating the time left', 'a few seconds left', 'about 35 s left', 'about 2 min left', 'about 21 min left', \
'about 2.5 h left']
    """
    if seconds is None:
        return "estimating the time left"
    if seconds < 5:
        return "a few seconds left"
    step = 5 if seconds < 90 else 60
    return f"about {duration(step * round(seconds / step))} left"


def shown_name(name: str) -> str:
    r"""The shown name of an uploaded file: the last part of its name, printable and not too long.

    >>> shown_name("C:\\fakepath\\wine.csv"), shown_name("../../etc/passwd\n.csv"), shown_name("/")
    ('wine.csv', 'passwd.csv', 'table')
    """
    last = re.split(r"[\\/]", name)[-1]
    printable = "".join(letter for letter in last if letter.isprintable()).strip()
    return printable[-_LONGEST_NAME:] or "table"


def download_name(name: str, kind: str) -> str:
    """A safe file name for a download.

    >>> download_name("Müller's wine.csv", "scores.csv"), download_name("…", "model.zip")
    ('M-ller-s-wine-scores.csv', 'table-model.zip')
    """
    stem = re.sub("[^A-Za-z0-9_]+", "-", name.rpartition(".")[0] or name)[:40].strip("-")
    return f"{stem or 'table'}-{kind}"
