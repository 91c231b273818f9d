import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from nptad.bench.methods.scaling import LARGEST, Scaler, check_count, check_new_rows, check_rows, subsample
from nptad.errors import InputError


def test_rows_become_float64():
    rows = check_rows([[1, 2], [3, 4]])
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([1.0, 2.0], "two axes"),
        (np.zeros((2, 2, 2)), "two axes"),
        (np.empty((0, 3)), "0 row"),
        (np.empty((3, 0)), "0 column"),
        ([[1.0, np.nan]], r"x\[0, 1\] is nan"),
        ([[1.0], [-np.inf]], r"x\[1, 0\] is -inf"),
        ([["red"]], "encode categories"),
        ([[1.0], [1.0, 2.0]], "rectangular"),
    ],
)
def test_unusable_rows(x, message):
    with pytest.raises(InputError, match=message):
        check_rows(x)


def test_enormous_numbers_are_cut():
    np.testing.assert_array_equal(check_rows([[1e300, -1e300]]), [[LARGEST, -LARGEST]])


def test_new_rows():
    class Fitted:
        n_features_ = 2

    np.testing.assert_array_equal(check_new_rows(Fitted(), [[1, 2]]), [[1, 2]])
    with pytest.raises(InputError, match=r"3 column.* had 2"):
        check_new_rows(Fitted(), np.zeros((1, 3)))
    with pytest.raises(NotFittedError, match="object is not fitted"):
        check_new_rows(object(), [[1, 2]])


@pytest.mark.parametrize("value", [0, 1.5, "3", None, True])
def test_bad_count(value):
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        check_count("k", value)


def test_standard():
    x = np.random.default_rng(0).normal(3, 5, size=(50, 4))
    scaled = Scaler(x, "standard").transform(x)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), 1)


def test_minmax():
    x = np.random.default_rng(0).normal(3, 5, size=(50, 4))
    scaled = Scaler(x, "minmax").transform(x)
    np.testing.assert_allclose(scaled.min(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.max(axis=0), 1)


def test_maxabs():
    x = np.array([[0.0, -8.0, 0.0], [2.0, 4.0, 0.0]])
    np.testing.assert_array_equal(Scaler(x, "maxabs").transform(x), [[0.0, -1.0, 0.0], [1.0, 0.5, 0.0]])


@pytest.mark.parametrize("scaling", ["standard", "minmax"])
def test_constant_columns_are_shifted(scaling):
    scaler = Scaler(np.full((5, 1), 7.0), scaling)
    np.testing.assert_array_equal(scaler.transform(np.array([[7.0], [9.5]])), [[0.0], [2.5]])


@pytest.mark.parametrize("scaling", ["standard", "minmax", "maxabs"])
def test_almost_constant_columns_stay_finite(scaling):
    scaler = Scaler(np.array([[0.0], [1e-150]]), scaling)
    assert np.isfinite(scaler.transform(np.array([[LARGEST], [-LARGEST]]))).all()


def test_unknown_scaling():
    with pytest.raises(InputError, match="standard, minmax"):
        Scaler(np.zeros((2, 1)), "robust")


def test_subsample():
    rows = np.arange(20.0)[:, None]
    assert subsample(rows, 20, 0) is rows
    kept = subsample(rows, 5, 0)
    assert len(np.unique(kept)) == 5
    np.testing.assert_array_equal(kept, subsample(rows, 5, 0))
    assert not np.array_equal(kept, subsample(rows, 5, 1))
