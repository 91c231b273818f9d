"""What a run of hours has done so far, in a folder: a run that was stopped goes on from there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from nptad.bench.protocol import Clock
from nptad.io.atomic import replacing

SECONDS = 120.0
"""Time between two writes, and so what a stop loses, or a block of rows."""

LARGEST_MODEL = 2**26
"""Weights of the largest model that is kept: each write has four numbers for each of them."""


class Unfinished:
    """The state of one run; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.clock = Clock() if folder is None else _read_clock(folder)
        self._last_write = time.monotonic()

    @property
    def training(self) -> Path | None:
        """The file of the training's checkpoints."""
        return None if self.folder is None else self.folder / "training"

    def keep_clock(self, lap: Callable[[], None]) -> None:
        """Write the time so far, which ``lap`` has counted, now and then."""
        if self.folder is not None and self._is_time():
            lap()
            self._write_clock(self.folder)

    def losses(
        self, phase: str, shape: tuple[int, int], at_once: int, compute: Callable[[slice], np.ndarray]
    ) -> np.ndarray:
        """Losses of rows under all masks, block of rows by block of rows; those of a stopped run are read."""
        losses, done = np.empty(shape), 0
        path = None if self.folder is None else self.folder / f"{phase}.npy"
        if path is not None and path.exists():
            found = np.load(path, allow_pickle=False)
            done = len(found)
            losses[:done] = found
        with self.clock(phase) as lap:
            for start in range(done, len(losses), at_once):
                block = slice(start, start + at_once)
                losses[block] = compute(block)
                if path is not None and (self._is_time() or block.stop >= len(losses)):
                    with replacing(path) as temporary, temporary.open("wb") as file:
                        np.save(file, losses[: block.stop])
                    lap()
                    self._write_clock(path.parent)
        return losses

    def _is_time(self) -> bool:
        return time.monotonic() > self._last_write + SECONDS

    def _write_clock(self, folder: Path) -> None:
        with replacing(folder / "clock.json") as temporary:
            temporary.write_text(json.dumps(asdict(self.clock)), encoding="utf-8")
        self._last_write = time.monotonic()


def _read_clock(folder: Path) -> Clock:
    path = folder / "clock.json"
    return Clock(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else Clock()
