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

from nptad.errors import InputError
from nptad.metrics import judge
from nptad.report.groups import group_rows
from nptad.report.rows import LISTED_ROWS, choose, count_missing, describe, distributions, heat_map, key_texts
from nptad.report.statement import core, kept_out, state
from nptad.scoring.calibrate import Detection
from nptad.tables.encode import encode, readable
from nptad.tables.schema import Column
from nptad.wording import rounded, shorten, shorten_value

if TYPE_CHECKING:
    from nptad.detector import NPTAD
    from nptad.pipeline import TableResult
    from nptad.scoring.network_score import NetworkScore

BINS = 50  # bars of the score histogram
TRAINING_POINTS = 150  # points kept of the training curve
_CATEGORIES = 5  # categories listed for a column
_KEYS = 3  # key columns shown
_LONG_TAIL = 20.0  # the axis is logarithmic if the highest score is this many times the median

_LONGEST_CODE = 2000
_PACKAGES = ("nptad", "torch", "numpy", "scikit-learn", "narwhals", "pyarrow")


def summarise(
    result: TableResult,
    *,
    source: str = "data.csv",
    max_rows: int = LISTED_ROWS,
    seed: int | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """Summarise which rows of a table are anomalous, and why.

    The most anomalous flagged rows are listed. If no row is flagged, the ten most anomalous rows are listed, and the
    summary says that none is flagged. The size of the summary depends on ``max_rows`` and the columns, not on the rows
    of the table.

    Parameters
    ----------
    result : TableResult
        What :func:`nptad.detect_table` or :func:`nptad.score_table` found.
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
        * ``result``: ``statement``, ``meaning``, ``drift`` and ``notes`` for people; ``rule``, ``rate``, ``n_flagged``,
          ``n_listed``, ``p_threshold``, ``score_threshold`` (the lowest flagged score), ``smallest_p`` (the smallest
          p-value that the training rows can tell by counting)
        * ``scores``: ``highest``, ``median``, ``log`` (a logarithmic axis), ``edges`` of the bins and the number of
          rows in each: ``counts``, ``flagged``, ``training`` (out-of-fold scores of the training rows)
        * ``key_columns``: names of the key columns; ``rows_are``: a sentence about what rows are called
        * ``anomalies``: for each listed row ``row`` (its number or its label), ``key`` (a text for each key column),
          ``score``, ``p_value``, ``flagged``, ``label``, ``in_training``, ``kept_out`` (why the row is not in the
          core, or None), ``reasons`` (``column``, ``seen``, ``expected``,
          ``contribution``, ``share`` of the score, ``probability`` of a seen category, ``nearest``: the value in the
          row nearest in all other columns, if that difference counts most; ``suspicious``: whether it is one of the
          cells without which the row would be ordinary; ``view`` that the cell contributes most to; ``similar``: None
          or what most of the similar rows have, ``low``, ``high``, ``n_inside`` of ``n_rows``, ``has_seen``;
          ``oddity``: what is odd about a suspicious cell; ``normal``: None or the ends of the normal range;
          ``column_number`` in ``schema``; ``position`` among the bars there: 0 to 1, -1 below and 2 above all of them,
          None for a gap), ``sentences`` (the reasons in words, each sentence in pieces: "column", "cell" or "", and the
          text), ``others`` (``n`` other cells and their ``share``), ``by_view`` (what each view contributes to the
          score), ``similar_rows`` (``row``, ``cells``), ``nearest`` (training ``row``, ``distance``, ``cells`` in the
          columns of the first three reasons; None if distances do not count), ``attended_rows`` (``row``, ``weight``,
          ``cells``), ``training_share``
        * ``groups``: flagged rows that are odd in the same cell and direction: ``n``, ``rows``, ``column``, ``how``,
          ``others``, ``example`` (what is said about the cell of its first row, in pieces)
        * ``heat_map``: up to 60 ``columns``, largest shares first, and ``shares`` of the score for each listed row
        * ``labels``: None or the result of :func:`nptad.metrics.judge`
        * ``training``: ``n_rows``, ``n_calibration``, ``core``: None or, for a table that contains the anomalies, its
          ``n_rows`` that look ordinary, ``n_kept_out``, ``reasons`` (rows kept out by what is odd about them),
          ``n_top`` and ``agreement`` (the share of the highest rows that are the same with another core);
          ``network``: None or its ``n_context`` (rows in the context),
          ``n_members``, ``n_steps`` of ``n_planned``, ``seconds``, ``curve`` ([step, mean, lowest, highest loss] of up
          to 150 stretches)
        * ``schema``: for each column ``name``, ``kind``, ``role`` (why it is not used), ``content``, ``mean``,
          ``spread``, ``n_categories``, ``categories`` (the first five), ``open_vocabulary`` (new categories are
          expected), ``missing_training`` and ``missing`` cells, ``counts`` (a small histogram of the training cells)
        * ``settings``: all hyper-parameters of the network

    Examples
    --------
    >>> import pyarrow as pa
    >>> from nptad import NPTAD, score_table
    >>> x = np.random.default_rng(0).normal(size=60)
    >>> detector = NPTAD(n_members=2, n_steps=60, random_state=0).fit(pa.table({"x": x, "y": 2 * x, "z": -x}))
    >>> found = score_table(detector, pa.table({"x": [1.0, 1.0], "y": [2.0, -8.0], "z": [-1.0, 5.0]}))
    >>> summary = summarise(found)
    >>> summary["result"]["statement"], [anomaly["row"] for anomaly in summary["anomalies"]]
    ('1 of 2 rows looks anomalous at a false-alarm rate of 1.6%', [1])
    """
    if not isinstance(max_rows, Integral) or max_rows < 1:
        raise InputError(f"max_rows must be a whole number of at least 1, got {max_rows!r}.")
    detector, detection, labels = result.detector, result.detection, result.labels
    n_rows, schema, model = len(detection.score), detector.schema_, detector.model_
    scorer, network = model.scorer, model.network
    judged = None if labels is None or not n_rows else judge(labels, detection.score, detection.anomaly)

    chosen = choose(detection, int(max_rows))
    explained = {why.row: why for why in result.explanation}
    if not explained.keys() >= set(chosen.tolist()):
        explained = {why.row: why for why in result.explain(chosen)}
    explanation = replace(result.explanation, rows=tuple(explained[int(row)] for row in chosen))

    def called(row: int) -> int | str:
        return shorten_value(result.columns.identity.label(row))

    keys = result.keys.select(result.keys.column_names[:_KEYS])
    training = distributions(detector)
    encoded, training_rows = encode(schema, result.columns.take(chosen)), result.explanation.training
    said_of_rows = describe(detector, explanation, encoded, training, training_rows)
    anomalies = [
        {
            "row": called(row),
            "key": key,
            "score": float(detection.score[row]),
            "p_value": float(detection.p_value[row]),
            "flagged": bool(detection.anomaly[row]),
            "label": None if labels is None else int(labels[row]),
            "in_training": bool(detection.training_row[row] >= 0),
            "kept_out": kept_out(model, int(detection.training_row[row])),
            **said,
        }
        for row, key, said in zip(chosen, key_texts(keys, chosen), said_of_rows, strict=True)
    ]
    n_known = sum(anomaly["in_training"] for anomaly in anomalies)
    groups = group_rows([why for why in explanation if detection.anomaly[why.row]])
    missing = count_missing(schema, result.columns)
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
            "result": state(detection, len(chosen), n_known, model, groups),
            "scores": _scores(detection, scorer.training_scores),
            "key_columns": [shorten(name) for name in keys.column_names],
            "anomalies": anomalies,
            "rows_are": result.columns.identity.said,
            "groups": [group | {"rows": [called(row) for row in group["rows"]]} for group in groups],
            "heat_map": heat_map(schema, explanation),
            "labels": judged,
            "training": {
                "n_rows": schema.n_rows,
                "n_calibration": scorer.n_calibration,
                "core": core(model),
                "network": None if network is None else _training(network),
            },
            "schema": [
                _column(column, count) | {"counts": training[column.name].counts if column.name in training else []}
                for column, count in zip(schema.columns, missing, strict=True)
            ],
            "settings": {}
            if network is None
            else {"n_members": network.ensemble.n_members, **network.settings.to_dict()},
        }
    )


