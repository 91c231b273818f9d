"""A full disk and too little memory: a result, or one line and nothing half-written."""

from __future__ import annotations

from pathlib import Path
from random import Random

from torture.commands import is_whole, leftovers, run, table, writing_command
from torture.outcomes import REFUSED, RESULT, Failure, outcome_of_command

SAMPLE = range(2)
MANY = 400


def case(seed: int, folder: Path) -> str:
    """One command under one limit; files of even seeds cannot grow, processes of odd ones cannot."""
    random = Random(seed)
    n_rows = random.choice([300, 2000])
    table(folder / "data.parquet", n_rows, seed)
    command, target = writing_command(random, folder)
    if seed % 2:
        ended = run(*command, limit="RLIMIT_DATA", most=int(random.uniform(60e6, 700e6)))
    else:
        ended = run(*command, limit="RLIMIT_FSIZE", most=random.choice([0, 100, 4096, 20_000, 200_000]))
    outcome = outcome_of_command(ended)
    if outcome == RESULT and not is_whole(target, n_rows):
        raise Failure(f"{target.name} is not whole")
    if outcome == REFUSED and (target.exists() or leftovers(folder)):
        raise Failure(f"left behind: {target.exists()}, {leftovers(folder)}")
    return outcome
