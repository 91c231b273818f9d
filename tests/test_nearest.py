"""The nearest context row, against a plain loop and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nptad.nearest
from nptad.loss import CellLayout
from nptad.nearest import nearest_losses
from reference import ReferenceNPT
from tables import LAYOUTS, MIXED, random_model, random_rows

NAN = float("nan")


@given(st.sampled_from(LAYOUTS), st.integers(1, 7), st.integers(2, 9), st.sampled_from([0.0, 0.4]), st.integers(0, 999))
def test_agrees_with_a_plain_loop(layout, n_rows, n_context, missing, seed):
    rows, context = (random_rows(layout, n, s, missing=missing) for n, s in ((n_rows, seed), (n_context, seed + 1)))
    own = torch.from_numpy(np.random.default_rng(seed).integers(-1, n_context, n_rows))
    reference = ReferenceNPT(random_model(layout, [0]), 0)
    slow = [
        min(reference.distance(row, other) for j, other in enumerate(context.numpy()) if j != own[i])
        if not np.isnan(row).all()
        else 0.0
        for i, row in enumerate(rows.numpy())
    ]
    np.testing.assert_allclose(nearest_losses(rows, context, layout, own), slow, rtol=1e-5)


def test_the_same_bits_in_any_block(monkeypatch):
    rows, context = random_rows(MIXED, 50, seed=0), random_rows(MIXED, 30, seed=1)
    together = nearest_losses(rows, context, MIXED)
    monkeypatch.setattr(nptad.nearest, "_PAIRS_AT_ONCE", 100)
    assert torch.equal(nearest_losses(rows, context, MIXED), together)
    assert torch.equal(nearest_losses(rows[17:18], context, MIXED), together[17:18])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([1.0, 2.0, 1.0], 0.0),
        ([1.0, 4.0, 1.0], 4 / 3),
        ([1.0, 2.0, 0.0], 2 / 3),
        ([1.0, 2.0, -1.0], 2 / 3),  # a category that training did not see
        ([NAN, 4.0, NAN], 4.0),
        ([NAN, NAN, NAN], 0.0),
        ([3.0, 2.0, 1.0], 4 / 3),  # not the 10 / 3 of the row with a gap
    ],
)
def test_by_hand(row, expected):
    context = torch.tensor([[1.0, 2.0, 1.0], [NAN, 2.0, 1.0]])
    assert nearest_losses(torch.tensor([row]), context, CellLayout(2, (2,))).item() == pytest.approx(expected)


def test_a_row_is_not_its_own_neighbour():
    context = torch.tensor([[1.0], [5.0]])
    own = torch.tensor([0, -1])
    assert nearest_losses(context, context, CellLayout(1, ()), own).tolist() == [16.0, 0.0]
