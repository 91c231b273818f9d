"""Gross errors in single cells: found whatever else the table is like, and hardly ever where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from nptad.scoring.gross_errors import gross_errors
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
