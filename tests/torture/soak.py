"""The same work again and again: memory and open files do not grow."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from nptad import NPTAD
from torture.outcomes import RESULT, Failure

SAMPLE = range(1)
MANY = 20

_ROUNDS = 20
_GROWTH_BYTES = 30_000_000


def case(seed: int, folder: Path) -> str:
    """Score and explain many batches with one detector."""
    random = np.random.default_rng(seed)
    detector = NPTAD(random_state=0).fit(random.normal(size=(300, 5)))
    sizes, files = [], []
    for _ in range(_ROUNDS):
        batch = random.normal(size=(200, 5))
        detector.explain(batch[:3], *())
        detector.detect(batch)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        sizes.append(pages * os.sysconf("SC_PAGE_SIZE"))
        files.append(len(os.listdir("/proc/self/fd")))
    if sizes[-1] > sizes[_ROUNDS // 4] + _GROWTH_BYTES or files[-1] > files[_ROUNDS // 4]:
        raise Failure(f"memory {sizes[:: _ROUNDS // 4]}, files {files[:: _ROUNDS // 4]}")
    return RESULT
