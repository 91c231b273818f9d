import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import OneClassSVM

from nptad.bench.methods.ocsvm import OCSVM
from nptad.errors import InputError


def test_is_scikit_learns_on_scaled_features():
    random = np.random.default_rng(0)
    x, new = random.normal(size=(200, 4)) * [1, 10, 100, 1000], random.normal(size=(50, 4)) * [1, 10, 100, 1000]
    scaler = MinMaxScaler().fit(x)
    expected = -OneClassSVM(nu=0.1).fit(scaler.transform(x)).score_samples(scaler.transform(new))
    np.testing.assert_allclose(OCSVM().fit(x).score(new), expected)


def test_large_tables_are_sampled():
    x = np.random.default_rng(0).normal(size=(100, 2))
    detector = OCSVM(max_samples=40, random_state=0).fit(x)
    assert detector.svm_.shape_fit_ == (40, 2)
    np.testing.assert_array_equal(detector.score(x), OCSVM(max_samples=40, random_state=0).fit(x).score(x))
    assert not np.array_equal(detector.score(x), OCSVM(max_samples=40, random_state=1).fit(x).score(x))


@pytest.mark.parametrize("parameters", [{"nu": 0.0}, {"nu": 1.5}, {"max_samples": 0}, {"scaling": "raw"}])
def test_bad_parameters(parameters):
    with pytest.raises(InputError, match=f"{next(iter(parameters))} must be"):
        OCSVM(**parameters).fit(np.zeros((5, 2)))
