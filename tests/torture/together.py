"""Two commands at once that write to the same place: one of them, or both one after the other, but no mixture."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

from torture.commands import any_kind, require_no_leftovers, require_whole, writing
from torture.disturbed import Command
from torture.outcomes import REFUSED, RESULT, Failure, outcome_of_command

SAMPLE = range(3)
MANY = 200

_ROWS = 40, 60


def case(seed: int, folder: Path) -> str:
    """The same command with two tables."""
    random = Random(seed)
    kind = any_kind(random)
    commands = [writing(kind, folder, rows) for rows in _ROWS]
    running = []
    for command in commands:
        running.append(Command(*command.words))
        time.sleep(random.choice([0.0, 0.0, random.uniform(0, 0.5)]))
    outcomes = [outcome_of_command(process.wait()) for process in running]
    if RESULT not in outcomes:
        raise Failure("neither of two succeeded")
    require_whole(
        commands[0].target, {rows for rows, outcome in zip(_ROWS, outcomes, strict=True) if outcome == RESULT}
    )
    require_no_leftovers(folder)
    return REFUSED if REFUSED in outcomes else RESULT
