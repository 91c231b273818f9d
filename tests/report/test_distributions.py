"""Small histograms of columns, and groups of rows that are alike."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nptad import NPTAD, Settings, score_table
from nptad.explain.result import CellReason, RowExplanation
from nptad.report import render, summarise
from nptad.report.distributions import Distribution
from nptad.report.groups import group_rows


def test_every_number_is_counted_and_outliers_do_not_flatten_the_others():
    column = Distribution.of(np.append(np.random.default_rng(0).normal(size=999), 1e6), is_number=True)
    assert sum(column.counts) == 1000
    assert column.edges[-1] < 5
    assert column.position(column.edges[0]) == 0
    assert column.position(column.edges[-1]) == 1
    assert column.position(1e6) == 2


def test_a_constant_column_and_an_empty_one():
    constant = Distribution.of(np.full(5, 3.0), is_number=True)
    assert (sum(constant.counts), constant.position(3.0), constant.position(2.0)) == (5, 0.5, -1)
    empty = Distribution.of(np.full(5, np.nan), is_number=True)
    assert (empty.counts, empty.position(1.0)) == ([], None)


def test_categories_are_ordered_by_frequency_and_unseen_ones_are_beyond():
    column = Distribution.of(np.array([2.0, 0.0, 2.0, 1.0, 2.0, 1.0]), is_number=False)
    assert column.counts == [3, 2, 1]
    assert [column.position(code) for code in (2.0, 0.0, -1.0)] == [0.5 / 3, 2.5 / 3, 2.0]


def row(number, *cells):
    reasons = [CellReason(name, seen, expected, 1.0, suspicious=True) for name, seen, expected in cells]
    return RowExplanation(number, 5.0, tuple(reasons), (), 0.0, None)


def test_rows_are_grouped_by_cell_and_direction():
    rows = [
        *(row(i, ("price", 99.0, 3.0), ("size", 1.0, 2.0)) for i in range(3)),
        row(3, ("price", 1.0, 3.0)),
        row(4, ("colour", "mauve", "red")),
        row(5, ("colour", "teal", "red")),
        row(6, ("when", None, 4.0)),
    ]
    groups = group_rows(rows)
    assert [(group["column"], group["how"], group["rows"]) for group in groups] == [
        ("price", "higher", [0, 1, 2]),
        ("colour", "unusual", [4, 5]),
    ]
    assert groups[0]["others"] == [{"column": "size", "how": "lower"}]
    assert "".join(text for _, text in groups[0]["example"]).startswith("price is ")
    assert group_rows(rows[:1]) == []
    assert group_rows([]) == []


def test_a_cell_that_hardly_counts_makes_no_group():
    rows = []
    for i, name in enumerate(["price", "size", "when"]):
        cells = [(name, 99.0, 10.0), ("traveller", 1.0, 0.01)]
        reasons = [CellReason(column, seen, 50.0, share, suspicious=True) for column, seen, share in cells]
        rows.append(RowExplanation(i, 5.0, tuple(reasons), (), 0.0, None))
    assert group_rows(rows) == []


@pytest.mark.parametrize("settings", [None, Settings(n_steps=20)])
def test_numbers_written_as_text_and_times_have_a_direction(settings):
    random = np.random.default_rng(0)
    n_rows = 200
    table = pd.DataFrame(
        {
            "price": [f"${price:,.0f}" for price in random.normal(5000, 400, n_rows)],
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 10**6, n_rows), "s"),
            "lasts": pd.to_timedelta(random.integers(0, 10**4, n_rows), "s"),
            "kind": random.choice(["a", "b"], n_rows),
        }
    )
    new = pd.DataFrame(
        {
            "price": ["$72,000", "$71,500", "$1", "$2"] + ["$5,000", "$5,010"] * 2,
            "when": pd.to_datetime(["2024-01-05"] * 4 + ["2031-01-05", "2032-01-05"] + ["2024-01-05"] * 2),
            "lasts": pd.to_timedelta([5000] * 6 + [10**6, 2 * 10**6], "s"),
            "kind": ["a", "b"] * 4,
        }
    )
    detector = NPTAD(settings=settings, random_state=0).fit(table)
    above = [{r.column: r.above for r in why.reasons} for why in detector.explain(new)]
    assert [row["price"] for row in above[:4]] == [True, True, False, False]
    assert [row["when"] for row in above[4:6]] == [True, True]
    assert {row["kind"] for row in above} == {None}
    if settings is None:
        groups = [(group["column"], group["how"], group["rows"]) for group in group_rows(detector.explain(new))]
        assert sorted(groups) == [
            ("lasts", "higher", [6, 7]),
            ("price", "higher", [0, 1]),
            ("price", "lower", [2, 3]),
            ("when", "later", [4, 5]),
        ]


def test_unreadable_cells_are_a_group_of_their_own():
    cells = [("ask", "cannot be read"), ("?!", "cannot be read"), ("$99", "outside the range")]
    rows = [
        RowExplanation(i, 5.0, (CellReason("price", seen, 3.0, 1.0, suspicious=True, oddity=oddity),), (), 0.0, None)
        for i, (seen, oddity) in enumerate(cells)
    ]
    (group,) = group_rows(rows)
    assert (group["how"], group["rows"]) == ("unreadable", [0, 1])


def test_a_report_groups_alike_rows_marks_cells_and_folds_wide_tables_away():
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(200, 40))).add_prefix("c")
    new = table[:50].copy()
    new.loc[[3, 30], "c7"] = [50.0, 80.0]
    result = score_table(NPTAD(random_state=0).fit(table[50:]), new)
    summary = summarise(result)
    assert [(group["column"], sorted(group["rows"])) for group in summary["groups"]] == [("c7", [3, 30])]
    first = summary["anomalies"][0]["reasons"][0]
    assert summary["schema"][first["column_number"]]["name"] == first["column"] == "c7"
    assert first["position"] == 2.0
    page = render(summary)
    assert "<b>2 rows</b>" in page
    assert f'<use href="#h{first["column_number"]}"/><line x1="98"' in page
    assert "10 more columns" in page
