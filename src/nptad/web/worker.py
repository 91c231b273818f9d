"""What happens in a process of its own: reading an uploaded table, and the whole job.

A file or a job that needs too much memory or crashes does no harm to the server. Messages to the server are
``{"progress": {...}}``, at the end ``{"done": {...}}`` or ``{"failed": "one sentence"}``. What needs torch is imported
by :func:`detect`: reading an upload is faster without it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nptad.errors import InputError, MaskBankWarning, NPTADError, TableWarning
from nptad.io.read import read_table
from nptad.io.write import write_table
from nptad.memory import memory_explained
from nptad.processes import Parent
from nptad.progress import listening
from nptad.web import example, jobs
from nptad.web.choices import Choices, column_uses, default_choices, ignored_columns, label_column
from nptad.web.columns import describe_columns
from nptad.web.judging import judge, pack_model
from nptad.wording import figure, p_value, plural

if TYPE_CHECKING:
    from nptad.pipeline import TableResult
    from nptad.web.pace import Pace

MAX_COLUMNS = 1000  # columns of a table at most
LISTED = 10  # rows that the page of a result lists; the report has more
_UNPACKED = 10  # a packed file may become this many times the upload limit

_SECONDS_BETWEEN_MESSAGES = 0.25

Tell = Callable[[dict[str, Any]], None]


def work(server: Parent) -> None:
    """Do a task, ``{"do": "inspect", "detect" or "judge", "directory": ..., ...}``; what the process does."""
    task, tell = server.receive()[0], server.send
    do = task.pop("do")
    if do == "inspect":
        _limit_memory()
    elif do == "detect" and hasattr(os, "nice"):
        os.nice(5)  # the page comes first
    try:
        with memory_explained():
            tasks: dict[str, Callable[..., dict[str, Any]]] = {
                "inspect": inspect,
                "judge": judge,
                "detect": partial(detect, tell=tell),
            }
            done = tasks[do](**task)
        tell({"done": done})
    except NPTADError as error:
        tell({"failed": str(error)})
    except Exception as error:
        traceback.print_exc()
        tell({"failed": f"Something unexpected happened ({type(error).__name__}); the terminal says more."})


def inspect(*, directory: str, name: str, format: str | None, max_bytes: int, max_rows: int) -> dict[str, Any]:
    """Read the upload, keep it as an Arrow file, and describe its columns.

    Without an upload the table is the example. ``format`` is one of :func:`nptad.io.read.read_table`.
    """
    upload = Path(directory) / jobs.UPLOAD
    is_example = not upload.exists()
    if is_example:
        table = example.example_table()
    else:
        table = read_table(upload, format, name=name, max_bytes=_UNPACKED * max_bytes)
    if table.num_rows > max_rows:
        raise InputError(f"{name} has {table.num_rows:,} rows; this server takes {max_rows:,}. Use a part of them.")
    if table.num_columns > MAX_COLUMNS:
        raise InputError(f"{name} has {table.num_columns:,} columns; this server takes {MAX_COLUMNS:,}.")
    columns = describe_columns(table)
    choices = example.example_choices(columns) if is_example else default_choices(columns)
    write_table(table, Path(directory) / jobs.TABLE)
    upload.unlink(missing_ok=True)
    return {"n_rows": table.num_rows, "columns": columns, "choices": asdict(choices)}


def _limit_memory() -> None:
    """At most half of the machine for reading a file, so that a hostile one hurts nobody else."""
    with suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def detect(
    *, directory: str, name: str, columns: Sequence[dict[str, Any]], choices: dict[str, Any], tell: Tell
) -> dict[str, Any]:
    """Do the job: the same as ``nptad detect``, into files beside the table."""
    from nptad.detector import NPTAD
    from nptad.pipeline import detect_table
    from nptad.report import summarise
    from nptad.scoring.calibrate import DEFAULT_RATE
    from nptad.web.pace import Pace, expected_work

    home, chosen = Path(directory), Choices.from_dict(choices)
    table = read_table(home / jobs.TABLE)
    ignored = ignored_columns(chosen, columns)
    detector = NPTAD(columns=column_uses(chosen, columns), random_state=chosen.seed)
    label = label_column(chosen, columns)
    n_rows, n_features = table.num_rows, table.num_columns - len(ignored) - (label is not None)
    flagged = max(1, round(n_rows * (chosen.share or DEFAULT_RATE)))
    hear = _listener(Pace(expected_work(n_rows, n_features, flagged)), tell)
    with listening(hear), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = detect_table(table, detector, label=label, share=chosen.share, first_row=1)
        hear("Writing", 0, 1)
        unfinished = home / jobs.UNFINISHED
        unfinished.mkdir(mode=0o700)
        summary = summarise(result, source=name, seed=chosen.seed, command=_command(name, chosen, columns))
        _write_result(unfinished, result, summary)
    unfinished.replace(home / jobs.RESULT)
    ours = [note for note in caught if issubclass(note.category, TableWarning | MaskBankWarning)]
    notes = dict.fromkeys(str(note.message) for note in ours)
    n_flagged = int(result.detection.anomaly.sum())
    return {"headline": f"{plural(n_flagged, 'row')} flagged", "notes": list(notes)}


def _listener(pace: Pace, tell: Tell) -> Callable[[str, int, int], None]:
    """Passes progress on to the server, but not more often than a person can see."""
    last_told, last_phase = 0.0, ""

    def hear(phase: str, done: int, total: int) -> None:
        nonlocal last_told, last_phase
        share, left = pace.update(phase, done, total)
        now = time.monotonic()
        if phase != last_phase or now - last_told >= _SECONDS_BETWEEN_MESSAGES:
            last_told, last_phase = now, phase
            tell({"progress": {"phase": phase, "share": share, "left": left}})

    return hear


def _write_result(directory: Path, result: TableResult, summary: dict[str, Any]) -> None:
    from nptad.report import write_report

    results = result.table()
    write_table(results, directory / jobs.SCORES_CSV)
    write_table(results, directory / jobs.SCORES_PARQUET)
    model = directory / "model"
    result.detector.save(model)
    pack_model(model, directory / jobs.MODEL)
    shutil.rmtree(model)
    write_report(summary, directory / jobs.REPORT)
    text = json.dumps(_digest(summary), ensure_ascii=False)
    (directory / jobs.DIGEST).write_text(text, encoding="utf-8")


def _digest(summary: dict[str, Any]) -> dict[str, Any]:
    """What the page of a result shows."""
    return {
        **{name: summary["result"][name] for name in ("statement", "meaning", "notes", "n_flagged")},
        "names": summary["key_columns"][:1],
        "rows_are": summary["rows_are"],
        "labelled": summary["labels"] is not None,
        "rows": [
            {
                "row": anomaly["row"],
                "names": anomaly["key"][:1],
                "score": figure(anomaly["score"]),
                "p_value": p_value(anomaly["p_value"]),
                "label": anomaly["label"],
                "sentences": anomaly["sentences"],
            }
            for anomaly in summary["anomalies"][:LISTED]
        ],
    }


def _command(name: str, choices: Choices, columns: Sequence[dict[str, Any]]) -> str | None:
    """The command line that does the same."""
    if name == jobs.EXAMPLE:
        return None
    words = ["nptad", "detect", name]
    for column, use in column_uses(choices, columns).items():
        words += ["--as", f"{column}={use}"]
    for option, value in {
        "label": label_column(choices, columns),
        "share": choices.share,
    }.items():
        words += [f"--{option}", str(value)] if value else []
    return shlex.join([*words, "--seed", str(choices.seed), "--report", "report.html"])
