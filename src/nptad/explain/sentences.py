"""Results in one sentence: how many rows are flagged, and the reasons for one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nptad.explain.result import CellReason, RowExplanation
from nptad.wording import FEW_LETTERS, cell, estimate, percent, plural, shorten

if TYPE_CHECKING:
    from nptad.scoring.calibrate import Detection

_REASONS = 3
"""Largest number of reasons named for a row."""

_LEAST_OF_FIRST = 0.1
"""A reason is named if its contribution is at least this share of the first one's."""


def headline(detection: Detection) -> str:
    """The result in one sentence, without a full stop.

    Examples
    --------
    >>> import numpy as np
    >>> from nptad.scoring.calibrate import Detection
    >>> found = Detection(np.ones(40), np.ones(40), np.arange(40) < 1, 0.01, "false_alarm_rate", 0.01, "pandas")
    >>> headline(found)
    '1 of 40 rows looks anomalous at a false-alarm rate of 1%'
    """
    n_flagged, rows = int(detection.anomaly.sum()), plural(len(detection.score), "row")
    which = f"{n_flagged:,} of {rows} look{'s' * (n_flagged == 1)}" if n_flagged else f"None of {rows} looks"
    rate = percent(detection.rate)
    if detection.rule == "share":
        return f"{n_flagged:,} of {rows} {'is' if n_flagged == 1 else 'are'} flagged, the share of {rate} asked for"
    rule = "false discovery rate" if detection.rule == "fdr" else "false-alarm rate"
    return f"{which} anomalous at a {rule} of {rate}"


def reasons_text(why: RowExplanation) -> str:
    """The suspicious cells of a row, or those that contribute most to its score, in one line."""
    parts: list[str] = []
    suspicious = [reason for reason in why.reasons if reason.suspicious]
    for reason in (suspicious or why.reasons)[:_REASONS]:
        if parts and not suspicious and reason.contribution < _LEAST_OF_FIRST * why.reasons[0].contribution:
            break
        name, seen = shorten(str(reason.column), FEW_LETTERS), cell(reason.seen, FEW_LETTERS)
        parts.append(f"{name} is {seen}{_expectation(reason)}")
    return "; ".join(parts)


def _expectation(reason: CellReason) -> str:
    if reason.nearest is not None:
        return f", a similar row has {cell(reason.nearest, FEW_LETTERS)}"
    if reason.expected is None:
        return ""
    if reason.probability is not None and reason.expected == reason.seen:  # the likeliest category, but not likely
        return f", {percent(reason.probability)} likely"
    if reason.expected == reason.seen:  # unusual in itself, and so are the similar rows
        return ""
    who = "expected" if reason.view is None else "similar rows have"
    return f", {who} {estimate(reason.expected, FEW_LETTERS)}"
