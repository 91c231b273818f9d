"""Which cells are named: against a slow density, against all sets, and as a user plants them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import cauchy, multivariate_normal

from nptad import NPTAD
from nptad.explain.density import KernelDensity
from nptad.explain.suspicious import MISFIT, best_set
from nptad.tables.layout import CellLayout

LAYOUT = CellLayout(3, (3,))


@pytest.fixture(scope="module")
def density():
    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 4)).astype(np.float32)
    rows[:, 1] += 2 * rows[:, 0]
    rows[:, 3] = (rows[:, 0] > 0) + (rows[:, 0] > 1)
    rows[random.random(rows.shape) < 0.05] = np.nan
    return KernelDensity(rows, LAYOUT)


def slow_log_density(density, row, visible):
    """The density of the visible cells of a row, one training row after the other."""
    width, slip = density._kernel
    numbers = [j for j in visible if j < 3]
    covariance = width**2 * np.linalg.inv(density._precision)[np.ix_(numbers, numbers)]
    value = density._quantiles_of(row[None])[0, numbers]
    known = density.rows[:, 3][~np.isnan(density.rows[:, 3])]
    share = ((known == row[3]).sum() + 1) / (len(known) + 4)
    logs = []
    for z, code in zip(density._numbers, density.rows[:, 3], strict=True):
        log = 0.0
        if numbers:
            log += multivariate_normal.logpdf(value, np.sqrt(1 - width**2) * z[numbers], covariance)
        if 3 in visible:
            log += np.log((1 - slip) * (share if np.isnan(code) else code == row[3]) + slip * share)
        logs.append(log)
    return logsumexp(logs)


@pytest.mark.parametrize(
    "row", [[0.5, 1.0, 0.0, 1.0], [9.0, -1.0, np.nan, 0.0], [np.nan, 0.1, 0.2, -1.0], [0.3, np.nan, 1.0, np.nan]]
)
def test_gains_are_those_of_a_slow_density(density, row):
    row = np.array(row, dtype=np.float32)
    observed = np.flatnonzero(~np.isnan(row))
    gains = density.gains(row, observed)
    value = density._quantiles_of(row[None])[0]
    wrong = [*cauchy.logpdf(value, scale=1.5), -np.log(4)]
    for size in range(1, len(observed) + 1):
        for places in combinations(range(len(observed)), size):
            cells = observed[list(places)]
            rest = [j for j in observed if j not in cells]
            slow = slow_log_density(density, row, rest) - slow_log_density(density, row, observed)
            slow += sum(wrong[j] for j in cells)
            np.testing.assert_allclose(gains(np.array([places]))[0], slow, atol=1e-8)


def test_rows_that_do_not_count_leave_the_density(density):
    row = np.array([0.5, 1.0, 0.0, 1.0], dtype=np.float32)
    without = np.zeros(60, dtype=bool)
    whole = density.gains(row, np.arange(4), without)(np.array([[1], [3]]))
    np.testing.assert_array_equal(whole, density.gains(row, np.arange(4))(np.array([[1], [3]])))
    without[:50] = True
    assert (density.gains(row, np.arange(4), without)(np.array([[1], [3]])) != whole).all()


def factors(n_rows, seed):
    """Ten columns that depend on two numbers."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(n_rows, 2))
    weights = np.random.default_rng(9).normal(size=(2, 10))
    return (hidden @ weights + 0.2 * random.normal(size=(n_rows, 10))).astype(np.float32)


def plant(x, size, seed):
    """The rows with wrong cells, values of other rows that differ by at least one standard deviation."""
    random, planted, columns = np.random.default_rng(seed), x.copy(), []
    for row in planted:
        wrong = random.choice(x.shape[1], size, replace=False)
        for j in wrong:
            others = x[np.abs(x[:, j] - row[j]) > x[:, j].std(), j]
            row[j] = random.choice(others)
        columns.append(set(wrong.tolist()))
    return planted, columns


