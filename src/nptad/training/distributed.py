"""Training together: what the processes of one run agree on.

A step on W processes takes W mini-batches of rows, one on each. Rows attend to one another within a mini-batch only, so
its gradient is a matter of one process; what all of them apply is the mean. Everything that decides how training goes
on (seeds, orders of rows, the clock, checkpoints, errors) comes from the first process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from nptad.errors import InputError, NPTADError, PeerError

T = TypeVar("T")

TIMEOUT = timedelta(minutes=5)
"""How long a process waits for the others before it gives up; only a dead or stuck one takes so long."""


class Ranks:
    """The processes that train together: those of torch's process group, or this one alone.

    Examples
    --------
    >>> alone = Ranks()
    >>> alone.rank, alone.size, alone.gather("mine")
    (0, 1, ['mine'])
    """

    def __init__(self) -> None:
        joined = dist.is_available() and dist.is_initialized()
        self.rank: int = dist.get_rank() if joined else 0
        self.size: int = dist.get_world_size() if joined else 1

    @property
    def is_first(self) -> bool:
        """Whether this process decides, writes and prints."""
        return self.rank == 0

    def average(self, tensor: Tensor) -> None:
        """Replace a tensor by its mean over the processes."""
        if self.size > 1:
            self._together(lambda: dist.all_reduce(tensor))
            tensor.div_(self.size)

    def from_first(self, make: Callable[[], T]) -> T:
        """What ``make`` returns in the first process; an error that it raises there is raised in all of them."""
        if self.size == 1:
            return make()
        outcome: list[Any] = [None]
        if self.is_first:
            try:
                outcome = [make()]
            except NPTADError as error:
                outcome = [error]
        self._together(lambda: dist.broadcast_object_list(outcome, src=0))
        if isinstance(outcome[0], NPTADError):
            raise outcome[0]
        return outcome[0]

    def gather(self, value: T) -> list[T]:
        """The value of every process, in order of rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        self._together(lambda: dist.all_gather_object(values, value))
        return values

    def require_same(self, value: Any, what: str) -> None:
        """Raise an error in all processes if the value is not the same in all of them."""
        different = [rank for rank, other in enumerate(self.gather(value)) if other != value]
        if different:
            raise InputError(f"All {self.size} processes that train together must be given the same {what}.")

    def _together(self, operation: Callable[[], Any]) -> None:
        try:
            operation()
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise PeerError(
                f"Training stopped: another of the {self.size} processes has ended or does not answer ({reason}); "
                "with a checkpoint, the same run goes on from there."
            ) from error


def is_launched() -> bool:
    """Whether torch's launcher (``torchrun`` or ``nptad fit --nproc``) has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """Join the processes that torch's launcher has started, if it has, and leave them at the end of the block.

    Each process takes a GPU of its own where there are GPUs, and otherwise its share of the cores.
    """
    if not is_launched():
        yield Ranks()
        return
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    local_rank, local_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    on_gpus = torch.cuda.is_available() and device != "cpu"
    if on_gpus:
        if local_size > torch.cuda.device_count():
            raise InputError(
                f"{local_size} processes need as many GPUs, there are {torch.cuda.device_count()}; start fewer or use "
                "the device 'cpu'."
            )
        torch.cuda.set_device(local_rank)
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // local_size))
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpus else "gloo", timeout=TIMEOUT)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise PeerError(f"The processes that are to train together cannot reach one another ({reason}).") from error
    try:
        yield Ranks()
    finally:
        dist.destroy_process_group()


def _end_with(launcher: int) -> None:
    """End this process soon after its launcher: one that was killed could not stop its processes itself."""
    while os.getppid() == launcher:
        time.sleep(1)
    os._exit(1)
