"""`nptad score --stream`: JSON lines from standard input to standard output."""

from __future__ import annotations

import sys
from pathlib import Path

from nptad.wording import plural


def run_stream(
    model: Path, ignore: str, false_alarm_rate: float | None, reasons: bool, device: str, quiet: bool
) -> None:
    """Score until the input ends or a signal comes; the counts go to standard error."""
    from nptad.cli.terminal import console_for_notes
    from nptad.detector import load
    from nptad.scale.stream import LineScorer, score_stream
    from nptad.tables.selection import column_names

    detector = load(model, device)
    score = LineScorer(detector, ignore=column_names(ignore, []), false_alarm_rate=false_alarm_rate, reasons=reasons)
    counts = score_stream(score, sys.stdin.fileno(), sys.stdout.fileno())
    if not quiet:
        errors = f", {plural(counts.errors, 'line')} could not be read" if counts.errors else ""
        text = f"{counts.flagged:,} of {plural(counts.rows, 'row')} flagged{errors}."
        console_for_notes().print(text, markup=False)
