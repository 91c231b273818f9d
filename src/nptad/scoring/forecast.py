"""How long a network will take, from small probes of its untrained members, and what fits into a time limit.

What a step and a score cost depends on sizes and on the machine, and not on the weights. So a few rows are scored
before training, then four times as many, until that takes a share of the patience there is. The number of
multiplications says how the last of these times grows to the sizes of the run.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nptad.errors import InputError
from nptad.nn.model import NPT
from nptad.scoring.nearest import nearest_distances, prepare_neighbours
from nptad.scoring.score import mask_losses, prepare_member
from nptad.settings import Settings
from nptad.tables.layout import CellLayout
from nptad.wording import duration, plural

_FEWEST_ROWS = 8
_GROWTH = 4
_STEP = 4.5
"""A training step on some rows, in passes of all members over them: backwards, with dropout, and the update."""
_COMPARED = 32
"""Rows that are compared with all neighbours to see how long that takes."""
_SOFTMAX = 10
"""What the exponential of an attention weight costs, in multiplications."""
_PATIENCE, _LEAST_PATIENCE = 0.02, 0.3
"""The share of a time limit that probes may take, and seconds that they always may."""
_ANNOUNCED_AT, _WORTH_SAYING = 3, 10.0
"""The step after which the time of training is announced, and the seconds from which on it is."""
_ALWAYS = 5.0
"""Seconds that a network may always take: on a machine that does other things too, less cannot be foreseen."""


@dataclass(frozen=True)
class TimeLimit:
    """How long a fit may take, and when it started."""

    seconds: float
    started: float

    @classmethod
    def from_now(cls, seconds: float) -> TimeLimit:
        """So many seconds from now on."""
        return cls(seconds, time.monotonic())

    @property
    def left(self) -> float:
        """Seconds until it ends; negative after that."""
        return self.seconds - (time.monotonic() - self.started)


def time_to_train(
    model: NPT,
    x: Float[Tensor, "K N D"],
    masks: Bool[Tensor, "M D"],
    n_judged: int,
    n_neighbours: int,
    limit: TimeLimit,
) -> float:
    """Seconds for the steps of training that leave time for what comes after them."""
    expected = forecast(model, x, masks, n_judged, n_neighbours, max(_LEAST_PATIENCE, _PATIENCE * limit.seconds))
    left, needed = limit.left, expected.step + expected.scoring
    if needed > max(left, _ALWAYS):
        least = duration(1.2 * (needed + limit.seconds - left))
        raise InputError(
            f"A network cannot keep a time limit of {limit.seconds:g} s on this table: it is expected to take "
            f"{duration(expected.step)} for a training step and {duration(expected.scoring)} for scoring the training "
            f"rows; allow {least} at the very least, take fewer rows or columns, or use the default score."
        )
    return max(left - expected.scoring, 0.001)


@dataclass(frozen=True)
class Forecast:
    """Seconds that a network will take."""

    step: float
    """A training step."""
    scoring: float
    """Everything after the last step: contexts, baselines, and scores of training rows."""


def announcement(entry: dict[str, Any], limit: TimeLimit | None) -> str | None:
    """How long training will take, said at one of the first steps if it is long; from that step of the history."""
    each, planned = entry["seconds"] / entry["step"], entry["planned"]
    if entry["step"] != _ANNOUNCED_AT or each * planned < _WORTH_SAYING:
        return None
    if limit is not None and each * planned > limit.seconds:
        fitting = plural(max(1, int(limit.seconds / each)), "step")
        return f"The time limit leaves time for at most {fitting} of {planned:,}."
    return f"Training takes about {duration(each * planned)} ({planned:,} steps)."


@torch.no_grad()
def forecast(
    model: NPT,
    x: Float[Tensor, "K N D"],
    masks: Bool[Tensor, "M D"],
    n_judged: int,
    n_neighbours: int,
    patience: float,
) -> Forecast:
    """Foresee the time of training members and of scoring rows, in ``patience`` seconds.

    ``n_judged`` rows are scored under all masks and compared with ``n_neighbours`` rows; 0 for no comparison. The first
    probe may take longer than the patience: it has eight rows.
    """
    settings, (n_members, n_rows, n_features) = model.settings, x.shape
    n_context, batch = (min(size or n_rows, n_rows) for size in (settings.context_size, settings.batch_size))
    most = max(n_context, batch)
    rows = min(_FEWEST_ROWS, most)
    _probe(model, x[:, :rows], masks)  # libraries start their threads
    started = time.monotonic()
    while True:
        together, context, pair = _probe(model, x[:, :rows], masks)
        if rows == most or _GROWTH * (time.monotonic() - started) > patience:
            break
        rows = min(_GROWTH * rows, most)

    def growth(n: int) -> float:
        return n * _work(settings, n_features, n) / (rows * _work(settings, n_features, rows))

    pair *= _work(settings, n_features, n_context) / _work(settings, n_features, rows)
    if n_neighbours:
        pair += _comparison(x[0], model.layout, n_neighbours) / len(masks)
    n_contexts = 2 if settings.scale_masks else 1  # for the baselines and for the scores
    return Forecast(
        step=_STEP * together * growth(batch),
        scoring=n_members * n_contexts * context * growth(n_context) + n_judged * len(masks) * pair,
    )


def _probe(model: NPT, x: Float[Tensor, "K rows D"], masks: Bool[Tensor, "M D"]) -> tuple[float, float, float]:
    """Seconds of all members passing over these rows, of a member's context of them, and of scoring a row and mask."""
    rows, some = x[0], masks[: x.shape[1]].to(x.device)
    judged = rows[: math.ceil(len(rows) / len(some))]
    started = _now(x.device)
    model.eval()(x, torch.zeros_like(x, dtype=torch.bool))
    passed = _now(x.device)
    member = prepare_member(model.member(0), rows, len(rows), torch.ones(len(some), device=x.device))
    prepared = _now(x.device)
    mask_losses(member, judged, some)
    scored = _now(x.device)
    return passed - started, prepared - passed, (scored - prepared) / (len(judged) * len(some))


def _comparison(x: Float[Tensor, "N D"], layout: CellLayout, n_neighbours: int) -> float:
    """Seconds of finding the nearest of so many rows for one row."""
    neighbours = prepare_neighbours(x[:n_neighbours], layout)
    some = x[:_COMPARED]
    started = _now(x.device)
    nearest_distances(some, neighbours)
    return (_now(x.device) - started) / len(some)


def _now(device: torch.device) -> float:
    """The clock, when the device has done what it was asked to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.monotonic()


def _work(settings: Settings, n_features: int, n_context: int) -> float:
    """Multiplications of a row that attends to some rows, in two layers: one between rows, one between cells."""
    e, heads = settings.embedding_dim, settings.n_heads
    width = n_features * e
    cells = 13 * width * e + n_features * (2 * width + _SOFTMAX * n_features * heads)
    if settings.row_attention == "none":
        return 2 * cells
    if settings.row_attention == "full":
        return cells + 13 * width**2 + n_context * (2 * width + _SOFTMAX * heads)
    return cells + 2 * width * settings.rank + 11 * width * e + n_context * (settings.rank + width + _SOFTMAX * heads)
