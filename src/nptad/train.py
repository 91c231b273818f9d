"""The training loop, read top-down: mask, reconstruct, step; with checkpoints that resume exactly."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nptad.errors import InputError, ModelFileError, TrainingError
from nptad.files import load_tensors, write_tensors
from nptad.loss import cell_losses, masked_mean
from nptad.model import NPT
from nptad.optim import FlatParameters, Lamb, Lookahead, flat_then_anneal

GRADIENT_LIMIT = 1.0
CHECKPOINT_SECONDS = 30.0

History = list[dict[str, Any]]


def train(
    model: NPT,
    x: Tensor,
    *,
    time_limit: float | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> History:
    """Train all members side by side on masked reconstruction.

    Parameters
    ----------
    model : NPT
        The stack; trained in place. Its settings and random streams are used.
    x : Tensor of shape (K, N, D)
        The encoded training rows of each member.
    time_limit : float, optional
        Seconds after which training ends. The learning rate then follows the time used instead of the steps done if
        that is further on, so that a run cut short still ends annealed.
    checkpoint : path, optional
        File to write at the start, now and then, and at the end, and to resume from if it exists. Whoever needs it
        no longer removes it.
    checkpoint_seconds : float
        Time between two checkpoints.
    report : callable, optional
        Called with each entry of the history, those of a resumed run first.

    Returns
    -------
    list of dict
        One entry per step: ``step``, ``loss`` (mean over members), ``losses`` (one per member), ``learning_rate``
        and ``seconds`` since the start.
    """
    settings, random = model.settings, model.random
    n_rows = x.shape[1]
    batch_size = min(settings.batch_size or n_rows, n_rows)
    flat = FlatParameters(model.parameters())
    lamb, lookahead = Lamb(flat), Lookahead(flat)
    order, used = random.permutations(n_rows), 0
    history: History = []
    seconds_before = 0.0

    path = None if checkpoint is None else Path(checkpoint)
    fingerprint = "" if path is None else _fingerprint(model, x)
    if path is not None and path.exists():
        state = _load_checkpoint(path, fingerprint)
        flat.value.copy_(state["value"])
        lamb.first.copy_(state["first"])
        lamb.second.copy_(state["second"])
        lookahead.slow.copy_(state["slow"])
        random.restore(state["random"])
        order, used, history = state["order"], state["used"], state["history"]
        lamb.steps = lookahead.steps = len(history)
        seconds_before = history[-1]["seconds"] if history else 0.0

    def save_checkpoint(target: Path) -> None:
        tensors = {
            "value": flat.value,
            "first": lamb.first,
            "second": lamb.second,
            "slow": lookahead.slow,
            "random": random.state(),
            "order": order,
        }
        metadata = {"fingerprint": fingerprint, "used": str(used), "history": json.dumps(history)}
        try:
            write_tensors(target, tensors, metadata)
        except OSError as error:
            raise InputError(f"The checkpoint {target} cannot be written: {error}.") from error

    if path is not None:
        save_checkpoint(path)  # a path that cannot be written shows now, not after half a minute
    if report is not None:
        for entry in history:
            report(entry)
    model.train()
    started = last_saved = time.monotonic()
    while len(history) < settings.n_steps:
        seconds = seconds_before + time.monotonic() - started
        if time_limit is not None and history and seconds >= time_limit:
            break
        progress = len(history) / settings.n_steps
        if time_limit is not None:
            progress = max(progress, seconds / time_limit)
        learning_rate = settings.learning_rate * flat_then_anneal(progress)

        batch = x
        if batch_size < n_rows:
            if used + batch_size > n_rows:
                order, used = random.permutations(n_rows), 0
            rows = order[:, used : used + batch_size].to(x.device)
            batch = torch.take_along_dim(x, rows.unsqueeze(-1), dim=1)
            used += batch_size

        hidden = random.bernoulli(tuple(batch.shape[1:]), settings.mask_rate).to(x.device)
        prediction = model(batch, hidden)
        losses = masked_mean(cell_losses(prediction, batch, model.layout, n_rows), hidden & ~batch.isnan())
        if not bool(losses.isfinite().all()):
            raise TrainingError(
                f"The training loss became {losses.tolist()} at step {len(history) + 1}: use a smaller learning_rate "
                f"than {settings.learning_rate:g}."
            )
        flat.grad.zero_()
        # The sum keeps members apart: the gradient of each loss reaches its own member's weights only.
        losses.sum().backward()
        flat.clip_gradients(GRADIENT_LIMIT)
        lamb.step(learning_rate)
        lookahead.step()

        history.append(
            {
                "step": len(history) + 1,
                "loss": losses.mean().item(),
                "losses": losses.tolist(),
                "learning_rate": learning_rate,
                "seconds": seconds_before + time.monotonic() - started,
            }
        )
        if report is not None:
            report(history[-1])
        if path is not None and time.monotonic() - last_saved >= checkpoint_seconds:
            save_checkpoint(path)
            last_saved = time.monotonic()

    if not bool(flat.value.isfinite().all()):
        raise TrainingError(
            f"Training ended with infinite weights: use a smaller learning_rate than {settings.learning_rate:g}."
        )
    if path is not None:
        save_checkpoint(path)
    flat.release()
    model.eval()
    return history


def _load_checkpoint(path: Path, fingerprint: str) -> dict[str, Any]:
    tensors, metadata = load_tensors(path)
    if metadata.get("fingerprint") != fingerprint:
        raise ModelFileError(
            f"The checkpoint {path} belongs to other data or settings; delete it or name another file to start afresh."
        )
    return {**tensors, "used": int(metadata["used"]), "history": json.loads(metadata["history"])}


def _fingerprint(model: NPT, x: Tensor) -> str:
    """Tells runs apart: same rows, same settings, same initial weights (and so the same seed)."""
    digest = hashlib.sha256(json.dumps([model.settings.to_dict(), list(x.shape)]).encode())
    digest.update(x.detach().cpu().contiguous().numpy().tobytes())
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
