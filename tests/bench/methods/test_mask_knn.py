"""Mask-KNN against a slow, obvious version, against scikit-learn's KNNImputer, and its promises."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.impute import KNNImputer

import nptad.bench.methods.mask_knn as module
from nptad.bench.methods.mask_knn import MaskKNN
from nptad.errors import InputError, MaskBankWarning
from nptad.nn.masks import mask_bank
from nptad.nn.rng import spawn_seeds


def subsets(n_features, max_masked):
    sizes = range(1, min(max_masked, n_features) + 1)
    return [hidden for size in sizes for hidden in itertools.combinations(range(n_features), size)]


def slow_scores(train, x, groups, k, masks):
    """The definition, in loops. Of training rows at the same distance the first are neighbours."""
    labels = sorted(set(groups))
    scores = []
    for row in x:
        errors = []
        for mask in masks:
            hidden = [c for c, group in enumerate(groups) if group in [labels[f] for f in mask]]
            visible = [c for c in range(len(groups)) if c not in hidden]
            if visible:
                distance = [sum((row[c] - other[c]) ** 2 for c in visible) ** 0.5 for other in train]
                neighbours = sorted(range(len(train)), key=lambda i: distance[i])[:k]
                hits = [i for i in neighbours if distance[i] == 0]
                weight = {i: 1.0 for i in hits} if hits else {i: 1 / distance[i] for i in neighbours}
            else:
                weight = {i: 1.0 for i in range(len(train))}
            imputed = [sum(w * train[i][c] for i, w in weight.items()) / sum(weight.values()) for c in hidden]
            errors.append(sum((row[c] - value) ** 2 for c, value in zip(hidden, imputed, strict=True)) ** 0.5)
        scores.append(sum(errors) / len(errors))
    return np.array(scores)


def imputer_scores(train, x, groups, k, max_masked):
    """The paper's algorithm, word by word: the imputer gets the masked row on top of the training rows."""
    labels = sorted(set(groups))
    scores = np.zeros(len(x))
    masks = subsets(len(labels), max_masked)
    for mask in masks:
        hidden = np.isin(groups, [labels[f] for f in mask])
        for i, row in enumerate(x):
            table = np.vstack([np.where(hidden, np.nan, row), train])
            imputed = KNNImputer(n_neighbors=k, weights="distance").fit_transform(table)[0]
            scores[i] += np.linalg.norm(row - imputed)
    return scores / len(masks)


def normal_rows(n, d, seed):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize(("n_columns", "max_masked"), [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (5, 2), (6, 3), (4, 9)])
@pytest.mark.parametrize("k", [1, 5])
def test_equals_the_definition(n_columns, max_masked, k):
    train, x = normal_rows(40, n_columns, 0), normal_rows(12, n_columns, 1)
    scores = MaskKNN(n_neighbors=k, max_masked=max_masked).fit(train).score(x)
    expected = slow_scores(train, x, range(n_columns), k, subsets(n_columns, max_masked))
    np.testing.assert_allclose(scores, expected, rtol=1e-10)
    assert scores.dtype == np.float64


@pytest.mark.parametrize("groups", [[0, 1, 2, 3, 4], [0, 1, 1, 1, 2], [7, -1, 7, 3, 3], [4, 4, 4, 4, 4]])
def test_equals_the_imputer(groups):
    train, x = normal_rows(30, 5, 2), normal_rows(6, 5, 3)
    x[0, 1] = 1000.0
    scores = MaskKNN().fit(train, groups=np.array(groups)).score(x)
    np.testing.assert_allclose(scores, imputer_scores(train, x, groups, 5, 2), rtol=1e-7)


def test_equals_the_imputer_for_training_rows_and_copies():
    # Whole numbers from a wide range: no equal distances by accident, and exact zeros in the imputer's matrix product.
    train = np.random.default_rng(4).integers(0, 10_000, size=(20, 4)).astype(float)
    train[1] = train[0]
    train[2, :3] = train[0, :3]
    x = train[:6]
    scores = MaskKNN(random_state=0).fit(train).score(x)
    np.testing.assert_allclose(scores, imputer_scores(train, x, range(4), 5, 2), rtol=1e-10)


