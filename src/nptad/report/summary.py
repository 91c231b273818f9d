"""The content of a report as plain values: one dict for the HTML file, the JSON output and the web page."""

from __future__ import annotations

import math
import platform
import re
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nptad.errors import InputError
from nptad.explain.result import Explanation
from nptad.metrics import judge
from nptad.report.rows import LISTED_ROWS, Rows, choose, describe, heat_map, key_texts, pick
from nptad.report.statement import state
from nptad.scoring.calibrate import Detection
from nptad.tables.encode import readable
from nptad.tables.schema import Column
from nptad.wording import rounded, shorten, shorten_value

if TYPE_CHECKING:
    from nptad.detector import NPTAD

BINS = 50
"""Bars of the score histogram."""

TRAINING_POINTS = 150
"""Points kept of the training curve."""

_CATEGORIES = 5
"""Categories listed for a column."""

_KEYS = 3
"""Key columns shown."""

_LONG_TAIL = 20.0
"""The axis is logarithmic if the highest score is this many times the median."""

_LONGEST_CODE = 2000
_PACKAGES = ("nptad", "torch", "numpy", "scikit-learn", "narwhals", "pyarrow")


def summarise(
    detector: NPTAD,
    table: Any,
    detection: Detection,
    *,
    explanation: Explanation | None = None,
    keys: pa.Table | None = None,
    labels: Any = None,
    source: str = "data.csv",
    max_rows: int = LISTED_ROWS,
    seed: int | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """Summarise which rows of a table are anomalous, and why.

    The most anomalous flagged rows are explained. If no row is flagged, the ten most anomalous rows are explained, and
    the summary says that none is flagged. The size of the result depends on ``max_rows`` and the columns, not on the
    rows of the table.

    Parameters
    ----------
    detector : NPTAD
        The fitted detector.
    table : DataFrame, pyarrow.Table or 2-D array
        The rows that were scored.
    detection : Detection
        Result of ``detector.detect(table)``.
    explanation : Explanation, optional
        Explanation of at least the listed rows, with their row numbers in the table; made here if not given.
    keys : pyarrow.Table, optional
        Columns that identify a row, such as an order number; the first three are shown.
    labels : array of 0 and 1, optional
        1 for known anomalies.
    source : str
        Name of the table, such as its file name.
    max_rows : int
        Rows to list at most.
    seed : int, optional
        The seed of the whole run; by default the detector's ``random_state`` if that is a whole number.
    command : str, optional
        The command that reproduces the result.

    Returns
    -------
    dict
        Plain values, ready for ``json.dumps``; missing values and numbers that are not finite are None. Texts are
        cut to 60 characters, with their length stated.

        * ``created``: time in UTC; ``source``; ``seed``; ``command``; ``code``: the same in Python;
          ``versions`` of Python, the platform and the packages that matter
        * ``table``: ``n_rows``, ``n_columns``, ``n_missing`` cells
        * ``result``: ``statement``, ``meaning`` and ``notes`` for people; ``rule``, ``rate``, ``n_flagged``,
          ``n_listed``, ``p_threshold``, ``score_threshold`` (the lowest flagged score), ``smallest_p`` (the smallest
          possible p-value)
        * ``scores``: ``highest``, ``median``, ``log`` (a logarithmic axis), ``edges`` of the bins and the number of
          rows in each: ``counts``, ``flagged``, ``training`` (out-of-fold scores of the training rows)
        * ``key_columns``: names of the key columns
        * ``anomalies``: for each listed row ``row`` (counted from 0), ``key`` (a text for each key column), ``score``,
          ``p_value``, ``flagged``, ``label``, ``in_training``, ``reasons`` (``column``, ``seen``, ``expected``,
          ``contribution``, ``share`` of the score, ``probability`` of a seen category, ``nearest``: the value in the
          row nearest in all other columns, if that difference counts most), ``others`` (``n`` other cells and their
          ``share``), ``nearest`` (training ``row``, ``distance``, ``cells`` in the columns of the first three
          reasons; None if distances do not count), ``attended_rows`` (``row``, ``weight``, ``cells``),
          ``training_share``
        * ``heat_map``: ``columns``, largest shares first, and ``shares`` of the score for each listed row
        * ``labels``: None or the result of :func:`nptad.metrics.judge`
        * ``training``: ``n_rows``, ``n_calibration``, ``n_context`` (rows in the context), ``n_members``,
          ``n_steps``, ``seconds``, ``curve`` ([step, mean, lowest, highest loss] of up to 150 stretches)
        * ``schema``: for each column ``name``, ``kind``, ``content``, ``mean``, ``spread``, ``n_categories``,
          ``categories`` (the first five), ``open_vocabulary`` (new categories are expected), ``missing_training`` and
          ``missing`` cells
        * ``settings``: all hyper-parameters

    Examples
    --------
    >>> from nptad import NPTAD
    >>> x = np.random.default_rng(0).normal(size=(60, 1))
    >>> detector = NPTAD(n_members=2, n_steps=60, random_state=0).fit(np.hstack([x, 2 * x, -x]))
    >>> table = [[1.0, 2.0, -1.0], [1.0, -8.0, 5.0]]
    >>> summary = summarise(detector, table, detector.detect(table))
    >>> summary["result"]["statement"], [anomaly["row"] for anomaly in summary["anomalies"]]
    ('1 of 2 rows looks anomalous at a false discovery rate of 5%', [1])
    """
    rows = Rows(table)
    n_rows, schema, ensemble = len(detection.score), detector.schema_, detector.ensemble_
    if not isinstance(max_rows, Integral) or max_rows < 1:
        raise InputError(f"max_rows must be a whole number of at least 1, got {max_rows!r}.")
    if len(rows) != n_rows:
        raise InputError(f"The table has {len(rows):,} rows and the detection {n_rows:,}; pass the same table to both.")
    judged = None if labels is None else judge(labels, detection.score, detection.anomaly)
    truth = None if labels is None else np.asarray(labels).reshape(-1)

    chosen = choose(detection, int(max_rows))
    listed = rows.take(chosen)
    explanation = detector.explain(listed) if explanation is None else pick(explanation, chosen)
    keys = pa.table({}) if keys is None else keys.select(keys.column_names[:_KEYS])
    anomalies = [
        {
            "row": int(row),
            "key": key,
            "score": float(detection.score[row]),
            "p_value": float(detection.p_value[row]),
            "flagged": bool(detection.anomaly[row]),
            "label": None if truth is None else int(truth[row]),
            **said,
        }
        for row, key, said in zip(chosen, key_texts(keys, chosen), describe(detector, listed, explanation), strict=True)
    ]
    n_known = sum(anomaly["in_training"] for anomaly in anomalies)
    n_calibration = len(detector.calibration_.rows)
    missing = rows.count_missing(schema)
    random_state = detector.random_state
    if seed is None and isinstance(random_state, Integral):
        seed = int(random_state)
    return _plain(
        {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "source": shorten(source),
            "seed": seed,
            "command": None if command is None else shorten(command, _LONGEST_CODE),
            "code": _code(detector, detection),
            "versions": {name: version(name) for name in _PACKAGES}
            | {"Python": platform.python_version(), "platform": platform.platform()},
            "table": {"n_rows": n_rows, "n_columns": len(schema.columns), "n_missing": sum(missing)},
            "result": state(detection, len(chosen), n_known, n_calibration, ensemble.n_members),
            "scores": _scores(detection, detector.calibration_.scores),
            "key_columns": [shorten(name) for name in keys.column_names],
            "anomalies": anomalies,
            "heat_map": heat_map(schema, explanation),
            "labels": judged,
            "training": _training(detector),
            "schema": [_column(column, count) for column, count in zip(schema.columns, missing, strict=True)],
            "settings": {"n_members": ensemble.n_members, **detector.settings_.to_dict()},
        }
    )


def _scores(detection: Detection, training: np.ndarray) -> dict[str, Any]:
    scores = detection.score
    both = np.concatenate([scores, training])
    median, highest = float(np.median(scores)), float(both.max())
    log = median > 0 and highest > _LONG_TAIL * median
    lowest = float(both[both > 0].min() if log else both.min())
    if lowest == highest:
        lowest, highest = lowest - 0.5, highest + 0.5
    edges = np.geomspace(lowest, highest, BINS + 1) if log else np.linspace(lowest, highest, BINS + 1)
    edges[0], edges[-1] = lowest, highest

    def counts(values: np.ndarray) -> list[int]:
        return np.histogram(values.clip(lowest, highest), edges)[0].tolist()

    return {
        "highest": float(scores.max()),
        "median": median,
        "log": log,
        "edges": [rounded(edge) for edge in edges],
        "counts": counts(scores),
        "flagged": counts(scores[detection.anomaly]),
        "training": counts(training),
    }


def _training(detector: NPTAD) -> dict[str, Any]:
    history, curve = detector.history_, []
    for part in np.array_split(np.arange(len(history)), min(TRAINING_POINTS, len(history))):
        losses = [history[step]["loss"] for step in part]
        mean = math.fsum(losses) / len(losses)
        curve.append([history[part[-1]]["step"], *(rounded(loss) for loss in (mean, min(losses), max(losses)))])
    return {
        "n_rows": detector.schema_.n_rows,
        "n_calibration": len(detector.calibration_.rows),
        "n_context": len(np.unique(detector.ensemble_.context_rows)),
        "n_members": detector.ensemble_.n_members,
        "n_steps": len(history),
        "seconds": rounded(history[-1]["seconds"]),
        "curve": curve,
    }


def _column(column: Column, missing: int) -> dict[str, Any]:
    numeric = column.kind == "numeric"
    spread = replace(column, content="duration") if column.content == "time" else column
    coarse = column.content in ("time", "duration") and column.scale > 60
    return {
        "name": shorten(str(column.name)),
        "kind": column.kind,
        "content": column.content,
        "mean": readable(column, round(column.mean) if coarse else column.mean) if numeric else None,
        "spread": readable(spread, round(column.scale) if coarse else column.scale) if numeric else None,
        "n_categories": len(column.categories) + len(column.pooled),
        "categories": [shorten_value(category) for category in column.categories[:_CATEGORIES]],
        "open_vocabulary": column.open_vocabulary,
        "missing_training": column.missing,
        "missing": missing,
    }


def _code(detector: NPTAD, detection: Detection) -> str:
    from sklearn.base import BaseEstimator

    made = re.sub(r"\n\s*", " ", BaseEstimator.__repr__(detector, _LONGEST_CODE))
    return (
        f"from nptad import NPTAD\n\ndetector = {shorten(made, _LONGEST_CODE)}\n"
        f"detector.fit(training_table)\nfound = detector.detect(table, {detection.rule}={detection.rate:g})"
    )


def _plain(value: Any) -> Any:
    """JSON types only: no tuples, no NumPy scalars, None for numbers that are not finite."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
