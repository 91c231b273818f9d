"""The command line: parses, calls, prints. Data go to standard output, progress and notes to standard error."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter
from cyclopts.validators import Number

from nptad.errors import InputError, NPTADError
from nptad.wording import visible

_INPUT_ERROR, _USAGE_ERROR, _INTERRUPTED, _BROKEN_PIPE = 1, 2, 130, 141

app = App(
    name="nptad",
    suppress_keyboard_interrupt=False,  # main says what it means for files
    help="""Find the anomalous rows of a table and say why.

    `nptad detect data.csv` finds them inside one table. `nptad fit` learns from a table of normal rows; `nptad score`
    and `nptad explain` then score and explain the rows of other tables.""",
)
app.register_install_completion_command(help="Make the shell complete nptad's commands and options.")

TableFile = Annotated[str, Parameter(allow_leading_hyphen=True)]  # `-` is one
Seed = Annotated[int, Parameter(validator=Number(gte=0))]
Jobs = Annotated[int, Parameter(validator=Number(gte=1))]


@app.command
def detect(
    data: TableFile,
    /,
    *,
    output: TableFile | None = None,
    report: Path | None = None,
    model: Path | None = None,
    share: float | None = None,
    ignore: str = "",
    categorical: str = "",
    label: str | None = None,
    top: int = 10,
    seed: Seed = 0,
    time_limit: float | None = None,
    device: str = "auto",
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Find the anomalies inside one table. Every row is scored by models that were not trained on it.

    Parameters
    ----------
    data : str
        CSV, TSV, Parquet, Arrow, Feather or JSON lines file; `-` for standard input.
    output : str
        Write the score, p-value, flag and reasons of every row to this file; `-` for CSV on standard output.
    report : Path
        Write a report to this HTML file.
    model : Path
        Save the fitted model to this directory, for `nptad score`.
    share : float
        Share of the rows to flag; by default 0.01, and at least one row.
    ignore : str
        Columns to ignore, such as IDs, separated by commas; results include them.
    categorical : str
        Number columns to use as categories, separated by commas.
    label : str
        Column that marks known anomalies with 1, or `column=value`. It is only compared with the result.
    top : int
        Number of rows to print.
    seed : int
        The same seed gives the same result.
    time_limit : float
        Limit of the training time in seconds.
    device : str
        Device to compute on, such as `cpu` or `cuda`.
    quiet : bool
        Do not print progress bars and notes.
    json : bool
        Print a summary as JSON instead of a table.
    """
    from nptad.cli.arguments import check_places, column_names, refuse_two_results
    from nptad.cli.terminal import print_anomalies, print_json, print_quality
    from nptad.io.formats import output_format
    from nptad.io.read import read_table
    from nptad.io.write import write_table
    from nptad.models.persist import require_room
    from nptad.pipeline import analyse, explain_rows_of, flagged_reasons, results_table
    from nptad.report.rows import LISTED_ROWS, SHOWN_WITHOUT_ANOMALIES
    from nptad.tables.selection import select_columns

    refuse_two_results(output, json)
    if output is not None:
        output_format(output)  # a bad suffix shows now, not after minutes of training
    check_places(output, report)
    if model is not None:
        require_room(model)
    table = read_table(data)
    selection = select_columns(table, column_names(ignore, table.column_names), label)
    detector = _detector(selection.features, categorical, seed, time_limit, device, quiet)
    result = analyse(selection, detector, share)
    detection = result.detection
    n_flagged = int(detection.anomaly.sum())
    listed = n_flagged if output is not None else min(n_flagged, LISTED_ROWS)
    explained = max(top, listed, SHOWN_WITHOUT_ANOMALIES)
    explanation = explain_rows_of(detector, selection.features, detection.ranking()[:explained])
    if output is not None:
        reasons = flagged_reasons(explanation, detection)
        write_table(results_table(detection, selection.carried, reasons), output)
    if model is not None:
        detector.save(model)
    if report is not None or json:
        from nptad.report import summarise, write_report

        summary = summarise(
            detector,
            selection.features,
            detection,
            explanation=explanation,
            keys=selection.keys,
            labels=selection.labels,
            source=_source(data),
            seed=seed,
        )
        if report is not None:
            write_report(summary, report)
        if json:
            print_json(summary)
    if output == "-" or json:
        return
    print_anomalies(explanation[: max(top, 1)], detection, selection.carried)
    if selection.labels is not None:
        print_quality(detection, selection.labels)


