import numpy as np
import pytest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import MinMaxScaler

from nptad.bench.methods.lof import LOF
from nptad.errors import InputError


@pytest.mark.parametrize("n_columns", [3, 40])
def test_agrees_with_scikit_learn(n_columns):
    random = np.random.default_rng(0)
    x, new = random.normal(size=(300, n_columns)), random.normal(size=(50, n_columns)) * 1.5
    scaler = MinMaxScaler().fit(x)
    theirs = LocalOutlierFactor(n_neighbors=20, novelty=True).fit(scaler.transform(x))
    np.testing.assert_allclose(LOF().fit(x).score(new), -theirs.score_samples(scaler.transform(new)), rtol=1e-9)


def test_fewer_rows_than_neighbours():
    random = np.random.default_rng(0)
    x, new = random.normal(size=(10, 3)), random.normal(size=(5, 3))
    np.testing.assert_array_equal(LOF().fit(x).score(new), LOF(k=9).fit(x).score(new))


def test_wide_duplicates_do_not_make_scores_depend_on_the_batch():
    random = np.random.default_rng(0)
    x = random.normal(size=(10, 40)).repeat(30, axis=0)
    new = np.vstack([x[::30], random.normal(size=(10, 40))])
    detector = LOF().fit(x)
    alone = np.concatenate([detector.score(row[None]) for row in new])
    np.testing.assert_array_equal(alone, detector.score(new))
    np.testing.assert_allclose(alone[:10], 1)


def test_large_tables_are_sampled():
    x = np.random.default_rng(0).normal(size=(100, 2))
    detector = LOF(max_samples=40, random_state=0).fit(x)
    assert len(detector.density_) == 40
    np.testing.assert_array_equal(detector.score(x), LOF(max_samples=40, random_state=0).fit(x).score(x))
    assert not np.array_equal(detector.score(x), LOF(max_samples=40, random_state=1).fit(x).score(x))


def test_one_row_cannot_be_compared():
    with pytest.raises(InputError, match="at least 2"):
        LOF().fit(np.zeros((1, 3)))


@pytest.mark.parametrize("parameters", [{"k": 0}, {"max_samples": 1}, {"scaling": "raw"}])
def test_bad_parameters(parameters):
    with pytest.raises(InputError, match=f"{next(iter(parameters))} must be"):
        LOF(**parameters).fit(np.zeros((5, 2)))
