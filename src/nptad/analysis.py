"""One table, no split: from a table to its anomalous rows. What the command line and the web page have in common."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeVar

import numpy as np
import pyarrow as pa

from nptad.calibrate import CALIBRATION_ROWS, Detection, Rule, smallest_share
from nptad.detector import NPTAD
from nptad.errors import InputError
from nptad.explain import CellReason, Explanation, RowExplanation

_T = TypeVar("_T")

DEFAULT_SHARE = 0.01
"""Share of the rows that is flagged in a table that is its own training set, if nothing is said; at least one row."""

_REASONS = 3
"""Reasons that a result names for a row, at most."""

_LEAST_OF_FIRST = 0.1
"""Share of the first reason's contribution that another must have to be named."""

_TRUE = {"1", "1.0", "true", "yes", "anomaly", "outlier"}
_FALSE = {"0", "0.0", "false", "no", "normal", "inlier", "-1", "-1.0"}


@dataclass(frozen=True)
class Selection:
    """The columns of a table by their part in the analysis."""

    features: pa.Table
    """What the model sees."""
    labels: np.ndarray | None
    """True for rows that are known anomalies; never seen by the model."""
    keys: pa.Table
    """Ignored columns, which tell rows apart."""
    carried: pa.Table
    """Ignored columns and the label, which results carry along to tell rows apart."""


def select_columns(table: pa.Table, ignore: Sequence[str] = (), label: str | None = None) -> Selection:
    """Set aside the ignored columns and the label.

    ``label`` is the name of a column of 0 and 1 (or true and false), or ``name=value`` where that value marks the
    anomalies.

    Examples
    --------
    >>> table = pa.table({"id": [7, 8], "x": [0.1, 0.2], "kind": ["good", "bad"]})
    >>> selection = select_columns(table, ["id"], "kind=bad")
    >>> selection.features.column_names, selection.labels.tolist(), selection.carried.column_names
    (['x'], [False, True], ['id', 'kind'])
    """
    name, labels = None, None
    if label is not None:
        name, value = split_label(label, table.column_names)
        _require_columns(table, [name])
        labels = _labels(table[name], name, value)
    _require_columns(table, ignore)
    keys = list(dict.fromkeys(ignore))
    aside = [*keys, *([name] if name is not None and name not in ignore else [])]
    features = table.drop_columns(aside)
    if features.num_columns == 0:
        raise InputError("No column is left to look at; ignore fewer columns.")
    return Selection(features, labels, table.select(keys), table.select(aside))


def split_label(label: str, names: Collection[str]) -> tuple[str, str | None]:
    """Column and value of ``name=value``, the longest name that is a column; None as value for a column alone.

    Examples
    --------
    >>> split_label("kind=a=b", ["kind", "size"]), split_label("kind=a", ["kind", "kind=a"])
    (('kind', 'a=b'), ('kind=a', None))
    """
    if label in names:
        return label, None
    places = [place for place, letter in enumerate(label) if letter == "="]
    place = next((place for place in reversed(places) if label[:place] in names), places[-1] if places else None)
    return (label, None) if place is None else (label[:place], label[place + 1 :])


