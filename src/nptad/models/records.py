"""What happened to a model since it was fitted: rows added, rows judged, when and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal, get_args

from scipy.stats import binom

from nptad.errors import InputError

RecordKind = Literal["update", "accept", "reject"]

LONGEST_REASON = 500
MOST_RECORDS = 1000
"""Records that a model keeps; beyond, the oldest updates are forgotten, whose rows stay."""

_RECENT_ROWS = 1000
"""Rows of the last updates that say whether the model keeps up."""

_CHANCE = 0.001
"""How rarely a model that keeps up is said not to."""


@dataclass(frozen=True)
class Record:
    """One change of a model."""

    id: int
    """Its number, by which it is taken back."""
    kind: RecordKind
    """Rows added as normal ones, accepted ("fine") or rejected ("an anomaly")."""
    time: str
    """When, as ISO text in UTC."""
    n_rows: int
    """Rows added or judged."""
    n_flagged: int
    """How many of them the model would have flagged just before."""
    reason: str = ""
    """Why, in the words of whoever did it."""

    @classmethod
    def now(cls, before: Sequence[Record], kind: RecordKind, n_rows: int, n_flagged: int, reason: str = "") -> Record:
        """The next record, made now."""
        if not isinstance(reason, str) or len(reason) > LONGEST_REASON:
            raise InputError(f"reason must be a text of at most {LONGEST_REASON} letters.")
        number = 1 + max((record.id for record in before), default=0)
        return cls(number, kind, datetime.now(UTC).isoformat(timespec="seconds"), n_rows, n_flagged, reason)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; :func:`records_from` gives the record back."""
        return asdict(self)


def appended(records: Sequence[Record], record: Record) -> tuple[Record, ...]:
    """The records and one more; if they become too many, the oldest update is forgotten."""
    updates = [old for old in records if old.kind == "update"]
    forgotten = updates[0] if updates and len(records) >= MOST_RECORDS else None
    return (*(old for old in records if old is not forgotten), record)


def find_record(records: Sequence[Record], number: int) -> Record:
    """The record with a number."""
    found = next((record for record in records if record.id == number), None)
    if found is None:
        known = ", ".join(str(record.id) for record in records[-10:])
        raise InputError(
            f"The model has no record {number}; " + (f"the last ones are {known}." if known else "it has none at all.")
        )
    return found


def records_from(values: Any) -> tuple[Record, ...]:
    """Records from a file that anybody may have made; a ValueError if they are none."""
    if not isinstance(values, list) or len(values) > 2 * MOST_RECORDS:
        raise ValueError("records are no list")
    records = tuple(Record(**value) for value in values)
    for record in records:
        numbers = (record.id, record.n_rows, record.n_flagged)
        if not (
            all(type(number) is int for number in numbers)
            and 1 <= record.id < 2**53
            and 0 <= record.n_flagged <= record.n_rows
            and record.kind in get_args(RecordKind)
            and isinstance(record.reason, str)
            and len(record.reason) <= LONGEST_REASON
            and len(record.time) <= 40
            and datetime.fromisoformat(record.time).tzinfo is not None
        ):
            raise ValueError("a record holds values that none has")
    if any(later.id <= earlier.id for earlier, later in pairwise(records)):
        raise ValueError("records are not in order")
    return records


@dataclass(frozen=True)
class Upkeep:
    """Whether a model keeps up with the rows that it is updated with."""

    n_rows: int
    """Rows of the last updates."""
    n_flagged: int
    """How many of them the model would have flagged, just before it learnt them."""
    most_by_chance: int
    """So many are flagged by chance at most, if the rows are like those that the model knows."""
    n_accepted: int
    """Rows accepted since the fit."""
    n_training: int
    """Rows that the model knows."""
    rate: float
    """The false-alarm rate of these flags."""

    @property
    def is_due(self) -> bool:
        """Whether the model should be fitted again."""
        return self.n_flagged > self.most_by_chance or self.n_accepted > self.most_accepted

    @property
    def most_accepted(self) -> int:
        """Accepted rows beyond which they are no exceptions any more: as many as chance flags among those known."""
        return max(10, int(self.rate * self.n_training))

    def text(self) -> str:
        """The same in one or two sentences; nothing if there is nothing to tell."""
        found = []
        if self.n_rows:
            found.append(
                f"Of the last {self.n_rows:,} rows that it was updated with, {self.n_flagged:,} would have been "
                f"flagged before, by chance at most {self.most_by_chance:,}."
            )
        if self.n_accepted > self.most_accepted:
            found.append(
                f"{self.n_accepted:,} rows were accepted, more than the {self.most_accepted:,} that are exceptions."
            )
        if self.is_due:
            found.append("Fit the model again, on rows of today.")
        return " ".join(found)


def upkeep(records: Sequence[Record], n_training: int, rate: float) -> Upkeep:
    """What the records say about the model: the rows of the last updates, and all that were accepted.

    >>> updates = [Record(1, "update", "", 500, 4), Record(2, "update", "", 500, 41)]
    >>> upkeep(updates, 5000, 0.01).text()
    'Of the last 1,000 rows that it was updated with, 45 would have been flagged before, by chance at most 21. Fit the \
model again, on rows of today.'
    """
    n_rows = n_flagged = 0
    for record in reversed(records):
        if record.kind == "update" and n_rows < _RECENT_ROWS:
            n_rows, n_flagged = n_rows + record.n_rows, n_flagged + record.n_flagged
    n_accepted = sum(record.n_rows for record in records if record.kind == "accept")
    most = int(binom.isf(_CHANCE, n_rows, rate)) if n_rows else 0
    return Upkeep(n_rows, n_flagged, most, n_accepted, n_training, rate)
