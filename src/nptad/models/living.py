"""How a fitted model changes without being fitted again: rows added, rows judged, and both taken back.

An update fits the views on the rows that the model knows and the new ones, with the columns as they were learnt. So
after it, the model is what a fit on these rows would make, and its calibration is valid as after a fit. A judgement
changes no view; see :mod:`nptad.scoring.feedback`. Each change gives a new model, or an error and no change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from nptad.errors import InputError
from nptad.models.fitted import FittedModel
from nptad.models.records import Record, appended, find_record
from nptad.scoring.calibrate import default_rate
from nptad.scoring.feedback import MOST_JUDGED, Feedback
from nptad.scoring.folds import row_keys
from nptad.scoring.view_score import ViewScore
from nptad.scoring.views.neighbours import MANY_ROWS
from nptad.tables.encode import encode_cells, match, require_all_columns
from nptad.tables.frames import RawColumns
from nptad.tables.growth import grown, recounted
from nptad.tables.schema import Schema
from nptad.wording import plural

_MOST_LEAVING = 0.1
"""Share of the rows that a model knows that may leave it because they equal rejected rows."""

_Advance = Callable[[float], None]


def updated(model: FittedModel, raw: RawColumns, most_rows: int | None, advance: _Advance) -> FittedModel:
    """The model after more normal rows; of more than ``most_rows`` in all, the oldest leave."""
    score = _views_of(model, "updated")
    if score.core is not None:
        raise InputError(
            "This model learnt from a table with anomalies in it, and its calibration rests on rows that it did not "
            "keep: it cannot be updated. Fit one on normal rows (nptad fit), or judge single rows (nptad feedback)."
        )
    most = max(MANY_ROWS, len(score.kept)) if most_rows is None else most_rows
    schema, x = _learnt(model.schema, raw)
    if len(x) > most:
        raise InputError(f"The update has {len(x):,} rows, more than the {most:,} that the model may know; fit again.")
    origin = _origin(model)
    last = max(origin.max(initial=0), 0)
    same = score.rows[origin == last]
    if last and len(same) == len(x) and (row_keys(same) == row_keys(x)).all():
        raise InputError(f"The model knows these rows since its last update (record {last}); nothing was changed.")
    record = Record.now(model.records, "update", len(x), _n_flagged(model, x))
    rows, origin = np.vstack([score.rows, x])[-most:], np.append(origin, np.full(len(x), record.id))[-most:]
    return _refitted(replace(model, schema=schema, records=appended(model.records, record)), rows, origin, advance)


def judged(model: FittedModel, raw: RawColumns, kind: Literal["accept", "reject"], reason: str) -> FittedModel:
    """The model after a user called some rows fine, or anomalies."""
    score = _views_of(model, "told about single rows")
    schema, x = _learnt(model.schema, raw)
    record = Record.now(model.records, kind, len(x), _n_flagged(model, x), reason)
    before = model.feedback
    n_before = 0 if before is None else len(before.rows)
    if n_before + len(x) > MOST_JUDGED:
        raise InputError(
            f"A model remembers at most {MOST_JUDGED:,} judged rows, and there would be {n_before + len(x):,}; add "
            "normal rows by an update, or fit again."
        )
    if kind == "reject":
        _refuse_ordinary(score, x)
    added = Feedback(x, np.full(len(x), kind == "reject"), np.full(len(x), record.id))
    changed = replace(model, schema=schema, records=appended(model.records, record))
    return _with_feedback(changed, score, added if before is None else _joined(before, added))


def undone(model: FittedModel, number: int, advance: _Advance) -> FittedModel:
    """The model without one of its records."""
    record = find_record(model.records, number)
    changed = replace(model, records=tuple(other for other in model.records if other is not record))
    score = _views_of(model, "changed")
    if record.kind == "update":
        keep = _origin(model) != number
        if keep.sum() < 2:
            raise InputError(f"Without record {number} the model would know no rows; fit it again.")
        return _refitted(changed, score.rows[keep], _origin(model)[keep], advance)
    assert model.feedback is not None
    rest = model.feedback.record != number
    feedback = model.feedback
    kept = Feedback(feedback.rows[rest], feedback.is_anomaly[rest], feedback.record[rest])
    return _with_feedback(changed, score, kept if rest.any() else None)


def restored(
    model: FittedModel, feedback: Feedback | None, records: tuple[Record, ...], origin: np.ndarray | None
) -> FittedModel:
    """A model from a file, with what happened to it; a ValueError if that cannot be."""
    if isinstance(model.scorer, ViewScore):
        if feedback is not None:
            feedback.require_sound(model.schema.layout)
            kinds = {record.id: record.kind for record in records}
            verdicts = [kinds.get(number) == "reject" for number in feedback.record.tolist()]
            known = all(kinds.get(number) in ("accept", "reject") for number in feedback.record.tolist())
            if not known or verdicts != feedback.is_anomaly.tolist():
                raise ValueError("judged rows without a record")
        changed = replace(model, records=records, origin=origin)
        return _with_feedback(changed, model.scorer, feedback)
    if records or feedback is not None:
        raise ValueError("a network with records")
    return model


def _views_of(model: FittedModel, what: str) -> ViewScore:
    """The score without feedback."""
    score = model.scorer if model.before_feedback is None else model.before_feedback
    if not isinstance(score, ViewScore):
        raise InputError(f"A model with a network cannot be {what}; fit one without --network, or train it again.")
    return score


def _origin(model: FittedModel) -> np.ndarray:
    kept = _views_of(model, "changed").kept
    return np.zeros(len(kept), dtype=np.int64) if model.origin is None else model.origin


def _learnt(schema: Schema, raw: RawColumns) -> tuple[Schema, np.ndarray]:
    """The schema after some rows, and these rows encoded."""
    if raw.n_rows == 0:
        raise InputError("The table has no rows; give at least one.")
    require_all_columns(schema, raw)
    cells = match(schema, raw)
    schema = grown(schema, cells)
    return schema, encode_cells(schema, cells)


def _n_flagged(model: FittedModel, x: np.ndarray) -> int:
    scorer = model.scorer
    assert isinstance(scorer, ViewScore)
    return int((np.exp(-scorer.score(x)) <= default_rate(scorer.n_calibration)).sum())


def _refuse_ordinary(score: ViewScore, x: np.ndarray) -> None:
    """Refuse to reject a row that equals many of those that the model knows."""
    keys, counts = np.unique(row_keys(score.rows), return_counts=True)
    known = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    equal = np.array([known.get(key, 0) for key in row_keys(x).tolist()])
    most = max(1, int(_MOST_LEAVING * len(score.rows)))
    if equal.max() > most:
        raise InputError(
            f"A row to reject equals {plural(int(equal.max()), 'row')} of the {len(score.rows):,} that the "
            "model knows: in these columns nothing tells it from ordinary rows. Nothing was changed."
        )


def _joined(first: Feedback, second: Feedback) -> Feedback:
    return Feedback(
        np.vstack([first.rows, second.rows]),
        np.append(first.is_anomaly, second.is_anomaly),
        np.append(first.record, second.record),
    )


def _refitted(model: FittedModel, rows: np.ndarray, origin: np.ndarray, advance: _Advance) -> FittedModel:
    schema = recounted(model.schema, rows)
    before = _views_of(model, "changed")
    per_row = len(before.kept) / len(rows)  # progress is counted in the rows of before
    score = ViewScore.fit(rows, schema.layout, before.seed, advance=lambda n: advance(n * per_row))
    changed = replace(model, schema=schema, origin=origin[score.kept])
    return _with_feedback(changed, score, model.feedback)


def _with_feedback(model: FittedModel, score: ViewScore, feedback: Feedback | None) -> FittedModel:
    if feedback is None:
        return replace(model, scorer=score, feedback=None, before_feedback=None)
    return replace(model, scorer=score.judged_by(feedback), feedback=feedback, before_feedback=score)