@app.command
def fit(
    data: TableFile,
    /,
    *,
    model: Path,
    ignore: str = "",
    categorical: str = "",
    seed: Seed = 0,
    time_limit: float | None = None,
    nproc: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    checkpoint: Path | None = None,
    device: str = "auto",
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Learn from a table of normal rows, and save the model.

    Parameters
    ----------
    data : str
        Table file of normal rows; `-` for standard input.
    model : Path
        Directory to save the model to; a model that is there is replaced.
    ignore : str
        Columns to ignore, separated by commas.
    categorical : str
        Number columns to use as categories, separated by commas.
    seed : int
        The same seed gives the same model.
    time_limit : float
        Limit of the training time in seconds.
    nproc : int
        Processes on this machine that train together, each with its own rows or GPU.
    checkpoint : Path
        File for the state of training. The same command continues from it. It is removed at the end.
    device : str
        Device to compute on, such as `cpu` or `cuda`.
    quiet : bool
        Do not print progress bars and notes.
    json : bool
        Print a description of the model as JSON.
    """
    from nptad.cli.arguments import check_places, column_names
    from nptad.cli.terminal import print_json, print_model
    from nptad.io.read import read_table
    from nptad.models.persist import require_room
    from nptad.tables.selection import select_columns
    from nptad.training.distributed import is_launched, joined

    if data == "-" and (nproc > 1 or is_launched()):
        raise InputError("Several processes cannot share standard input; name a file.")
    check_places(checkpoint)
    require_room(model)
    if nproc > 1 and not is_launched():
        from nptad.training.launch import run_command

        run_command(sys.argv[1:], nproc)
        return
    with joined(device) as ranks:
        table = read_table(data)
        features = select_columns(table, column_names(ignore, table.column_names)).features
        detector = _detector(features, categorical, seed, time_limit, device, quiet)
        detector.fit(features, checkpoint=checkpoint)
    if not ranks.is_first:
        return
    detector.save(model)
    if json:
        print_json(_facts(detector))
    elif not quiet:
        print_model(_facts(detector))


@app.command
def score(
    model: Path,
    data: TableFile,
    /,
    *,
    output: TableFile = "-",
    fdr: float | None = None,
    false_alarm_rate: float | None = None,
    reasons: bool = False,
    ignore: str = "",
    label: str | None = None,
    jobs: Jobs | None = None,
    engine: Literal["local", "ray"] = "local",
    device: str = "auto",
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Score the rows of a table with a saved model.

    With a directory as output, files of any size are scored part by part. If the command was stopped, run it again: it
    continues.

    Parameters
    ----------
    model : Path
        Directory that `nptad fit` wrote.
    data : str
        Table file with the columns of the training table; `-` for standard input. With a directory as output, also a
        quoted pattern such as `'in/*.parquet'`.
    output : str
        File for the score, p-value and flag of every row; `-` for CSV on standard output. A directory (an existing
        one, or a name that ends with `/`) gets Parquet parts.
    fdr : float
        False discovery rate: the share of normal rows among the flagged rows, on average. By default 0.05. Not with
        a directory.
    false_alarm_rate : float
        Share of the normal rows to flag, instead of `--fdr`; with a directory by default 0.01.
    reasons : bool
        Write the reasons of the flagged rows.
    ignore : str
        Columns to ignore, separated by commas; results include them.
    label : str
        Column that marks known anomalies with 1, or `column=value`. It is only compared with the result. Not with a
        directory.
    jobs : int
        With a directory: number of processes; by default one for each core, or one for each GPU.
    engine : {"local", "ray"}
        With a directory: where the processes run, on this machine or on a Ray cluster.
    device : str
        Device to compute on, such as `cpu` or `cuda`.
    quiet : bool
        Do not print progress bars and notes.
    json : bool
        Print a summary as JSON on standard output; needs an output file.
    """
    from nptad.cli.arguments import check_places, column_names, refuse_mixture, writes_parts

    refuse_mixture(data, output, fdr, label, jobs, engine, json)
    if writes_parts(output):
        from nptad.scale.arrow import ScoringOptions
        from nptad.scale.bigfiles import find_files

        files = find_files(data)
        ignored = column_names(ignore, _names_in(files[0]) if "," in ignore else [])
        options = ScoringOptions(str(model), tuple(ignored), false_alarm_rate, reasons, device)
        _score_in_parts(options, files, output, jobs, engine, quiet, json)
        return
    from nptad.cli.terminal import console_for_notes, counts, print_json, print_quality
    from nptad.io.formats import output_format
    from nptad.io.read import read_table
    from nptad.io.write import write_table
    from nptad.models.persist import load
    from nptad.pipeline import explain_flagged, flagged_reasons, results_table
    from nptad.tables.selection import select_columns

    output_format(output)
    check_places(output)
    detector = load(model, device)
    table = read_table(data, as_text=detector.schema_.text_columns)
    selection = select_columns(table, column_names(ignore, table.column_names), label)
    detector.set_params(verbose=not quiet)
    detection = detector.detect(selection.features, fdr=fdr, false_alarm_rate=false_alarm_rate)
    why = {}
    if reasons:
        why = flagged_reasons(explain_flagged(detector, selection.features, detection), detection)
    write_table(results_table(detection, selection.carried, why), output)
    if json:
        print_json(counts(detection, selection.labels))
    elif not quiet:
        console_for_notes().print(counts(detection, None)["text"], markup=False)
        if selection.labels is not None and output != "-":
            print_quality(detection, selection.labels)


@app.command
def explain(
    model: Path,
    data: TableFile,
    /,
    *,
    rows: str,
    ignore: str = "",
    device: str = "auto",
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Explain the scores of rows: seen and expected values of each cell, and the nearest training row.

    Parameters
    ----------
    model : Path
        Directory that `nptad fit` wrote.
    data : str
        Table file; `-` for standard input.
    rows : str
        Row numbers, counted from 0, such as `3,17` or `5-9`.
    ignore : str
        Columns to ignore, separated by commas.
    device : str
        Device to compute on, such as `cpu` or `cuda`.
    quiet : bool
        Do not print notes.
    json : bool
        Print as JSON.
    """
    from nptad.cli.arguments import column_names, row_numbers
    from nptad.cli.terminal import explanation_dict, print_explanation, print_json
    from nptad.io.read import read_table
    from nptad.models.persist import load
    from nptad.pipeline import explain_rows_of
    from nptad.tables.selection import select_columns

    detector = load(model, device)
    table = read_table(data, as_text=detector.schema_.text_columns)
    features = select_columns(table, column_names(ignore, table.column_names)).features
    explanation = explain_rows_of(detector, features, row_numbers(rows, features.num_rows))
    if json:
        print_json(explanation_dict(explanation))
    else:
        print_explanation(explanation)


@app.command
def info(model: Path, /, *, json: bool = False) -> None:
    """Show how a saved model was fitted.

    Parameters
    ----------
    model : Path
        Directory that `nptad fit` wrote.
    json : bool
        Print as JSON.
    """
    from nptad.cli.terminal import print_json, print_model
    from nptad.models.persist import load

    facts = _facts(load(model, "cpu"))
    print_json(facts) if json else print_model(facts)


@app.command
def demo(*, seed: Seed = 0) -> None:
    """Find ten unusual wines among normal ones, in less than a minute.

    Parameters
    ----------
    seed : int
        Seed of the split and the model.
    """
    from nptad.cli.demo import run_demo

    run_demo(seed)


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
    """Run the command line; an expected error is one line on standard error.

    Exit codes: 0 done, 1 something is wrong with the data, a file or a parameter, 2 the command cannot be understood,
    130 interrupted.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_note
            if "--quiet" in sys.argv or os.environ.get("RANK", "0") != "0":
                warnings.simplefilter("ignore")
            app(sys.argv[1:], exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError:
        sys.exit(_USAGE_ERROR)  # cyclopts has said what is wrong
    except NPTADError as error:
        if _has_launcher():
            from nptad.training.launch import tell_launcher

            tell_launcher(error)
        else:
            print(f"nptad: {visible(str(error))}", file=sys.stderr)
        sys.exit(_INPUT_ERROR)
    except KeyboardInterrupt:
        if not _has_launcher():
            print("nptad: interrupted; no file was left half-written.", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_BROKEN_PIPE)


def _has_launcher() -> bool:
    """Whether torch's launcher runs this process, one of several, and tells their errors once for all of them."""
    return "TORCHELASTIC_ERROR_FILE" in os.environ


def _show_note(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A warning as a user of a command reads it: without file names and line numbers of ours."""
    print(f"nptad: note: {visible(str(message))}", file=sys.stderr)


def _detector(features: Any, categorical: str, seed: int, time_limit: float | None, device: str, quiet: bool) -> Any:
    from nptad.cli.arguments import column_names, require_known
    from nptad.detector import NPTAD

    categories = column_names(categorical, features.column_names)
    require_known("--categorical", categories, features.column_names)
    return NPTAD(
        categorical_features=categories or None,
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
    from nptad.io.stream import open_stream

    with suppress(InputError):
        return next(open_stream(file).parts()).column_names
    return []


def _facts(detector: Any) -> dict[str, Any]:
    schema = detector.schema_
    return {
        "rows": schema.n_rows,
        "columns": [{"name": str(column.name), "kind": column.kind} for column in schema.columns],
        "members": detector.ensemble_.n_members,
        "threshold": -detector.offset_,
        "training_steps": len(detector.history_),
        "final_loss": detector.history_[-1]["loss"],
        "settings": detector.settings_.to_dict(),
    }


def _source(data: str) -> str:
    return "standard input" if data == "-" else Path(data).name
