"""What may happen to hostile input: a result, or one sentence. Everything else is a failure of ours."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Callable

from nptad.errors import InputError, ModelFileError

RESULT, REFUSED, KILLED = "result", "refused", "killed"

ALLOWED = {
    RESULT: "the work was done, and what it left is whole",
    REFUSED: "an InputError or ModelFileError of one line; of a command, that line on standard error and exit code 1",
    KILLED: "the process was killed by the test, and what it left is old or new, never half",
}


class Failure(AssertionError):
    """An outcome that is not allowed."""


def outcome_of(work: Callable[[], object]) -> str:
    """Do some work: RESULT or REFUSED; any other error comes through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            work()
        except (InputError, ModelFileError) as error:
            text = str(error)
            if not text.strip() or "\n" in text:
                raise Failure(f"not one sentence: {text!r}") from error
            return REFUSED
    return RESULT


def outcome_of_command(ended: subprocess.CompletedProcess[str] | None) -> str:
    """How a command ended."""
    if ended is None:
        raise Failure("it does not end")
    lines = ended.stderr.splitlines()
    if ended.returncode == 0:
        return RESULT
    if ended.returncode == 1 and len(lines) == 1 and lines[0].startswith("nptad: "):
        return REFUSED
    raise Failure(f"exit code {ended.returncode}: {ended.stderr[-2000:]}")
