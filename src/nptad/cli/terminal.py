"""The output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from nptad.explain.result import CellReason, Explanation
from nptad.explain.sentences import interval_text, reasons_text
from nptad.metrics import judge
from nptad.scoring.display import headline
from nptad.tables.identity import title
from nptad.wording import CONTROLS, cell, estimate, figure, p_value, percent, plural, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nptad.models.records import Record
    from nptad.pipeline import TableResult
    from nptad.scoring.calibrate import Detection

_JSON_CONTROLS = {code: f"\\u{code:04x}" for code in CONTROLS if code >= 127}
"""Control characters that JSON does not escape."""

_BESIDE, _BESIDE_WIDTH = 3, 19  # columns shown beside the reasons at most, and letters of each: those of a time
_REASONS_WIDTH = 42  # letters of a line that the reasons have at least
_ATTENDED_ROWS = 5  # attended or similar training rows shown for a row


def console_for_notes() -> Console:
    """The console for everything but the result."""
    return Console(stderr=True)


def print_json(value: Any) -> None:
    """Print one JSON document on standard output, without control characters for the terminal."""
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False, default=np.generic.item)
    print(text.translate(_JSON_CONTROLS))


def print_anomalies(shown: Explanation, result: TableResult) -> None:
    """Print the most anomalous rows with what tells them apart, and with their reasons."""
    console, flags = Console(), [bool(result.detection.anomaly[why.row]) for why in shown]
    mixed = len(set(flags)) > 1  # else the headline has said it
    table = Table(
        Column("row", justify="right"),
        *(Column(name, justify="right") for name in ("score", "p-value")),
        *(["flag"] if mixed else []),
        title=f"{headline(result.detection)}.",
        title_justify="left",
        caption=result.columns.identity.said,
        caption_justify="left",
    )
    facts = [
        [
            str(why.called),
            figure(why.score),
            p_value(float(result.detection.p_value[why.row])),
            *(["anomaly" if flag else ""] if mixed else []),
        ]
        for why, flag in zip(shown, flags, strict=True)
    ]
    room = (
        console.width
        - _REASONS_WIDTH
        - 3 * len(facts[0])
        - sum(max(map(len, column)) for column in zip(*facts, strict=True))
    )
    beside = _beside(shown, result, room)
    for name in beside:
        table.add_column(Text(visible(name)), overflow="ellipsis", max_width=_BESIDE_WIDTH)
    table.add_column("reasons", overflow="fold")  # whatever the width, all of a long column name is shown
    for place, why in enumerate(shown):
        # Cells are the user's: as Text, rich looks for no markup in them.
        values = [Text(cells[place]) for cells in beside.values()]
        table.add_row(*facts[place], *values, Text(reasons_text(why)))
    console.print(table)


def _beside(shown: Explanation, result: TableResult, room: int) -> dict[str, list[str]]:
    """The columns to print beside the reasons, first those that are carried along, in as many letters as there are."""
    carried, columns = result.carried, result.detector.schema_.columns
    features = [str(column.name) for column in columns if column.kind != "ignored"]
    cells: dict[str, list[str]] = {}
    for name in [*carried.column_names, *features][:_BESIDE]:
        if name in carried.column_names:
            texts = [cell(carried[name][why.row].as_py()) for why in shown]
        else:
            texts = [cell({str(r.column): r.seen for r in why.reasons}[name]) for why in shown]
        room -= 3 + min(_BESIDE_WIDTH, max(map(len, [visible(name), *texts])))
        if room < 0 and cells:
            break
        cells[name] = texts
    return cells


def counts(detection: Detection, labels: np.ndarray | None) -> dict[str, Any]:
    """How many rows were flagged under which rule; with labels, how well."""
    result: dict[str, Any] = {
        "rows": len(detection.anomaly),
        "anomalies": int(detection.anomaly.sum()),
        "rule": detection.rule,
        "rate": detection.rate,
        "text": f"{headline(detection)}.",
        "drift": list(detection.drift),
        "notes": list(detection.notes),
    }
    if labels is not None:
        judged = judge(labels, detection.score, detection.anomaly)
        result |= {name: judged[name] for name in ("f1", "f1_at_k", "auroc")}
    return result


def print_quality(detection: Detection, labels: np.ndarray) -> None:
    """Print how well flags and scores agree with the labels."""
    measured = counts(detection, labels)
    if measured["auroc"] is None:
        print("All labels are the same, so the result cannot be compared with them.")
        return
    print(
        f"Compared with the labels: F1 of the flags {measured['f1']:.3f}, F1 with as many flags as anomalies "
        f"{measured['f1_at_k']:.3f}, AUROC {measured['auroc']:.3f}."
    )


def _expected(reason: CellReason) -> str:
    if reason.similar is not None:
        return interval_text(reason.similar)
    return "" if reason.expected is None else estimate(reason.expected)


def explained_rows(explanation: Explanation) -> list[dict[str, Any]]:
    """Explained rows for JSON; rows have their numbers in the files, also training rows."""
    called = explanation.training.label
    rows = []
    for why in explanation:
        row: dict[str, Any] = asdict(why)
        row["row"] = row.pop("label")
        row["key"] = {name: None if value is None else cell(value) for name, value in why.key.items()}
        row["similar_rows"] = [called(place) for place in why.similar_rows]
        for training in [*row["attended_rows"], *([row["nearest"]] if row["nearest"] else [])]:
            training["row"] = called(training["row"])
        rows.append(row)
    return rows


def print_explanation(explanation: Explanation) -> None:
    """Print for each row its cells, its nearest training row, and the views or the attended training rows."""
    console, training = Console(), explanation.training
    for why in explanation:
        by_network = not why.by_view
        texts = ("seen", "expected", "similar row") if by_network else ("seen", "similar rows", "view")
        numbers = ("probability" if by_network else "of similar rows", "contribution")
        table = Table(
            "column",
            *(Column(name, overflow="ellipsis", max_width=30) for name in texts),
            *(Column(name, justify="right") for name in numbers),
            title=Text(f"{title(why.called, why.key)}, score {figure(why.score)}"),
            title_justify="left",
        )
        for reason in why.reasons:
            in_nearest = "" if reason.nearest is None else cell(reason.nearest)
            table.add_row(
                Text(visible(str(reason.column))),
                Text(cell(reason.seen)),
                Text(_expected(reason)),
                Text(in_nearest if by_network else reason.view or ""),
                "" if reason.probability is None else percent(reason.probability),
                figure(reason.contribution),
            )
        console.print(table)
        if why.by_view:
            views = ", ".join(f"{name} {figure(part)}" for name, part in why.by_view.items())
            console.print(f"Contribution of each view: {views}.", markup=False)
        if why.nearest is not None:
            distance = f"{figure(why.nearest.distance, 2)} times the usual distance"
            console.print(
                f"The nearest training row is {training.label(why.nearest.row)}, at {distance}.", markup=False
            )
        if why.similar_rows:
            rows = ", ".join(str(training.label(row)) for row in why.similar_rows[:_ATTENDED_ROWS])
            console.print(f"Training rows that are similar in the other cells: {rows}.", markup=False)
        if why.attended_rows:
            rows = ", ".join(
                f"{training.label(row.row)} ({percent(row.weight)})" for row in why.attended_rows[:_ATTENDED_ROWS]
            )
            console.print(f"Attended training rows: {rows}.", markup=False)


def print_records(records: Sequence[Record]) -> None:
    """Print what happened to a model since it was fitted."""
    said = {"update": "added", "accept": "fine", "reject": "anomalies"}
    table = Table(*(Column(name, justify="right") for name in ("number", "rows", "flagged before")), "what")
    table.add_column("when", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for record in records:
        counted = (str(record.id), f"{record.n_rows:,}", f"{record.n_flagged:,}")
        when = record.time[:16].replace("T", " ")
        table.add_row(*counted, said[record.kind], Text(visible(when)), Text(visible(record.reason)))
    Console().print(table)


def print_periods(facts: dict[str, Any]) -> None:
    """Print the files or days of `nptad monitor`."""
    numbers = ("rows", "flagged", "share", "by chance", "mean score", "high scores")
    table = Table(
        Column(facts["by"], overflow="fold", min_width=10),
        *(Column(name, justify="right") for name in numbers),
        Column("columns that differ", overflow="fold"),
        title=f"{facts['statement']}.",
        title_justify="left",
    )
    for period in facts["periods"]:
        table.add_row(
            Text(visible(period["name"])),
            f"{period['n_rows']:,}",
            Text(f"{period['n_flagged']:,}", style="bold" if period["is_high"] else ""),
            percent(period["share"]),
            f"{period['low']:,} to {period['high']:,}",
            figure(period["mean_score"]),
            figure(period["high_score"]),
            Text(visible(", ".join(period["drift"]))),
        )
    console = Console()
    console.print(table)
    if facts["upkeep"]:
        console.print(facts["upkeep"], markup=False, soft_wrap=True)


def print_model(facts: dict[str, Any]) -> None:
    """Print what a model was fitted on."""
    console = Console()
    roles = [column["role"].replace("chosen", "ignored") or column["kind"] for column in facts["columns"]]
    kinds = [f"{visible(column['name'])} ({role})" for column, role in zip(facts["columns"], roles, strict=True)]
    network = facts["network"]
    trained = ""
    if network:
        done, planned = network["training_steps"], plural(network["planned_steps"], "step")
        steps = planned if done == network["planned_steps"] else f"{done:,} of {planned} (the time limit)"
        trained = f", {plural(network['members'], 'member')}, {steps}, final loss {figure(network['final_loss'])}"
    console.print(
        f"{plural(facts['rows'], 'row')}, {plural(len(kinds), 'column')}{trained}. "
        f"Rows with a score above {figure(facts['threshold'])} are anomalies.",
        markup=False,
        soft_wrap=True,
    )
    console.print("Columns: " + ", ".join(kinds), markup=False, soft_wrap=True)
    if facts["changes"]:
        changes = plural(facts["changes"], "change")
        since = f"{changes} since the fit (nptad feedback MODEL --list). {facts['upkeep']}"
        console.print(since.strip(), markup=False, soft_wrap=True)
    if network:
        table = Table("name", "value", title="Settings", title_justify="left")
        for name, value in network["settings"].items():
            table.add_row(name, str(value))
        console.print(table)
