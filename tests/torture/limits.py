"""A full disk, too little memory, few open files, closed streams, another's folder: a result, or one line."""

from __future__ import annotations

from pathlib import Path
from random import Random

from torture.commands import any_kind, require_no_leftovers, require_whole, writing
from torture.disturbed import Trouble, run
from torture.outcomes import REFUSED, RESULT, Failure, outcome_of_command

SAMPLE = range(8)
MANY = 400

_OLD_ROWS, _ROWS = 40, 60
_NOBODY = 65534


def case(seed: int, folder: Path) -> str:
    """One command under one limit, with or without an earlier result."""
    random = Random(seed)
    kind = any_kind(random)
    command, old = writing(kind, folder, _ROWS), writing(kind, folder, _OLD_ROWS)
    had_one = random.random() < 0.5 and kind != "score parts"
    if had_one and (ended := run(*old.words)).returncode:
        raise Failure(f"the first run failed: {ended.stderr}")
    trouble, imported = _trouble(random)
    ended = run(*command.words, trouble=trouble, imported=imported)
    if 2 in trouble.closed + trouble.full and ended.returncode in (0, 1) and not ended.stderr:
        outcome = REFUSED if ended.returncode else RESULT
    else:
        outcome = outcome_of_command(ended)
    if command.is_there and not (kind == "score parts" and outcome == REFUSED):
        # What is printed at last may fail when all is done.
        is_done = outcome == RESULT or trouble.closed or trouble.full
        require_whole(command.target, {_ROWS, _OLD_ROWS} if had_one and is_done else {_OLD_ROWS if had_one else _ROWS})
    elif had_one or outcome == RESULT:
        raise Failure(f"{command.target.name} is gone")
    require_no_leftovers(folder)
    if command.target.exists() and not command.is_there:
        raise Failure("part of a model was left")
    return outcome


def _trouble(random: Random) -> tuple[Trouble, bool]:
    """What is limited, and whether the process may have imported everything before."""
    kind = random.choice(["disk"] * 10 + ["files"] * 6 + ["permission"] * 4 + ["memory", "stream"])
    if kind == "disk":
        return Trouble("RLIMIT_FSIZE", random.choice([0, 100, 4096, 10_000, 20_000])), True
    if kind == "files":
        return Trouble("RLIMIT_NOFILE", random.randint(3, 24)), random.random() < 0.9
    if kind == "memory":
        return Trouble("RLIMIT_DATA", int(random.uniform(60e6, 700e6))), False
    if kind == "stream":
        places = tuple(random.sample([0, 1, 2], random.randint(1, 2)))
        return random.choice([Trouble(closed=places), Trouble(full=places)]), False
    return Trouble(user=_NOBODY), True
