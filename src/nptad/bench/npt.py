"""NPT-AD and the Transformer in the benchmark: several seeds train as one stack, and all scoring rules are measured.

The presets of the paper are one member, trained on all training rows, as in the paper. The default preset is the
estimator with its defaults.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nptad.bench.protocol import Clock, Scored, Split
from nptad.bench.rules import RULES, rule_name
from nptad.bench.unfinished import LARGEST_MODEL, SECONDS, Unfinished
from nptad.detector import NPTAD
from nptad.errors import TableWarning
from nptad.nn.masks import mask_bank
from nptad.nn.model import NPT
from nptad.nn.rng import MemberRandom, spawn_seeds
from nptad.scoring.ensemble import Ensemble, assemble
from nptad.scoring.score import Member, mask_losses
from nptad.settings import Settings
from nptad.tables.encode import encode
from nptad.tables.layout import CellLayout
from nptad.tables.schema import learn_schema
from nptad.training.loop import train

_STACK_NUMBERS = 250_000
"""Activations (rows x row width) up to which stacking members pays; beyond, one member keeps a core busy."""

_LARGEST_STACK = 8

_REFERENCE_ROWS = 500  # training rows whose losses the scoring rules use

_LOSSES_AT_ONCE = 2**14
"""Losses (rows x masks) of a block of rows: minutes where the context is largest."""


def stack_size(settings: Settings, n_train: int, n_features: int) -> int:
    """How many seeds to train side by side."""
    numbers = n_train * n_features * settings.embedding_dim
    return int(np.clip(_STACK_NUMBERS // numbers, 1, _LARGEST_STACK))


def run_single_members(
    splits: list[Split], seeds: list[int], settings: Settings, unfinished: Path | None = None
) -> Iterator[Scored]:
    """One member per split, with the paper's scores; splits of the same encoded layout train as one stack.

    A single split goes on from what a stopped run left in the folder ``unfinished``, and leaves there what it has done.
    """
    encoded = [_encode(split) for split in splits]
    trained = replace(settings, scale_masks=False)  # each rule scales the losses below
    for _, group in groupby(range(len(splits)), key=lambda i: encoded[i][0]):
        places = list(group)
        kept = Unfinished(unfinished if len(splits) == 1 else None)
        with kept.clock("fit", shared_by=len(places)) as lap:
            tables, member_seeds = [encoded[i][1] for i in places], [spawn_seeds(seeds[i], 3) for i in places]
            ensembles = _fit_stack(tables, encoded[places[0]][0], trained, member_seeds, kept, lap)
        for i, ensemble in zip(places, ensembles, strict=True):
            scored = _score(ensemble, encoded[i][1], encoded[i][2], settings, deepcopy(kept))
            yield replace(scored, stack=len(places))


def _fit_stack(
    tables: list[np.ndarray],
    layout: CellLayout,
    settings: Settings,
    seeds: list[list[int]],
    kept: Unfinished,
    lap: Callable[[], None],
) -> list[Ensemble]:
    """A single-member ensemble for each of several tables of one size, trained as one stack.

    Each equals (to rounding) what :func:`~nptad.scoring.ensemble.fit_ensemble` makes of its table and three seeds.
    """
    model = NPT(layout, settings, MemberRandom([member_seed for _, _, member_seed in seeds]))
    if sum(weights.numel() for weights in model.parameters()) > LARGEST_MODEL:
        kept.folder = None
    train(
        model,
        torch.from_numpy(np.stack(tables)),
        checkpoint=kept.training,
        checkpoint_seconds=SECONDS,
        report=lambda entry: kept.keep_clock(lap),
    )
    ensembles = []
    for k, (x, (fold_seed, bank_seed, _)) in enumerate(zip(tables, seeds, strict=True)):
        masks = mask_bank(layout.n_features, settings.mask_sizes, settings.max_masks, bank_seed)
        ensembles.append(assemble(model.member(k), masks, x, np.zeros((1, len(x)), dtype=bool), fold_seed))
    return ensembles


def run_estimator(
    splits: list[Split], seeds: list[int], settings: Settings | None = None, n_members: int | None = None
) -> Iterator[Scored]:
    """The estimator, one split after the other: its default score, or a network with these settings."""
    for split, seed in zip(splits, seeds, strict=True):
        columns = split.uses if split.categorical else None
        detector = NPTAD(n_members, settings=settings, columns=columns, random_state=seed)
        clock = Clock()
        with clock("fit"), warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            detector.fit(split.train)
        with clock("score"):
            scores = -detector.score_samples(split.test)
        yield Scored(scores, clock)


def _encode(split: Split) -> tuple[CellLayout, np.ndarray, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        schema = learn_schema(split.train, split.uses)
    return schema.layout, encode(schema, split.train), encode(schema, split.test)


def _score(ensemble: Ensemble, train: np.ndarray, test: np.ndarray, settings: Settings, kept: Unfinished) -> Scored:
    """Score test rows by every rule; as in the paper, a test row that equals a training row is still a new row."""
    with kept.clock("score"):
        member = ensemble.members[0]
    losses = _losses(member, test, ensemble.masks, "score", kept)
    with kept.clock("reference"):
        chosen = np.random.default_rng(0).permutation(len(train))[:_REFERENCE_ROWS]
        self_index = torch.from_numpy(ensemble.assign_members(train[chosen]).self_index)
    reference = _losses(member, train[chosen], ensemble.masks, "reference", kept, self_index)
    scores = {name: rule(losses, reference) for name, rule in RULES.items()}
    return Scored(scores[rule_name(settings.aggregation, settings.scale_masks)], kept.clock, scores)


def _losses(
    member: Member, x: np.ndarray, masks: Tensor, phase: str, kept: Unfinished, self_index: Tensor | None = None
) -> np.ndarray:
    """Unscaled losses under all masks."""
    member, rows = member.unscaled(len(masks)), torch.from_numpy(x)

    def compute(block: slice) -> np.ndarray:
        left_out = None if self_index is None else self_index[block]
        return mask_losses(member, rows[block], masks, left_out).double().numpy()

    return kept.losses(phase, (len(x), len(masks)), max(1, _LOSSES_AT_ONCE // len(masks)), compute)
