"""Distributed training: how the processes of one run stay in agreement.

A step on W processes takes W mini-batches of rows, one on each. Rows attend to one another within a mini-batch only, so
each process computes the gradient of its own mini-batch, and all of them apply the mean. Everything that decides how
training goes on (seeds, orders of rows, the clock, checkpoints, errors) comes from the first process. Processes
exchange tensors and JSON, which cannot execute code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from nptad.errors import InputError, NPTADError, PeerError
from nptad.io.tensors import from_bytes, to_bytes
from nptad.processes import error_from_dict, error_to_dict
from nptad.training.launch import STORE, is_launched

T = TypeVar("T")

TIMEOUT = timedelta(minutes=5)  # a process waits this long for the others, then assumes that one is dead or stuck


class Ranks:
    """The processes that train together: those of torch's process group, or this one alone.

    They exchange JSON values and tensors.
    """

    def __init__(self) -> None:
        joined = dist.is_available() and dist.is_initialized()
        self.rank: int = dist.get_rank() if joined else 0
        self.size: int = dist.get_world_size() if joined else 1
        on_cpu = not joined or "cpu:" in dist.get_backend_config()
        self._device = torch.device("cpu" if on_cpu else "cuda")

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
        """The result of ``make`` in the first process; an error that it raises there is raised in all processes."""
        if self.size == 1:
            return make()
        if self.is_first:
            try:
                made = make()
            except NPTADError as error:
                self._broadcast(0, {"error": error_to_dict(error)})
                raise
            self._broadcast(0, {"made": made})
            return made
        outcome = self._broadcast(0)
        if "error" in outcome:
            raise error_from_dict(outcome["error"]) from PeerError("The first process raised this error.")
        return outcome["made"]

    def gather(self, value: T) -> list[T]:
        """The value of every process, in order of rank."""
        return [value] if self.size == 1 else [self._broadcast(rank, value) for rank in range(self.size)]

    def require_same(self, value: Any, what: str) -> None:
        """Raise an error in all processes unless they all have the same value."""
        values = self.gather(value)

        def check() -> None:
            if any(other != values[0] for other in values):
                raise InputError(f"All {self.size} processes that train together must be given the same {what}.")

        self.from_first(check)

    def _broadcast(self, source: int, value: Any = None) -> Any:
        """The value of one of the processes."""
        content = torch.empty(0, dtype=torch.uint8)
        if self.rank == source:
            content = torch.frombuffer(bytearray(to_bytes(value)), dtype=torch.uint8)
        length = torch.tensor([len(content)], device=self._device)
        self._together(lambda: dist.broadcast(length, source))
        content = content.to(self._device).resize_(int(length))
        self._together(lambda: dist.broadcast(content, source))
        return from_bytes(content.cpu().numpy().tobytes())

    def _together(self, operation: Callable[[], Any]) -> None:
        try:
            operation()
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise PeerError(
                f"Training stopped: another of the {self.size} processes has ended or does not answer ({reason}); "
                "with a checkpoint, the same run goes on from there."
            ) from error


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """Join the processes that were started with this one, if there are any, and leave them at the end of the block.

    Each process takes a GPU of its own where there are GPUs.
    """
    if not is_launched():
        yield Ranks()
        return
    local_rank, local_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    on_gpus = torch.cuda.is_available() and device != "cpu"
    if on_gpus:
        if local_size > torch.cuda.device_count():
            raise InputError(
                f"{local_size} processes need as many GPUs, there are {torch.cuda.device_count()}; start fewer or use "
                "the device 'cpu'."
            )
        torch.cuda.set_device(local_rank)
    group: dict[str, Any] = {}
    if STORE in os.environ:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = dist.FileStore(os.environ[STORE], size)  # type: ignore[attr-defined]
        group = {"store": store, "rank": rank, "world_size": size}
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpus else "gloo", timeout=TIMEOUT, **group)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise PeerError(f"The processes that are to train together cannot reach one another ({reason}).") from error
    try:
        yield Ranks()
    finally:
        dist.destroy_process_group()
