"""What the last rows say about the model: which columns have drifted, and which share of the rows is flagged."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from nptad.detector import NPTAD
from nptad.explain.batch import training_cells
from nptad.scoring.drift import find_changes

ROWS = 2000
"""The last rows, which are compared with training."""

_SECONDS, _LEAST_RATIO = 5.0, 100
"""Time between two comparisons, in seconds, and at least so many times as long as one takes."""


class LastRows:
    """The last rows that were scored, and how they differ from training."""

    def __init__(self, detector: NPTAD, clock: Callable[[], float] = time.monotonic) -> None:
        self._schema = detector.schema_
        self._training = training_cells(self._schema, detector.model_.compared_rows[1])
        self._blocks: deque[tuple[np.ndarray, np.ndarray]] = deque()
        self._clock, self._next = clock, -np.inf

    def add(self, x: np.ndarray, flagged: np.ndarray) -> None:
        """Keep encoded rows and their flags."""
        self._blocks.append((x[-ROWS:], flagged[-ROWS:]))
        n_rows = sum(len(block) for block, _ in self._blocks)
        while n_rows - len(self._blocks[0][0]) >= ROWS:
            n_rows -= len(self._blocks.popleft()[0])

    def compare(self) -> dict[str, Any] | None:
        """The share of flagged rows and the drifted columns; None if that was said a few seconds ago."""
        started = self._clock()
        if not self._blocks or started < self._next:
            return None
        x, flagged = (np.concatenate(part)[-ROWS:] for part in zip(*self._blocks, strict=True))
        changes = find_changes(x, self._training)
        drifted = [str(self._schema.used[change.column].name) for change in changes]
        self._next = started + max(_SECONDS, _LEAST_RATIO * (self._clock() - started))
        return {"flagged_share": float(flagged.mean()), "drifted": drifted}
