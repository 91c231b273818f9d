"""kill -9 in the middle of a save, beside loads: the old model or the new one, and the next save removes the rest."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from random import Random

from writers import clears_up, number_of, save_for_ever

from nptad.models.config import CONFIG
from torture.disturbed import start_forked
from torture.outcomes import KILLED, Failure

SAMPLE = range(0)  # test_writers.py has one
MANY = 500


def case(seed: int, folder: Path) -> str:
    """One kill."""
    random, directory = Random(seed), folder / "model"
    process = start_forked(save_for_ever, directory)
    begun = time.monotonic()
    while not (directory / CONFIG).exists():
        if time.monotonic() > begun + 600:
            raise Failure("nothing is saved")
        time.sleep(0.002)
    until = time.monotonic() + random.uniform(0, 0.1)
    while time.monotonic() < until:
        number_of(directory)  # an error if it is a mixture
    os.kill(process.pid, random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
    process.join()
    clears_up(directory)
    return KILLED
