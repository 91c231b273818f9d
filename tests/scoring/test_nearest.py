"""The nearest neighbour, against a plain loop and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nptad.scoring.nearest
from nptad.scoring.nearest import nearest_distances, nearest_without_each_cell, prepare_neighbours
from nptad.tables.layout import CellLayout
from reference import ReferenceNPT
from table_samples import LAYOUTS, MIXED, random_model, random_rows

NAN = float("nan")


@given(st.sampled_from(LAYOUTS), st.integers(1, 7), st.integers(2, 9), st.sampled_from([0.0, 0.4]), st.integers(0, 999))
def test_agrees_with_a_plain_loop(layout, n_rows, n_context, missing, seed):
    rows, context = (random_rows(layout, n, s, missing=missing) for n, s in ((n_rows, seed), (n_context, seed + 1)))
    self_index = torch.from_numpy(np.random.default_rng(seed).integers(-1, n_context, n_rows))
    reference = ReferenceNPT(random_model(layout, [0]), 0)
    slow = [
        min(reference.distance(row, context.numpy(), j) for j in range(n_context) if j != self_index[i])
        if not np.isnan(row).all()
        else 0.0
        for i, row in enumerate(rows.numpy())
    ]
    neighbours = prepare_neighbours(context, layout)
    np.testing.assert_allclose(nearest_distances(rows, neighbours, self_index), slow, rtol=1e-5, atol=1e-6)
    whole, without = nearest_without_each_cell(rows, neighbours, self_index)
    for i, row in enumerate(rows.numpy()):
        others = [entry for entry in range(n_context) if entry != self_index[i]]
        differences = np.array(
            [
                [
                    0.0 if np.isnan(value) else reference.difference(j, value, context.numpy()[:, j], entry)
                    for j, value in enumerate(row)
                ]
                for entry in others
            ]
        )
        for fast, ignored in ((whole, None), *((rest, j) for j, rest in enumerate(without))):
            totals = differences.sum(axis=1) - (0.0 if ignored is None else differences[:, ignored])
            few = np.sort(totals)[: min(3, n_context - 1)]
            assert fast.total[i] == pytest.approx(few[0], rel=1e-5, abs=1e-5)
            assert fast.mean_total[i] == pytest.approx(few.mean(), rel=1e-5, abs=1e-5)
            assert totals[others.index(int(fast.place[i]))] == pytest.approx(few[0], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_same_bits_in_any_block(monkeypatch, missing):
    """Also with so many neighbours that torch would share out a single mean among threads."""
    neighbours = prepare_neighbours(random_rows(MIXED, 70_000, seed=1, missing=missing), MIXED)
    rows = random_rows(MIXED, 9, seed=0)
    together = nearest_distances(rows, neighbours)
    monkeypatch.setattr(nptad.scoring.nearest, "_PAIRS_AT_ONCE", 10**9)
    assert torch.equal(nearest_distances(rows, neighbours), together)
    for i in range(len(rows)):
        assert torch.equal(nearest_distances(rows[i : i + 1], neighbours), together[i : i + 1])


@pytest.mark.parametrize("nearly", [0.0, 1e-40, 1e-9, 1e-4])
def test_a_column_that_is_almost_constant_among_the_neighbours_does_not_decide_alone(nearly):
    context = torch.tensor([[0.0, 0.0], [5.0, nearly], [2.0, 0.0]])
    distance = nearest_distances(torch.tensor([[0.0, 0.1]]), prepare_neighbours(context, CellLayout(2, ())))
    assert distance.item() == pytest.approx(0.05, rel=1e-3)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([1.0, 2.0, 1.0], 0.0),
        ([1.0, 3.0, 1.0], 0.5 / 3),  # half of the range of its column
        ([1.0, 8.0, 1.0], 2 / 3),  # to the second row: twice its range
        ([1.0, 2.0, 0.0], 1 / 3),
        ([1.0, 2.0, -1.0], 1 / 3),  # a category that training did not see
        ([NAN, 3.0, NAN], 0.5),
        ([NAN, NAN, NAN], 0.0),
        ([3.0, 4.0, 1.0], 2 / 3),  # what the gap of the second row hides differs as the first row's does
    ],
)
def test_by_hand(row, expected):
    context = torch.tensor([[1.0, 2.0, 1.0], [NAN, 4.0, 1.0]])
    neighbours = prepare_neighbours(context, CellLayout(2, (2,)))
    assert nearest_distances(torch.tensor([row]), neighbours).item() == pytest.approx(expected)


def test_a_row_is_not_its_own_neighbour():
    context = torch.tensor([[1.0], [5.0], [4.0]])
    self_index = torch.tensor([0, -1, -1])
    neighbours = prepare_neighbours(context, CellLayout(1, ()))
    assert nearest_distances(context, neighbours, self_index).tolist() == [0.75, 0.0, 0.0]


def test_the_unit_of_a_number_does_not_matter():
    rows, context = random_rows(MIXED, 20, seed=0), random_rows(MIXED, 30, seed=1)
    other_unit = torch.ones(MIXED.n_features)
    other_unit[0] = 4096.0
    expected = nearest_distances(rows, prepare_neighbours(context, MIXED))
    assert torch.equal(nearest_distances(rows * other_unit, prepare_neighbours(context * other_unit, MIXED)), expected)
