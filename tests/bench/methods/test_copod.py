import numpy as np
from pyod.models.copod import COPOD as PyODCOPOD

from nptad.bench.methods.copod import COPOD


def test_is_exactly_pyods():
    random = np.random.default_rng(0)
    x, new = random.gamma(2, size=(300, 4)), random.gamma(3, size=(50, 4))
    np.testing.assert_array_equal(COPOD().fit(x).score(new), PyODCOPOD().fit(x).decision_function(new))


def test_scoring_does_not_teach_it():
    random = np.random.default_rng(0)
    x, new = random.normal(size=(100, 3)), random.normal(size=(20, 3))
    detector = COPOD().fit(x)
    expected = detector.score(new)
    detector.score(new + 5)
    np.testing.assert_array_equal(detector.score(new), expected)
