"""How a command begins and ends: its standard streams, signals, and one line for what went wrong."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cyclopts import CycloptsError

from nptad.errors import NPTADError, PeerError, TrainingError
from nptad.processes import Stopped, raise_when_stopped
from nptad.training.launch import launched_rank
from nptad.wording import visible

_ERROR, _USAGE_ERROR, _BROKEN_PIPE = 1, 2, 141
_SIGNALLED = 128
_FROM_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


@contextmanager
def one_line_at_the_end() -> Iterator[None]:
    """Run a command in this block; an expected error is one line on standard error.

    Exit codes: 0 done, 1 something is wrong with the data, a file or a parameter, 2 the command cannot be understood,
    128 and the number of the signal that has ended it.
    """
    _open_closed_streams()
    try:
        raise_when_stopped()
        yield
        sys.stdout.flush()
    except CycloptsError:
        _exit(_USAGE_ERROR)  # cyclopts has said what is wrong
    except NPTADError as error:
        # Under torchrun, another process may have the same error or the cause of it, and print that.
        is_shared = isinstance(error, TrainingError) or isinstance(error.__cause__, PeerError)
        _exit(_ERROR, None if launched_rank() > 0 and is_shared else str(error))
    except KeyboardInterrupt as interrupt:
        number = interrupt.number if isinstance(interrupt, Stopped) else signal.SIGINT
        how = "interrupted" if number == signal.SIGINT else f"stopped by {number.name}"
        _exit(_SIGNALLED + number, None if launched_rank() > 0 else f"{how}; no file was left half-written.")
    except BrokenPipeError:  # whoever read our output has seen enough
        _exit(_BROKEN_PIPE)
    except OSError as error:
        _exit(_ERROR, _sentence(error))
    except ImportError as error:
        if not isinstance(error.__cause__ or error.__context__, OSError):
            raise
        _exit(_ERROR, f"A part of nptad cannot be loaded ({error}).")


def _sentence(error: OSError) -> str:
    """What the system refused."""
    what = error.strerror or str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{what}; allow more of them, for instance with ulimit -n 1024."
    if error.filename:
        return f"{error.filename} cannot be used: {what}."
    if error.errno in _FROM_WRITING:  # files are written with a sentence of their own
        return f"Standard output cannot be written: {what}."
    return f"The system refused something: {what}."


def _exit(code: int, line: str | None = None) -> None:
    if line is not None:
        with suppress(OSError):
            print(f"nptad: {visible(line)}", file=sys.stderr, flush=True)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # Python would try again when it ends, and complain
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    sys.exit(code)


def _open_closed_streams() -> None:
    """Give closed standard streams a file each, or the next file to be opened would get what is written to them.

    Notes go nowhere; reading input and writing output fail.
    """
    for place, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(place)
        except OSError:
            opened = os.open(os.devnull, flags)
            os.dup2(opened, place)  # child processes have it too
            if opened != place:
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
