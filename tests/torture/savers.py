"""kill -9 in the middle of a save: the old model or the new one, and the next save removes the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from writers import kill_a_saver

from torture.outcomes import KILLED

SAMPLE = range(0)  # test_writers.py has one
MANY = 500


def case(seed: int, folder: Path) -> str:
    """One kill."""
    kill_a_saver(folder / "model", np.random.default_rng(seed))
    return KILLED
