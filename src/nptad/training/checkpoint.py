"""Checkpoints of a training run, from which it continues as if it had never stopped.

A file has one line with the checksum of the rest, which is :func:`nptad.io.tensors.to_bytes` of the state.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nptad.errors import InputError, ModelFileError
from nptad.io.atomic import replacing
from nptad.io.regular import read_regular
from nptad.io.tensors import from_bytes, to_bytes
from nptad.nn.model import NPT

History = list[dict[str, Any]]
"""One entry for each training step."""

_MARK = b"nptad checkpoint "


def write_checkpoint(path: Path, fingerprint: str, tensors: dict[str, Tensor], used: int, history: History) -> None:
    """Write the state of a run between two steps, whole or not at all.

    ``tensors`` are the weights, the state of the optimiser, the order of the rows and the ``random`` streams of each
    process; the first ``used`` rows of the order have been used.
    """
    state = to_bytes({"fingerprint": fingerprint, "used": used, "history": history, "tensors": tensors})
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(_seal(state) + state)
    except OSError as error:
        raise InputError(f"The checkpoint {path} cannot be written: {error}.") from error


def load_checkpoint(path: Path, fingerprint: str, like: dict[str, Tensor]) -> dict[str, Any] | None:
    """The tensors, ``used`` and ``history`` of a checkpoint; None if there is no such file.

    The tensors must be of the same kinds and sizes as those in ``like``.
    """
    if not path.exists():
        return None
    advice = "delete it or name another file to start afresh"
    data = read_regular(path, advice)
    state = data[data.find(b"\n") + 1 :]
    damaged = f"The checkpoint {path} is damaged, cut, or of another version; {advice}."
    if data[: -len(state)] != _seal(state):
        raise ModelFileError(damaged)
    try:
        content = from_bytes(state)
        if content["fingerprint"] != fingerprint:
            raise ModelFileError(f"The checkpoint {path} belongs to other data or settings; {advice}.")
        found = content["tensors"]
        n_processes, n_wanted = len(found["random"]), len(like["random"])
        if n_processes != n_wanted:
            raise ModelFileError(
                f"The checkpoint {path} was written by {n_processes} process(es), this run has {n_wanted}; use as "
                "many, or delete it to start afresh."
            )
        sound = all(_is_like(found[name], tensor) for name, tensor in like.items())
        sound = sound and torch.equal(found["order"].sort(1).values, like["order"].sort(1).values)
        sound = sound and isinstance(content["used"], int) and 0 <= content["used"] <= found["order"].shape[1]
        sound = sound and isinstance(content["history"], list)
        sound = sound and all(_is_sound(entry, step, found) for step, entry in enumerate(content["history"], 1))
    except ModelFileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(damaged) from error
    if not sound:
        raise ModelFileError(damaged)
    return {**found, "used": content["used"], "history": content["history"]}


def _seal(state: bytes) -> bytes:
    """The line before a state."""
    return _MARK + hashlib.sha256(state).hexdigest().encode() + b"\n"


def _is_like(found: Tensor, wanted: Tensor) -> bool:
    return found.dtype == wanted.dtype and found.shape == wanted.shape and bool(found.isfinite().all())


def _is_sound(entry: dict[str, Any], step: int, found: dict[str, Tensor]) -> bool:
    numbers = [entry["loss"], entry["learning_rate"], entry["seconds"], *entry["losses"]]
    return entry["step"] == step and len(entry["losses"]) == len(found["order"]) and all(map(math.isfinite, numbers))


def run_fingerprint(model: NPT, x: Float[Tensor, "K N D"]) -> str:
    """A fingerprint of the run: equal for the same rows, settings and initial weights (and so the same seed)."""
    digest = hashlib.sha256(json.dumps([model.settings.to_dict(), list(x.shape)]).encode())
    digest.update(x.detach().cpu().contiguous().numpy().tobytes())
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
