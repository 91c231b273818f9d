import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from nptad import NPTAD
from nptad.bench.checks import CHECKS, check_detector, run_check
from nptad.bench.protocol import as_method
from nptad.errors import InputError, TableWarning


class Distance:
    """A detector that keeps to the contract: the distance to the mean of the training rows."""

    def fit(self, x):
        self.mean = self.rows(x).mean(axis=0)
        return self

    def score(self, x):
        if not hasattr(self, "mean"):
            raise NotFittedError("Call fit first.")
        rows = self.rows(x)
        if rows.shape[1] != len(self.mean):
            raise InputError("Wrong number of columns.")
        return np.abs(rows - self.mean).sum(axis=1)

    def rows(self, x):
        rows = np.asarray(x, dtype=float)
        if rows.ndim != 2:
            raise InputError("Two axes, please.")
        if not rows.size:
            raise InputError("Nothing there.")
        if np.isnan(rows).any():
            raise InputError("Missing cells.")
        if np.isinf(rows).any():
            raise InputError("Infinite cells.")
        return rows


class ReturnsNothing(Distance):
    def fit(self, x):
        super().fit(x)


class ReturnsFloat32(Distance):
    def score(self, x):
        return super().score(x).astype(np.float32)


class ReturnsAColumn(Distance):
    def score(self, x):
        return super().score(x)[:, None]


class ReturnsAList(Distance):
    def score(self, x):
        return super().score(x).tolist()


class ChangesTrainingRows(Distance):
    def fit(self, x):
        super().fit(x)
        if isinstance(x, np.ndarray):
            x -= self.mean.astype(x.dtype)
        return self


class ChangesRows(Distance):
    def score(self, x):
        scores = super().score(x)
        if isinstance(x, np.ndarray):
            x *= 2
        return scores


class Overflows(Distance):
    def score(self, x):
        with np.errstate(over="ignore"):
            return np.exp(super().score(x) / 1000)


class DividesBySpread(Distance):
    def fit(self, x):
        self.spread = self.rows(x).std(axis=0)
        return super().fit(x)

    def score(self, x):
        scores = super().score(x)
        with np.errstate(all="ignore"):
            return scores + (1e-9 * self.rows(x) / self.spread).max(axis=1)


class NeedsDifferentRows(Distance):
    def fit(self, x):
        super().fit(x)
        rows = self.rows(x)
        self.least = np.nan if len(np.unique(rows, axis=0)) < len(rows) / 2 else 0.0
        return self

    def score(self, x):
        return super().score(x) + self.least


class NeedsManyRows(Distance):
    def fit(self, x):
        super().fit(x)
        self.least = np.nan if len(x) < 3 else 0.0
        return self

    def score(self, x):
        return super().score(x) + self.least


class CountsPrecision(Distance):
    def score(self, x):
        return super().score(x) * (2 if getattr(x, "dtype", None) == np.float32 else 1)


class CountsRows(Distance):
    def score(self, x):
        scores = super().score(x)
        return scores + np.arange(len(scores))


class Standardises(Distance):
    def score(self, x):
        scores = super().score(x)
        return (scores - scores.mean()) / (scores.std() + 1)


class FavoursTheFirstRow(Distance):
    def fit(self, x):
        super().fit(x)
        self.mean = self.mean + 0.01 * self.rows(x)[0]
        return self


class DrawsAfresh(Distance):
    def fit(self, x):
        super().fit(x)
        self.mean = self.mean + 1e-9 * np.random.default_rng().normal()
        return self


class ForgetsItsScores(Distance):
    def score(self, x):
        self.asked = getattr(self, "asked", 0) + 1e-12
        return super().score(x) + self.asked


class RemembersTheFirstFit(Distance):
    def fit(self, x):
        if not hasattr(self, "mean") or len(self.mean) != self.rows(x).shape[1]:
            super().fit(x)
        return self


class UpsideDown(Distance):
    def score(self, x):
        return -super().score(x)


class ForgetsFit(Distance):
    mean = np.zeros(4)


class AcceptsNoRows(Distance):
    def rows(self, x):
        return np.zeros((1, x.shape[1])) if isinstance(x, np.ndarray) and x.shape == (0, 4) else super().rows(x)


class AcceptsOneAxis(Distance):
    def rows(self, x):
        return super().rows(np.atleast_2d(x))


