"""Start processes on this machine that train together.

They find one another through a file that only this user can read, and listen on the loopback interface only.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from nptad.errors import NPTADError, PeerError, TrainingError
from nptad.memory import memory_explained
from nptad.processes import Child, Parent, error_from_dict, error_to_dict, threads_for_each

STORE = "NPTAD_STORE"  # environment variable: the file through which the processes find one another
_ENDING_SECONDS = 5.0  # how long to wait for a process to end or to report its error

_LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def is_launched() -> bool:
    """Whether this is one of several processes that train together, started by ``fit --nproc`` or by ``torchrun``."""
    return STORE in os.environ or "TORCHELASTIC_RUN_ID" in os.environ


def launched_rank() -> int:
    """The rank of this process; 0 if it trains alone."""
    return int(os.environ["RANK"]) if is_launched() else 0


def run_together(target: str, task: dict[str, Any], n_processes: int) -> Any:
    """Run a function in several processes that train together; returns the result of the first of them.

    ``target`` is a ``package.module:function`` that calls :func:`take_part`; the arguments in ``task`` must fit into
    JSON. The error of the process that failed first is raised, or TrainingError if a process died; the others are
    stopped.
    """
    messages: queue.Queue[Any] = queue.Queue()
    children: list[Child] = []
    threads = threads_for_each(n_processes)

    def start(rank: int, folder: str) -> None:
        child = Child(target, threads=threads, environment=_place(rank, n_processes, folder))
        children.append(child)
        child.listen(lambda message: messages.put((rank, message)))
        with suppress(EOFError):  # the process has ended; that is its next message
            child.send(task)

    with tempfile.TemporaryDirectory(prefix="nptad-") as folder:
        try:
            for rank in range(n_processes):
                start(rank, folder)
            return _first_result(children, messages)
        except BaseException:
            for child in children:
                child.terminate()
            raise
        finally:
            for child in children:
                child.kill(_ENDING_SECONDS)


def take_part(parent: Parent, work: Callable[..., Any]) -> None:
    """Do the task of :func:`run_together` in one of its processes and send back the result or the error."""
    task, _ = parent.receive()
    stopping = False

    def stop(number: int, frame: object) -> NoReturn:
        nonlocal stopping
        stopping = True
        raise KeyboardInterrupt  # so that a file that is being written is removed

    signal.signal(signal.SIGTERM, stop)
    sys.unraisablehook = _without_interrupts
    try:
        try:
            with memory_explained():
                answer = {"result": work(**task)}
        except NPTADError as error:
            answer = {"error": error_to_dict(error)}
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        parent.send(answer)
    except BaseException as error:
        # The launcher ends the run, and says why. A library may turn the interrupt into an error of its own.
        if not stopping and not isinstance(error, BrokenPipeError):
            raise
        sys.exit(1)


def _without_interrupts(lost: Any) -> None:
    """An interrupt in a callback of the interpreter is lost with a traceback; the launcher kills the process anyway."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)


def _place(rank: int, size: int, folder: str) -> dict[str, str]:
    """The environment of a process: the names that torchrun uses, the store, and the network to stay on."""
    place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
    variables = {name: str(value) for name, value in place.items()} | {STORE: str(Path(folder) / "store")}
    if sys.platform in _LOOPBACK:
        variables |= {f"{library}_SOCKET_IFNAME": _LOOPBACK[sys.platform] for library in ("GLOO", "NCCL")}
    return variables


def _first_result(children: list[Child], messages: queue.Queue[Any]) -> Any:
    running, result = set(range(len(children))), None
    lost: NPTADError | None = None
    while running:
        try:
            rank, message = messages.get(timeout=None if lost is None else _ENDING_SECONDS)
        except queue.Empty:
            break
        if rank not in running:  # it has reported already and has now ended
            continue
        running.remove(rank)
        if message is None:
            raise TrainingError(
                f"Training stopped: process {rank + 1} of {len(children)} {children[rank].ending()}; with a "
                "checkpoint, the same command goes on from there."
            )
        if "error" in message:
            error = error_from_dict(message["error"])
            if not isinstance(error, PeerError):
                raise error
            lost = lost or error  # the process that it lost contact with may still report the cause
        elif rank == 0:
            result = message["result"]
    if lost is not None:
        raise lost
    return result
