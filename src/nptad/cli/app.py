"""The command line: parses, calls, prints. Data go to standard output, progress and notes to standard error."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import App

from nptad.cli.arguments import (
    check_places,
    column_uses,
    refuse_mixture,
    refuse_two_results,
    refuse_with_stream,
    row_numbers,
    writes_parts,
)
from nptad.cli.ending import one_line_at_the_end
from nptad.cli.parameters import (
    As,
    Device,
    Ignore,
    Jobs,
    Label,
    Network,
    Quiet,
    SavedModel,
    Seed,
    Sheet,
    Strict,
    TableFile,
    TimeLimit,
)
from nptad.cli.reading import read_data
from nptad.errors import InputError
from nptad.memory import memory_explained
from nptad.training.launch import is_launched, launched_rank, run_together, take_part
from nptad.wording import visible

if TYPE_CHECKING:
    from nptad.detector import NPTAD

FIRST_ROW = 1
"""The number of the first row of a table, as spreadsheets and databases count."""

app = App(
    name="nptad",
    suppress_keyboard_interrupt=False,  # one_line_at_the_end says what it means for files
    help="""Find the anomalous rows of a table and say why.

    `nptad detect data.csv` finds them inside one table. `nptad fit` learns from a table of normal rows; `nptad score`
    and `nptad explain` then score and explain the rows of other tables.""",
)
app.register_install_completion_command(help="Make the shell complete nptad's commands and options.")


@app.command
def detect(
    data: TableFile,
    /,
    *,
    output: TableFile | None = None,
    report: Path | None = None,
    model: Path | None = None,
    share: float | None = None,
    sheet: Sheet = None,
    ignore: Ignore = "",
    uses: As = (),
    label: Label = None,
    top: int = 10,
    seed: Seed = 0,
    network: Network = False,
    time_limit: TimeLimit = None,
    device: Device = "auto",
    quiet: Quiet = False,
    json: bool = False,
) -> None:
    """Find the anomalies inside one table. Every row is compared with the rows that look ordinary.

    Parameters
    ----------
    data : str
        CSV, TSV, Excel, Parquet, Arrow, Feather or JSON file, or a .zip of one; a folder or a quoted pattern such as
        `'in/*.csv'`; a URL (https://, s3://, gs://); a query such as `'duckdb:shop.db#select * from orders'`; `-` for
        standard input.
    output : str
        Write the score, p-value, flag and reasons of every row to this file, also at s3:// or gs://, or to a table such
        as `'duckdb:shop.db#scores'`; `-` for CSV on standard output.
    report : Path
        Write a report to this HTML file.
    model : Path
        Save the fitted model to this directory, for `nptad score`.
    share : float
        Flag this share of the rows. By default those that stand out are flagged, which can be none.
    top : int
        Number of rows to print.
    json : bool
        Print a summary as JSON instead of a table.
    """
    from nptad.io.formats import output_format
    from nptad.io.places import name_of
    from nptad.io.write import write_table
    from nptad.models.folder import require_room

    refuse_two_results(output, json)
    if output is not None:
        output_format(output)  # a bad suffix shows now, not after minutes of training
    check_places(output, report)
    if model is not None:
        require_room(model)
    table, ignored = read_data(data, ignore, sheet)

    # What imports torch, only after the cheap mistakes have been told.
    from nptad.cli.terminal import print_anomalies, print_json, print_quality
    from nptad.explain.result import EXPLAINED_ROWS
    from nptad.pipeline import detect_table
    from nptad.report import LISTED_ROWS, summarise, write_report

    result = detect_table(
        table,
        _detector(table.column_names, uses, seed, network, time_limit, device, quiet),
        ignore=ignored,
        label=label,
        share=share,
        first_row=FIRST_ROW,
        explain_at_least=max(top, EXPLAINED_ROWS),
        explain_at_most=None if output is not None else LISTED_ROWS,
    )
    if output is not None:
        write_table(result.table(), output)
    if model is not None:
        result.detector.save(model)
    if report is not None or json:
        summary = summarise(result, source=Path(name_of(data)).name, seed=seed)
        if report is not None:
            write_report(summary, report)
        if json:
            print_json(summary)
    if output == "-" or json:
        return
    print_anomalies(result.explanation[: max(top, 1)], result)
    if result.labels is not None:
        print_quality(result.detection, result.labels)


@app.command
def fit(
    data: TableFile,
    /,
    *,
    model: Path,
    sheet: Sheet = None,
    ignore: Ignore = "",
    uses: As = (),
    seed: Seed = 0,
    network: Network = False,
    time_limit: TimeLimit = None,
    nproc: Jobs = 1,
    checkpoint: Path | None = None,
    device: Device = "auto",
    quiet: Quiet = False,
    json: bool = False,
) -> None:
    """Learn from a table of normal rows, and save the model.

    Parameters
    ----------
    data : str
        Table of normal rows: a file or any other source that `nptad detect` takes; `-` for standard input.
    model : Path
        Directory to save the model to; a model that is there is replaced.
    nproc : int
        Processes on this machine that train a network together, each with its own rows or GPU.
    checkpoint : Path
        File for the state of a network's training. The same command continues from it. It is removed at the end.
    json : bool
        Print a description of the model as JSON.
    """
    from nptad.models.folder import require_room

    if data == "-" and (nproc > 1 or is_launched()):
        raise InputError("Several processes cannot share standard input; name a file.")
    if not network and (nproc > 1 or is_launched() or checkpoint is not None):
        raise InputError("Several processes and checkpoints are for training a network; add --network.")
    check_places(checkpoint)
    require_room(model)
    task: dict[str, Any] = {
        "data": data,
        "model": str(model),
        "ignore": ignore,
        "sheet": sheet,
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "uses": uses,
        "seed": seed,
        "network": network,
        "time_limit": time_limit,
        "device": device,
        "quiet": quiet,
    }
    alone = nproc == 1 or is_launched()
    facts = _fit(**task) if alone else run_together("nptad.cli.app:fit_rank", task, nproc)
    if facts is None:  # torchrun has started this process, and another one prints
        return
    from nptad.cli.terminal import print_json, print_model

    if json:
        print_json(facts)
    elif not quiet:
        print_model(facts)


@app.command
def score(
    model: SavedModel,
    data: TableFile,
    /,
    *,
    output: TableFile = "-",
    report: Path | None = None,
    fdr: float | None = None,
    false_alarm_rate: float | None = None,
    reasons: bool = False,
    all_columns: bool = False,
    sheet: Sheet = None,
    ignore: Ignore = "",
    label: Label = None,
    strict: Strict = False,
    stream: bool = False,
    jobs: Jobs | None = None,
    engine: Literal["local", "ray"] = "local",
    device: Device = "auto",
    quiet: Quiet = False,
    json: bool = False,
) -> None:
    """Score the rows of a table with a saved model.

    With a directory as output, files of any size are scored part by part. If the command was stopped, run it again: it
    continues. With `--stream`, each JSON line on standard input becomes a JSON line on standard output at once.

    Parameters
    ----------
    data : str
        Table with the columns of the training table: a file or any other source that `nptad detect` takes; `-` for
        standard input.
    output : str
        File for the score, p-value and flag of every row, also at s3:// or gs://, or a table such as
        `'duckdb:shop.db#scores'`; `-` for CSV on standard output. A directory (an existing one, or a name that ends
        with `/`) gets Parquet parts.
    report : Path
        Write a report to this HTML file. Not with a directory.
    fdr : float
        Flag at this false discovery rate instead: the share of normal rows among the flagged rows, on average. Not
        with a directory.
    false_alarm_rate : float
        Share of the normal rows to flag; by default 0.01.
    reasons : bool
        Write the reasons of the flagged rows.
    all_columns : bool
        Write all columns of the table beside the scores, not only the ignored ones: `nptad monitor` then compares them
        with training, and `nptad feedback` takes the scores as table.
    stream : bool
        Score JSON lines as they arrive on standard input, until it ends or the command is stopped. A line that cannot
        be read becomes a line with an `error`.
    jobs : int
        With a directory: number of processes; by default one for each core, or one for each GPU.
    engine : {"local", "ray"}
        With a directory: where the processes run, on this machine or on a Ray cluster.
    json : bool
        Print a summary as JSON on standard output; needs an output file.
    """
    if stream:
        refused: dict[str, object] = {"--fdr": fdr, "--label": label, "--sheet": sheet, "--strict": strict}
        refused |= {"--jobs": jobs, "--json": json, "--engine ray": engine == "ray", "--all-columns": all_columns}
        refuse_with_stream(data, output, refused)
        from nptad.cli.stream import run_stream

        run_stream(model, ignore, false_alarm_rate, reasons, device, quiet)
        return
    refuse_mixture(data, output, report, sheet, fdr, label, jobs, engine, json)
    if writes_parts(output):
        from nptad.scale.arrow import ScoringOptions
        from nptad.scale.bigfiles import find_files
        from nptad.tables.selection import column_names

        files = find_files(data)
        ignored = column_names(ignore, _names_in(files[0]) if "," in ignore else [])
        options = ScoringOptions(str(model), tuple(ignored), false_alarm_rate, reasons, device, all_columns=all_columns)
        _score_in_parts(options, files, output, jobs, engine, quiet, json)
        return
    from nptad.io.formats import output_format
    from nptad.io.places import name_of
    from nptad.io.write import write_table

    output_format(output)
    check_places(output, report)
    table, ignored = read_data(data, ignore, sheet, model)

    from nptad.cli.terminal import console_for_notes, counts, print_json, print_quality
    from nptad.detector import load
    from nptad.pipeline import score_table

    result = score_table(
        load(model, device).set_params(verbose=not quiet),
        table,
        ignore=ignored,
        label=label,
        fdr=fdr,
        false_alarm_rate=false_alarm_rate,
        reasons=reasons,
        strict=strict,
        first_row=FIRST_ROW,
    )
    write_table((replace(result, carried=table) if all_columns else result).table(), output)
    if report is not None:
        from nptad.report import summarise, write_report

        write_report(summarise(result, source=Path(name_of(data)).name), report)
    if json:
        print_json(counts(result.detection, result.labels))
    elif not quiet:
        for sentence in result.detection.drift:
            console_for_notes().print(f"Drift: {visible(sentence)}", markup=False)
        console_for_notes().print(counts(result.detection, None)["text"], markup=False)
        if result.labels is not None and output != "-":
            print_quality(result.detection, result.labels)


@app.command
def explain(
    model: SavedModel,
    data: TableFile,
    /,
    *,
    rows: str,
    sheet: Sheet = None,
    ignore: Ignore = "",
    device: Device = "auto",
    quiet: Quiet = False,
    json: bool = False,
) -> None:
    """Explain the scores of rows: seen and expected values of each cell, and the nearest training row.

    Parameters
    ----------
    data : str
        Table: a file or any other source that `nptad detect` takes; `-` for standard input.
    rows : str
        Row numbers as the other commands print them, counted from 1 below the header, such as `3,17` or `5-9`.
    json : bool
        Print as JSON.
    """
    from nptad.tables.selection import require_columns

    table, ignored = read_data(data, ignore, sheet, model)
    require_columns(ignored, table.column_names)
    chosen = row_numbers(rows, table.num_rows)

    from nptad.cli.terminal import explained_rows, print_explanation, print_json
    from nptad.detector import load
    from nptad.pipeline import explain_table

    explanation = explain_table(load(model, device), table, chosen, ignore=ignored, first_row=FIRST_ROW)
    if json:
        print_json(explained_rows(explanation))
    else:
        print_explanation(explanation)


@app.command
def info(model: SavedModel, /, *, json: bool = False) -> None:
    """Show how a saved model was fitted.

    Parameters
    ----------
    json : bool
        Print as JSON.
    """
    from nptad.cli.terminal import print_json, print_model
    from nptad.detector import load

    facts = _facts(load(model, "cpu"))
    print_json(facts) if json else print_model(facts)


@app.command
def demo(*, seed: Seed = 0) -> None:
    """Find ten unusual wines among normal ones, in less than a minute."""
    from nptad.cli.demo import run_demo

    run_demo(seed)


app.command("nptad.cli.living:update", help="Add normal rows to a saved model, without learning the columns again.")
app.command("nptad.cli.living:feedback", help="Tell a saved model which rows are fine and which are anomalies.")
app.command("nptad.cli.monitor:monitor", help="Show how flags, scores and columns of scored files change over time.")
app.command(
    "nptad.service.command:api",
    help="""Score rows over HTTP with a saved model: JSON, CSV, Parquet or Arrow in, scores and reasons out.

    Its page /docs says how. Clients show a token, which stands in the environment variable NPTAD_TOKEN or in a file;
    only on an address of this machine there need not be one. SIGHUP, or another model in the same directory, loads the
    model anew. After SIGTERM the requests that are under way are answered.""",
)
app.command("nptad.web.command:serve", help="Find anomalies in the browser: drop a table on a page.")
if find_spec("pooch") and find_spec("psutil"):  # the extra `bench` is installed
    app.command(
        "nptad.bench.commands:app",
        name="bench",
        help="Reproduce the paper: run methods on data sets, draw tables and figures.",
    )
    app.command(
        "nptad.bench.data_commands:data_app", name="data", help="List, fetch and verify the data sets of the paper."
    )


def main() -> None:
    """Run the command line."""
    # OpenMP reads it when torch is imported. Threads that spin while they wait make a busy machine many times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with one_line_at_the_end(), _notes("--quiet" in sys.argv), memory_explained():
        app(sys.argv[1:], exit_on_error=False, result_action="return_value")


def fit_rank(parent: Any) -> None:
    """What each process of ``nptad fit --nproc`` does."""

    def work(**task: Any) -> dict[str, Any] | None:
        with _notes(task["quiet"]):
            return _fit(**task)

    take_part(parent, work)


@contextmanager
def _notes(quiet: bool) -> Iterator[None]:
    """Print warnings, without files and lines of ours; of several processes that train together, only in the first."""

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        print(f"nptad: note: {visible(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        if quiet or launched_rank() > 0:
            warnings.simplefilter("ignore")
        yield


def _fit(
    data: str, model: str, ignore: str, sheet: str | None, checkpoint: str | None, **choices: Any
) -> dict[str, Any] | None:
    """Fit and save a model; what was learnt, or None if another process trains with this one and saves it."""
    from nptad.pipeline import read_numbered, set_aside
    from nptad.tables.selection import require_columns
    from nptad.training.distributed import joined

    with joined(choices["device"]) as ranks:
        table, ignored = read_data(data, ignore, sheet)
        require_columns(ignored, table.column_names)
        detector = _detector(table.column_names, **choices)
        set_aside(detector, ignored)
        detector.fit(read_numbered(table, FIRST_ROW), checkpoint=checkpoint)
    if not ranks.is_first:
        return None
    detector.save(model)
    if checkpoint is not None:
        Path(checkpoint).unlink(missing_ok=True)  # not before all that was learnt is in the model
    return _facts(detector)


def _detector(
    names: list[str], uses: Sequence[str], seed: int, network: bool, time_limit: float | None, device: str, quiet: bool
) -> NPTAD:
    from nptad.detector import NPTAD

    return NPTAD(
        columns=column_uses(uses, names) or None,
        settings="network" if network else None,
        time_limit=time_limit,
        device=device,
        random_state=seed,
        verbose=not quiet,
    )


def _score_in_parts(
    options: Any, files: list[str], output: str, jobs: int | None, engine: str, quiet: bool, json: bool
) -> None:
    from nptad.cli.terminal import console_for_notes, print_json
    from nptad.scale.bigfiles import score_files
    from nptad.scale.processes import local_workers
    from nptad.scale.ray import ray_workers

    workers = ray_workers if engine == "ray" else local_workers
    scored = score_files(options, files, output, jobs=jobs, engine=workers, verbose=not quiet)
    if json:
        print_json(scored.to_dict())
    elif not quiet:
        console_for_notes().print(scored.text(), markup=False)


def _names_in(file: str) -> list[str]:
    """The columns of a file; none if it cannot be read, which is told when its turn comes."""
    from nptad.io.read import open_stream

    with suppress(InputError):
        return open_stream(file).schema.names
    return []


def _facts(detector: NPTAD) -> dict[str, Any]:
    schema, trained = detector.schema_, detector.model_.network
    network = trained and {
        "members": trained.ensemble.n_members,
        "training_steps": len(trained.history),
        "planned_steps": trained.settings.n_steps,
        "final_loss": trained.history[-1]["loss"],
        "settings": trained.settings.to_dict(),
    }
    return {
        "rows": schema.n_rows,
        "columns": [{"name": str(c.name), "kind": c.kind, "role": c.role} for c in schema.columns],
        "threshold": -detector.offset_,
        "changes": len(detector.feedback_),
        "fit_again": detector.upkeep_.is_due,
        "upkeep": detector.upkeep_.text(),
        "network": network,
    }
