"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nptad.explain.result import Explanation
from nptad.explain.sentences import reasons_text
from nptad.scoring.calibrate import Detection
from nptad.wording import CONTROLS, visible

_JSON_CONTROLS = {code: f"\\u{code:04x}" for code in CONTROLS if code >= 127}
"""Those that JSON leaves as they are."""

_CARRIED = 3
"""Carried columns shown beside the row number."""


def console_for_notes() -> Console:
    """Where everything goes that is not the result."""
    return Console(stderr=True)


def print_json(value: Any) -> None:
    """One JSON document on standard output, harmless to a terminal."""
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False, default=_plain)
    print(text.translate(_JSON_CONTROLS))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} does not fit into JSON.")


def print_anomalies(shown: Explanation, detection: Detection, carried: pa.Table) -> None:
    """The most anomalous rows with their reasons."""
    table = Table(title=counts(detection, None)["text"], title_justify="left")
    table.add_column("row", justify="right")
    names = carried.column_names[:_CARRIED]
    for name in names:
        table.add_column(Text(visible(name)), overflow="ellipsis", max_width=16)
    table.add_column("score", justify="right")
    table.add_column("p-value", justify="right")
    table.add_column("flag")
    table.add_column("because")
    for why in shown:
        # Cells are the user's: as Text, rich looks for no markup in them.
        values = [Text(visible(str(carried[name][why.row].as_py()))) for name in names]
        flag = "anomaly" if detection.anomaly[why.row] else ""
        p_value = f"{detection.p_value[why.row]:.4f}"
        table.add_row(str(why.row), *values, f"{why.score:.3f}", p_value, flag, Text(visible(reasons_text(why))))
    Console().print(table)


def counts(detection: Detection, labels: np.ndarray | None) -> dict[str, Any]:
    """How many rows were flagged under which rule; with labels, how well."""
    n_rows, n_flagged = len(detection.anomaly), int(detection.anomaly.sum())
    rule = "a false discovery rate" if detection.rule == "fdr" else "a false-alarm rate"
    result: dict[str, Any] = {
        "rows": n_rows,
        "anomalies": n_flagged,
        "rule": detection.rule,
        "rate": detection.rate,
        "text": f"{n_flagged:,} of {n_rows:,} rows flagged, at {rule} of {detection.rate:.3g}.",
    }
    return result if labels is None else {**result, **quality(detection, labels)}


def quality(detection: Detection, labels: np.ndarray) -> dict[str, float | None]:
    """F1 of the flags, F1 when as many rows are flagged as there are anomalies, AUROC; None where undefined."""
    from sklearn.metrics import f1_score, roc_auc_score

    n_anomalies = int(labels.sum())
    if n_anomalies in (0, len(labels)):
        return {"f1": None, "f1_at_k": None, "auroc": None}
    highest = np.argsort(-detection.score, kind="stable")[:n_anomalies]
    return {
        "f1": float(f1_score(labels, detection.anomaly, zero_division=0.0)),
        "f1_at_k": float(labels[highest].mean()),
        "auroc": float(roc_auc_score(labels, detection.score)),
    }


def print_quality(detection: Detection, labels: np.ndarray) -> None:
    """How well the labels were met."""
    measured = quality(detection, labels)
    if measured["auroc"] is None:
        print("The label column has only one kind of row, so nothing can be said about quality.")
        return
    print(
        f"Against the labels: F1 of the flags {measured['f1']:.1%}, F1 with as many flags as anomalies "
        f"{measured['f1_at_k']:.1%}, AUROC {measured['auroc']:.1%}."
    )


def explanation_dict(explanation: Explanation) -> list[dict[str, Any]]:
    """The explanation as plain data."""
    return [dataclasses.asdict(why) for why in explanation]


def print_explanation(explanation: Explanation) -> None:
    """A table of cells for each row, its nearest training row, and those that the model leaned on."""
    console = Console()
    for why in explanation:
        table = Table(title=f"Row {why.row}, score {why.score:.3f}", title_justify="left")
        table.add_column("column")
        table.add_column("seen", overflow="ellipsis", max_width=30)
        table.add_column("expected", overflow="ellipsis", max_width=30)
        table.add_column("nearest otherwise", overflow="ellipsis", max_width=30)
        table.add_column("probability", justify="right")
        table.add_column("contribution", justify="right")
        for reason in why.reasons:
            probability = "" if reason.probability is None else f"{reason.probability:.3f}"
            table.add_row(
                Text(visible(str(reason.column))),
                Text(_cell(reason.seen)),
                Text("" if reason.expected is None else _cell(reason.expected)),
                Text("" if reason.nearest is None else _cell(reason.nearest)),
                probability,
                f"{reason.contribution:.3f}",
            )
        console.print(table)
        if why.nearest is not None:
            far = f"{why.nearest.distance:,.1f} times as far as usual"
            console.print(f"The nearest training row is {why.nearest.row}, {far}.", markup=False)
        if why.attended_rows:
            rows = ", ".join(f"{row.row} ({row.weight:.1%})" for row in why.attended_rows[:5])
            console.print(f"Leaned on the training rows {rows}.", markup=False)


def _cell(value: Any) -> str:
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else visible(str(value))


def print_model(facts: dict[str, Any]) -> None:
    """What a model was fitted on."""
    console = Console()
    members = f"{facts['members']} member{'s' if facts['members'] != 1 else ''}"
    kinds = [f"{visible(column['name'])} ({column['kind']})" for column in facts["columns"]]
    console.print(
        f"{facts['rows']:,} rows, {len(kinds)} columns; {members}, {facts['training_steps']} steps, "
        f"final loss {facts['final_loss']:.3f}; a score above {facts['threshold']:.3f} is an anomaly.",
        markup=False,
        soft_wrap=True,
    )
    console.print("Columns: " + ", ".join(kinds), markup=False, soft_wrap=True)
    table = Table(title="Settings", title_justify="left")
    table.add_column("name")
    table.add_column("value")
    for name, value in facts["settings"].items():
        table.add_row(name, str(value))
    console.print(table)
