"""Processes that write until they are killed, and what must be there afterwards.

``python tests/models/writers.py 100`` kills as many times.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nptad.io.atomic import TEMPORARY
from nptad.models.config import CONFIG
from nptad.models.folder import read_model, write_model


def contents(number: int) -> tuple[dict[str, Any], dict[str, bytes], str]:
    """Files of a model that say which model they are of; only the folder cares about them."""
    column: dict[str, Any] = {"name": "x", "kind": "numeric", "content": "number", "mean": float(number), "scale": 1.0}
    column |= {"categories": [], "pooled": [], "open_vocabulary": False, "missing": 0}
    config: dict[str, Any] = {"offset": float(number), "settings": None, "history": []}
    config |= {"schema": {"columns": [column], "n_rows": 2, "named": True}}
    data = str(number).encode() * 10_000
    return config, {"model.safetensors": data, "context.parquet": data[::-1]}, f"Model {number}."


def number_of(directory: Path) -> int:
    """The number of the model in a directory; an error if it is a mixture of several."""
    config, large = read_model(directory)
    number = int(config["offset"])
    assert large == contents(number)[1]
    return number


def save_for_ever(directory: Path) -> None:
    """Save one model after the other, and say when the first two are there."""
    with mock.patch("os.fsync"):  # a kill does not lose what the system has, and more saves collide
        for number in range(10**9):
            write_model(directory, *contents(number))
            if number == 1:
                print("saving", flush=True)


def start_saver(directory: Path) -> subprocess.Popen[str]:
    """A process that saves one model after the other to a directory, and has begun."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import writers; from pathlib import Path\n"
    )
    program += "writers.save_for_ever(Path(sys.argv[1]))"
    process = subprocess.Popen([sys.executable, "-c", program, str(directory)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "saving\n"
    return process


def kill_a_saver(directory: Path, random: np.random.Generator, number: int = signal.SIGKILL) -> bool:
    """Kill one in the middle of its work; returns whether it has left something, which the next save must remove."""
    with start_saver(directory) as process:
        time.sleep(random.uniform(0, 0.05))
        process.send_signal(number)
    return clears_up(directory)


def clears_up(directory: Path) -> bool:
    """Check that a model is there after a kill; returns whether more was left, which the next save must remove."""
    number_of(directory)
    left = [path for path in directory.iterdir() if path.match(TEMPORARY)] or len(list(directory.iterdir())) > 4
    write_model(directory, *contents(0))
    assert len(list(directory.iterdir())) == 4
    assert number_of(directory) == 0
    assert (directory / CONFIG).exists()
    return bool(left)


def main() -> None:
    """Kill many."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        left = sum(kill_a_saver(Path(folder) / "model", random) for _ in range(int(sys.argv[1])))
    print(f"{sys.argv[1]} kills: a whole model after each; {left} had left something, which the next save removed")


if __name__ == "__main__":
    main()
