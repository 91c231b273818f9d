"""Checkpoints of a training run, from which it continues as if it had never stopped."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from nptad.errors import InputError, ModelFileError
from nptad.io.tensors import load_tensors, write_tensors
from nptad.nn.model import NPT

History = list[dict[str, Any]]
"""One entry for each training step."""


def write_checkpoint(path: Path, fingerprint: str, tensors: dict[str, Tensor], used: int, history: History) -> None:
    """Write the state of a run between two steps, whole or not at all.

    ``tensors`` are the weights, the state of the optimiser, the order of the rows and the ``random`` streams of each
    process; the first ``used`` rows of the order have been used.
    """
    metadata = {"fingerprint": fingerprint, "used": str(used), "history": json.dumps(history)}
    try:
        write_tensors(path, tensors, metadata)
    except OSError as error:
        raise InputError(f"The checkpoint {path} cannot be written: {error}.") from error


def load_checkpoint(path: Path, fingerprint: str, n_processes: int) -> dict[str, Any] | None:
    """The tensors, ``used`` and ``history`` of a checkpoint; None if there is no such file."""
    if not path.exists():
        return None
    tensors, metadata = load_tensors(path)
    if metadata.get("fingerprint") != fingerprint:
        raise ModelFileError(
            f"The checkpoint {path} belongs to other data or settings; delete it or name another file to start afresh."
        )
    if len(tensors["random"]) != n_processes:
        raise ModelFileError(
            f"The checkpoint {path} was written by {len(tensors['random'])} process(es), this run has {n_processes}; "
            "use as many, or delete it to start afresh."
        )
    return {**tensors, "used": int(metadata["used"]), "history": json.loads(metadata["history"])}


def run_fingerprint(model: NPT, x: Float[Tensor, "K N D"]) -> str:
    """A fingerprint of the run: equal for the same rows, settings and initial weights (and so the same seed)."""
    digest = hashlib.sha256(json.dumps([model.settings.to_dict(), list(x.shape)]).encode())
    digest.update(x.detach().cpu().contiguous().numpy().tobytes())
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
