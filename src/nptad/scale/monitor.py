"""How scored rows change from file to file or from day to day: flags, surprise and drift, from what `score` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from scipy.stats import binom

from nptad.detector import NPTAD
from nptad.errors import InputError
from nptad.explain.batch import change_text, training_cells
from nptad.io.places import name_of
from nptad.io.read import read_table
from nptad.scoring.drift import MOST_ROWS, find_changes
from nptad.tables.encode import encode_cells, match
from nptad.tables.frames import read_columns
from nptad.tables.readings import find_reading

_CHANCE = 0.001
"""How rarely one of all periods is said to have too many or too few flags, if none has."""

_HIGH = 0.99
_RESULTS = ("score", "anomaly")
NO_TIME = "no time"


@dataclass(frozen=True)
class Period:
    """The scored rows of one file or one day."""

    name: str
    n_rows: int
    n_flagged: int
    low: int
    """Fewer flags are beyond chance, if normal rows are like those of training."""
    high: int
    """More flags are beyond chance."""
    mean_score: float
    high_score: float
    """The quantile 0.99."""
    drift: dict[str, str]
    """A sentence about each column that differs from training beyond chance, by its name."""

    @property
    def share(self) -> float:
        """The share of its rows that were flagged."""
        return self.n_flagged / self.n_rows

    @property
    def is_high(self) -> bool:
        """Whether more rows were flagged than chance allows."""
        return self.n_flagged > self.high


@dataclass(frozen=True)
class Monitored:
    """All periods in their order, and what is expected of each."""

    by: Literal["file", "day"]
    rate: float
    """The share of normal rows that is flagged."""
    mean_score: float
    """The mean score of the training rows."""
    high_score: float
    """Their quantile 0.99."""
    n_compared: int
    """Columns that could be compared with training, since the files carry them."""
    periods: tuple[Period, ...]

    def statement(self) -> str:
        """What was found, in one sentence."""
        high = [period.name for period in self.periods if period.is_high]
        what = f"{len(self.periods):,} {self.by}s"
        if not high:
            return f"None of {what} has more flags than chance allows"
        return f"{len(high):,} of {what} {'has' if len(high) == 1 else 'have'} more flags than chance allows"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        periods = [{**asdict(p), "share": p.share, "is_high": p.is_high} for p in self.periods]
        return {**asdict(self), "periods": periods, "statement": self.statement()}


@dataclass
class _Collected:
    scores: list[np.ndarray] = field(default_factory=list)
    n_flagged: int = 0
    rows: list[np.ndarray] = field(default_factory=list)

    def add(self, scores: np.ndarray, flags: np.ndarray, x: np.ndarray) -> None:
        self.scores.append(scores)
        self.n_flagged += int(flags.sum())
        self.rows.append(x)
        if sum(map(len, self.rows)) > 2 * MOST_ROWS:  # every second one
            self.rows = [np.concatenate(self.rows)[::2]]


def monitor_files(
    detector: NPTAD, files: Sequence[str], *, time: str | None = None, false_alarm_rate: float | None = None
) -> Monitored:
    """Compare files that `nptad score` wrote with the training rows of a model, one after the other.

    With the name of a column of times in them, rows are put together by day; otherwise by file. Columns that the model
    knows and that the files carry are looked at for drift.
    """
    collected: dict[str, _Collected] = {}
    schema = detector.schema_
    carried: set[str | int] = set()
    for path in files:
        table = read_table(path, as_text=schema.text_columns)
        scores, flags = _results(table, path)
        raw = read_columns(table.select([c.name for c in schema.used if c.name in table.column_names] or [0]))
        cells = match(schema, raw) if schema.named else None
        present = {c.name for c in schema.used if schema.named and c.name in raw.cells}
        carried |= present
        x = encode_cells(schema, cells) if cells is not None and present else np.empty((len(scores), 0))
        for group, rows in _groups(table, path, time):
            collected.setdefault(group, _Collected()).add(scores[rows], flags[rows], x[rows])
    names = sorted(collected, key=lambda group: (group == NO_TIME, group)) if time else list(collected)
    names = [name for name in names if sum(map(len, collected[name].scores))]
    if not names:
        raise InputError("The files have no rows; there is nothing to compare.")
    rate = detector.decision_rule(None, false_alarm_rate).rate
    training = -detector.training_scores_
    shown = names if time else _short_names(names)
    places = [j for j, column in enumerate(schema.used) if column.name in carried]
    return Monitored(
        "day" if time else "file",
        rate,
        float(training.mean()),
        float(np.quantile(training, _HIGH)),
        len(places),
        tuple(
            _period(detector, name, collected[group], rate, places, len(names))
            for group, name in zip(names, shown, strict=True)
        ),
    )


def _results(table: pa.Table, path: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores and flags of a scored file; where a carried column has the name of a result, this has another one."""
    found = []
    for name in _RESULTS:
        column = next((other for other in (f"nptad_{name}", name) if other in table.column_names), None)
        kind = pa.float64() if name == "score" else pa.bool_()
        try:
            if column is None:
                raise KeyError(name)
            values = table[column].cast(kind)
            if values.null_count:
                raise KeyError(name)
        except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"{name_of(path)} has no column {name!r} as nptad score writes it; give files that it wrote."
            ) from error
        found.append(values.to_numpy())
    if not np.isfinite(found[0]).all():
        raise InputError(f"{name_of(path)} has scores that are not finite; score its rows again.")
    return found[0], found[1]


