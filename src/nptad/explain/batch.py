"""What is to be said about a batch of rows as a whole: missing and unknown columns, unreadable cells, drift."""

from __future__ import annotations

import numpy as np

from nptad.scoring.drift import MOST_ROWS, Change, TrainingCells, find_changes
from nptad.scoring.view_score import ViewScore
from nptad.tables.encode import check_columns, decode_cell, encode_cells, match, plain_cell, readable
from nptad.tables.frames import RawColumns
from nptad.tables.schema import Column, Schema
from nptad.wording import FEW_LETTERS, cell, percent, shorten

_JUDGED_FLAGS = 100
"""Flagged rows that say from which column most flags come."""

_MEANT = {"number": "a number", "time": "a time", "duration": "a duration"}


class Batch:
    """A batch of rows that comes in blocks; call :meth:`encode` with each of them.

    With ``strict``, missing and unknown columns are an error.
    """

    def __init__(self, schema: Schema, strict: bool = False) -> None:
        self._schema, self._strict = schema, strict
        self._of_columns: list[str] = []
        self._unreadable: dict[str | int, tuple[int, str]] = {}  # how many cells, and a note about the first
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []  # numbers of rows, and the rows

    def encode(self, raw: RawColumns) -> np.ndarray:
        """Encode a block, and remember what is to be said about it."""
        self._of_columns = check_columns(self._schema, raw, self._strict)
        cells = match(self._schema, raw)
        x = encode_cells(self._schema, cells)
        for j in np.flatnonzero(np.isinf(x).any(axis=0)):
            column = self._schema.used[j]
            rows = np.flatnonzero(np.isinf(x[:, j]))
            seen = cell(cells.shown(column, int(rows[0])), FEW_LETTERS)
            count, first = self._unreadable.get(column.name, (0, f"{seen!r} in row {raw.identity.label(int(rows[0]))}"))
            self._unreadable[column.name] = count + len(rows), first
        step = max(1, -(-len(x) // MOST_ROWS))
        self._kept.append((raw.first_row + np.arange(0, len(x), step), x[::step]))
        return x

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about columns and cells that are not as in training."""
        content = {column.name: column.content for column in self._schema.used}
        return tuple(note[0].upper() + note[1:] + "." for note in self._of_columns) + tuple(
            f"{count:,} cell(s) of column {name!r} cannot be read as {_MEANT[content[name]]} (such as {first}); each "
            "counts as an oddity of its cell."
            for name, (count, first) in self._unreadable.items()
        )

    def drift(self, rows: np.ndarray, scorer: object, anomaly: np.ndarray) -> tuple[str, ...]:
        """Sentences about the columns that differ from training beyond chance, given which rows are flagged.

        ``rows`` are encoded training rows. Which column most flags come from is known of a calibrated score only.
        """
        x = np.concatenate([block for _, block in self._kept])
        changes = find_changes(x, training_cells(self._schema, rows))
        if not changes:
            return ()
        most = None
        if isinstance(scorer, ViewScore):
            numbers = np.concatenate([kept for kept, _ in self._kept])
            flagged = x[anomaly[numbers]][:_JUDGED_FLAGS]
            columns = scorer.explain(flagged).sum(axis=1).argmax(axis=1)
            counts = np.bincount(columns, minlength=x.shape[1])
            most = int(counts.argmax()) if counts.max() > len(flagged) / 2 else None
        used = self._schema.used
        return tuple(
            change_text(used[c.column], c, x[:, c.column], rows[:, c.column], c.column == most) for c in changes
        )


def training_cells(schema: Schema, rows: np.ndarray) -> TrainingCells:
    """What drift is judged by: encoded training rows, and what the schema knows of all of them."""
    used = schema.used
    return TrainingCells(
        rows,
        np.array([column.missing for column in used]),
        np.array([column.unreadable for column in used]),
        schema.n_rows,
        schema.layout,
        np.array([len(c.categories) if c.pooled or c.open_vocabulary else np.nan for c in used]),
        np.array([column.open_vocabulary for column in used]),
    )


def change_text(column: Column, change: Change, x: np.ndarray, training: np.ndarray, most_flags: bool = False) -> str:
    """A sentence about a column whose encoded cells ``x`` differ from those of training rows."""
    share = f"{change.count:,} of {change.of:,}"
    before = "none" if not change.before else percent(change.before)
    if change.kind == "unreadable":
        said = f"{share} cells cannot be read as {_MEANT[column.content]} (in training {before})"
    elif change.kind == "missing":
        said = f"{share} cells are missing (in training {before})"
    elif change.kind == "unseen":
        rare = "rare or " if column.open_vocabulary else ""
        said = f"{share} values were {rare}never seen in training"
    elif change.kind == "categories":
        value = decode_cell(column, change.category)
        which = "rare values" if value is None else cell(readable(column, plain_cell(value)), FEW_LETTERS)
        said = f"the values have other shares than in training: {which} {percent(change.count / change.of)}"
        said = f"{said}, in training {before}" if value is not None else said
    else:
        said = _numbers(column, x[np.isfinite(x)], training[np.isfinite(training)])
    return (
        f"{shorten(str(column.name), FEW_LETTERS)}: {said}" + ("; most flags come from this column" * most_flags) + "."
    )


def _numbers(column: Column, x: np.ndarray, training: np.ndarray) -> str:
    values = x * column.scale + column.mean
    low, high = column.low, column.high
    if low is not None and high is not None:
        outside = int(((values < low) | (values > high)).sum())
        if outside > len(values) / 2:
            ends = " to ".join(cell(readable(column, end)) for end in (low, high))
            return f"{outside:,} of {len(values):,} values are outside the range of training ({ends})"
    here, before = (cell(readable(column, decode_cell(column, float(np.median(part))))) for part in (x, training))
    return f"the values are distributed otherwise than in training (median {here}, in training {before})"
