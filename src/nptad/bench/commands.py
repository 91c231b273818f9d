"""The command ``nptad bench``: run, status, tables, figures."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.table import Table as RichTable

from nptad.bench.presets import Preset
from nptad.bench.store import RunRecord
from nptad.errors import InputError

if TYPE_CHECKING:
    from nptad.bench.run import Plan

app = App(name="bench", help="Reproduce the paper: run methods on data sets, make tables and figures.")

RESULTS = Path("results")
Positive = Annotated[int, Parameter(validator=Number(gte=1))]
PositiveNumber = Annotated[float, Parameter(validator=Number(gt=0))]
ResultsFolder = Annotated[Path, Parameter(help="Folder of the results.")]
_SMALL = "wine,lympho,glass,vertebral,wbc,ecoli,ionosphere,breastw,pima"


@app.command
def run(
    *,
    protocol: Literal["paper", "one-table"] = "paper",
    methods: str | None = None,
    datasets: str = _SMALL,
    seeds: str = "0-19",
    preset: Preset = "paper",
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None,
    jobs: Positive | None = None,
    threads: Positive = 1,
    engine: Literal["local", "ray"] = "local",
    shard: str = "1/1",
    time_limit: PositiveNumber | None = None,
    memory_limit: PositiveNumber | None = None,
    retry: bool = False,
    again: bool = False,
    data: Path | None = None,
    results: ResultsFolder = RESULTS,
) -> None:
    """Run what is missing; finished runs are never repeated, and a kill loses none of them.

    The exit code is 1 if a run has failed; a run over a limit has not failed.

    Parameters
    ----------
    protocol : {"paper", "one-table"}
        Half of the normal rows for training and the rest for testing; or the whole table without labels, whose own
        rows are ranked and flagged. The latter's runs are in the folder `one-table` of the results.
    methods : str
        Names separated by commas, or `all`; `module:Class` is a method of yours. By default npt-ad, transformer and
        mask-knn; of the one-table protocol all.
    datasets : str
        Names separated by commas, or `all`; `separable@0.05` is the separable set with 5 % of contamination.
        `module:function` is a set of yours: the function returns X, y (1 = anomaly) and, if there are any, the
        positions of the category columns.
    seeds : str
        Such as `0-19` or `0,3,7`; each seed is another split.
    preset : {"paper", "scripts", "default"}
        Settings of NPT-AD and the Transformer: those of the paper's text, of its authors' scripts, or the library's. A
        run with the paper's settings has the figures under all scoring rules, so that a preset that differs in the rule
        alone needs no other run.
    set_ : list of str
        Change a setting of the preset, such as `--set n_steps=1000`; methods without presets ignore it.
    jobs : int
        Runs at a time; by default 1, or as many as a Ray cluster has room for.
    threads : int
        Threads of each run.
    engine : {"local", "ray"}
        Run here, or on a Ray cluster.
    shard : str
        `2/5` does the second fifth of the work, for clusters.
    time_limit : float
        Seconds that a run may take; a longer run is stopped, and its record says so.
    memory_limit : float
        MiB that a run may take.
    retry : bool
        Repeat the runs that failed or exceeded a limit.
    again : bool
        Repeat the finished runs too, for instance after a change to a method or data set of yours.
    data : Path
        Folder of the data sets; by default NPTAD_DATA, then the cache, then a download.
    """
    from nptad.bench.progress import live_view
    from nptad.bench.run import Limits, count_failed, missing_tasks, run_tasks

    if data is not None and not data.is_dir():
        raise InputError(f"--data {data} is no folder; give the folder of the data sets, or leave --data out.")
    part = _shard(shard)
    plan = _plan(protocol, methods, datasets, seeds, preset, set_)
    runs = results / "runs" if protocol == "paper" else results / "one-table" / "runs"
    tasks = missing_tasks(plan, runs, retry=retry, again=again, shard=part)
    console = Console(stderr=True)
    if not tasks:
        text = "Every run has a record: `nptad bench status` shows them, `--retry` repeats failed runs, `--again` all."
        console.print(text, soft_wrap=True)
        _exit_if_failed(count_failed(plan, runs, part), console)
        return
    carry_out = None
    if engine == "ray":
        from nptad.bench.cluster import room_for_tasks, supervise_on_ray

        jobs, carry_out = jobs or room_for_tasks(threads), supervise_on_ray
    outcomes: Counter[str] = Counter()
    with live_view(tasks, runs, console) as show:

        def report(record: RunRecord) -> None:
            outcomes[record["outcome"]] += 1
            show(record)

        run_tasks(
            tasks,
            runs,
            jobs=jobs or 1,
            threads=threads,
            data=None if data is None else str(data),
            limits=Limits(time_limit, memory_limit),
            shard=part,
            report=report,
            carry_out=carry_out,
        )
    _exit_if_failed(outcomes["failed"], console)


def _exit_if_failed(n_failed: int, console: Console) -> None:
    if n_failed:
        runs = f"{n_failed} run{'s' * (n_failed > 1)}"
        console.print(f"{runs} failed; `nptad bench status` shows why, `--retry` repeats them.", soft_wrap=True)
        sys.exit(1)


@app.command
def status(
    *, results: ResultsFolder = RESULTS, methods: str = "all", datasets: str = "all", seeds: str = "0-19"
) -> None:
    """Show what is done, what failed and why, and what is missing.

    Parameters
    ----------
    methods : str
        Names separated by commas, or `all`.
    datasets : str
        Names separated by commas, or `all`.
    seeds : str
        The wanted seeds, such as `0-19`.
    """
    from nptad.bench.datasets import DATASETS, find_dataset
    from nptad.bench.own import is_own
    from nptad.bench.progress import describe
    from nptad.bench.protocol import parse_name
    from nptad.bench.registry import METHODS, method_spec
    from nptad.bench.series import is_current
    from nptad.bench.store import read_records

    wanted = _seeds(seeds)
    records = [r for r in read_records(results / "runs") if r["seed"] in wanted and is_current(r)]
    rows = _datasets(datasets, [*DATASETS, *(r["dataset"] for r in records)])
    names = _names(methods, [*METHODS, *(r["method"] for r in records)])
    for name in names:
        method_spec(name)
    for row in rows:
        if not is_own(row):  # the module of a user's set need not be there
            find_dataset(parse_name(row)[0])
    records = [r for r in records if r["dataset"] in rows and r["method"] in names]
    present = {(r["method"], r["preset"]) for r in records}
    columns = [
        (name, preset) for name in names for preset in ("paper", "scripts", "default", "") if (name, preset) in present
    ]

    counts = {}
    for dataset in rows:
        cells = ([r for r in records if (r["dataset"], r["method"], r["preset"]) == (dataset, *c)] for c in columns)
        counts[dataset] = [_count(cell, len(wanted)) for cell in cells]
    console = Console()
    console.print(f"Finished of {len(wanted)} seeds (! = failed or over a limit)", soft_wrap=True)
    _print_counts(console, counts, [f"{name} {preset}".strip() for name, preset in columns])
    if missing := [name for name in names if not any(name == method for method, _ in present)]:
        console.print(f"Not started: {', '.join(missing)}.", markup=False, soft_wrap=True)
    for record in records:
        if record["outcome"] != "done":
            console.print(describe(record), markup=False, soft_wrap=True)


def _print_counts(console: Console, rows: dict[str, list[str]], heads: list[str]) -> None:
    """Print one table to a file, and as many as the width needs to a terminal."""
    first = max(map(len, ["data set", *rows])) + 4
    widths = [max(map(len, [head, *(cells[j] for cells in rows.values())])) + 3 for j, head in enumerate(heads)]
    if not console.is_terminal:
        console.width = max(80, first + sum(widths))
    tables: list[list[int]] = [[]]
    for j, width in enumerate(widths):
        if tables[-1] and first + sum(widths[i] for i in tables[-1]) + width > console.width:
            tables.append([])
        tables[-1].append(j)
    for columns in tables:
        table = RichTable("data set")
        for j in columns:
            table.add_column(heads[j], justify="right", no_wrap=True)
        for name, cells in rows.items():
            table.add_row(name, *(cells[j] for j in columns))
        console.print(table)


def _count(records: list[RunRecord], wanted: int) -> str:
    """Seeds done of those wanted, by the configuration with most of them, and how many have no result."""
    configs = Counter(r["config_hash"] for r in records if r["outcome"] == "done")
    done, failed = max(configs.values(), default=0), len(records) - configs.total()
    return (f"{done}/{wanted}" if done else "-") + (f" !{failed}" if failed else "")


@app.command
def tables(*, results: ResultsFolder = RESULTS) -> None:
    """Write the tables (Markdown, CSV, LaTeX) and the page `README.md`; the page shows the figures drawn so far."""
    from nptad.bench.one_table_page import write_one_table_page
    from nptad.bench.page import write_page

    print(*write_page(results), *write_one_table_page(results), sep="\n")


@app.command
def figures(*, results: ResultsFolder = RESULTS) -> None:
    """Draw the figures (SVG and PNG) from the stored runs."""
    from nptad.bench.figures import draw_all, draw_one_table

    print(*draw_all(results), *draw_one_table(results), sep="\n")


def _plan(
    protocol: str, methods: str | None, datasets: str, seeds: str, preset: Preset, changes: list[str] | None
) -> Plan:
    from nptad.bench import one_table, registry
    from nptad.bench.datasets import DATASETS
    from nptad.bench.run import Plan

    is_paper = protocol == "paper"
    usual = "npt-ad,transformer,mask-knn" if is_paper else "all"
    chosen = usual if methods is None else methods
    return Plan(
        tuple(_names(chosen, registry.METHODS if is_paper else one_table.METHODS)),
        tuple(_datasets(datasets, DATASETS)),
        _seeds(seeds),
        preset,
        tuple(_change(text) for text in changes or []),
        protocol,
    )


def _names(text: str, known: Iterable[str] = ()) -> list[str]:
    """Names separated by commas, each once; ``all`` stands for the known ones."""
    names = known if text == "all" else (name.strip() for name in text.split(","))
    found = [name for name in dict.fromkeys(names) if name]
    if not found:
        raise InputError(f"{text!r} has no name in it; give names separated by commas.")
    return found


def _datasets(text: str, known: Iterable[str]) -> list[str]:
    """Names of data sets, each share of contamination in one spelling."""
    from nptad.bench.protocol import parse_name

    parsed = map(parse_name, _names(text, known))
    return list(dict.fromkeys(name if share is None else f"{name}@{share:g}" for name, share in parsed))


def _seeds(text: str) -> tuple[int, ...]:
    seeds: list[int] = []
    for part in _names(text):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None:
            raise InputError(f"--seeds {text!r} is not a list of seeds such as 0-19 or 0,3,7.")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InputError(f"--seeds {text!r} has a range that runs backwards; put the smaller number first.")
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
        parsed = json.loads(value)
    except ValueError:
        return name, value
    # 0 and 0.0 are the same setting and must not make two configurations.
    return name, int(parsed) if isinstance(parsed, float) and parsed.is_integer() else parsed
