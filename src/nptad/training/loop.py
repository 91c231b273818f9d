"""The training loop, read top-down: mask, reconstruct, step; with checkpoints that resume exactly.

In a torch process group all processes run this loop in step, each on mini-batches of its own
(:mod:`nptad.training.distributed`); without one, the lines that mention ranks do nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nptad.errors import InputError, TrainingError
from nptad.nn.loss import cell_losses, masked_mean
from nptad.nn.model import NPT
from nptad.training.checkpoint import History, load_checkpoint, run_fingerprint, write_checkpoint
from nptad.training.distributed import Ranks
from nptad.training.optim import FlatParameters, Lamb, Lookahead, flat_then_anneal
from nptad.training.parallel import threads_for

GRADIENT_LIMIT = 1.0
CHECKPOINT_SECONDS = 30.0

WORTH_SHARING = 200_000
"""From this many numbers in the activations of a step (members x rows x row width), cores divide up the members."""

Precision = Literal["auto", "float32"]


def train(
    model: NPT,
    x: Float[Tensor, "K N D"],
    *,
    time_limit: float | None = None,
    precision: Precision = "auto",
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> History:
    """Train all members side by side on masked reconstruction.

    Parameters
    ----------
    model : NPT
        The stack; trained in place. Its settings and random streams are used.
    x : Tensor
        The encoded training rows of each member.
    time_limit : float, optional
        Seconds after which training ends; no step begins that would end later, but for the first. The learning rate
        follows the share of the time used or of the steps done, whichever is larger, so that a run that reaches the
        limit still ends annealed.
    precision : {"auto", "float32"}
        "auto" computes matrix products in bfloat16 on GPUs that have it; weights and their updates stay in float32.
    checkpoint : path, optional
        File to write at the start, now and then, and at the end, and to resume from if it exists. The caller deletes it
        when done. With several processes, the first one writes and reads it.
    checkpoint_seconds : float
        Time between two checkpoints.
    report : callable, optional
        Called with each entry of the history, those of a resumed run first.

    Returns
    -------
    list of dict
        One entry per step: ``step`` of ``planned``, ``loss`` (mean over members), ``losses`` (one per member),
        ``learning_rate`` and ``seconds`` since the start. The same in all processes.
    """
    settings, random, ranks = model.settings, model.random, Ranks()
    mixed = _is_mixed(precision, x.device)
    n_rows = x.shape[1]
    batch_size = min(settings.batch_size or n_rows, n_rows)
    flat = FlatParameters(model.parameters())
    lamb, lookahead = Lamb(flat), Lookahead(flat)
    path = None if checkpoint is None else Path(checkpoint)
    fingerprint = run_fingerprint(model, x) if path is not None or ranks.size > 1 else ""
    ranks.require_same((fingerprint, path is None, time_limit), "table, parameters and whether to use a checkpoint")

    random.branch(ranks.rank)  # other masks and dropout in each process
    order, used = ranks.from_first(lambda: random.permutations(n_rows)), 0
    my_batch = ranks.rank * batch_size + torch.arange(batch_size)
    history: History = []
    seconds_before = 0.0

    def tensors() -> dict[str, Tensor]:
        return {
            "value": flat.value,
            "first": lamb.first,
            "second": lamb.second,
            "slow": lookahead.slow,
            "random": torch.stack(ranks.gather(random.state())),
            "order": order,
        }

    state = None
    if path is not None:
        like = tensors()
        state = ranks.from_first(lambda: load_checkpoint(path, fingerprint, like))
    if state is not None:
        flat.value.copy_(state["value"])
        lamb.first.copy_(state["first"])
        lamb.second.copy_(state["second"])
        lookahead.slow.copy_(state["slow"])
        random.restore(state["random"][ranks.rank])
        order, used, history = state["order"], state["used"], state["history"]
        lamb.steps = lookahead.steps = len(history)
        seconds_before = history[-1]["seconds"] if history else 0.0

    def save_checkpoint(target: Path) -> None:
        now = tensors()
        ranks.from_first(lambda: write_checkpoint(target, fingerprint, now, used, history))

    if path is not None:
        save_checkpoint(path)  # a path that cannot be written fails now, not after half a minute
    if report is not None:
        for entry in history:
            report(entry)
    model.train()
    parts = [(members, model.part(members)) for members in _shares(model, batch_size)]
    started = time.monotonic()

    def clock() -> float:
        return ranks.from_first(lambda: seconds_before + time.monotonic() - started)

    seconds = last_saved = seconds_before
    latest_step = 0.0
    with threads_for(len(parts)) as run:
        while len(history) < settings.n_steps:
            if time_limit is not None and history and seconds + latest_step > time_limit:
                break
            progress = len(history) / settings.n_steps
            if time_limit is not None:
                progress = max(progress, seconds / time_limit)
            learning_rate = settings.learning_rate * flat_then_anneal(progress)

            batch = x
            if batch_size < n_rows:
                if used + ranks.size * batch_size > n_rows:
                    order, used = ranks.from_first(lambda: random.permutations(n_rows)), 0
                # The batches of a step are different rows, or overlap as little as they can.
                rows = order[:, (used + my_batch) % n_rows].to(x.device)
                batch = torch.take_along_dim(x, rows.unsqueeze(-1), dim=1)
                used += ranks.size * batch_size

            hidden = random.bernoulli(tuple(batch.shape[1:]), settings.mask_rate).to(x.device)
            flat.grad.zero_()
            reconstruct = partial(_reconstruct, batch=batch, hidden=hidden, n_rows=n_rows, mixed=mixed)
            losses = torch.cat(run(reconstruct, parts))
            ranks.average(flat.grad)
            ranks.average(losses)  # not finite in one process is not finite in all: they stop together
            if not bool(losses.isfinite().all()):
                raise TrainingError(
                    f"The training loss became {losses.tolist()} at step {len(history) + 1}: use a smaller "
                    f"learning_rate than {settings.learning_rate:g}."
                )
            flat.clip_gradients(GRADIENT_LIMIT)
            lamb.step(learning_rate)
            lookahead.step()

            now = clock()
            latest_step, seconds = now - seconds, now
            history.append(
                {
                    "step": len(history) + 1,
                    "planned": settings.n_steps,
                    "loss": losses.mean().item(),
                    "losses": losses.tolist(),
                    "learning_rate": learning_rate,
                    "seconds": seconds,
                }
            )
            if report is not None:
                report(history[-1])
            if path is not None and seconds - last_saved >= checkpoint_seconds:
                save_checkpoint(path)
                last_saved = clock()

    if not bool(flat.value.isfinite().all()):
        raise TrainingError(
            f"Training ended with infinite weights: use a smaller learning_rate than {settings.learning_rate:g}."
        )
    if path is not None:
        save_checkpoint(path)
    flat.release()
    model.eval()
    return history


def _shares(model: NPT, batch_size: int) -> list[slice]:
    """The members that each core trains; all together where a step is too short to be worth sharing."""
    n_members = model.n_members
    numbers = n_members * batch_size * model.layout.n_features * model.settings.embedding_dim
    worth_it = model.in_mask.device.type == "cpu" and numbers >= WORTH_SHARING
    n_shares = min(n_members, torch.get_num_threads()) if worth_it else 1
    bounds = [n_members * share // n_shares for share in range(n_shares + 1)]
    return [slice(*pair) for pair in pairwise(bounds)]


def _reconstruct(
    part: tuple[slice, NPT], batch: Float[Tensor, "K N D"], hidden: Bool[Tensor, "K N D"], n_rows: int, mixed: bool
) -> Float[Tensor, " some"]:
    """Add the gradients of some members; returns their losses."""
    members, model = part
    rows, masked = batch[members], hidden[members]
    with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
        prediction = model(rows, masked)
    losses = masked_mean(cell_losses(prediction, rows, model.layout, n_rows), masked & ~rows.isnan())
    # The sum keeps members apart: the gradient of each loss reaches its own member's weights only.
    losses.sum().backward()
    return losses.detach()


def _is_mixed(precision: Precision, device: torch.device) -> bool:
    """Whether to compute in bfloat16: never on a CPU, where it is far slower than float32."""
    if precision not in ("auto", "float32"):
        raise InputError(f"precision must be 'auto' or 'float32', got {precision!r}.")
    return precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
