"""One table, no split: from a table to its anomalous rows. What the command line and the web page have in common."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from nptad.detector import NPTAD
from nptad.errors import InputError
from nptad.explain.result import Explanation
from nptad.explain.sentences import reasons_text
from nptad.scoring.calibrate import CALIBRATION_ROWS, DecisionRule, Detection, smallest_share
from nptad.tables.selection import Selection

_T = TypeVar("_T")


DEFAULT_SHARE = 0.01
"""Share of the rows that is flagged in a table that is its own training set, if nothing is said; at least one row."""


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
    elif DecisionRule("false_alarm_rate", share, called="share").rate < smallest:  # which shows now, not after training
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
