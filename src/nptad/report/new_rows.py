"""From new rows to their report. It computes scores, so it imports torch, which the rest of the report does without."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nptad.pipeline import score_table
from nptad.report.html import write_report
from nptad.report.summary import summarise

if TYPE_CHECKING:
    from nptad.detector import NPTAD
    from nptad.scoring.calibrate import Detection


def report_rows(
    detector: NPTAD,
    table: Any,
    path: str | Path,
    *,
    fdr: float | None = None,
    false_alarm_rate: float | None = None,
    label: str | None = None,
    source: str = "table",
) -> Detection:
    """Score rows with a fitted detector and write the report; what :meth:`nptad.NPTAD.report` does."""
    result = score_table(detector, table, label=label, fdr=fdr, false_alarm_rate=false_alarm_rate)
    write_report(summarise(result, source=source), path)
    return result.detection
