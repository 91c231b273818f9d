"""kill -9 at a random moment of a command that writes: what was there is there still, or the new one as a whole."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

from torture.commands import is_whole, run, start, table, writing_command
from torture.outcomes import KILLED, RESULT, Failure

SAMPLE = range(1)
MANY = 500

_ROWS = 300
_SECONDS = 6.0  # about as long as a command takes


def case(seed: int, folder: Path) -> str:
    """One kill, with or without an earlier file, and the same command again."""
    random = Random(seed)
    table(folder / "data.parquet", _ROWS, seed)
    command, target = writing_command(random, folder)
    had_one = random.random() < 0.3
    if had_one and run(*command).returncode:
        raise Failure("the first run failed")
    process = start(*command)
    try:
        process.wait(random.uniform(0, _SECONDS))
        outcome = RESULT
    except subprocess.TimeoutExpired:
        outcome = KILLED
    process.kill()
    process.communicate()
    if (had_one or outcome == RESULT) and not target.exists():
        raise Failure(f"{target.name} is gone")
    if target.exists() and not is_whole(target, _ROWS):
        raise Failure(f"{target.name} is half-written")
    shutil.rmtree(folder, ignore_errors=True)
    return outcome
