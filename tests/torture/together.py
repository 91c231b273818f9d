"""Two commands at once that write to the same place: one of them, or both one after the other, but no mixture."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

from torture.commands import is_whole, leftovers, start, table, writing_command
from torture.outcomes import REFUSED, RESULT, Failure, outcome_of_command

SAMPLE = range(1)
MANY = 200

_ROWS = 200


def case(seed: int, folder: Path) -> str:
    """Two of the same command."""
    table(folder / "data.parquet", _ROWS, seed)
    command, target = writing_command(Random(seed), folder)
    outcomes = []
    running = [start(*command), start(*command)]
    for process in running:
        out, err = process.communicate(timeout=600)
        outcomes.append(outcome_of_command(subprocess.CompletedProcess(process.args, process.returncode, out, err)))
    if RESULT not in outcomes:
        raise Failure("neither of two succeeded")
    if not is_whole(target, _ROWS) or leftovers(folder):
        raise Failure(f"{target.name} is not whole, or {leftovers(folder)} were left")
    return REFUSED if REFUSED in outcomes else RESULT
