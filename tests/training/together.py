"""What each of two processes does that train together in test_distributed.py: FOLDER, RANK and SCENARIO."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # it also runs as a program of its own

from test_loop import data, stack, weights
from torch import distributed

import nptad.training.loop
from nptad import NPTAD
from nptad.errors import NPTADError
from nptad.nn.loss import masked_mean
from nptad.settings import Settings
from nptad.training.loop import train

BATCHES = {"apart": 8, "overlapping": 12, "whole": None}
"""Rows in the mini-batch of each process; the table has 20."""


def settings_of(batch_size: int | None) -> Settings:
    return Settings(embedding_dim=8, n_steps=12, batch_size=batch_size)


def join(folder: Path, rank: int, name: str, timeout: timedelta | None = None) -> None:
    distributed.init_process_group("gloo", f"file://{folder}/{name}.store", rank=rank, timeout=timeout, world_size=2)


def message_of(action: Callable[[], object]) -> str:
    """The error that an action ends with, as ``class: text``."""
    try:
        action()
    except NPTADError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def run_in_step(folder: Path, rank: int) -> None:
    """Everything that both processes survive."""
    join(folder, rank, "in_step")
    found: dict[str, Any] = {}
    for name, batch_size in BATCHES.items():
        model = stack([1, 2], settings_of(batch_size))
        found[f"history {name}"] = train(model, data())
        torch.save(weights(model), folder / f"{name}-{rank}.pt")

    long = stack([1, 2], Settings(embedding_dim=8, n_steps=10**6, batch_size=8))
    found["history limited"] = train(long, data(), time_limit=1.0)
    torch.save(weights(long), folder / f"limited-{rank}.pt")

    random = np.random.default_rng(rank)  # seeds differ, the first process has its way
    table = np.random.default_rng(0).normal(size=(40, 3))
    detector = NPTAD(2, n_steps=3, embedding_dim=8, random_state=random).fit(table)
    found["scores"] = detector.score_samples(table[:5] + 0.1).tolist()
    found["training scores"] = detector.training_scores_.tolist()

    (folder / "file").touch()
    found["unwritable"] = message_of(lambda: train(stack([1]), data(1), checkpoint=folder / "file" / "run"))
    found["unlike"] = message_of(lambda: train(stack([1]), data(1) + rank))
    found["of one"] = message_of(lambda: train(stack([1, 2]), data(), checkpoint=folder / "of_one.checkpoint"))
    spoil_losses(first_step=3 if rank == 1 else 10**6)
    found["not a number"] = message_of(lambda: train(stack([1, 2]), data()))
    (folder / f"found-{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()  # its threads would end the process with an abort now and then


def spoil_losses(first_step: int) -> None:
    original, steps = masked_mean, 0

    def spoilt(losses: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        nonlocal steps
        steps += 1
        return original(losses, targets) * (float("nan") if steps >= first_step else 1)

    nptad.training.loop.masked_mean = spoilt  # type: ignore[attr-defined]


def run_until_killed(folder: Path, rank: int) -> None:
    """The second process dies by kill -9 at step 7."""
    join(folder, rank, "killed")

    def die(entry: dict[str, Any]) -> None:
        if rank == 1 and entry["step"] == 7:
            os.kill(os.getpid(), signal.SIGKILL)

    path = folder / "killed.checkpoint"
    print(
        message_of(
            lambda: train(stack([1, 2], settings_of(8)), data(), checkpoint=path, checkpoint_seconds=0, report=die)
        )
    )


def run_resumed(folder: Path, rank: int) -> None:
    """Go on from the checkpoint of the killed run; the second process then falls silent."""
    join(folder, rank, "resumed")
    model = stack([1, 2], settings_of(8))
    # The file is the first one's business: another machine may not see it.
    path = folder / "killed.checkpoint" if rank == 0 else folder / "elsewhere" / "killed.checkpoint"
    train(model, data(), checkpoint=path)
    torch.save(weights(model), folder / f"resumed-{rank}.pt")
    distributed.destroy_process_group()

    join(folder, rank, "silent", timeout=timedelta(seconds=8))
    if rank == 1:
        time.sleep(60)  # the test ends it sooner
    print(message_of(lambda: train(stack([1]), data(1))))


if __name__ == "__main__":
    torch.set_num_threads(1)
    scenario = {"in_step": run_in_step, "killed": run_until_killed, "resumed": run_resumed}[sys.argv[3]]
    scenario(Path(sys.argv[1]), int(sys.argv[2]))
