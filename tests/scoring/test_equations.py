"""What the other columns leave over of a number, and the rows that break an equation."""

from __future__ import annotations

import numpy as np
import pytest

from nptad.scoring.equations import left_over
from nptad.scoring.gross_errors import gross_errors
from nptad.tables.layout import CellLayout


def test_the_regressions_are_those_of_least_squares():
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 4))
    x[:, 3] = 2 * x[:, 0] - x[:, 1] + 0.5 + 0.01 * random.normal(size=300)
    ordinary = (np.abs(x - np.median(x, axis=0)) < 3.9 * np.quantile(x, 0.9, axis=0)).all(axis=1)
    assert ordinary.all()  # nothing is set aside
    found = {j: left * spread for j, left, spread in left_over(x)}
    assert sorted(found) == [0, 1, 3]
    others = np.column_stack([x[:, :3], np.ones(300)])
    expected = x[:, 3] - others @ np.linalg.lstsq(others, x[:, 3])[0]
    np.testing.assert_allclose(found[3], expected, atol=3e-3)  # rows beyond 4 scales are set aside


def invoices(n_rows: int = 1000, seed: int = 0) -> np.ndarray:
    """Price, quantity, net = price x quantity, tax of a kind, gross = net + tax, begin, days, end = begin + days."""
    random = np.random.default_rng(seed)
    price = np.round(random.lognormal(3, 0.8, n_rows), 2)
    quantity = random.integers(1, 9, n_rows)
    net = np.round(price * quantity, 2)
    tax = np.round(net * random.choice([0.07, 0.19], n_rows), 2)
    begin, days = random.uniform(0, 400, n_rows), random.gamma(2, 5, n_rows).round()
    return np.column_stack([price, quantity, net, tax, net + tax, begin, days, begin + days])


def found_in(x: np.ndarray) -> list[int]:
    mean, scale = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
    encoded = ((x - mean) / scale).astype(np.float32)
    evidence, _ = gross_errors(encoded, CellLayout(x.shape[1], ()), -mean / scale)
    return np.flatnonzero(evidence).tolist()


@pytest.mark.parametrize("column", [0, 1, 2, 4, 5, 6, 7])
@pytest.mark.parametrize("n_wrong", [1, 3])
def test_a_row_that_breaks_an_equation_is_a_gross_error_although_each_of_its_numbers_is_ordinary(column, n_wrong):
    x = invoices()
    assert found_in(x) == []
    rows = [20, 300, 700][:n_wrong]
    low, high = np.quantile(x[:, column], (0.1, 0.9))
    x[rows, column] = np.where(x[rows, column] - low > high - x[rows, column], low, high)
    assert found_in(x) == rows


def test_gaps_elsewhere_do_not_matter_and_a_gap_in_the_equation_is_no_error():
    x = invoices()
    x[20, 7], x[20, 0] = x[20, 7] + 50, np.nan
    x[30, 7], x[30, 6] = x[30, 7] + 50, np.nan
    assert found_in(x) == [20]


def test_what_many_rows_break_is_no_rule():
    x = invoices()
    x[:20, 4] += 50
    assert found_in(x) == []


@pytest.mark.parametrize("n_rows", [100, 500, 3000])
@pytest.mark.parametrize("noise", ["exact", "normal", "t(2)", "rounded", "by size"])
def test_equations_that_hold_have_next_to_none_that_break_them(n_rows, noise):
    found = []
    for seed in range(15):
        random = np.random.default_rng(seed)
        x = invoices(n_rows, seed)
        left = {
            "exact": np.zeros(n_rows),
            "normal": random.normal(size=n_rows),
            "t(2)": random.standard_t(2, size=n_rows),
            "rounded": random.normal(size=n_rows).round(),
            "by size": random.normal(size=n_rows) * x[:, 4] / 50,
        }[noise]
        x[:, 4] += 0.1 * left
        x[:, 7] += 0.5 * left
        found.append(len(found_in(x)))
    assert np.mean(np.array(found) > 0) <= 0.2, found
    assert np.mean(found) <= 0.5, found


def test_few_rows_and_constant_columns_say_nothing():
    assert list(left_over(np.arange(12.0).reshape(6, 2))) == []
    assert list(left_over(np.ones((100, 3)))) == []
    assert list(left_over(np.full((100, 2), np.nan))) == []
    assert list(left_over(np.zeros((100, 0)))) == []