def test_the_set_is_the_best_of_all_sets():
    rows = factors(300, 0)
    density = KernelDensity(rows, CellLayout(10, ()))
    planted, _ = plant(factors(30, 1), 3, 2)
    for row in planted:
        gains = density.gains(row, np.arange(10))
        best, gain = best_set(gains, 10, 3, 2.5)
        of_size = [np.array(list(combinations(range(10), size))) for size in (1, 2, 3)]
        largest = max((gains(sets) - 2.5 * sets.shape[1]).max() for sets in of_size)
        assert gain == pytest.approx(largest)
        assert gains(np.array([best]))[0] - 2.5 * len(best) == pytest.approx(gain)


@pytest.fixture(scope="module")
def detector():
    return NPTAD(random_state=0).fit(factors(500, 0))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_planted_cells_are_named_and_no_others(detector, size):
    planted, columns = plant(factors(25, 1), size, size)
    named = [{r.column for r in why.reasons if r.suspicious} for why in detector.explain(planted)]
    assert np.mean([found == wrong for found, wrong in zip(named, columns, strict=True)]) >= 0.8


def test_without_the_named_cells_the_row_is_ordinary(detector):
    planted, _ = plant(factors(25, 1), 2, 2)
    odd = detector.detect(planted).p_value < 0.01
    assert odd.sum() > 12
    assert np.mean([why.unlike for why in detector.explain(planted[odd])]) < 0.1
    for why in detector.explain(planted[odd]):
        assert sum(reason.contribution for reason in why.reasons) == pytest.approx(why.score)
        assert {reason.oddity for reason in why.reasons if not reason.suspicious} == {None}


def test_reasons_do_not_depend_on_the_other_rows(detector):
    planted, _ = plant(factors(3, 1), 2, 2)
    together = detector.explain(planted)
    for i, why in enumerate(together):
        (alone,) = detector.explain(planted[i : i + 1])
        assert [(r.column, r.oddity) for r in alone.reasons] == [(r.column, r.oddity) for r in why.reasons]


def test_a_category_that_the_numbers_contradict():
    random = np.random.default_rng(0)
    size = random.normal(size=400)
    table = pd.DataFrame({"a": size, "b": 2 * size + 0.1 * random.normal(size=400)})
    table["kind"] = np.where(size > 0, "large", "small")
    new = pd.DataFrame({"a": [1.5], "b": [3.0], "kind": ["small"]})
    first, *others = NPTAD(random_state=0).fit(table).explain(new)[0].reasons
    assert (first.column, first.suspicious, first.oddity, first.expected) == ("kind", True, MISFIT, "large")
    assert not any(reason.suspicious for reason in others)


def test_what_is_odd_about_single_cells():
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(400, 4)).round(3), columns=list("abcd"))
    table["port"] = random.choice([80, 443, 8080], 400)
    new = pd.DataFrame(random.normal(size=(3, 4)), columns=list("abcd")) / 2
    new["port"] = 80
    new.loc[0, "port"] = 4444
    new.loc[1, "b"] = 99.0
    new.loc[2, "c"] = np.nan
    odd = [why.reasons[0] for why in NPTAD(random_state=0).fit(table).explain(new)]
    assert [(reason.column, reason.oddity) for reason in odd] == [
        ("port", "values never seen"),
        ("b", "outside the range"),
        ("c", "missing cells"),
    ]


@pytest.mark.parametrize(
    "table",
    [
        np.arange(20.0)[:, None],
        np.random.default_rng(0).normal(size=(30, 2)),
        np.ones((12, 3)),
        pd.DataFrame({"a": list("xyzxxyxyxx"), "b": list("ppqqpqpqpp")}),
        pd.DataFrame({"a": [np.nan] * 9 + [1.0], "b": np.arange(10.0), "c": list("xyzxxyxyxx")}),
    ],
    ids=["one column", "two columns", "constant", "categories", "nearly empty"],
)
@pytest.mark.filterwarnings("ignore::nptad.TableWarning")
def test_small_tables(table):
    detector = NPTAD(random_state=0).fit(table)
    for why in detector.explain(table[:3]):
        assert sum(reason.contribution for reason in why.reasons) == pytest.approx(why.score)
