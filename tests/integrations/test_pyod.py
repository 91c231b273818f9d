"""The detector as a PyOD detector."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from nptad import NPTAD, InputError

pytest.importorskip("pyod")
from nptad.integrations.pyod import PyODNPTAD


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    return random.normal(size=(50, 1)) * [1, 2, -1] + 0.1 * random.normal(size=(50, 3))


@pytest.fixture(scope="module")
def detector():
    return NPTAD(n_members=2, n_steps=20, embedding_dim=8, random_state=0)


@pytest.fixture(scope="module")
def fitted(table, detector):
    return PyODNPTAD(contamination=0.2, detector=detector).fit(table)


def test_training_scores_are_the_honest_ones_with_the_sign_turned(fitted, table):
    np.testing.assert_array_equal(fitted.decision_scores_, -fitted.detector_.training_scores_)
    np.testing.assert_array_equal(fitted.decision_scores_, fitted.decision_function(table))


def test_labels_are_one_above_the_threshold(fitted):
    np.testing.assert_array_equal(fitted.labels_, fitted.decision_scores_ > fitted.threshold_)
    assert fitted.labels_.sum() == 10
    assert fitted.threshold_ == pytest.approx(-fitted.detector_.offset_)


def test_predict_agrees_with_the_scikit_learn_view(fitted, table):
    rows = np.vstack([table + 0.01, [[9.0, -9.0, 9.0]]])
    labels = fitted.predict(rows)
    assert labels[-1] == 1
    np.testing.assert_array_equal(labels, fitted.detector_.predict(rows) == -1)


def test_higher_is_more_abnormal(fitted):
    normal, abnormal = fitted.decision_function(np.array([[1.0, 2.0, -1.0], [8.0, -8.0, 8.0]]))
    assert abnormal > normal


@pytest.mark.parametrize("method", ["linear", "unify"])
def test_probabilities(fitted, table, method):
    probabilities = fitted.predict_proba(table[:10], method=method)
    assert probabilities.shape == (10, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_confidence(fitted, table):
    labels, confidence = fitted.predict(table[:10], return_confidence=True)
    assert labels.shape == confidence.shape == (10,)
    assert ((confidence >= 0) & (confidence <= 1)).all()


def test_parameters_come_from_the_given_detector_which_stays_unfitted(fitted, detector, table):
    assert fitted.detector_.n_steps == 20
    assert fitted.detector_.contamination == 0.2
    assert detector.contamination == "auto"
    with pytest.raises(NotFittedError):
        detector.predict(table)


def test_parameters_can_be_read_set_and_cloned(detector):
    view = PyODNPTAD(detector=clone(detector))
    view.set_params(contamination=0.3, detector__n_steps=3)
    copy = clone(view)
    assert copy.get_params()["detector__n_steps"] == 3
    assert copy.contamination == 0.3


def test_pickle_keeps_scores_bit_for_bit(fitted, table):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.decision_function(table + 0.1), fitted.decision_function(table + 0.1))


def test_scoring_without_fit_is_an_error(table):
    with pytest.raises(NotFittedError):
        PyODNPTAD().decision_function(table)


@pytest.mark.parametrize("contamination", [0, 0.6, "auto"])
def test_bad_contamination(contamination, detector, table):
    with pytest.raises(ValueError, match="contamination"):
        PyODNPTAD(contamination=contamination, detector=detector).fit(table)


def test_bad_detector(table):
    with pytest.raises(InputError, match="detector must be"):
        PyODNPTAD(detector="NPTAD").fit(table)