def _scores(detection: Detection, training: np.ndarray) -> dict[str, Any]:
    scores = detection.score
    both = np.concatenate([scores, training])
    median, highest = float(np.median(scores)) if len(scores) else 0.0, float(both.max())
    log = median > 0 and highest > _LONG_TAIL * median
    lowest = float(both[both > 0].min() if log else both.min())
    if lowest == highest:
        lowest, highest = lowest - 0.5, highest + 0.5
    edges = np.geomspace(lowest, highest, BINS + 1) if log else np.linspace(lowest, highest, BINS + 1)
    edges[0], edges[-1] = lowest, highest

    def counts(values: np.ndarray) -> list[int]:
        return np.histogram(values.clip(lowest, highest), edges)[0].tolist()

    return {
        "highest": float(scores.max(initial=0.0)),
        "median": median,
        "log": log,
        "edges": [rounded(edge) for edge in edges],
        "counts": counts(scores),
        "flagged": counts(scores[detection.anomaly]),
        "training": counts(training),
    }


def _training(network: NetworkScore) -> dict[str, Any]:
    history, curve = network.history, []
    for part in np.array_split(np.arange(len(history)), min(TRAINING_POINTS, len(history))):
        losses = [history[step]["loss"] for step in part]
        mean = math.fsum(losses) / len(losses)
        curve.append([history[part[-1]]["step"], *(rounded(loss) for loss in (mean, min(losses), max(losses)))])
    return {
        "n_context": len(np.unique(network.ensemble.context_rows)),
        "n_members": network.ensemble.n_members,
        "n_steps": len(history),
        "n_planned": network.settings.n_steps,
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
        "role": column.role,
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
    made = f"from nptad import NPTAD\n\ndetector = {shorten(made, _LONGEST_CODE)}\n"
    if detection.rule == "share":
        return f"{made}found = detector.fit_detect(table, share={detection.rate:g})"
    if detector.model_.core is not None and (detection.training_row >= 0).all():
        return f"{made}found = detector.fit_detect(table)"
    return f"{made}detector.fit(training_table)\nfound = detector.detect(table, {detection.rule}={detection.rate:g})"


def _plain(value: Any) -> Any:
    """JSON types only: no tuples, no NumPy scalars, None for numbers that are not finite."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