def test_only_exact_hits_count_when_there_are_some():
    train = np.array([[0.0, 1.0], [0.0, 5.0], [0.1, 100.0], [9.0, 7.0], [8.0, 7.0]])
    detector = MaskKNN(n_neighbors=3, max_masked=1).fit(train)
    # Hidden second column: the first two rows are at distance 0 and give 3; hidden first column: a hit on row 0.
    np.testing.assert_allclose(detector.score(np.array([[0.0, 1.0]])), [(2 + 0) / 2])


@settings(max_examples=60)
@given(st.data())
def test_any_table_in_blocks_of_any_size(data):
    """Small whole numbers, so that there are ties, hits and copies, in columns of very different scale."""
    n_columns = data.draw(st.integers(1, 5), label="columns")
    n_train = data.draw(st.integers(1, 25), label="training rows")
    k = data.draw(st.integers(1, min(6, n_train)), label="k")
    max_masked = data.draw(st.integers(1, 4), label="max_masked")
    groups = data.draw(st.lists(st.integers(0, 3), min_size=n_columns, max_size=n_columns), label="groups")
    scale = data.draw(st.lists(st.sampled_from([1, 2**-6, 2**12]), min_size=n_columns, max_size=n_columns))
    random = np.random.default_rng(data.draw(st.integers(0, 99), label="seed"))
    train = random.integers(0, 4, size=(n_train, n_columns)) * np.array(scale, dtype=float)
    x = random.integers(-1, 5, size=(7, n_columns)) * np.array(scale, dtype=float)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_TILE", "_POOL", "_CHUNK"):
            patch.setattr(module, name, data.draw(st.sampled_from([1, 40, 10_000]), label=name))
        detector = MaskKNN(n_neighbors=k, max_masked=max_masked, random_state=0).fit(train, groups=np.array(groups))
        scores = detector.score(x)
    expected = slow_scores(detector.train_, x, groups, k, subsets(len(set(groups)), max_masked))
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)
    assert sorted(detector.train_.tolist()) == sorted(train.tolist())


def test_a_hidden_feature_may_be_larger_than_the_others_by_any_factor():
    # 1e20 - 1e20 would leave nothing of the visible differences.
    train, x = normal_rows(60, 4, 5), normal_rows(8, 4, 6)
    x[:, 0] = 1e10
    near = x.copy()
    near[:, 0] = 0.0
    only_first = [(0,)]
    expected = slow_scores(train, near, range(4), 5, only_first)  # neighbours do not depend on the hidden column
    found = MaskKNN(max_masked=1).fit(train).score(x)
    np.testing.assert_allclose(found, slow_scores(train, x, range(4), 5, subsets(4, 1)), rtol=1e-12)
    assert expected.max() < 3


@pytest.mark.parametrize("spread", ["cluster", "far", "copies"])
def test_candidates_are_enough_on_larger_tables(spread):
    """Tables in which most training rows are ruled out, or none."""
    random = np.random.default_rng(7)
    train = random.normal(size=(300, 6)) + 6 * random.integers(0, 3, size=(300, 1))
    x = random.normal(size=(5, 6))
    if spread == "far":
        x[:, 2] += 1e6
    if spread == "copies":
        train = np.round(train)
        x = train[:5]
    detector = MaskKNN(random_state=0).fit(train)
    counts = np.concatenate([(candidates >= 0).sum(axis=1) for _, candidates in detector._batches(x)])
    assert spread != "cluster" or counts.mean() < 150
    np.testing.assert_allclose(
        detector.score(x), slow_scores(detector.train_, x, range(6), 5, subsets(6, 2)), rtol=1e-8
    )


def test_size_of_blocks_does_not_matter(monkeypatch):
    train, x = np.round(normal_rows(200, 6, 8), 1), np.round(normal_rows(150, 6, 9), 1)
    detector = MaskKNN(random_state=0).fit(train)
    scores = detector.score(x)
    one_by_one = [detector.score(row[None])[0] for row in x]
    np.testing.assert_allclose(one_by_one, scores, rtol=1e-13)
    for name in ("_TILE", "_POOL", "_CHUNK"):
        monkeypatch.setattr(module, name, 1000)
    np.testing.assert_allclose(detector.score(x), scores, rtol=1e-13)


