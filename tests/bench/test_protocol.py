"""Splits, metrics, one-hot columns, and detectors of other libraries under our contract."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyod.models.ecod import ECOD
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from nptad.bench.datasets import Table
from nptad.bench.protocol import Clock, Split, as_method, contaminated_split, metrics, one_hot, parse_name, split_table
from nptad.errors import InputError


def table(n_normal=31, n_anomalies=6):
    """A table whose only column is the number of the row; anomalies are spread among the normal rows."""
    y = np.zeros(n_normal + n_anomalies, dtype=bool)
    y[np.linspace(1, len(y) - 1, n_anomalies).astype(int)] = True
    return Table("made", np.arange(len(y), dtype=float)[:, None], y, ())


def rows(part):
    return part[:, 0].astype(int).tolist()


@given(n_normal=st.integers(2, 60), n_anomalies=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_half_of_the_normal_rows_trains_and_every_other_row_is_tested(n_normal, n_anomalies, seed):
    made = table(n_normal, n_anomalies)
    split = split_table(made, seed)
    assert len(split.train) == n_normal // 2
    assert sorted(rows(split.train) + rows(split.test)) == list(range(len(made.y)))
    assert not made.y[rows(split.train)].any()
    np.testing.assert_array_equal(split.truth, made.y[rows(split.test)])


def test_each_seed_is_a_split_of_its_own():
    splits = [rows(split_table(table(), seed).train) for seed in (0, 0, 1, 2)]
    assert splits[0] == splits[1]
    assert len({tuple(sorted(split)) for split in splits}) == 3


def test_a_clock_times_phases_and_shares_out_what_several_runs_have_in_common(monkeypatch):
    ticks = iter([10.0, 16.0, 20.0, 21.0])
    monkeypatch.setattr("nptad.bench.protocol.time.perf_counter", lambda: next(ticks))
    clock = Clock()
    with clock("fit", shared_by=3):
        pass
    further = deepcopy(clock)
    with further("score"):
        pass
    assert (clock.seconds, further.seconds) == ({"fit": 2.0}, {"fit": 2.0, "score": 1.0})
    assert set(further.cpu_seconds) == {"fit", "score"}


@pytest.mark.parametrize("share", [0, 0.01, 0.05, 0.1])
def test_contamination_is_the_share_of_anomalies_among_training_rows(share):
    made = table(1800, 200)
    split = contaminated_split(made, 3, share)
    anomalies = made.y[rows(split.train)]
    assert anomalies.mean() == pytest.approx(share, abs=0.0006)
    assert (~anomalies).sum() == 900
    assert not set(rows(split.train)) & set(rows(split.test))


def test_contaminated_splits_of_a_seed_share_normal_rows_and_test_set():
    made = table(1800, 200)
    clean, dirty = (contaminated_split(made, 3, share) for share in (0, 0.1))
    assert rows(clean.test) == rows(dirty.test)
    assert set(rows(clean.train)) == {row for row in rows(dirty.train) if not made.y[row]}
    assert int(clean.truth.sum()) == 100
    other = contaminated_split(made, 4, 0.05)
    assert set(rows(other.train)) != set(rows(contaminated_split(made, 3, 0.05).train))
    assert rows(other.test[other.truth]) == rows(clean.test[clean.truth])


def test_contamination_without_anomalies_to_spare_says_so():
    with pytest.raises(InputError, match="made has 0 anomalies to add, but a share of 50% needs 15"):
        contaminated_split(table(), 0, 0.5)


@pytest.mark.parametrize("name", ["separable@", "separable@x", "separable@-0.1", "separable@1", "separable@nan"])
def test_a_share_that_is_none_is_refused(name):
    with pytest.raises(InputError, match=rf"'{name}' needs a share of anomalies after the @, such as separable@0.05"):
        parse_name(name)


def test_metrics_are_in_percent():
    truth, scores = np.array([False, True, False, True]), np.array([1.0, 2.0, 3.0, 4.0])
    assert metrics(truth, scores) == {"f1": 50.0, "auroc": 75.0, "average_precision": 83.333}


@pytest.mark.parametrize("scores", [np.array([1.0, np.nan, 2.0]), np.array([1.0, np.inf, 2.0])])
def test_scores_that_are_no_numbers_are_refused(scores):
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        metrics(np.array([False, False, True]), scores)


@pytest.mark.parametrize("scores", [np.zeros(2), np.zeros((3, 1)), np.array(5.0)])
def test_anything_but_one_score_per_row_is_refused(scores):
    with pytest.raises(InputError, match=r"needs one number for each of the 3 rows"):
        metrics(np.array([False, False, True]), scores)


def test_one_hot_knows_the_categories_of_training_only():
    train = np.array([[0.5, 3.0, 1.0], [0.7, 5.0, 1.0]])
    test = np.array([[9.0, 5.0, 1.0], [8.0, 4.0, 2.0]])
    made, new, feature = one_hot(Split(train, test, np.array([False, True]), categorical=(1, 2)))
    assert made.tolist() == [[0.5, 1, 0, 0, 1, 0], [0.7, 0, 1, 0, 1, 0]]
    assert new.tolist() == [[9.0, 0, 1, 0, 1, 0], [8.0, 0, 0, 1, 0, 1]]
    assert feature.tolist() == [0, 1, 1, 1, 2, 2]


def test_a_new_category_is_no_nearer_to_training_rows_than_another_of_theirs():
    levels = np.array([[0.0], [1.0], [2.0]])
    train, test, _ = one_hot(Split(levels, np.array([[3.0]]), np.array([True]), categorical=(0,)))
    apart = np.linalg.norm(train[0] - train[1])
    assert np.linalg.norm(train - test, axis=1) == pytest.approx(apart)


def test_one_hot_leaves_a_table_of_numbers_alone():
    split = split_table(table(), 0)
    train, test, feature = one_hot(split)
    np.testing.assert_array_equal(train, split.train)
    np.testing.assert_array_equal(test, split.test)
    assert feature.tolist() == [0]


DETECTORS = [
    IsolationForest(random_state=0),
    OneClassSVM(),
    LocalOutlierFactor(novelty=True),
    EllipticEnvelope(random_state=0),
    GaussianMixture(random_state=0),
    KernelDensity(),
    make_pipeline(StandardScaler(), OneClassSVM()),
    ECOD(),
]


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: type(detector).__name__)
def test_detectors_of_other_libraries_score_an_odd_row_higher(detector):
    random = np.random.default_rng(0)
    method = as_method(detector)
    method.fit(random.normal(size=(60, 3)))
    odd, usual = np.full((1, 3), 6.0), np.zeros((1, 3))
    scores = method.score(np.vstack([usual, odd]))
    assert scores.shape == (2,)
    assert scores[1] > scores[0]


class Own:
    def fit(self, x):
        self.mean = x.mean()
        return self

    def score(self, x):
        return np.abs(x[:, 0] - self.mean)


class OwnEstimator(BaseEstimator, Own):
    """Has scikit-learn's parameters, and the benchmark's contract."""


@pytest.mark.parametrize("own", [Own(), OwnEstimator()], ids=["plain", "BaseEstimator"])
def test_a_method_of_ones_own_is_used_as_it_is(own):
    assert as_method(own) is own


@pytest.mark.parametrize(
    "nonsense", [object(), 5, StandardScaler(), KMeans(), LocalOutlierFactor()], ids=lambda value: type(value).__name__
)
def test_what_is_no_detector_is_refused_in_words(nonsense):
    with pytest.raises(InputError, match=rf"{type(nonsense).__name__} cannot be used as a method: it needs fit\(x\)"):
        as_method(nonsense)
