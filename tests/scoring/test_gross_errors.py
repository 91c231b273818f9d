"""Gross errors in single cells: found whatever else the table is like, and hardly ever where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from nptad.scoring.gross_errors import _differing, gross_errors
from nptad.scoring.views.times import weekday
from nptad.tables.layout import CellLayout

DRAWS = {
    "normal": lambda random, shape: random.normal(size=shape),
    "normal just above 0": lambda random, shape: random.normal(3.2, 1, size=shape),
    "t(4)": lambda random, shape: random.standard_t(4, size=shape),
    "Cauchy": lambda random, shape: random.standard_cauchy(size=shape),
    "lognormal": lambda random, shape: np.round(random.lognormal(3, 1, size=shape), 2),
    "uniform": lambda random, shape: random.uniform(size=shape),
    "Poisson": lambda random, shape: random.poisson(8, size=shape),
    "mostly 0": lambda random, shape: np.where(random.random(shape) < 0.05, random.lognormal(size=shape), 0),
    "duplicates": lambda random, shape: random.normal(size=(shape[0] // 10, shape[1])).repeat(10, axis=0),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("n_rows", [150, 800, 5000])
def test_clean_numbers_have_next_to_none(draw, n_rows):
    found = [
        (gross_errors(draw(np.random.default_rng(seed), (n_rows, 4)), CellLayout(4, ()), np.zeros(4))[0] > 0).sum()
        for seed in range(20)
    ]
    assert np.mean(np.array(found) > 0) <= 0.15
    assert np.mean(found) <= 0.5


@pytest.mark.parametrize("n_rows", [150, 800, 5000])
def test_clean_categories_and_gaps_have_next_to_none(n_rows):
    found = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        codes = [random.choice(k, n_rows, p=random.dirichlet(np.ones(k))) for k in (2, 3, 5, 10, 30)]
        x = np.column_stack([random.normal(size=(n_rows, 3)), *codes]).astype(np.float32)
        x[random.random(x.shape) < random.choice([0.01, 0.05, 0.3], x.shape[1])] = np.nan
        found.append((gross_errors(x, CellLayout(3, (2, 3, 5, 10, 30)))[0] > 0).sum())
    assert np.mean(np.array(found) > 0) <= 0.15


def ordinary(n_rows: int = 800) -> tuple[np.ndarray, CellLayout]:
    """Loads, prices, hours and quantities, a kind and some gaps."""
    random = np.random.default_rng(0)
    numbers = [
        random.uniform(150, 1050, n_rows),
        np.round(random.lognormal(3, 0.6, n_rows), 2),
        np.round(random.uniform(0.5, 9, n_rows), 2),
        random.integers(1, 21, n_rows),
    ]
    x = np.column_stack([*numbers, random.choice(3, n_rows, p=[0.5, 0.3, 0.2])]).astype(np.float32)
    x[random.random(n_rows) < 0.01, 1] = np.nan
    return x, CellLayout(4, (4,))


ERRORS = {
    "a load of 9,999": (0, 9999),
    "a load beside which all others are equal": (0, 1e30),
    "a negative load": (0, -100_000),
    "a price times 100": (1, 2000),
    "an unreadable price": (1, np.inf),
    "no hours": (2, 0),
    "a quantity of -5": (3, -5),
    "a quantity of -1": (3, -1),
    "a kind never seen": (4, 3),
    "three gaps": ([0, 2, 4], np.nan),
}


@pytest.mark.parametrize(("columns", "value"), ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("n_errors", [1, 3])
def test_a_gross_error_is_found_and_nothing_else(columns, value, n_errors):
    x, layout = ordinary()
    assert not gross_errors(x, layout, np.zeros(4))[0].any()
    rows = [7, 100, 500][:n_errors]
    x[np.ix_(rows, np.atleast_1d(columns))] = value
    if value == 1e30:
        x[:, 0] = (x[:, 0] - 1e30) / 1e30
    evidence, wrong_cell = gross_errors(x, layout, np.zeros(4))
    assert np.flatnonzero(evidence).tolist() == rows
    assert (wrong_cell[rows] == (columns if isinstance(columns, int) else -1)).all()
    assert (np.delete(wrong_cell, rows) == -1).all()


def orders(n_rows: int = 1000) -> tuple[np.ndarray, CellLayout]:
    """Times from 8 to 17 o'clock on all weekdays but Sunday, a number, cities, the country of each, and how it paid."""
    random = np.random.default_rng(0)
    days = random.integers(0, 200, n_rows)
    days -= weekday(86400.0 * days) == 6
    seconds = 86400.0 * days + 60 * random.integers(8 * 60, 17 * 60, n_rows)
    city = random.choice(9, n_rows, p=[0.25, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05])
    x = np.column_stack([seconds / 1e6, random.normal(size=n_rows), city, city // 3, random.integers(0, 2, n_rows)])
    return x.astype(np.float32), CellLayout(2, (9, 3, 2), times=((0, 0.0, 1e6),))


def moment(day: int, hour: float) -> float:
    return (86400.0 * day + 3600 * hour) / 1e6


@pytest.mark.parametrize(
    ("column", "values"),
    [(0, [moment(5, 3.2)]), (0, [moment(5, 2), moment(9, 3), moment(40, 2.5)]), (0, [moment(3, 12)]), (3, [2, 1])],
    ids=["at night", "three at night", "on a Sunday", "another country"],
)
def test_odd_times_and_contradictions_are_gross_errors(column, values):
    x, layout = orders()
    assert not gross_errors(x, layout, np.zeros(2))[0].any()
    rows = [0, 400, 700][: len(values)]
    if column == 3:
        x[rows, 2] = 0
    x[rows, column] = values
    evidence, wrong_cell = gross_errors(x, layout, np.zeros(2))
    assert np.flatnonzero(evidence).tolist() == rows
    assert (wrong_cell[rows] == column).all()


def test_times_just_outside_the_usual_hours_are_not_odd():
    x, layout = orders()
    x[7, 0], x[8, 0] = moment(5, 17.05), moment(5, 7.9)
    assert not gross_errors(x, layout, np.zeros(2))[0].any()


def test_a_few_days_say_nothing_about_hours():
    x, layout = orders()
    x[:, 0] = moment(2, 9) + (x[:, 0] - x[:, 0].min()) / 200
    x[7, 0] = moment(2, 4)
    assert not gross_errors(x, CellLayout(2, layout.cardinalities, times=layout.times), np.zeros(2))[0].any()


@pytest.mark.parametrize("n_rows", [150, 800, 5000])
def test_clean_times_and_dependent_categories_have_next_to_none(n_rows):
    """Times around noon, a busy week and a quiet weekend; categories that depend on one another but not always."""
    found = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        seconds = 86400.0 * random.integers(0, 100, n_rows) + (12 + 3 * random.normal(size=n_rows)) * 3600
        first = random.integers(0, 6, n_rows)
        often = np.where(
            random.random(n_rows) < random.choice([0.7, 0.9, 0.98]), first // 2, random.integers(0, 3, n_rows)
        )
        product = random.zipf(1.6, n_rows).clip(max=500)
        x = np.column_stack([seconds / 1e6, first, often, product, product % 7]).astype(np.float32)
        layout = CellLayout(1, (6, 3, 501, 7), times=((0, 0.0, 1e6),))
        found.append((gross_errors(x, layout, np.zeros(1))[0] > 0).sum())
    assert np.mean(np.array(found) > 0) <= 0.15, found


def test_which_rows_differ_is_what_counting_says():
    random = np.random.default_rng(0)
    for _ in range(20):
        a, b = random.integers(0, 6, 60), random.integers(0, 3, 60)
        differs, n_without = _differing(a, b)
        enough = [row for row in range(60) if (a == a[row]).sum() >= 5]
        for value in set(a[enough].tolist()):
            rows = np.flatnonzero(a == value)
            counts = np.bincount(b[rows])
            assert (~differs[rows]).sum() == counts.max()
            assert len(set(b[rows[~differs[rows]]].tolist())) == 1
        assert not np.delete(differs, enough).any()
        assert n_without == len(enough) - np.bincount(b[enough]).max()


def test_evidence_grows_with_the_error_and_is_at_least_3():
    x, layout = ordinary()
    evidence = []
    for load in (3000, 5000, 9000):
        x[7, 0] = load
        evidence.append(gross_errors(x, layout)[0][7])
    assert 3 <= evidence[0] < evidence[1] < evidence[2]


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_what_many_rows_have_is_no_error(share):
    x, layout = ordinary()
    many = np.arange(len(x)) < share * len(x)
    x[many, 0], x[many, 4] = 9999, 3
    x[many, 1:3] = np.nan
    assert not gross_errors(x, layout, np.zeros(4))[0].any()


def test_few_rows_of_a_wide_table_have_one():
    """In each of 100 columns, another hundredth of the rows has a code that no other row has."""
    random = np.random.default_rng(0)
    x = random.normal(size=(600, 100))
    for column in x.T:
        column[random.permutation(600)[:6]] = random.uniform(20, 60)
    found, _ = gross_errors(x.astype(np.float32), CellLayout(100, ()), np.zeros(100))
    assert 0 < (found > 0).sum() <= 30


@pytest.mark.parametrize("n_rows", [1, 2, 19, 20, 21])
@pytest.mark.parametrize("value", [0.0, np.nan, 5.0])
def test_few_or_equal_rows_have_none(n_rows, value):
    x = np.full((n_rows, 3), value, dtype=np.float32)
    assert not gross_errors(x, CellLayout(2, (1,)), np.zeros(2))[0].any()
