"""The listed rows of a report: which rows, why, and which training rows they were compared with."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nptad.explain.result import EXPLAINED_ROWS, CellReason, Explanation, RowExplanation
from nptad.explain.sentences import sentences
from nptad.report.distributions import Distribution
from nptad.scoring.calibrate import Detection
from nptad.tables.encode import decode_cell, match, readable
from nptad.tables.frames import RawColumns
from nptad.tables.identity import Identity
from nptad.tables.schema import Schema
from nptad.wording import cell, rounded, shorten, shorten_value

if TYPE_CHECKING:
    from nptad.detector import NPTAD

LISTED_ROWS = 200  # rows listed at most, by default
SHOWN_REASONS = 10  # cells with the largest contributions that are listed for a row; the others are summed up
SIMILAR_ROWS = 5  # training rows listed for a row that are similar in the cells that are not suspicious
ATTENDED_ROWS = 5  # training rows with the largest weights that are listed for a row
HEAT_COLUMNS = 60  # columns of the heat map at most
TRAINING_CELLS = 3  # cells listed of a training row: those in the columns of the first reasons


def count_missing(schema: Schema, columns: RawColumns) -> list[int]:
    """Missing cells of each column; 0 of a column that is set aside."""
    used = match(schema, columns).values
    return [_gaps(used[column.name]) if column.name in used else column.missing for column in schema.columns]


def _gaps(cells: np.ndarray) -> int:
    return int(np.isnan(cells).sum()) if cells.dtype.kind == "f" else sum(cell is None for cell in cells)


def choose(detection: Detection, max_rows: int) -> np.ndarray:
    """The rows to list, highest score first: of the flagged ones, or of all if none is flagged."""
    n_flagged = int(detection.anomaly.sum())
    return detection.ranking()[: min(max_rows, n_flagged or EXPLAINED_ROWS)]


def key_texts(keys: pa.Table, rows: np.ndarray) -> list[list[str | None]]:
    """The keys of these rows as texts."""
    values = [[column[int(row)].as_py() for column in keys.columns] for row in rows]
    return [[value if value is None else cell(value) if value != "" else "" for value in row] for row in values]


def distributions(detector: NPTAD) -> dict[str | int, Distribution]:
    """How the training cells of each used column are distributed."""
    (_, rows), schema = detector.model_.compared_rows, detector.schema_
    return {
        column.name: Distribution.of(rows[:, j], is_number=column.kind == "numeric")
        for j, column in enumerate(schema.used)
    }


def describe(
    detector: NPTAD,
    explanation: Explanation,
    x: np.ndarray,
    training: dict[str | int, Distribution],
    training_rows: Identity,
) -> list[dict[str, Any]]:
    """For each listed row, encoded in ``x``, its suspicious cells and the training rows that it was compared with."""

    def called(training_row: int) -> int | str:
        return shorten_value(training_rows.label(training_row))

    schema, (source, rows) = detector.schema_, detector.model_.compared_rows
    column_of = {column.name: (j, column) for j, column in enumerate(schema.used)}
    number_of = {column.name: j for j, column in enumerate(schema.columns)}
    place_of = {int(row): place for place, row in enumerate(source)}

    def cells(why: RowExplanation, training_row: int) -> list[Any]:
        encoded = rows[place_of[training_row]]
        columns = [column_of[reason.column] for reason in why.reasons[:TRAINING_CELLS]]
        return [shorten_value(readable(column, decode_cell(column, float(encoded[j])))) for j, column in columns]

    described = []
    for why, cells_of_row in zip(explanation, x, strict=True):
        positions = {name: training[name].position(cells_of_row[j]) for name, (j, _) in column_of.items()}
        nearest = None
        if why.nearest is not None:
            row, distance = why.nearest.row, rounded(why.nearest.distance)
            nearest = {"row": called(row), "distance": distance, "cells": cells(why, row)}
        looked_at = [
            {"row": called(attended.row), "weight": rounded(attended.weight), "cells": cells(why, attended.row)}
            for attended in why.attended_rows[:ATTENDED_ROWS]
        ]
        similar = [{"row": called(row), "cells": cells(why, row)} for row in why.similar_rows[:SIMILAR_ROWS]]
        described.append(
            {
                **_reasons(why, number_of, positions),
                "sentences": sentences(why),
                "nearest": nearest,
                "similar_rows": similar,
                "by_view": {name: rounded(part) for name, part in why.by_view.items()},
                "attended_rows": looked_at,
                "training_share": rounded(why.training_share),
            }
        )
    return described


def heat_map(schema: Schema, explanation: Explanation) -> dict[str, Any]:
    """Share of each cell in the score of its row; the columns with the largest shares, which come first."""
    place = {column.name: j for j, column in enumerate(schema.used)}
    shares = np.zeros((len(explanation), len(place)))
    for i, why in enumerate(explanation):
        shares[i, [place[reason.column] for reason in why.reasons]] = [reason.contribution for reason in why.reasons]
    totals = shares.sum(axis=1, keepdims=True)
    shares /= np.where(totals > 0, totals, 1.0)
    order = np.argsort(-shares.sum(axis=0), kind="stable")[:HEAT_COLUMNS]
    names = [shorten(str(column.name)) for column in schema.used]
    return {"columns": [names[j] for j in order], "shares": shares[:, order].round(4).tolist()}


def _similar(reason: CellReason) -> dict[str, Any] | None:
    if reason.similar is None:
        return None
    ends = {name: shorten_value(getattr(reason.similar, name)) for name in ("low", "high")}
    return asdict(reason.similar) | ends


def _reasons(
    why: RowExplanation, number_of: dict[str | int, int], positions: dict[str | int, float | None]
) -> dict[str, Any]:
    total = sum(reason.contribution for reason in why.reasons) or 1.0
    rest = why.reasons[SHOWN_REASONS:]
    return {
        "reasons": [
            {
                "column": shorten(str(reason.column)),
                "seen": shorten_value(reason.seen),
                "expected": shorten_value(reason.expected),
                "contribution": rounded(reason.contribution),
                "share": round(reason.contribution / total, 4),
                "probability": None if reason.probability is None else rounded(reason.probability),
                "nearest": shorten_value(reason.nearest),
                "suspicious": reason.suspicious,
                "similar": _similar(reason),
                "view": reason.view,
                "oddity": reason.oddity,
                "normal": None if reason.normal is None else [shorten_value(end) for end in reason.normal],
                "column_number": number_of[reason.column],
                "position": positions[reason.column],
            }
            for reason in why.reasons[:SHOWN_REASONS]
        ],
        "others": {"n": len(rest), "share": round(sum(reason.contribution for reason in rest) / total, 4)},
    }
