"""The trained members and how they score rows.

Each member leaves out a fold of the training rows, so that every training row has out-of-fold scores. A training row is
recognised by its encoded cells and scored only by members that left it out of their training and their context. A
single member has seen all rows: it scores a training row without that row's context entry. Means, standard deviations
and category lists come from all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt64
from torch import Tensor

from nptad.nn.masks import mask_bank
from nptad.nn.model import NPT
from nptad.nn.rng import MemberRandom
from nptad.scoring.arrays import LARGEST, require_array, require_rows
from nptad.scoring.folds import MemberAssignment, left_out_rows, row_keys
from nptad.scoring.forecast import TimeLimit, time_to_train
from nptad.scoring.nearest import nearest_distances
from nptad.scoring.score import Member, counted_masks, mask_losses, mean_losses, prepare_member, score_rows
from nptad.settings import Settings
from nptad.tables.layout import CellLayout
from nptad.training.checkpoint import History
from nptad.training.distributed import Ranks
from nptad.training.loop import Precision, train
from nptad.training.parallel import threads_for

_BASELINE_ROWS = 1000
"""Training rows of each member that make the baseline."""


_LARGEST_BASELINE_LOSS = 25.0
"""Largest loss of a cell in the baseline: that of a number five standard deviations off."""


_NEIGHBOURS = 16
"""Neighbours per context row: more neighbours make the distance more informative, and a distance costs less than
attention."""


_SMALLEST_BASELINE_DISTANCE = 0.001
"""Smallest baseline of the distance: below a thousandth of the columns' ranges a difference is noise."""


MemberRows = tuple[int, Member, Int[np.ndarray, " rows"], Int[Tensor, " rows"] | None]
"""A member's number, the member, the rows that it scores and their self index in its context."""