class AcceptsAnyWidth(Distance):
    def score(self, x):
        return super().score(np.pad(self.rows(x), [(0, 0), (0, 9)])[:, : len(self.mean)])


class ImputesSilently(Distance):
    def rows(self, x):
        return super().rows(np.where(np.isnan(x), 0.0, x) if isinstance(x, np.ndarray) and x.dtype == float else x)


class CutsInfinities(Distance):
    def rows(self, x):
        return super().rows(np.clip(x, -1e9, 1e9) if isinstance(x, np.ndarray) and x.ndim == 2 else x)


class RaisesAnotherError(Distance):
    def score(self, x):
        if np.ndim(x) == 2 and np.shape(x)[1] == 3:
            raise KeyError(3)
        return super().score(x)


class RaisesWithoutWords(Distance):
    def rows(self, x):
        if np.ndim(x) == 1:
            raise InputError
        return super().rows(x)


BROKEN = {
    ReturnsNothing: ("fit", "fit must return the detector"),
    ReturnsFloat32: ("fit", "float64, not float32"),
    ReturnsAColumn: ("fit", r"shape \(40,\), not \(40, 1\)"),
    ReturnsAList: ("fit", "not a list"),
    ChangesTrainingRows: ("fit", "fit changed"),
    ChangesRows: ("fit", "score changed"),
    Overflows: ("finite", "score of the finite row"),
    DividesBySpread: ("constant_columns", "score of the finite row"),
    NeedsDifferentRows: ("duplicates", "is nan"),
    NeedsManyRows: ("few_rows", "is nan"),
    CountsPrecision: ("number_types", "float32"),
    CountsRows: ("row_order", "in two orders"),
    Standardises: ("batch", "one by one"),
    FavoursTheFirstRow: ("training_order", "after fitting"),
    DrawsAfresh: ("repeatable", "same seed"),
    ForgetsItsScores: ("repeatable", "twice"),
    RemembersTheFirstFit: ("repeatable", "forget"),
    UpsideDown: ("outlier", "12 standard deviations"),
    ForgetsFit: ("not_fitted", "NotFittedError, but it raised nothing"),
    AcceptsNoRows: ("empty", "fit without rows must raise InputError"),
    AcceptsOneAxis: ("axes", "one axis must raise InputError"),
    AcceptsAnyWidth: ("width", "must raise InputError"),
    ImputesSilently: ("missing_cell", "a cell that is nan"),
    CutsInfinities: ("infinite_cell", "a cell that is inf"),
    RaisesAnotherError: ("width", "InputError, not KeyError"),
    RaisesWithoutWords: ("axes", "with a message"),
}


def test_a_detector_that_keeps_to_the_contract_passes():
    check_detector(Distance)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_detector_is_found_by_the_check_for_it(broken):
    check, message = BROKEN[broken]
    with pytest.raises(AssertionError, match=f"^{check}: .*{message}"):
        run_check(check, broken)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_detector_fails_the_contract(broken):
    with pytest.raises(AssertionError):
        check_detector(broken)


def test_every_check_finds_something():
    assert {check for check, _ in BROKEN.values()} | {"huge_values"} == set(CHECKS)


def test_huge_values():
    class SquaresSquares(Distance):
        def score(self, x):
            scores = super().score(x)
            with np.errstate(over="ignore"):
                return scores + 1e-300 * (scores / 1e7) ** 200

    with pytest.raises(AssertionError, match=r"^huge_values: .* is inf"):
        run_check("huge_values", SquaresSquares)


def test_checks_can_be_skipped():
    check_detector(UpsideDown, skip={"outlier"})
    with pytest.raises(InputError, match="no check called 'outliers'; the checks are fit, finite"):
        check_detector(Distance, skip={"outliers"})


def test_table_warnings_are_allowed():
    class Talks(Distance):
        def fit(self, x):
            import warnings

            warnings.warn("One column is constant.", TableWarning, stacklevel=2)
            return super().fit(x)

    check_detector(Talks)


WELCOME = {"missing_cell", "infinite_cell", "empty"}


@pytest.mark.parametrize("check", [name for name in CHECKS if name not in {"training_order", *WELCOME}])
def test_nptad(check):
    # Folds and batches depend on the order of the training rows.
    run_check(check, lambda: as_method(NPTAD(1, n_steps=3, embedding_dim=8, max_masked=1, random_state=0)))
