"""A detection in words, and as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nptad import notebook
from nptad.wording import cell, figure, p_value, percent, plural, visible

if TYPE_CHECKING:
    from nptad.scoring.calibrate import Detection

_SHOWN_ROWS = 20
"""Rows that a notebook shows at most: the flagged ones, or if there are fewer, ten with the highest scores."""


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


def detection_html(detection: Detection) -> str:
    """The most anomalous rows as a self-contained piece of HTML; all names and cells are escaped."""
    n_flagged, identity = int(detection.anomaly.sum()), detection.identity
    shown = [int(row) for row in detection.ranking()[: min(max(n_flagged, _SHOWN_ROWS // 2), _SHOWN_ROWS)]]
    keys = [identity.key(row) for row in shown]
    rows = [
        [
            cell(identity.label(row)),
            *map(cell, key.values()),
            figure(float(detection.score[row])),
            p_value(float(detection.p_value[row])),
            "anomaly" if detection.anomaly[row] else "",
        ]
        for row, key in zip(shown, keys, strict=True)
    ]
    names = ["row", *map(visible, keys[0] if keys else ()), "score", "p-value", "flag"]
    parts = [notebook.heading(f"{headline(detection)}.")]
    parts += [notebook.paragraph(sentence, "note") for sentence in (*detection.drift, *detection.notes)]
    parts.append(notebook.table(names, rows, numbers=["score", "p-value"]))
    if n_flagged > len(shown):
        parts.append(notebook.paragraph(f"... and {plural(n_flagged - len(shown), 'more flagged row')}"))
    return notebook.block(*parts)
