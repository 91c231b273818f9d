import numpy as np
import pytest

from nptad.bench.methods.knn import KNN
from nptad.errors import InputError


def literal_scores(x, new, k, scaling):
    shift, scale = (x.mean(axis=0), x.std(axis=0)) if scaling == "standard" else (x.min(axis=0), np.ptp(x, axis=0))
    x, new = (x - shift) / scale, (new - shift) / scale
    return np.array([sorted(np.linalg.norm(x - row, axis=1))[k - 1] for row in new])


@pytest.mark.parametrize("n_columns", [3, 40])  # a k-d tree; matrix products
@pytest.mark.parametrize(("k", "scaling"), [(5, "standard"), (1, "minmax"), (1, "standard")])
def test_is_the_distance_to_the_kth_neighbour(k, scaling, n_columns):
    random = np.random.default_rng(0)
    x, new = random.normal(5, 3, size=(200, n_columns)), random.normal(5, 3, size=(30, n_columns))
    scores = KNN(k=k, scaling=scaling).fit(x).score(new)
    np.testing.assert_allclose(scores, literal_scores(x, new, k, scaling), rtol=1e-12)


def test_the_default_is_the_papers():
    x = np.random.default_rng(0).normal(size=(50, 3))
    expected = KNN(k=5, scaling="standard").fit(x).score(x)
    np.testing.assert_array_equal(KNN().fit(x).score(x), expected)


def test_with_fewer_rows_than_neighbours_the_farthest_counts():
    x = np.random.default_rng(0).normal(size=(3, 2))
    np.testing.assert_array_equal(KNN(k=5).fit(x).score(x), KNN(k=3).fit(x).score(x))


@pytest.mark.parametrize("n_columns", [3, 40])
def test_equal_rows_have_distance_zero(n_columns):
    x = 1e6 + np.random.default_rng(0).normal(size=(200, n_columns))
    np.testing.assert_array_equal(KNN(k=1).fit(x).score(x), 0)


def test_wide_batches_agree_bit_for_bit():
    random = np.random.default_rng(0)
    x, new = random.normal(size=(500, 40)), random.normal(size=(300, 40))
    detector = KNN().fit(x)
    parts = [detector.score(part) for part in np.split(new, [1, 8, 100])]
    np.testing.assert_array_equal(np.concatenate(parts), detector.score(new))


def test_blocks_of_rows_do_not_change_the_scores(monkeypatch):
    x = np.random.default_rng(0).normal(size=(100, 4))
    expected = KNN().fit(x).score(x)
    monkeypatch.setattr("nptad.bench.methods.knn._CELLS", 50)
    np.testing.assert_array_equal(KNN().fit(x).score(x), expected)


def test_bad_parameters():
    with pytest.raises(InputError, match="k must be"):
        KNN(k=0).fit(np.zeros((5, 2)))
    with pytest.raises(InputError, match="scaling must be"):
        KNN(scaling="raw").fit(np.zeros((5, 2)))
