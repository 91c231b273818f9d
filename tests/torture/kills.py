"""A command is killed before any change of a file, or at any moment: old or new, and the next one clears up."""

from __future__ import annotations

import signal
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from torture.commands import any_kind, require_no_leftovers, require_whole, writing
from torture.disturbed import Command, Trouble, measured, run
from torture.outcomes import KILLED, RESULT, Failure

SAMPLE = range(6)
MANY = 500

_OLD_ROWS, _ROWS = 40, 60
_STOPPED = {signal.SIGTERM: 143, signal.SIGHUP: 129}


def case(seed: int, folder: Path) -> str:
    """One kill, with or without an earlier result, and the same command again."""
    random = Random(seed)
    kind = any_kind(random)
    command, old = writing(kind, folder, _ROWS), writing(kind, folder, _OLD_ROWS)
    had_one = random.random() < 0.5 and kind != "score parts"  # which goes on with its old parts only
    if had_one and (ended := run(*old.words)).returncode:
        raise Failure(f"the first run failed: {ended.stderr}")
    number = random.choice([signal.SIGKILL] * 3 + list(_STOPPED))
    events, seconds = _usual(kind)
    if random.random() < 0.7:
        ended = run(*command.words, trouble=Trouble(event=random.randint(1, events), signal=number))
    else:
        process = Command(*command.words)
        process.wait(random.uniform(0, seconds))
        ended = process.end(number)
    outcome = RESULT if ended.returncode == 0 else KILLED
    if outcome == KILLED and ended.returncode != _STOPPED.get(number, -number):
        raise Failure(f"exit code {ended.returncode} after signal {number}: {ended.stderr[-2000:]}")
    allowed = {_ROWS} if outcome == RESULT else {_ROWS, _OLD_ROWS} if had_one else {_ROWS}
    if command.is_there and not (kind == "score parts" and outcome == KILLED):
        require_whole(command.target, allowed)
    elif had_one or outcome == RESULT:
        raise Failure(f"{command.target.name} is gone")
    if number != signal.SIGKILL:
        require_no_leftovers(folder)
        if command.target.exists() and not command.is_there:
            raise Failure("part of a model was left")
    if (again := run(*command.words)).returncode:
        raise Failure(f"the command fails after the kill: {again.stderr}")
    require_whole(command.target, {_ROWS})
    require_no_leftovers(folder)
    return outcome


@cache
def _usual(kind: str) -> tuple[int, float]:
    """Changes of files and seconds of a command that is not disturbed."""
    with TemporaryDirectory() as folder:
        return measured(*writing(kind, Path(folder), _ROWS).words)
