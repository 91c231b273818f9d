"""Models and checkpoints, changed at random and sealed again: refused, or finite scores (tests/models/mutants.py)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from mutants import KINDS, Originals

from torture.outcomes import REFUSED, RESULT

SAMPLE = range(0)  # test_mutants.py has one
MANY = 2000


def case(seed: int, folder: Path) -> str:
    """One mutant."""
    return {"refused": REFUSED, "scored": RESULT}[_originals()[1].try_one(KINDS[seed % len(KINDS)], seed // len(KINDS))]


@cache
def _originals() -> tuple[TemporaryDirectory[str], Originals]:
    """The models that are changed, made once in a process; the folder is removed with it."""
    folder = TemporaryDirectory()
    return folder, Originals(Path(folder.name))
