"""Memory: how much there is, whether work fits into it, and one sentence when it does not."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nptad.errors import MemoryShortage

_ADVICE = (
    "use fewer columns or a sample of the rows, or score the file in parts with `nptad score --output`, naming a folder"
)
_LIBRARIES = 4e8
_LIBRARIES_MAPPED = 8e8  # with what they map into memory and hardly touch, of which a limit of addresses counts all
# How libraries say so in errors that are no MemoryError: torch, a shared library that is loaded, and threads.
_SAID = ("can't allocate memory", "not enough memory", "Cannot allocate memory", "failed to map segment")
_SAID_OF_THREADS = "can't start new thread"


def available_memory() -> float:
    """Bytes that this process may still allocate, as far as the system says."""
    found = [_below("RLIMIT_AS", "VmSize"), _below("RLIMIT_DATA", "VmData")]
    with suppress(OSError, ValueError, KeyError):
        found.append(_facts("/proc/meminfo")["MemAvailable"])
    return max(0.0, min(found))


def _below(limit: str, used: str) -> float:
    """What is left below a limit of this process."""
    with suppress(ImportError, AttributeError, OSError, ValueError, KeyError):
        import resource

        most = resource.getrlimit(getattr(resource, limit))[0]
        if most != resource.RLIM_INFINITY:
            return most - _facts("/proc/self/status")[used]
    return float("inf")


def _facts(path: str) -> dict[str, float]:
    """The lines of a file of the system that say how many kB of something there are."""
    lines = (line.split() for line in Path(path).read_text().splitlines())
    return {words[0].rstrip(":"): 1024 * float(words[1]) for words in lines if words[2:] == ["kB"]}


def require_memory(n_bytes: float, what: str) -> None:
    """Refuse work that needs at least so many bytes, if there are not as many; ``what`` begins the sentence."""
    _require(n_bytes, available_memory(), what)


def _require(n_bytes: float, available: float, what: str) -> None:
    if n_bytes > available:
        needed, there = (f"{count / 1e9:,.2f} GB" for count in (n_bytes, available))
        raise MemoryShortage(f"{what} needs at least {needed} of memory, and there are {there}; {_ADVICE}.")


def require_libraries() -> None:
    """Refuse before torch and SciPy are loaded: where they do not fit, torch aborts and OpenBLAS asks for ever."""
    require_memory(_LIBRARIES, "This command")
    _require(_LIBRARIES_MAPPED, _below("RLIMIT_AS", "VmSize"), "This command")


@contextmanager
def memory_explained() -> Iterator[None]:
    """Turn whatever a library raises for lack of memory into a MemoryShortage."""
    try:
        yield
    except MemoryShortage:
        raise
    except (MemoryError, OSError, RuntimeError, ImportError) as error:
        text = " ".join(str(error).split())
        is_shortage = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
        if not (is_shortage or any(said in text for said in (*_SAID, _SAID_OF_THREADS))):
            raise
        reason = f" ({text[:200]})" if text else ""
        raise MemoryShortage(f"This needs more memory than there is{reason}; {_ADVICE}.") from error
