"""The command ``nptad bench``: run, status, tables, figures."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table as RichTable

from nptad.bench.presets import Preset
from nptad.errors import InputError

app = App(name="bench", help="Reproduce the paper: run methods on data sets, draw tables and figures.")

RESULTS = Path("results")
_SMALL = "wine,lympho,glass,vertebral,wbc,ecoli,ionosphere,breastw,pima"


@app.command
def run(
    *,
    methods: str = "npt-ad,transformer,mask-knn",
    datasets: str = _SMALL,
    seeds: str = "0-19",
    preset: Preset = "paper",
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None,
    jobs: int = 1,
    threads: int = 1,
    shard: str = "1/1",
    time_limit: float | None = None,
    memory_limit: float | None = None,
    retry: bool = False,
    data: Path | None = None,
    results: Path = RESULTS,
) -> None:
    """Run what is missing; what is finished is never repeated, and killing it loses nothing that is finished.

    Parameters
    ----------
    methods : str
        Names, separated by commas; `module:Class` for one of your own.
    datasets : str
        Names, separated by commas, or `all`; `separable@0.05` is the separable set with 5 % of contamination.
    seeds : str
        Such as `0-19` or `0,3,7`; each is a split of its own.
    preset : {"paper", "default"}
        Settings of NPT-AD and the Transformer: the paper's, or the library's.
    set_ : list of str
        Change a setting of the preset, such as `--set n_steps=1000`.
    jobs : int
        Runs at a time.
    threads : int
        Threads of each.
    shard : str
        `2/5` does the second fifth of the work, for clusters.
    time_limit : float
        Seconds that a run may take; a longer one is recorded as such.
    memory_limit : float
        MiB that a run may take.
    retry : bool
        Repeat the runs that failed or exceeded a limit.
    data : Path
        Directory of the data sets; NPTAD_DATA, the cache or a download otherwise.
    results : Path
        Where results are kept.
    """
    from nptad.bench.progress import live_view
    from nptad.bench.run import Limits, missing_tasks, run_tasks

    part = _shard(shard)
    plan = _plan(methods, datasets, seeds, preset, set_)
    tasks = missing_tasks(plan, results / "runs", retry=retry, shard=part)
    console = Console(stderr=True)
    if not tasks:
        console.print("Everything asked for is done; `nptad bench status` shows it.")
        return
    with live_view(tasks, results / "runs", console) as report:
        run_tasks(
            tasks,
            results / "runs",
            jobs=jobs,
            threads=threads,
            data=None if data is None else str(data),
            limits=Limits(time_limit, memory_limit),
            shard=part,
            report=report,
        )


@app.command
def status(*, results: Path = RESULTS, datasets: str = "all", methods: str = "all") -> None:
    """Show what is done, what failed and why, and what is missing.

    Parameters
    ----------
    results : Path
        Where results are kept.
    datasets : str
        Names, separated by commas.
    methods : str
        Names, separated by commas.
    """
    from nptad.bench.datasets import DATASETS
    from nptad.bench.methods import METHODS
    from nptad.bench.store import read_records

    records = read_records(results / "runs")
    names = list(METHODS) if methods == "all" else _names(methods)
    columns = [(name, preset) for name in names for preset in _presets(name)]
    table = RichTable(title="seeds done (! = failed or over a limit)")
    table.add_column("data set")
    for name, preset in columns:
        table.add_column(f"{name} {preset}".strip(), justify="right")
    for dataset in list(DATASETS) if datasets == "all" else _names(datasets):
        cells = []
        for name, preset in columns:
            outcomes = Counter(
                r["outcome"] for r in records if (r["dataset"], r["method"], r["preset"]) == (dataset, name, preset)
            )
            failed = sum(outcomes.values()) - outcomes["done"]
            cells.append((str(outcomes["done"]) if outcomes["done"] else "-") + (f" !{failed}" if failed else ""))
        table.add_row(dataset, *cells)
    console = Console()
    console.print(table)
    for r in records:
        if r["outcome"] != "done":
            console.print(
                f"{r['dataset']} {r['method']} {r['preset']} seed {r['seed']}: {r['outcome']}, {r.get('reason', '')}",
                markup=False,
                soft_wrap=True,
            )


@app.command
def tables(*, results: Path = RESULTS) -> None:
    """Write the tables (Markdown, CSV, LaTeX) and the page `README.md` from the stored runs.

    Parameters
    ----------
    results : Path
        Where results are kept.
    """
    from nptad.bench.page import write_page

    for path in write_page(results):
        print(path)


@app.command
def figures(*, results: Path = RESULTS) -> None:
    """Draw the figures (SVG and PNG) from the stored runs.

    Parameters
    ----------
    results : Path
        Where results are kept.
    """
    from nptad.bench.figures import draw_all

    for path in draw_all(results):
        print(path)


def _plan(methods: str, datasets: str, seeds: str, preset: Preset, changes: list[str] | None):  # type: ignore[no-untyped-def]
    from nptad.bench.datasets import DATASETS
    from nptad.bench.run import Plan

    names = tuple(DATASETS) if datasets == "all" else tuple(_names(datasets))
    return Plan(tuple(_names(methods)), names, _seeds(seeds), preset, tuple(_change(text) for text in changes or []))


def _presets(method: str) -> tuple[str, ...]:
    from nptad.bench.methods import find_method

    return ("paper", "default") if find_method(method).has_presets else ("",)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _seeds(text: str) -> tuple[int, ...]:
    seeds: list[int] = []
    for part in _names(text):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None:
            raise InputError(f"--seeds {text!r} is not a list of seeds such as 0-19 or 0,3,7.")
        first, last = int(match[1]), int(match[2] or match[1])
        seeds += range(first, last + 1)
    return tuple(dict.fromkeys(seeds))


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"--shard {text!r} is not a part such as 2/5.")
    return int(match[1]), int(match[2])


def _change(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set {text!r} is not a setting such as n_steps=1000.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
