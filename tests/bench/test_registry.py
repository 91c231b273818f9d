"""The methods that come from a library are that library's, with the stated parameters and scaling."""

import numpy as np
import pytest
from pyod.models.copod import COPOD
from sklearn.ensemble import IsolationForest
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import OneClassSVM

from nptad.bench.own import import_own
from nptad.bench.protocol import Split
from nptad.bench.registry import METHODS, shape_of, variants_of
from nptad.bench.tables import VARIED


def a_split(n_train=300):
    """The last column is constant in the training rows, as that of new categories is."""
    random = np.random.default_rng(0)
    train, test = (random.gamma(2, size=(n, 4)) * [1, 10, 100, 1000] for n in (n_train, 50))
    train[:, 3] = 0
    return Split(train, test, np.arange(50) >= 40, ())


def scores_of(method, split, seed=3):
    (scored,) = METHODS[method].run([split], [seed], {})
    return scored.scores


def test_iforest():
    split = a_split()
    expected = (
        -IsolationForest(n_estimators=100, max_samples=256, random_state=3).fit(split.train).score_samples(split.test)
    )
    np.testing.assert_array_equal(scores_of("iforest", split), expected)


@pytest.mark.filterwarnings("ignore:Precision loss")
def test_copod():
    split = a_split()
    expected = COPOD().fit(split.train).decision_function(split.test)
    np.testing.assert_array_equal(scores_of("copod", split), expected)


def test_ocsvm():
    split = a_split()
    scaler = MinMaxScaler().fit(split.train)
    expected = -OneClassSVM(nu=0.1).fit(scaler.transform(split.train)).score_samples(scaler.transform(split.test))
    np.testing.assert_array_equal(scores_of("ocsvm", split), expected)


def test_ocsvm_samples_large_tables():
    split = a_split(10_020)
    scaler = MinMaxScaler().fit(split.train)
    kept = scaler.transform(split.train)[np.random.default_rng(3).choice(10_020, size=10_000, replace=False)]
    expected = -OneClassSVM(nu=0.1).fit(kept).score_samples(scaler.transform(split.test))
    np.testing.assert_array_equal(scores_of("ocsvm", split), expected)


@pytest.mark.parametrize("method", ["iforest", "copod", "ocsvm"])
def test_a_constant_column_gives_no_warning(method):
    assert np.isfinite(scores_of(method, a_split())).all()


@pytest.mark.parametrize("method", [name for base in VARIED for name in variants_of(base)])
def test_settings_that_others_published_are_settings_of_the_method(method):
    config = METHODS[method].configure("paper", shape_of("wine"))
    detector = import_own(METHODS[method].run.args[0], "method")(**config)
    assert {name: getattr(detector, name) for name in config} == config


def test_variants_differ_from_the_method_and_from_one_another():
    for base in VARIED:
        configs = [METHODS[name].configure("paper", shape_of("wine")) for name in variants_of(base)]
        assert len(configs) > 1
        assert all(configs.count(config) == 1 for config in configs)
