"""What made a calibrated score: the share of each cell in each view, beside what similar training rows have.

Similar rows are the nearest training rows in the cells that are not suspicious. Several wrong cells at once are ignored
together, so that none of them decides which rows are similar.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nptad.explain.result import CellReason, Explanation, NearestRow, RowExplanation, SimilarValues
from nptad.explain.suspicious import GROSS_ERROR, SuspiciousCells, outside_range
from nptad.progress import progress_bar
from nptad.scoring.surprise import combine
from nptad.scoring.view_score import ViewScore
from nptad.scoring.views import RareGaps
from nptad.scoring.views.nearest import usual_distance
from nptad.tables.encode import Cells, decode_cell, encode_cells, is_above, match, readable
from nptad.tables.frames import backend_of, read_columns
from nptad.tables.layout import without_unreadable
from nptad.tables.schema import Category, Column, Schema
from nptad.training.parallel import single_thread

_SIMILAR_ROWS = 10
"""Rows that say what is usual for a row."""

_MOST = 0.8
"""Share of the similar rows whose values are named, if the value seen lies among all of them."""

_ORDINARY = 0.05
"""A row is odd if fewer normal rows than this share look as odd."""

_OUTSIDE = 0.005
"""Share of the training rows that lie beyond each end of the normal range."""

_ROWS_AT_ONCE = 64
"""Rows explained together. Of the training rows, at most a tenth: they are explained as if the views had not seen
them."""


@single_thread("blas")
def explain_views(
    score: ViewScore,
    schema: Schema,
    table: Any,
    scores: np.ndarray | None = None,
    training_row: np.ndarray | None = None,
    verbose: bool = False,
) -> Explanation:
    """Explain every row of a table; a table without rows gives an explanation without rows.

    ``scores`` are the scores of the rows, (n, 1), and ``training_row`` the training rows that they are, -1 for none, if
    they are known already. If all rows equal training rows, they are explained as these, such as the flagged rows of
    the training table.
    """
    if getattr(table, "shape", (1,))[0] == 0:
        return Explanation((), backend_of(table))
    cells = match(schema, read_columns(table))
    x = encode_cells(schema, cells)
    if training_row is None:
        training_row = score.find(x)
        if (training_row < 0).any():  # equal rows among new ones are a coincidence
            training_row = np.full(len(x), -1)
    if scores is None:
        known = training_row >= 0
        scores = score.score(x)[:, None]
        scores[known, 0] = score.score_training_rows(x[known], training_row[known])
    at_once = max(1, min(_ROWS_AT_ONCE, len(score.kept) // 10))
    suspects = SuspiciousCells(score)
    normal = [
        _normal_range(column, _known(score.rows[:, j]))
        for j, column in enumerate(schema.used[: schema.layout.n_numeric])
    ]
    rows: list[RowExplanation] = []
    with progress_bar("Explaining", len(x), verbose) as advance:
        for start in range(0, len(x), at_once):
            block = slice(start, start + at_once)
            rows += _explain_block(
                suspects, schema, x[block], cells.take(block), scores[block, 0], training_row[block], start, normal
            )
            advance(len(x[block]))
    return Explanation(tuple(rows), backend_of(table))


def _explain_block(
    suspects: SuspiciousCells,
    schema: Schema,
    x: np.ndarray,
    cells: Cells,
    scores: np.ndarray,
    training_row: np.ndarray,
    first_row: int,
    normal: list[tuple[Category, Category] | None],
) -> list[RowExplanation]:
    score = suspects.score
    found = suspects.find(x, training_row)
    if (training_row >= 0).any():
        score = score.without(training_row)
    shares = score.explain(x)
    contributions = scores[:, None] * shares.sum(axis=1)
    if score.core is not None:
        for cells_of_row, row in zip(found, training_row, strict=True):
            if row >= 0 and score.core.wrong_cell[row] >= 0:
                cells_of_row.setdefault(int(score.core.wrong_cell[row]), GROSS_ERROR)
    suspicious = _as_mask(found, x)
    unlike = (scores > -np.log(_ORDINARY)) & _odd_without(score, x, suspicious)
    if unlike.any():  # where most cells that depend on one another are wrong, they contradict the right ones
        others = outside_range(score, x)
        better = unlike & [len(cells) > 0 for cells in others] & ~_odd_without(score, x, _as_mask(others, x))
        found = [other if is_better else cells for other, is_better, cells in zip(others, better, found, strict=True)]
        suspicious, unlike = _as_mask(found, x), unlike & ~better
    known = without_unreadable(x)
    similar = score.nearest.similar(np.where(suspicious, np.nan, known), _SIMILAR_ROWS)
    nearest = score.nearest.similar(known, 1)[:, 0]
    distances = score.nearest.score(known)[:, 0] / usual_distance(
        score.surprise.views[score.views.index(score.nearest)].scores
    )
    names = [view.name for view in score.views]
    known_anomalies = score.known_anomalies(x)
    usual_gaps = int(np.median(np.isnan(score.rows).sum(axis=1)))

    explained = []
    for i in range(len(x)):
        by_view = scores[i] * shares[i].sum(axis=1)
        reasons = []
        for j in np.lexsort((-contributions[i], ~suspicious[i])):
            column = schema.used[j]
            of_similar = _known(score.rows[similar[i], j])
            is_number = j < schema.layout.n_numeric
            usual, share = _usual(of_similar, x[i, j], is_number=is_number)
            seen, expected = cells.shown(column, i), readable(column, decode_cell(column, usual))
            reasons.append(
                CellReason(
                    column.name,
                    seen,
                    expected,
                    float(contributions[i, j]),
                    share,
                    suspicious=bool(suspicious[i, j]),
                    similar=_similar_values(column, of_similar, usual, x[i, j], is_number=is_number),
                    view=names[shares[i, :, j].argmax()] if shares[i, :, j].any() else None,
                    oddity=found[i].get(int(j)),
                    normal=normal[j] if is_number else None,
                    above=is_above(x[i, j], usual) if is_number and seen != expected else None,
                )
            )
        empty = bool(np.isnan(x[i]).all())
        explained.append(
            RowExplanation(
                first_row + i,
                float(scores[i]),
                tuple(reasons),
                attended_rows=(),
                training_share=0.0,
                nearest=None if empty else NearestRow(int(score.kept[nearest[i]]), float(distances[i])),
                similar_rows=tuple(score.kept[similar[i]].tolist()),
                by_view={names[v]: float(by_view[v]) for v in np.argsort(-by_view, kind="stable") if by_view[v] > 0},
                known_anomaly=int(known_anomalies[i]) or None,
                usual_gaps=usual_gaps if RareGaps.name in found[i].values() else None,
                unlike=bool(unlike[i]),
            )
        )
    return explained


def _as_mask(found: list[dict[int, str | None]], x: np.ndarray) -> np.ndarray:
    """Which cells of the rows were found, (n, D)."""
    mask = np.zeros(x.shape, dtype=bool)
    for row, cells in zip(mask, found, strict=True):
        row[list(cells)] = True
    return mask


def _odd_without(score: ViewScore, x: np.ndarray, suspicious: np.ndarray) -> np.ndarray:
    """Which rows are still odd if their suspicious cells are hidden, (n,); hidden cells are no gaps."""
    surprises = score.by_view(np.where(suspicious, np.nan, x))
    surprises[[isinstance(view, RareGaps) for view in score.views]] = 0.0
    return score.surprise.whole.smooth(combine(surprises)) > -np.log(_ORDINARY)


def _known(cells: np.ndarray) -> np.ndarray:
    """The cells that are no gaps, ascending."""
    return np.sort(cells[~np.isnan(cells)])


def _normal_range(column: Column, known: np.ndarray) -> tuple[Category, Category] | None:
    """The ends of the middle of a column, values that occur."""
    if not len(known):
        return None
    ends = np.quantile(known, (_OUTSIDE, 1 - _OUTSIDE), method="nearest")
    low, high = (readable(column, decode_cell(column, float(end))) for end in ends)
    return None if low is None or high is None or low == high else (low, high)


def _usual(known: np.ndarray, seen: float, *, is_number: bool) -> tuple[float, float | None]:
    """A value that stands for those of similar rows, ascending, and the share of them with the seen category."""
    if not len(known):
        return np.nan, None
    if is_number:
        return float(known[(len(known) - 1) // 2]), None  # a value that occurs
    codes, counts = np.unique(known, return_counts=True)
    return float(codes[counts.argmax()]), None if np.isnan(seen) else float((known == seen).mean())


def _similar_values(
    column: Column, known: np.ndarray, usual: float, seen: float, *, is_number: bool
) -> SimilarValues | None:
    """What most of the similar rows have, from their values in ascending order."""
    low, high = _most(known, seen) if is_number and len(known) else (usual, usual)
    low_value, high_value = (readable(column, decode_cell(column, end)) for end in (low, high))
    if low_value is None or high_value is None:
        return None
    inside = int(((low <= known) & (known <= high)).sum())
    return SimilarValues(low_value, high_value, inside, len(known), has_seen=bool(low <= seen <= high))


def _most(known: np.ndarray, seen: float) -> tuple[float, float]:
    """The ends of the values, or of the shortest interval with most of them if the value seen is not beyond the ends.

    A similar row may have the same error, and must not make it look ordinary.
    """
    if not known[0] <= seen <= known[-1]:
        return float(known[0]), float(known[-1])
    n = math.ceil(_MOST * len(known))
    start = int((known[n - 1 :] - known[: len(known) - n + 1]).argmin())
    return float(known[start]), float(known[start + n - 1])
