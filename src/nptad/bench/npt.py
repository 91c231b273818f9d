"""NPT-AD and the Transformer in the benchmark: several seeds train as one stack, and all scoring rules are measured.

Our paper preset is one member, trained on the whole training half, as in the paper. The default preset is the
estimator as a user gets it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from nptad.bench.protocol import Clock, Scored, Split
from nptad.bench.rules import RULES, rule_of
from nptad.detector import NPTAD
from nptad.errors import TableWarning
from nptad.nn.rng import spawn_seeds
from nptad.scoring.ensemble import Ensemble, fit_side_by_side
from nptad.scoring.score import Member, mask_losses
from nptad.settings import Settings
from nptad.tables.encode import encode
from nptad.tables.layout import CellLayout
from nptad.tables.schema import learn_schema

_STACK_NUMBERS = 250_000
"""Activations (rows x row width) up to which stacking members pays: beyond, one member keeps a core busy."""

_LARGEST_STACK = 8

_REFERENCE_ROWS = 500
"""Training rows whose losses the scoring rules compare with."""


def stack_size(settings: Settings, n_train: int, n_features: int) -> int:
    """How many seeds to train side by side."""
    numbers = n_train * n_features * settings.embedding_dim
    return int(np.clip(_STACK_NUMBERS // numbers, 1, _LARGEST_STACK))


def run_single_members(splits: list[Split], seeds: list[int], settings: Settings) -> Iterator[Scored]:
    """One member per split, with the paper's scores; splits of the same encoded layout train as one stack."""
    encoded = [_encode(split) for split in splits]
    trained = replace(settings, scale_masks=False)  # losses are scaled below, by every rule in its own way
    for _, group in groupby(range(len(splits)), key=lambda i: encoded[i][0]):
        places = list(group)
        clock = Clock()
        with clock("fit", shared_by=len(places)):
            ensembles = fit_side_by_side(
                [encoded[i][1] for i in places],
                encoded[places[0]][0],
                trained,
                [spawn_seeds(seeds[i], 3) for i in places],
                device=torch.device("cpu"),
            )
        for i, ensemble in zip(places, ensembles, strict=True):
            scored = _score(ensemble, encoded[i][1], encoded[i][2], settings, clock.copy())
            yield replace(scored, stack=len(places))


def run_estimator(splits: list[Split], seeds: list[int], settings: Settings, n_members: int) -> Iterator[Scored]:
    """The estimator with its folds, one split after the other."""
    for split, seed in zip(splits, seeds, strict=True):
        detector = NPTAD(
            n_members, settings=settings, categorical_features=split.categorical or None, random_state=seed
        )
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
        # As in the paper, only what is published as a category is one; the library would also take flags for such.
        schema = learn_schema(split.train, list(split.categorical))
    return schema.layout, encode(schema, split.train), encode(schema, split.test)


def _score(ensemble: Ensemble, train: np.ndarray, test: np.ndarray, settings: Settings, clock: Clock) -> Scored:
    """Score test rows by every rule.

    As in the paper, a test row that equals a training row is a new row all the same.
    """
    member = ensemble.members[0]
    with clock("score"):
        losses = _losses(member, test, ensemble.masks)
    with clock("reference"):
        chosen = np.random.default_rng(0).permutation(len(train))[:_REFERENCE_ROWS]
        self_index = torch.from_numpy(ensemble.assign_members(train[chosen]).self_index)
        reference = _losses(member, train[chosen], ensemble.masks, self_index)
    scores = rule_of(settings.aggregation, settings.scale_masks)(losses, reference)
    return Scored(scores, clock, {name: rule(losses, reference) for name, rule in RULES.items()})


def _losses(member: Member, x: np.ndarray, masks: Tensor, self_index: Tensor | None = None) -> np.ndarray:
    """Losses as they are: every rule scales them in its own way."""
    return mask_losses(member.unscaled(len(masks)), torch.from_numpy(x), masks, self_index).double().numpy()
