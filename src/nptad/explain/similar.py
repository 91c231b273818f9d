"""What made a calibrated score: the share of each cell in each view, beside what similar training rows have.

Similar rows are the nearest training rows in the cells that are not suspicious. Several wrong cells at once are ignored
together, so that none of them decides which rows are similar.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nptad.explain.result import CellReason, Explanation, NearestRow, RowExplanation, SimilarValues
from nptad.progress import progress_bar
from nptad.scoring.surprise import combine
from nptad.scoring.view_score import ViewScore
from nptad.scoring.views import RareGaps
from nptad.scoring.views.cells import CellView
from nptad.scoring.views.nearest import usual_distance
from nptad.tables.encode import Cells, decode_cell, encode_cells, match, readable
from nptad.tables.frames import backend_of, read_columns
from nptad.tables.layout import without_unreadable
from nptad.tables.schema import Column, Schema

_SIMILAR_ROWS = 10
"""Rows that say what is usual for a row."""

_MOST = 0.8
"""Share of the similar rows whose values are named, if the value seen lies among all of them."""

_SUSPICIOUS_CELLS = 4
"""Suspicious cells of a row at most; two others must remain."""

_ORDINARY = 0.05
"""A row is odd if fewer normal rows than this share look as odd."""

_ODD_BY_ITSELF = 0.01
"""A cell is odd by itself, whatever the others are, if fewer normal rows than this share have such cells."""

_GAIN = 1.0
"""A cell is also suspicious if the surprise of the row falls by this much without it."""

_MARGIN = 0.25
"""A number is usual up to this share of the range of the similar rows' numbers beyond it."""

_ROWS_AT_ONCE = 64
"""Rows explained together. Of the training rows, at most a tenth: they are explained as if the views had not seen
them."""


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
    rows: list[RowExplanation] = []
    with progress_bar("Explaining", len(x), verbose) as advance:
        for start in range(0, len(x), at_once):
            block = slice(start, start + at_once)
            rows += _explain_block(
                score, schema, x[block], cells.take(block), scores[block, 0], training_row[block], start
            )
            advance(len(x[block]))
    return Explanation(tuple(rows), backend_of(table))


def _explain_block(
    score: ViewScore,
    schema: Schema,
    x: np.ndarray,
    cells: Cells,
    scores: np.ndarray,
    training_row: np.ndarray,
    first_row: int,
) -> list[RowExplanation]:
    if (training_row >= 0).any():
        score = score.without(training_row)
    shares = score.explain(x)
    contributions = scores[:, None] * shares.sum(axis=1)
    wrong_cell = np.full(len(x), -1)
    if score.core is not None:
        wrong_cell = np.where(training_row >= 0, score.core.wrong_cell[training_row], -1)
    suspicious = _suspicious(score, x, shares, wrong_cell)
    known = without_unreadable(x)
    similar = score.nearest.similar(np.where(suspicious, np.nan, known), _SIMILAR_ROWS)
    usual = _is_usual(x, score.rows[similar], schema.layout.n_numeric) & (suspicious.sum(axis=1, keepdims=True) > 1)
    usual[np.flatnonzero(wrong_cell >= 0), wrong_cell[wrong_cell >= 0]] = False
    if (suspicious & usual).any():
        suspicious = _at_least_one(suspicious & ~usual, suspicious)
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
            found = np.sort(score.rows[similar[i], j])
            found = found[: np.count_nonzero(~np.isnan(found))]  # NaN come last
            is_number = j < schema.layout.n_numeric
            usual, share = _usual(found, x[i, j], is_number=is_number)
            reasons.append(
                CellReason(
                    column.name,
                    cells.shown(column, i),
                    readable(column, decode_cell(column, usual)),
                    float(contributions[i, j]),
                    share,
                    suspicious=bool(suspicious[i, j]),
                    similar=_similar_values(column, found, usual, x[i, j], is_number=is_number),
                    view=names[shares[i, :, j].argmax()] if shares[i, :, j].any() else None,
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
                usual_gaps=usual_gaps if any(r.suspicious and r.view == RareGaps.name for r in reasons) else None,
            )
        )
    return explained


def _suspicious(score: ViewScore, x: np.ndarray, shares: np.ndarray, wrong_cell: np.ndarray) -> np.ndarray:
    """The cells without which each row is ordinary, (n, D); ``shares`` is what :meth:`ViewScore.explain` says.

    The cell with a gross error comes first, ``wrong_cell``, or else the most suspicious cell. The next one is the most
    suspicious cell without the first, if the row is still odd or becomes much more ordinary without it, and so on:
    where several wrong cells agree with one another, a row without one of them is hardly odd, but far from ordinary.
    """
    suspicious = np.zeros(x.shape, dtype=bool)
    counted = [place for place, view in enumerate(score.views) if not isinstance(view, RareGaps)]

    def surprise(rows: np.ndarray) -> np.ndarray:
        return combine(score.by_view(np.where(suspicious, np.nan, x)[rows])[counted])  # hidden cells look like gaps

    first = np.where(wrong_cell >= 0, wrong_cell, _most_suspicious(score, x, shares))
    suspicious[np.arange(len(x)), first] = True
    rows = np.arange(len(x))
    before = surprise(rows)
    for _ in range(min(_SUSPICIOUS_CELLS, x.shape[1] - 2) - 1):
        rows, before = rows[before > _GAIN], before[before > _GAIN]
        if not len(rows):
            break
        rest = np.where(suspicious, np.nan, x)[rows]
        shares = np.where(np.isnan(rest)[:, None], 0.0, score.explain(rest))
        cells = _most_suspicious(score, rest, shares)
        suspicious[rows, cells] = True
        after = surprise(rows)
        more = (before > -np.log(_ORDINARY)) | (before - after >= _GAIN)
        suspicious[rows[~more], cells[~more]] = False
        rows, before = rows[more], after[more]
    return suspicious


def _most_suspicious(score: ViewScore, x: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The cell of each row that is odd by itself, or else the one with the largest share of the score, (n,)."""
    suspicion = shares.sum(axis=1)
    for view, surprises, share in zip(score.views, score.by_view(x), shares.transpose(1, 0, 2), strict=True):
        if isinstance(view, CellView):
            odd = surprises > -np.log(_ODD_BY_ITSELF)
            suspicion[odd] += share[odd] / share[odd].max(axis=1, keepdims=True).clip(min=1e-12)
    return suspicion.argmax(axis=1)


def _is_usual(x: np.ndarray, similar: np.ndarray, n_numeric: int) -> np.ndarray:
    """Which cells have values as similar rows do: numbers near the range of theirs, categories equal to one, (n, D)."""
    low, high = np.fmin.reduce(similar, axis=1), np.fmax.reduce(similar, axis=1)
    equal = (similar == x[:, None]).any(axis=1)
    is_number, margin = np.arange(x.shape[1]) < n_numeric, _MARGIN * (high - low)
    return np.where(is_number, (low - margin <= x) & (x <= high + margin), equal)


def _at_least_one(suspicious: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Suspicious cells, as they were before in rows that would have none."""
    return np.where(suspicious.any(axis=1, keepdims=True), suspicious, before)


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
