"""One table from end to end: choose its columns, fit or score, explain.

The command line, the web page and the Python API share it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from nptad.detector import NPTAD
from nptad.errors import InputError
from nptad.explain.result import EXPLAINED_ROWS, Explanation
from nptad.explain.sentences import reasons_text
from nptad.io.text import fits_text_file
from nptad.scoring.calibrate import DecisionRule, Detection
from nptad.tables.frames import RawColumns, read_columns, to_arrow
from nptad.tables.identity import Identity
from nptad.tables.schema import Use
from nptad.tables.selection import Selection, named_beside, select_columns


@dataclass(frozen=True)
class TableResult:
    """What was found in a table."""

    detector: NPTAD
    """The fitted detector."""
    columns: RawColumns
    """What the model saw, and what the rows are called."""
    labels: np.ndarray | None
    """True for rows that are known anomalies; never seen by the model."""
    keys: pa.Table
    """Columns that were set aside, which identify the rows."""
    carried: pa.Table
    """These columns and the label, which results carry along."""
    detection: Detection
    """Scores, p-values and flags of all rows."""
    explanation: Explanation
    """The explained rows, by their numbers in the table."""

    def table(self) -> pa.Table:
        """Label or number, carried columns, score, p-value and flag of every row, and reasons of the flagged ones."""
        detection, rows = self.detection, range(self.columns.n_rows)
        reasons = self.reasons()
        columns = {name: self.carried[name] for name in self.carried.column_names}
        named = named_beside(
            columns,
            {
                "row": pa.array(self.columns.identity.labels(len(rows))),
                "score": pa.array(detection.score),
                "p_value": pa.array(detection.p_value),
                "anomaly": pa.array(detection.anomaly),
                "reasons": pa.array([reasons.get(row) for row in rows], pa.string()),
            },
        )
        first = next(iter(named))
        return pa.table({first: named.pop(first), **columns, **named})

    def explain(self, rows: Sequence[int] | np.ndarray) -> Explanation:
        """Explain these rows, by their positions."""
        return explain_table(self.detector, self.columns, rows, self.detection)

    def reasons(self) -> dict[int, str]:
        """The reasons of each explained row that is flagged, in one line."""
        return {why.row: reasons_text(why) for why in self.explanation if self.detection.anomaly[why.row]}


def detect_table(
    table: Any,
    detector: NPTAD | None = None,
    *,
    ignore: Sequence[str] = (),
    label: str | None = None,
    share: float | None = None,
    first_row: int = 0,
    explain_at_least: int = EXPLAINED_ROWS,
    explain_at_most: int | None = None,
) -> TableResult:
    """Find the anomalies inside one table: each row is compared with the rows that look ordinary.

    Parameters
    ----------
    table : DataFrame or pyarrow.Table
        The rows.
    detector : NPTAD, optional
        It is fitted on the table. By default one with default parameters.
    ignore : sequence of str
        Columns that say nothing about a row; results carry them along. The detector remembers them, together with those
        that it sets aside by itself, such as IDs.
    label : str, optional
        Column that marks known anomalies with 1, or ``column=value``; never used to find them.
    share : float, optional
        Share of the rows to flag; by default those that stand out are flagged (:meth:`NPTAD.fit_detect`).
    first_row : int
        The number of the first row in results; the commands and the page count from 1. The index of a frame of pandas
        counts more.
    explain_at_least, explain_at_most : int
        Bounds on the number of rows to explain; within them, all flagged rows are explained.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=60)
    >>> table = pa.table({"id": range(60), "x": x, "y": np.where(x == x[7], -9.0, 2 * x)})
    >>> result = detect_table(table, NPTAD(2, n_steps=60, random_state=0), ignore=["id"])
    >>> np.flatnonzero(result.detection.anomaly).tolist(), result.explanation[0].reasons[0].column
    ([7], 'y')
    """
    whole = to_arrow(table)
    selection = select_columns(whole, ignore, label)
    share = _checked_share(share, whole.num_rows)
    columns = read_numbered(table, first_row)
    detector = NPTAD() if detector is None else detector
    set_aside(detector, selection.carried.column_names)
    detection = detector.fit_detect(columns, share)
    n_flagged = int(detection.anomaly.sum())
    n_explained = max(explain_at_least, n_flagged if explain_at_most is None else min(n_flagged, explain_at_most))
    explanation = explain_table(detector, columns, detection.ranking()[:n_explained], detection)
    keys, carried = _with_remembered(detector, whole, selection)
    return TableResult(detector, columns, selection.labels, keys, carried, detection, explanation)


def set_aside(detector: NPTAD, names: Sequence[str]) -> None:
    """Make a detector that is not fitted yet ignore some columns, and remember it."""
    if names:
        ignored: dict[str | int, Use] = dict.fromkeys(names, "ignore")
        detector.set_params(columns={**(detector.columns or {}), **ignored})


def _with_remembered(detector: NPTAD, table: pa.Table, selection: Selection) -> tuple[pa.Table, pa.Table]:
    """The keys and the carried columns, with those that the detector has set aside if a text file can hold them."""
    aside = selection.carried.column_names
    found = [name for name in map(str, detector.schema_.ignored) if name in table.column_names and name not in aside]
    found = [name for name in found if fits_text_file(table[name].type)]
    if len(table):
        found = [name for name in found if table[name].null_count < len(table)]
    keys = [*selection.keys.column_names, *found]
    return table.select(keys), table.select([*keys, *(name for name in aside if name not in keys)])


def score_table(
    detector: NPTAD,
    table: Any,
    *,
    ignore: Sequence[str] = (),
    label: str | None = None,
    fdr: float | None = None,
    false_alarm_rate: float | None = None,
    reasons: bool = False,
    strict: bool = False,
    first_row: int = 0,
) -> TableResult:
    """Score the rows of a table with a fitted detector; explain the flagged ones if ``reasons`` is true.

    The table may also be an array, if the detector was fitted on one.

    ``strict`` is that of :meth:`nptad.NPTAD.detect`, ``first_row`` that of :func:`detect_table`.
    """
    columns, whole = read_numbered(table, first_row), pa.table({})
    selection = Selection(whole, None, whole, whole)
    if columns.named or ignore or label is not None:
        whole = to_arrow(table)
        selection = select_columns(whole, ignore, label)
        columns = columns.set_aside(selection.carried.column_names)
    detection = detector.detect(columns, fdr=fdr, false_alarm_rate=false_alarm_rate, strict=strict)
    flagged = detection.ranking()[: int(detection.anomaly.sum()) if reasons else 0]
    explanation = explain_table(detector, columns, flagged, detection)
    keys, carried = _with_remembered(detector, whole, selection)
    return TableResult(detector, columns, selection.labels, keys, carried, detection, explanation)


def explain_table(
    detector: NPTAD,
    table: Any,
    rows: Sequence[int] | np.ndarray,
    detection: Detection | None = None,
    *,
    ignore: Sequence[str] = (),
    first_row: int = 0,
) -> Explanation:
    """Explain some rows of a table, given by position; each keeps its position and number in the whole table."""
    places = np.array(rows, dtype=int)
    columns = read_numbered(table, first_row).set_aside(ignore)
    if not len(places):
        return Explanation((), columns.backend)
    known = () if detection is None else (detection.by_member[places], detection.training_row[places])
    explanation = detector.explain(columns.take(places), *known)
    placed = (replace(why, row=int(row)) for row, why in zip(places, explanation, strict=True))
    return replace(explanation, rows=tuple(placed), training=training_identity(columns, detection))


def training_identity(columns: RawColumns, detection: Detection | None) -> Identity:
    """What training rows are called beside this table: as its own rows if it is the training table, else by number."""
    is_training = detection is not None and bool((detection.training_row >= 0).all())
    return columns.identity if is_training else Identity(columns.identity.first)


def read_numbered(table: Any, first_row: int) -> RawColumns:
    """A table whose rows are counted from ``first_row``, unless it has been read already."""
    columns = read_columns(table)
    if columns is table or not first_row:
        return columns
    return replace(columns, identity=replace(columns.identity, first=first_row))


def _checked_share(share: float | None, n_rows: int) -> float | None:
    """The share of rows to flag; a share of less than one row is rejected now, not after training."""
    smallest = 1 / max(1, n_rows)
    if share is not None and DecisionRule("share", share).rate < smallest:
        least = math.ceil(1e6 * smallest) / 1e6
        raise InputError(f"share={share:g} is less than one of {n_rows:,} rows; ask for at least {least:g}.")
    return share
