"""The time of a run is foreseen from small probes."""

from __future__ import annotations

import time

import pytest
import torch

import nptad.scoring.forecast
from nptad.nn.masks import mask_bank
from nptad.nn.model import NPT
from nptad.nn.rng import MemberRandom
from nptad.scoring.forecast import forecast
from nptad.scoring.score import mask_losses, prepare_member
from nptad.settings import Settings
from nptad.tables.layout import CellLayout

N_FEATURES = 6


def members(n_rows, settings):
    model = NPT(CellLayout(N_FEATURES, ()), settings, MemberRandom([0, 1]))
    return model, torch.randn(2, n_rows, N_FEATURES, generator=torch.Generator().manual_seed(0))


class Machine:
    """A clock that only the probes move: a millisecond for each row, and for each row under a mask."""

    def __init__(self, monkeypatch):
        self.now, self.rows = 0.0, []
        monkeypatch.setattr(nptad.scoring.forecast.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(NPT, "forward", lambda model, x, hidden: self.prepare(model, x.flatten(0, 1)))
        monkeypatch.setattr(nptad.scoring.forecast, "prepare_member", self.prepare)
        monkeypatch.setattr(nptad.scoring.forecast, "mask_losses", self.score)
        # Without row attention, the work grows in proportion to the rows, as it does here.
        self.settings = Settings(row_attention="none", embedding_dim=8, scale_masks=True)

    def prepare(self, model, x, *more):
        self.now += len(x) / 1000

    def score(self, member, x, masks):
        self.rows.append(len(x) * len(masks))
        self.now += len(x) * len(masks) / 1000


def test_the_forecast_is_the_time_of_the_probes_grown_to_the_run(monkeypatch):
    machine = Machine(monkeypatch)
    model, x = members(1000, machine.settings)
    found = forecast(model, x, mask_bank(N_FEATURES, (1,), 100, 0), n_judged=500, n_neighbours=0, patience=0.5)
    assert found.step == pytest.approx(4.5 * 2 * 1.0)  # two members
    # A context of 1,000 rows for each of two members, twice; 500 rows under six masks.
    assert found.scoring == pytest.approx(4 * 1.0 + 500 * 6 / 1000)


def test_probes_grow_until_patience_ends(monkeypatch):
    machine = Machine(monkeypatch)
    model, x = members(1000, machine.settings)
    masks = mask_bank(N_FEATURES, (1,), 100, 0)
    forecast(model, x, masks, n_judged=1, n_neighbours=0, patience=0.0)
    assert max(machine.rows) < 16
    forecast(model, x, masks, n_judged=1, n_neighbours=0, patience=60.0)
    assert max(machine.rows) >= 1000


def test_attention_to_more_rows_costs_more():
    settings = Settings(embedding_dim=8, context_size=200)
    work = [nptad.scoring.forecast._work(settings, 10, n_context) for n_context in (1, 1000, 100_000)]
    assert work[0] < work[1] < work[2]
    assert work[2] / work[1] > 20


def test_comparing_with_neighbours_takes_time(monkeypatch):
    machine = Machine(monkeypatch)

    def compare(x, neighbours):
        machine.now += len(x) * neighbours / 1000

    monkeypatch.setattr(nptad.scoring.forecast, "prepare_neighbours", lambda x, layout: len(x))
    monkeypatch.setattr(nptad.scoring.forecast, "nearest_distances", compare)
    model, x = members(1000, machine.settings)
    masks = mask_bank(N_FEATURES, (1,), 100, 0)
    without, compared = (forecast(model, x, masks, 500, n_neighbours, patience=0.5) for n_neighbours in (0, 16_000))
    assert compared.scoring - without.scoring == pytest.approx(500 * 1000 / 1000)  # there are no more than 1,000


def test_a_forecast_is_about_right(monkeypatch):
    """By a clock that other programs on the machine do not move."""
    monkeypatch.setattr(time, "monotonic", time.process_time)
    settings = Settings(embedding_dim=8)
    model, x = members(400, settings)
    masks = mask_bank(N_FEATURES, (1,), 100, 0)
    found = forecast(model, x, masks, n_judged=400, n_neighbours=0, patience=1.0)
    started = time.process_time()
    member = prepare_member(model.member(0), x[0], 400, torch.ones(len(masks)))
    mask_losses(member, x[0], masks)
    took = time.process_time() - started
    assert found.scoring / 2 < 10 * took
    assert found.scoring > took / 10