def _groups(table: pa.Table, path: str, time: str | None) -> Iterator[tuple[str, np.ndarray]]:
    """The rows of a file by day, or all of them under the name of the file; parts have that of their input."""
    if time is None:
        part = PurePath(path).match("part-*-*.parquet")
        column = next((name for name in ("nptad_file", "file") if name in table.column_names), None)
        inputs = table[column].unique().to_pylist() if part and column else []
        yield (str(inputs[0]) if len(inputs) == 1 else path), np.arange(len(table))
        return
    if time not in table.column_names:
        raise InputError(f"{name_of(path)} has no column {time!r}; carry it along when scoring (--ignore {time}).")
    raw = read_columns(table.select([time]))
    cells, content = raw.cells[time], raw.content[time]
    if content == "text":
        reading = find_reading(cells, must_read=True)
        if reading is not None:
            cells, content = reading.values(cells), reading.content
    if content != "time":
        raise InputError(f"Column {time!r} of {name_of(path)} has no times; name one that has.")
    known = np.isfinite(cells) & (np.abs(np.nan_to_num(cells, posinf=0, neginf=0)) < 2e11)
    days = np.where(known, np.floor(np.where(known, cells, 0) / 86400), np.nan)
    for day in np.unique(days[~np.isnan(days)]):
        yield _day(float(day)), np.flatnonzero(days == day)
    if not known.all():
        yield NO_TIME, np.flatnonzero(~known)


def _day(number: float) -> str:
    try:
        return datetime.fromtimestamp(86400 * number, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):  # before year 1 or after 9999
        return NO_TIME


def _period(detector: NPTAD, name: str, found: _Collected, rate: float, places: list[int], n_periods: int) -> Period:
    scores = np.concatenate(found.scores)
    tail = _CHANCE / n_periods / 2
    drift: dict[str, str] = {}
    x = np.concatenate([rows for rows in found.rows if rows.shape[1]] or [np.empty((0, 0))])
    if len(x):
        known = detector.model_.compared_rows[1]
        changes = find_changes(x, training_cells(detector.schema_, known))
        drift = {
            str(column.name): change_text(column, change, x[:, change.column], known[:, change.column])
            for change in changes
            if change.column in places and (column := detector.schema_.used[change.column])
        }
    n_rows = len(scores)
    low, high = (int(binom.ppf(end, n_rows, rate)) for end in (tail, 1 - tail))
    high_score = float(np.quantile(scores, _HIGH))
    return Period(name, n_rows, found.n_flagged, low, high, float(scores.mean()), high_score, drift)


def _short_names(files: Sequence[str]) -> list[str]:
    """The names of files without their folders, if that tells them apart."""
    short = [PurePath(path).name for path in files]
    return short if len(set(short)) == len(short) else list(files)
