import numpy as np
import pytest
from sklearn.ensemble import IsolationForest

from nptad.bench.methods.iforest import IForest
from nptad.errors import InputError


def test_is_scikit_learns_with_its_defaults():
    random = np.random.default_rng(0)
    x, new = random.normal(size=(300, 4)), random.normal(size=(50, 4))
    expected = -IsolationForest(random_state=3).fit(x).score_samples(new)
    np.testing.assert_array_equal(IForest(random_state=3).fit(x).score(new), expected)


def test_features_may_have_any_scale():
    random = np.random.default_rng(0)
    x, new = random.normal(size=(300, 3)), random.normal(size=(50, 3))
    scale = np.array([2.0**20, 1.0, 2.0**10])  # powers of 2: the same cuts but for the exponent
    scores = IForest(random_state=0).fit(x * scale).score(new * scale)
    np.testing.assert_allclose(scores, IForest(random_state=0).fit(x).score(new))


@pytest.mark.parametrize("parameters", [{"n_trees": 0}, {"sample_size": 0.5}])
def test_bad_parameters(parameters):
    with pytest.raises(InputError, match=next(iter(parameters))):
        IForest(**parameters).fit(np.zeros((5, 2)))
