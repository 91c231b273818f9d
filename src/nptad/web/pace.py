"""The progress of a job and the time left, over phases that count in different units."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

_FIRST_SECONDS = 1.0  # a phase is measured after this time


def expected_work(n_rows: int, n_features: int, n_explained: int) -> dict[str, float]:
    """The work of each phase, in scored rows; an estimate before anything is measured.

    A row is explained by scoring it without each of its cells.
    """
    return {"Fitting": float(n_rows), "Explaining": float(n_explained * n_features), "Writing": float(n_explained)}


class Pace:
    """Turns the progress of single phases into the share done and the time left of the whole job.

    The speed of the current phase is measured. Later phases are estimated from their expected work and the last
    measured speed.
    """

    def __init__(self, work: Mapping[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        self._work, self._clock = dict(work), clock
        self._started = self._phase_started = clock()
        self._phase = ""
        self._seconds_per_work: float | None = None
        self._highest = 0.0

    def update(self, phase: str, done: int, total: int) -> tuple[float, float | None]:
        """The share of the whole job that is done, and the seconds left; None before anything is measured."""
        now = self._clock()
        if phase != self._phase:
            self._phase, self._phase_started = phase, now
        seconds = now - self._phase_started
        part = done / total if total else 1.0
        if part > 0 and seconds >= _FIRST_SECONDS:
            self._seconds_per_work = seconds / (part * self._work[phase])
        if self._seconds_per_work is None:
            return self._highest, None
        left = (1 - part) * self._work[phase] * self._seconds_per_work
        phases = list(self._work)
        later = sum(self._work[name] for name in phases[phases.index(phase) + 1 :])
        left += later * self._seconds_per_work
        spent = now - self._started
        self._highest = max(self._highest, spent / (spent + left) if left > 0 else 1.0)
        return self._highest, left
