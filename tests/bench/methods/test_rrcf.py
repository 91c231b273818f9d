import random

import literal_forests
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nptad.bench.methods.rrcf import RRCF, displacement, grow_cut_trees
from nptad.errors import InputError


@pytest.mark.parametrize("n_columns", [1, 3, 12])
def test_agrees_with_the_literal_version(n_columns):
    generator = np.random.default_rng(0)
    x, new = generator.normal(size=(80, n_columns)), 2 * generator.normal(size=(20, n_columns))
    detector = RRCF(n_trees=7, sample_size=50, random_state=1).fit(x)
    np.testing.assert_allclose(detector.score(new), literal_forests.literal_rrcf(detector, x, new), rtol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 4), st.integers(1, 5))
def test_agrees_with_the_literal_version_among_duplicates(seed, n_rows, n_columns, n_values):
    generator = np.random.default_rng(seed)
    x = generator.integers(n_values, size=(n_rows, n_columns)).astype(float)
    new = generator.integers(-1, n_values + 1, size=(6, n_columns)).astype(float)
    detector = RRCF(n_trees=4, sample_size=20, random_state=seed).fit(x)
    np.testing.assert_allclose(
        detector.score(new), literal_forests.literal_rrcf(detector, x, new), rtol=1e-12, atol=1e-12
    )


def test_trees_are_trees():
    rows = np.random.default_rng(0).integers(4, size=(60, 3)).astype(float)
    samples, draws = literal_forests.draw_cut_forest(rows, 5, 40, 0)
    forest = grow_cut_trees(rows, samples, draws)
    inner = forest.left > 0
    left = forest.left[inner]
    np.testing.assert_array_equal(forest.size[:5], 40)
    np.testing.assert_array_equal(forest.size[left] + forest.size[left + 1], forest.size[inner])
    np.testing.assert_array_equal(np.sort(np.concatenate([left, left + 1])), np.arange(5, len(forest.size)))
    np.testing.assert_array_equal(inner, forest.sides > 0)
    cut, at = forest.cut[inner], forest.feature[inner]
    assert (forest.high[left, at] <= cut).all()
    assert (forest.low[left + 1, at] > cut).all()


def test_features_are_cut_in_proportion_to_their_sides():
    rows = np.array([[0.0, 0.0], [1.0, 3.0]])
    samples, draws = literal_forests.draw_cut_forest(rows, 4000, 2, 0)
    forest = grow_cut_trees(rows, samples, draws)
    share = (forest.feature[:4000] == 1).mean()
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4000)
    cuts = forest.cut[:4000][forest.feature[:4000] == 1]
    np.testing.assert_allclose(np.quantile(cuts, [0.25, 0.5, 0.75]), [0.75, 1.5, 2.25], atol=0.12)


def test_the_expectation_is_the_mean_of_random_insertions():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(40, 3))
    samples, draws = literal_forests.draw_cut_forest(rows, 1, 40, 0)
    root = literal_forests.grow_cut_tree(rows[samples[0]].tolist(), draws[0].tolist())
    new = 1.5 * generator.normal(size=(5, 3))
    expected = displacement(grow_cut_trees(rows, samples, draws), new)[:, 0]
    for row, value in zip(new, expected, strict=True):
        random_numbers = random.Random(0)
        drawn = [literal_forests.random_displacement(root, row.tolist(), random_numbers) for _ in range(4000)]
        assert abs(np.mean(drawn) - value) < 4 * np.std(drawn) / np.sqrt(len(drawn)) + 1e-9


def test_a_row_that_joins_a_tree_is_displaced_like_one_that_was_there():
    # The theorem behind the insertion: the tree that a row has joined is a random cut tree of all rows and that one.
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(20, 2))
    row = np.array([1.2, -0.4])
    n_trees = 3000
    order = np.tile(np.arange(20), (n_trees, 1))
    joined = displacement(grow_cut_trees(rows, order, generator.random((n_trees, 20))), row[None])[0]
    everything = [*rows.tolist(), row.tolist()]
    was_there = []
    for _ in range(n_trees):
        root = literal_forests.grow_cut_tree(everything, generator.random(21).tolist())
        was_there.append(literal_forests.member_displacement(root, row.tolist()))
    tolerance = 4 * np.sqrt((np.var(joined) + np.var(was_there)) / n_trees)
    assert abs(np.mean(joined) - np.mean(was_there)) < tolerance


def test_displacement_of_two_points():
    # Between 0 and 1, a row at 3 extends the side by 2: it becomes the sibling of both with probability 2/3, otherwise
    # the sibling of 1, where the other subtree (0) has half the size of the one it is in.
    forest = grow_cut_trees(np.array([[0.0], [1.0]]), np.array([[0, 1]]), np.array([[0.5, 0.0]]))
    np.testing.assert_allclose(displacement(forest, np.array([[3.0]])), [[2 / 3 * 2 + 1 / 3 * 1]])
    np.testing.assert_allclose(displacement(forest, np.array([[1.0]])), [[1 / 2]])  # joins 1; 0 moves up


def test_constant_rows():
    detector = RRCF(random_state=0).fit(np.full((30, 2), 4.0))
    np.testing.assert_array_equal(detector.score([[4.0, 4.0], [4.0, 5.0]]), [0.0, 30.0])


def test_neighbouring_floats_are_told_apart():
    x = np.nextafter(1.0, 2.0, dtype=float) * np.ones((2, 1))
    x[0] = 1.0
    forest = grow_cut_trees(x, np.array([[0, 1]] * 50), np.random.default_rng(0).random((50, 2)))
    np.testing.assert_array_equal(forest.size, [2] * 50 + [1] * 100)


@pytest.mark.parametrize("parameters", [{"n_trees": 0}, {"sample_size": 0}, {"scaling": "none"}])
def test_bad_parameters(parameters):
    with pytest.raises(InputError, match=f"{next(iter(parameters))} must be"):
        RRCF(**parameters).fit(np.zeros((5, 2)))