@dataclass(frozen=True)
class Ensemble:
    """Trained members with what they need to score rows."""

    model: NPT
    """The stack of K members."""
    masks: Bool[Tensor, "M D"]
    """The mask bank."""
    left_out: Bool[np.ndarray, "K N"]
    """Training rows that each member never saw."""
    row_keys: UInt64[np.ndarray, " N"]
    """Key of every training row, by which it is recognised."""
    context: Float[np.ndarray, "kept D"]
    """The encoded training rows that at least one member uses as context or as neighbours."""
    context_rows: Int[np.ndarray, "K C"]
    """Rows of ``context`` that make each member's context."""
    neighbour_rows: Int[np.ndarray, "K neighbours"]
    """Rows of ``context`` that each member searches for the nearest one."""
    context_source: Int[np.ndarray, " kept"]
    """Training row behind each row of ``context``."""
    mask_scale: Float[np.ndarray, " M"]
    """Divisor of the loss under each mask."""
    nearest_scale: float
    """Divisor of the distance from the nearest neighbour; 1 if the distance is not part of the score."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields only: the cached contexts are many times their size and quickly computed."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def require_sound(self, n_rows: int) -> None:
        """Raise a ValueError unless all rows can be scored; ``n_rows`` is that of the training table."""
        require_rows(self.context, self.model.layout)
        require_array("left_out", self.left_out, "b1", (None, n_rows))
        n_members, n_kept = len(self.left_out), len(self.context)
        times, trained = self.left_out.sum(axis=0), (~self.left_out).sum(axis=1)
        if (times.min() < 1 if n_members > 1 else times.max() > 0) or len(set(trained.tolist())) > 1 or not trained[0]:
            raise ValueError("left_out are no folds")
        require_array("row_keys", self.row_keys, "u8", (n_rows,), most=np.inf)
        require_array("context_source", self.context_source, "i8", (n_kept,), least=0, most=n_rows - 1)
        for name in ("context_rows", "neighbour_rows"):
            require_array(name, getattr(self, name), "i8", (n_members, None), least=0, most=n_kept - 1)
        require_array("masks", self.masks.numpy(), "b1", (None, self.model.layout.n_features))
        if not self.masks.any(dim=1).all():
            raise ValueError("masks hide no cell")
        require_array("mask_scale", self.mask_scale, "f4", (len(self.masks),), least=1 / LARGEST)
        require_array("nearest_scale", np.array(self.nearest_scale), "f8", (), least=1 / LARGEST)

    @property
    def n_members(self) -> int:
        """Number of members (K)."""
        return len(self.left_out)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.in_mask.device

    @cached_property
    def members(self) -> list[Member]:
        """Every member with its cached context."""
        context = torch.from_numpy(self.context).to(self.device)
        n_train = int((~self.left_out[0]).sum())
        attended, near = (torch.from_numpy(r).to(self.device) for r in (self.context_rows, self.neighbour_rows))
        scale = torch.from_numpy(self.mask_scale).to(self.device)
        return [
            prepare_member(
                self.model.member(k), context[attended[k]], n_train, scale, context[near[k]], self.nearest_scale
            )
            for k in range(self.n_members)
        ]

    @cached_property
    def _known(self) -> tuple[UInt64[np.ndarray, " N"], Int[np.ndarray, " N"]]:
        """Sorted keys of the training rows and the row behind each."""
        order = np.argsort(self.row_keys, kind="stable")
        return self.row_keys[order], order

    def assign_members(self, x: Float[np.ndarray, "N D"]) -> MemberAssignment:
        """The members that score each row: all, or for a training row those that left it out.

        A row that occurs several times in training gets the average over its copies.
        """
        known, source = self._known
        keys, places = np.unique(row_keys(x), return_inverse=True)
        first, last = np.searchsorted(known, keys, "left"), np.searchsorted(known, keys, "right")
        weights = np.full((len(keys), self.n_members), 1 / self.n_members)
        self_index, training_row = np.full(len(keys), -1), np.full(len(keys), -1)
        entry = {int(row): place for place, row in enumerate(self.context_source)} if self.n_members == 1 else {}
        for i in np.flatnonzero(last > first):
            copies = source[first[i] : last[i]]
            training_row[i] = copies[0]
            if self.n_members > 1:
                members = self.left_out[:, copies].astype(float)
                weights[i] = (members / members.sum(axis=0)).mean(axis=1)
            else:
                self_index[i] = next((entry[int(row)] for row in copies if int(row) in entry), -1)
        return MemberAssignment(weights[places], self_index[places], training_row[places])

    def rows_per_member(self, assignment: MemberAssignment) -> Iterator[MemberRows]:
        """The rows that each member scores, with their self index in its context where they have one."""
        for k, member in enumerate(self.members):
            rows = np.flatnonzero(assignment.weights[:, k] > 0)
            self_index = assignment.self_index[rows]
            if (self_index < 0).any():
                yield k, member, rows[self_index < 0], None
            if (self_index >= 0).any():
                yield k, member, rows[self_index >= 0], torch.from_numpy(self_index[self_index >= 0]).to(self.device)

    def member_scores(
        self,
        x: Float[np.ndarray, "N D"],
        assignment: MemberAssignment,
        advance: Callable[[int], None] | None = None,
    ) -> Float[np.ndarray, "N K"]:
        """Score of each row under each member, higher = more anomalous; NaN where it is not assigned."""
        scores = np.full((len(x), self.n_members), np.nan)
        masks, aggregation = self.masks.to(self.device), self.model.settings.aggregation

        def score_member(batch: MemberRows) -> None:
            k, member, rows, self_index = batch
            encoded = torch.from_numpy(x[rows]).to(self.device)
            scores[rows, k] = score_rows(member, encoded, masks, aggregation, self_index, advance)

        batches = list(self.rows_per_member(assignment))
        with threads_for(len(batches) if self.device.type == "cpu" else 1) as run:
            run(score_member, batches)
        return scores


def fit_ensemble(
    x: Float[np.ndarray, "N D"],
    layout: CellLayout,
    settings: Settings,
    seeds: list[int],
    *,
    device: torch.device,
    limit: TimeLimit | None = None,
    n_scored: int = 0,
    precision: Precision = "auto",
    checkpoint: str | Path | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[Ensemble, History]:
    """Train one member per seed, except the first two: these draw the folds and contexts, and the mask bank.

    Within the ``limit``, training leaves time for scoring so many training rows.
    """
    fold_seed, bank_seed, *member_seeds = seeds
    masks = mask_bank(layout.n_features, settings.mask_sizes, settings.max_masks, bank_seed)
    left_out = left_out_rows(len(x), len(member_seeds), fold_seed)
    rows = np.stack([np.flatnonzero(~out) for out in left_out])

    model = NPT(layout, settings, MemberRandom(member_seeds)).to(device)
    x_members = torch.from_numpy(x[rows]).to(device)
    time_limit = None
    if limit is not None:
        ranks = Ranks()
        ranks.require_same(limit.seconds, "time limit")
        n_judged = n_scored + (_n_baseline_rows(left_out) if settings.scale_masks else 0)
        n_neighbours = _NEIGHBOURS * (settings.context_size or len(x)) if settings.aggregation == "nearest" else 0
        time_limit = ranks.from_first(lambda: time_to_train(model, x_members, masks, n_judged, n_neighbours, limit))
    history = train(model, x_members, time_limit=time_limit, precision=precision, checkpoint=checkpoint, report=report)
    return assemble(model, masks, x, left_out, fold_seed), history


def assemble(model: NPT, masks: Tensor, x: np.ndarray, left_out: np.ndarray, fold_seed: int) -> Ensemble:
    """Choose the contexts and neighbours of trained members."""
    settings = model.settings
    rows = np.stack([np.flatnonzero(~out) for out in left_out])
    random = np.random.default_rng([fold_seed, 1])
    size = settings.context_size or len(x)
    context = near = _sample(rows, size, random)
    if (
        settings.aggregation == "nearest" and len(left_out) > 1
    ):  # the self index of a single member refers to its context
        near = _sample(rows, _NEIGHBOURS * size, random)
    source = np.union1d(context, near)
    ensemble = Ensemble(
        model=model,
        masks=masks,
        left_out=left_out,
        row_keys=row_keys(x),
        context=x[source],
        context_rows=np.searchsorted(source, context),
        neighbour_rows=np.searchsorted(source, near),
        context_source=source,
        mask_scale=np.ones(len(masks), dtype=np.float32),
        nearest_scale=1.0,
    )
    baselines: dict[str, Any] = {}
    if settings.scale_masks:
        baselines["mask_scale"] = _baseline_losses(ensemble, x, random).cpu().numpy()
    if settings.aggregation == "nearest":
        baselines["nearest_scale"] = _baseline_distance(ensemble, x, random)
    return replace(ensemble, **baselines)


def _n_baseline_rows(left_out: Bool[np.ndarray, "K N"]) -> int:
    """How many rows :func:`_left_out_rows_per_member` gives."""
    available = left_out.sum(axis=1) if len(left_out) > 1 else np.array([left_out.shape[1]])
    return int(available.clip(max=_BASELINE_ROWS).sum())


def _sample(rows: Int[np.ndarray, "K rows"], size: int, random: np.random.Generator) -> Int[np.ndarray, "K sampled"]:
    """A sample of ``size`` rows of each member, in order; all rows if there are no more."""
    if size >= rows.shape[1]:
        return rows
    return np.stack([np.sort(random.choice(r, size, replace=False)) for r in rows])


def _baseline_losses(
    ensemble: Ensemble, x: Float[np.ndarray, "N D"], random: np.random.Generator
) -> Float[Tensor, " M"]:
    """Mean loss of training rows under each mask, as it counts in the score."""
    masks, with_log = ensemble.masks.to(ensemble.device), ensemble.model.settings.aggregation == "nearest"
    batches = list(_left_out_rows_per_member(ensemble, x, random))
    losses = torch.cat(
        [mask_losses(member, rows, masks, self_index, with_log=with_log) for member, rows, self_index in batches]
    )
    counted = torch.cat([counted_masks(rows, masks) for _, rows, _ in batches])
    return mean_losses(losses.minimum(_LARGEST_BASELINE_LOSS * masks.sum(1)), counted)


def _baseline_distance(ensemble: Ensemble, x: Float[np.ndarray, "N D"], random: np.random.Generator) -> float:
    """Root mean square of the distances of training rows from the nearest neighbour."""
    batches = _left_out_rows_per_member(ensemble, x, random)
    distances = torch.cat(
        [nearest_distances(rows, member.neighbours, self_index) for member, rows, self_index in batches]
    )
    return max(float(distances.clamp(max=1).square().mean().sqrt()), _SMALLEST_BASELINE_DISTANCE)


def _left_out_rows_per_member(
    ensemble: Ensemble, x: Float[np.ndarray, "N D"], random: np.random.Generator
) -> Iterator[tuple[Member, Float[Tensor, "rows D"], Int[Tensor, " rows"] | None]]:
    """Some training rows that each member left out; for a single member, any rows with their self index.

    Baselines are pooled over the members, and losses in them are bounded. Otherwise an odd row could raise the baseline
    of a small fold, or any baseline by a huge loss. This would lower its own score and hide other rows that are odd in
    the same column.
    """
    for member, left_out in zip(ensemble.members, ensemble.left_out, strict=True):
        rows = np.flatnonzero(left_out) if ensemble.n_members > 1 else np.arange(len(x))
        rows = np.sort(random.choice(rows, min(len(rows), _BASELINE_ROWS), replace=False))
        self_index = (
            torch.from_numpy(ensemble.assign_members(x[rows]).self_index).to(ensemble.device)
            if ensemble.n_members == 1
            else None
        )
        yield member, torch.from_numpy(x[rows]).to(ensemble.device), self_index
