import numpy as np
import pytest

from nptad.bench.methods.gmm import GMMEnsemble
from nptad.errors import InputError


def test_one_component_is_a_gaussian():
    x = np.random.default_rng(0).normal([3, -1], [2, 5], size=(2000, 2))
    detector = GMMEnsemble(n_members=5, n_components=(1,), random_state=0).fit(x)
    new = np.array([[3.0, -1.0], [7.0, -1.0], [3.0, 9.0]])
    # Standardised, with 0.01 added to the variances.
    expected = np.log(2 * np.pi * 1.01) + np.array([0, 4, 4]) / 2 / 1.01
    np.testing.assert_allclose(detector.score(new), expected, atol=0.15)


def test_is_the_mean_over_the_members():
    x = np.random.default_rng(0).normal(size=(100, 2))
    detector = GMMEnsemble(n_members=4, n_components=(1, 3), random_state=0).fit(x)
    assert [mixture.n_components for mixture in detector.members_] == [1, 3, 1, 3]
    scaled = detector.scaler_.transform(x)
    expected = -sum(mixture.score_samples(scaled) for mixture in detector.members_) / 4
    np.testing.assert_allclose(detector.score(x), expected)


def test_the_gap_between_clusters_is_anomalous():
    random = np.random.default_rng(0)
    x = np.concatenate([random.normal(-5, 1, size=(100, 2)), random.normal(5, 1, size=(100, 2))])
    in_cluster, between = GMMEnsemble(n_members=3, random_state=0).fit(x).score([[5, 5], [0, 0]])
    assert between > in_cluster + 3


def test_samples_are_limited():
    x = np.random.default_rng(0).normal(size=(300, 2))
    detector = GMMEnsemble(n_members=2, max_samples=3, random_state=0).fit(x)
    assert all(mixture.n_components <= 3 for mixture in detector.members_)


@pytest.mark.parametrize(
    "parameters", [{"n_members": 0}, {"n_components": (0,)}, {"n_components": ()}, {"max_samples": 0}]
)
def test_bad_parameters(parameters):
    with pytest.raises(InputError, match=f"{next(iter(parameters))} must"):
        GMMEnsemble(**parameters).fit(np.zeros((5, 2)))


def test_one_row_has_no_spread():
    with pytest.raises(InputError, match=r"^A Gaussian mixture .* at least 2 training rows, got 1\.$"):
        GMMEnsemble().fit([[1.0, 2.0]])
