from itertools import combinations

import literal_forests
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nptad.bench.methods.pidforest import PIDForest, grow_sparsity_trees, log_sparsity
from nptad.errors import InputError


@pytest.mark.parametrize("n_columns", [1, 3])
def test_agrees_with_the_literal_version(n_columns):
    generator = np.random.default_rng(0)
    x, new = generator.normal(size=(80, n_columns)), 2 * generator.normal(size=(20, n_columns))
    detector = PIDForest(n_trees=5, sample_size=40, random_state=1).fit(x)
    np.testing.assert_allclose(
        detector.score(new), literal_forests.literal_pidforest(detector, x, new), rtol=1e-10, atol=1e-10
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.integers(1, 4), st.integers(1, 6), st.integers(2, 5))
def test_agrees_with_the_literal_version_among_duplicates(seed, n_rows, n_columns, n_values, n_buckets):
    generator = np.random.default_rng(seed)
    x = generator.integers(n_values, size=(n_rows, n_columns)).astype(float)
    new = generator.integers(-1, n_values + 1, size=(6, n_columns)).astype(float)
    detector = PIDForest(n_trees=3, sample_size=15, n_buckets=n_buckets, max_depth=3, random_state=seed).fit(x)
    np.testing.assert_allclose(
        detector.score(new), literal_forests.literal_pidforest(detector, x, new), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("n_buckets", [2, 3, 5])
def test_intervals_have_the_largest_variance_of_all(n_buckets):
    values = np.sort(np.random.default_rng(n_buckets).gamma(1, size=12))
    middles = (values[:-1] + values[1:]) / 2
    low, high = values[0], values[-1]

    def variance(bounds):
        edges = np.array([low, *bounds, high])
        length = np.diff(edges) / (high - low)
        points = np.histogram(values, edges)[0] / len(values)
        sparsity = length / points
        mean = (points * sparsity).sum()
        return (points * (sparsity - mean) ** 2).sum()

    best = max(
        (bounds for n in range(1, n_buckets) for bounds in combinations(middles, n)),
        key=variance,
    )
    forest = grow_sparsity_trees(values[:, None], np.arange(12)[None], 1, n_buckets)
    np.testing.assert_allclose(forest.bounds[0][: len(best)], best)


def test_trees_are_trees():
    rows = np.random.default_rng(0).integers(5, size=(60, 3)).astype(float)
    samples = np.stack([np.random.default_rng(seed).permutation(60)[:40] for seed in range(4)])
    forest = grow_sparsity_trees(rows, samples, 3, 4)
    inner = np.flatnonzero(forest.child)
    n_children = 1 + np.isfinite(forest.bounds[inner]).sum(axis=1)
    children = np.concatenate([np.arange(c, c + n) for c, n in zip(forest.child[inner], n_children, strict=True)])
    np.testing.assert_array_equal(np.sort(children), np.arange(4, len(forest.child)))
    np.testing.assert_array_equal(forest.sparsity[:4], 0)


def test_the_mean_sparsity_of_the_points_is_one():
    # Every box is cut up completely, so shares of the volume add up to 1: the mean over the points is 1 in every tree.
    rows = np.random.default_rng(0).normal(size=(50, 3))
    forest = grow_sparsity_trees(rows, np.arange(50)[None], 10, 5)
    np.testing.assert_allclose(np.exp(log_sparsity(forest, rows)).mean(), 1)


def test_a_gap_is_sparse():
    x = np.concatenate([np.linspace(0, 1, 50), np.linspace(9, 10, 50)])[:, None]
    left, gap, right = PIDForest(random_state=0).fit(x).score([[0.5], [5.0], [9.5]])
    assert gap > max(left, right) + 1


def test_rows_farther_out_are_sparser():
    x = np.random.default_rng(0).normal(size=(200, 3))
    scores = PIDForest(random_state=0).fit(x).score(np.outer([5, 10, 100, 1e8], [1, -1, 1]))
    assert (np.diff(scores) > 0).all()


def test_a_constant_column_that_is_constant_no_more_is_noticed():
    x = np.hstack([np.random.default_rng(0).normal(size=(200, 2)), np.zeros((200, 1))])
    kept, broken = PIDForest(random_state=0).fit(x).score([[0.1, 0.1, 0], [0.1, 0.1, 1]])
    np.testing.assert_allclose(broken - kept, np.log(2))


def test_units_make_no_difference():
    generator = np.random.default_rng(0)
    x, new = generator.normal(size=(150, 3)), generator.normal(size=(20, 3))
    x[:, 1] *= generator.random(150) < 0.01  # constant in some samples
    scale, shift = np.array([2.0**30, 1.0, 2.0**-30]), np.array([0.0, 8.0, 0.0])
    expected = PIDForest(random_state=0).fit(x).score(new)
    scores = PIDForest(random_state=0).fit(x * scale + shift).score(new * scale + shift)
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)


def test_values_that_differ_by_rounding_are_finite():
    x = 1.0 + np.arange(4)[:, None] * np.finfo(float).eps
    assert np.isfinite(PIDForest(random_state=0).fit(x).score([[1.0], [0.0], [1e300]])).all()


def test_small_tables_still_give_different_trees():
    x = np.random.default_rng(0).normal(size=(60, 3))
    sparsity = log_sparsity(PIDForest(random_state=0).fit(x).forest_, x)
    assert (sparsity.std(axis=1) > 0).all()


@pytest.mark.parametrize(
    "parameters", [{"n_trees": 0}, {"max_depth": 0}, {"n_buckets": 1}, {"sample_size": 0}, {"quantile": 75}]
)
def test_bad_parameters(parameters):
    with pytest.raises(InputError, match=f"{next(iter(parameters))} must be"):
        PIDForest(**parameters).fit(np.zeros((5, 2)))