def _require_columns(table: pa.Table, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.column_names:
            raise InputError(f"There is no column {name!r}; the table has {', '.join(table.column_names[:20])}.")


def _labels(column: pa.ChunkedArray, name: str, anomaly: str | None) -> np.ndarray:
    values = column.to_pylist()
    if anomaly is not None:
        labels = np.array([_is_spelt(value, anomaly) for value in values])
        if not labels.any():
            raise InputError(f"No row has {anomaly!r} in the label column {name!r}.")
        return labels
    texts = ["" if value is None else str(value) for value in values]
    unclear = next((text for text in texts if text.lower() not in _TRUE | _FALSE), None)
    if unclear is not None:
        raise InputError(
            f"The label column {name!r} holds {unclear!r}, which is neither 0 nor 1; say which value marks the "
            f"anomalies with --label {name}=value."
        )
    return np.array([text.lower() in _TRUE for text in texts])


def _is_spelt(value: object, text: str) -> bool:
    """True if a person may write this text for a value of a table: true for True, 1 for 1.0."""
    if isinstance(value, bool):
        return text.lower() in (("true", "1") if value else ("false", "0"))
    if isinstance(value, int | float | Decimal):
        try:
            return float(text) == value
        except ValueError:
            return False
    return str(value) == text


@dataclass(frozen=True)
class Analysis:
    """A table with its own anomalies found."""

    detector: NPTAD
    selection: Selection
    detection: Detection


def analyse(selection: Selection, detector: NPTAD, share: float | None = None) -> Analysis:
    """Fit on all rows, judge each by members that left it out, and flag the given share of them."""
    smallest = smallest_share(selection.features.num_rows)
    if share is None:
        share = max(DEFAULT_SHARE, smallest)
    elif Rule("false_alarm_rate", share, called="share").rate < smallest:  # which shows now, not after training
        n_rows = min(selection.features.num_rows, CALIBRATION_ROWS)
        least = math.ceil(1e4 * smallest) / 1e4
        raise InputError(f"share={share:g} is less than one of {n_rows:,} rows; ask for at least {least:g}.")
    detector.fit(selection.features)
    return Analysis(detector, selection, detector.detect(selection.features, false_alarm_rate=share))


def explain_flagged(detector: NPTAD, features: pa.Table, detection: Detection) -> Explanation:
    """Explain the flagged rows."""
    return explain_rows_of(detector, features, detection.ranking()[: int(detection.anomaly.sum())])


def flagged_reasons(explanation: Explanation, detection: Detection) -> dict[int, str]:
    """The reasons of each flagged row in one line."""
    return {why.row: reasons_text(why) for why in explanation if detection.anomaly[why.row]}


def explain_rows_of(detector: NPTAD, features: pa.Table, rows: Sequence[int] | np.ndarray) -> Explanation:
    """Explain some rows of a table; each keeps its number in the whole table."""
    chosen = [int(row) for row in rows]
    explanation = detector.explain(features.take(pa.array(chosen, pa.int64())))
    numbered = (replace(why, row=row) for row, why in zip(chosen, explanation, strict=True))
    return replace(explanation, rows=tuple(numbered))


def reasons_text(why: RowExplanation) -> str:
    """The cells that gave a row away, in one line: the first and what comes near it."""
    parts: list[str] = []
    for reason in why.reasons[:_REASONS]:
        if parts and reason.contribution < _LEAST_OF_FIRST * why.reasons[0].contribution:
            break
        parts.append(f"{_short(reason.column)} is {_short(reason.seen)}{_expectation(reason)}")
    return "; ".join(parts)


def _expectation(reason: CellReason) -> str:
    if reason.nearest is not None:
        return f", {_short(reason.nearest)} in the row nearest otherwise"
    if reason.expected is None:
        return ""
    if reason.probability is not None and reason.expected == reason.seen:  # the likeliest category, but not likely
        return f", {reason.probability:.1%} likely"
    return f", expected {_short(reason.expected)}"


def _short(value: object, letters: int = 30) -> str:
    if value is None:
        return "missing"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= letters else text[: letters - 1] + "…"


def results_table(detection: Detection, carried: pa.Table, reasons: dict[int, str]) -> pa.Table:
    """Row number, carried columns, score, p-value and flag of every row, and the reasons of the explained ones."""
    columns = {name: carried[name] for name in carried.column_names}
    results = {
        "row": pa.array(np.arange(len(detection.score))),
        "score": pa.array(detection.score),
        "p_value": pa.array(detection.p_value),
        "anomaly": pa.array(detection.anomaly),
        "reasons": pa.array([reasons.get(row) for row in range(len(detection.score))], pa.string()),
    }
    named = named_beside(columns, results)
    first = next(iter(named))
    return pa.table({first: named.pop(first), **columns, **named})


def named_beside(taken: Collection[str], results: dict[str, _T]) -> dict[str, _T]:
    """The results under names that no carried column has."""
    return {f"nptad_{name}" if name in taken else name: value for name, value in results.items()}