def test_order_of_rows_does_not_matter():
    # With equal distances, and with a sample of the training rows.
    train, x = np.round(normal_rows(200, 5, 10)), np.round(normal_rows(50, 5, 11))
    order = np.random.default_rng(0).permutation(200)
    for subsample in (50, 1000):
        detector = MaskKNN(subsample=subsample, random_state=3).fit(train)
        scores = detector.score(x)
        np.testing.assert_allclose(detector.score(x[::-1])[::-1], scores, rtol=1e-13)
        again = MaskKNN(subsample=subsample, random_state=3).fit(train[order])
        np.testing.assert_array_equal(again.score(x), scores)


def test_random_state():
    train, x = normal_rows(300, 4, 12), normal_rows(20, 4, 13)
    make = lambda seed: MaskKNN(subsample=100, random_state=seed).fit(train).score(x)  # noqa: E731
    np.testing.assert_array_equal(make(1), make(1))
    np.testing.assert_array_equal(make(np.random.default_rng(1)), make(np.random.default_rng(1)))
    assert (make(1) != make(2)).all()


def test_subsample():
    train, x = normal_rows(300, 4, 14), normal_rows(5, 4, 15)
    detector = MaskKNN(subsample=100, random_state=0).fit(train)
    assert detector.train_.shape == (100, 4)
    assert {tuple(row) for row in detector.train_} < {tuple(row) for row in train}
    np.testing.assert_allclose(detector.score(x), slow_scores(detector.train_, x, range(4), 5, subsets(4, 2)))


def test_sample_of_a_large_bank():
    train, x = normal_rows(30, 9, 16), normal_rows(4, 9, 17)
    with pytest.warns(MaskBankWarning, match="max_masks=20"):
        detector = MaskKNN(max_masked=3, max_masks=20, random_state=5).fit(train)
    with pytest.warns(MaskBankWarning):
        bank = mask_bank(9, (1, 2, 3), 20, spawn_seeds(5, 2)[1])
    masks = [mask.nonzero()[:, 0].tolist() for mask in bank]
    np.testing.assert_allclose(detector.score(x), slow_scores(train, x, range(9), 5, masks))


def test_input_is_left_alone_and_copied():
    train, x = normal_rows(30, 3, 18), normal_rows(6, 3, 19)
    before = train.copy(), x.copy()
    detector = MaskKNN(random_state=0).fit(train)
    scores = detector.score(x)
    np.testing.assert_array_equal(train, before[0])
    np.testing.assert_array_equal(x, before[1])
    train[:] = 0
    np.testing.assert_array_equal(detector.score(x), scores)


def test_memory_is_bounded():
    train, x = normal_rows(2000, 3, 20), normal_rows(6000, 3, 21)
    detector = MaskKNN(max_masked=1).fit(train)
    tracemalloc.start()
    detector.score(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32e6  # all distances at once are 96 MB


def test_anomalies_score_higher():
    random = np.random.default_rng(22)
    size = random.normal(size=(300, 1))
    rows = np.hstack([size, -size, 2 * size]) + random.normal(scale=0.1, size=(300, 3))
    odd = rows[:20] * [1, -1, 1] + [3, 0, 0]
    detector = MaskKNN(random_state=0).fit(rows[:200])
    assert detector.score(odd).min() > np.quantile(detector.score(rows[200:]), 0.95)


@pytest.mark.parametrize(
    "parameters",
    [{"n_neighbors": 0}, {"max_masked": -1}, {"subsample": 2.5}, {"max_masks": True}],
)
def test_parameters_that_cannot_be_used(parameters):
    with pytest.raises(InputError, match=next(iter(parameters))):
        MaskKNN(**parameters).fit(np.zeros((9, 2)))


@pytest.mark.parametrize("groups", [[0], [0, 1, 2], [[0, 1]], [0.0, 1.0], ["a", "b"]])
def test_groups_that_cannot_be_used(groups):
    with pytest.raises(InputError, match="each of the 2 columns"):
        MaskKNN().fit(np.zeros((9, 2)), groups=np.array(groups))


def test_all_training_rows_are_neighbours_if_there_are_fewer():
    train, new = np.random.default_rng(23).normal(size=(2, 3, 2))
    expected = MaskKNN(n_neighbors=3).fit(train).score(new)
    np.testing.assert_array_equal(MaskKNN(n_neighbors=5).fit(train).score(new), expected)
    np.testing.assert_array_equal(MaskKNN(n_neighbors=5, subsample=3).fit(train).score(new), expected)
