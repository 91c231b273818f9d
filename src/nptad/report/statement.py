"""The result in words, and what a reader should know about it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from nptad.scoring.calibrate import Detection
from nptad.wording import percent


def state(detection: Detection, n_listed: int, n_known: int, n_calibration: int, n_members: int) -> dict[str, Any]:
    """``result`` of a summary.

    Parameters
    ----------
    detection : Detection
        What was found.
    n_listed : int
        Rows that the report lists.
    n_known : int
        Those of them that are part of the training table.
    n_calibration : int
        Training rows that p-values compare with.
    n_members : int
        Members of the ensemble.

    Examples
    --------
    >>> import numpy as np
    >>> found = Detection(np.ones(40), np.ones(40), np.arange(40) < 1, 0.01, "false_alarm_rate", 0.01, "pandas")
    >>> state(found, 1, 0, 100, 2)["statement"]
    '1 of 40 rows looks anomalous at a false alarm rate of 1 %'
    """
    n_rows, n_flagged = len(detection.score), int(detection.anomaly.sum())
    rate, is_fdr = percent(detection.rate), detection.rule == "fdr"
    rule = f"at a false {'discovery' if is_fdr else 'alarm'} rate of {rate}"
    if n_flagged:
        statement = f"{n_flagged:,} of {n_rows:,} rows look{'s' * (n_flagged == 1)} anomalous {rule}"
        meaning = (
            f"On average, at most {rate} of the flagged rows are expected to be normal after all."
            if is_fdr
            else f"About {rate} of normal rows are flagged by this rule as well."
        )
    else:
        statement = f"None of {n_rows:,} rows looks anomalous {rule}"
        meaning = f"No row was selected. The {n_listed:,} with the highest scores are listed, for orientation only."
    return {
        "statement": statement,
        "meaning": meaning,
        "notes": list(_notes(detection, n_listed, n_known, n_calibration, n_members)),
        "rule": detection.rule,
        "rate": detection.rate,
        "n_flagged": n_flagged,
        "n_listed": n_listed,
        "p_threshold": detection.threshold,
        "score_threshold": float(detection.score[detection.anomaly].min()) if n_flagged else None,
        "smallest_p": 1 / (n_calibration + 1),
    }


def _notes(detection: Detection, n_listed: int, n_known: int, n_calibration: int, n_members: int) -> Iterator[str]:
    n_rows, n_flagged, is_fdr = len(detection.score), int(detection.anomaly.sum()), detection.rule == "fdr"
    if n_listed < n_flagged:
        yield f"The {n_listed:,} most anomalous of the {n_flagged:,} flagged rows are listed and explained."
    if n_known and n_members > 1:
        which = "The listed rows are" if n_known == n_listed else f"{n_known:,} of the {n_listed:,} listed rows are"
        judged = f"{which} part of the training table; each was judged by models that did not train on it."
        fixed = " A fixed share of such rows is flagged, whether or not anything is wrong with them."
        yield judged if is_fdr else judged + fixed
    fewest = math.ceil(round(n_rows / (n_calibration + 1) / detection.rate, 6))
    if is_fdr and not n_flagged and fewest > 1:
        yield (
            f"With {n_calibration:,} training rows to compare with, no p-value is below 1 in {n_calibration + 1:,}: "
            f"fewer than {fewest:,} anomalies among {n_rows:,} rows cannot be found at this rate."
        )
    if n_members == 1:
        yield "The model is a single member, which has seen the rows it is compared with: p-values are too small."
    if n_flagged:
        above = int((~detection.anomaly & (detection.score > detection.score[detection.anomaly].min())).sum())
        rows = "1 row that scores" if above == 1 else f"{above:,} rows that score"
        if above:
            yield (
                f"{rows} above the lowest flagged score {'is' if above == 1 else 'are'} not flagged: p-values compare "
                "under each member, scores are averages over members."
            )
