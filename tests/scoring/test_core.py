"""A table with anomalies in it: groups are found, the core leaves them out, and new rows are judged by the core."""

from __future__ import annotations

import numpy as np
import pytest

from nptad.metrics import ranking_metrics
from nptad.scoring import view_score
from nptad.scoring.core import fit_core
from nptad.scoring.first_pass import MEASURES, first_pass
from nptad.scoring.view_score import ViewScore
from nptad.scoring.views.cells import OutsideRange, UnseenValues
from nptad.tables.layout import CellLayout

LAYOUT = CellLayout(4, (3,))


def table(n_odd: int, seed: int, n_rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Four numbers and a category, some gaps; the last rows are a dense group far away."""
    random = np.random.default_rng(seed)
    x = np.column_stack([random.normal(size=(n_rows, 4)), random.integers(0, 3, n_rows)])
    odd = np.arange(n_rows) >= n_rows - n_odd
    x[odd, :4] = 6 * np.array([1, -1, 1, 1]) + 0.2 * random.normal(size=(n_odd, 4))
    x[::17, 1] = np.nan
    return x.astype(np.float32), odd


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1])
def test_a_group_of_equal_anomalies_is_found_and_counted(share):
    x, odd = table(round(share * 400), seed=int(100 * share))
    score = fit_core(x, LAYOUT, seed=0)
    assert ranking_metrics(odd, score.training_scores)["auroc"] > 0.99
    assert abs(score.core.stands_out.sum() - odd.sum()) <= max(1, 0.2 * odd.sum())
    assert not odd[score.kept].any()


def test_learning_from_the_whole_table_misses_the_group():
    x, odd = table(40, seed=10)
    whole = ViewScore.fit(x, LAYOUT, seed=0).training_scores
    assert ranking_metrics(odd, whole)["auroc"] < 0.8


def test_next_to_nothing_stands_out_of_clean_tables():
    flagged = [fit_core(table(0, seed, 300)[0], LAYOUT, seed=0).core.stands_out.sum() for seed in range(6)]
    assert np.mean(flagged) <= 1


CLEAN = {
    "t(4)": lambda random, shape: random.standard_t(4, size=shape),
    "lognormal": lambda random, shape: random.lognormal(size=shape),
    "discrete": lambda random, shape: random.poisson(3, size=shape),
    "duplicates": lambda random, shape: random.normal(size=(shape[0] // 5, shape[1])).repeat(5, axis=0),
    "mixture": lambda random, shape: 4 * random.integers(0, 3, (shape[0], 1)) + random.normal(size=shape),
    "dependent": lambda random, shape: random.normal(size=(shape[0], 1)) + 0.1 * random.normal(size=shape),
}


@pytest.mark.parametrize("draw", CLEAN.values(), ids=CLEAN)
def test_next_to_nothing_stands_out_of_clean_tables_of_other_kinds(draw):
    layout = CellLayout(5, ())
    tables = [draw(np.random.default_rng(seed), (n_rows, 5)) for seed, n_rows in enumerate([150, 150, 500])]
    flagged = [fit_core(table.astype(np.float32), layout, seed=0).core.stands_out.mean() for table in tables]
    assert np.mean(flagged) <= 0.01


@pytest.mark.parametrize("n_rows", [80, 300])
def test_next_to_nothing_stands_out_of_clean_tables_of_mixed_columns(n_rows):
    """A column that follows another one, a category that says which half of it a row is in, and some gaps."""
    flagged = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        size = random.normal(size=n_rows)
        weight = 2 * size + random.normal(0, 0.1, n_rows)
        x = np.column_stack([np.where(np.arange(n_rows) % 50 == 7, np.nan, size), weight, size > 0])
        flagged.append(fit_core(x.astype(np.float32), CellLayout(2, (2,)), seed=0).core.stands_out.sum())
    assert np.mean(flagged) <= 2


def test_new_rows_are_compared_with_the_core():
    x, _ = table(40, seed=10)
    score = fit_core(x, LAYOUT, seed=0)
    new, odd = table(40, seed=11)
    p = np.exp(-score.score(new))
    assert np.median(p[odd]) < 0.01
    # Rows that did not stand out calibrate, those outside the core included.
    assert 0.005 < (p[~odd] < 0.05).mean() < 0.11
    assert score.n_calibration == (~score.core.stands_out).sum()


def test_what_stands_out_has_the_highest_scores_without_ties():
    x, _ = table(40, seed=10)
    score = fit_core(x, LAYOUT, seed=0)
    found = score.core.stands_out
    assert score.training_scores[found].min() > score.training_scores[~found].max()
    assert len(np.unique(score.training_scores[found])) == found.sum()


def test_the_ends_of_a_short_scale_are_no_values_that_were_never_seen():
    random = np.random.default_rng(0)
    x = np.column_stack([random.integers(0, 20, 2000), random.normal(size=(2000, 2))]).astype(np.float32)
    score = fit_core(x, CellLayout(3, ()), seed=0)
    views = [view for view in score.views if isinstance(view, UnseenValues | OutsideRange)]
    assert len(views) == 2
    assert not np.isin([0, 19], x[score.kept, 0]).all()
    rows = np.array([[0, 0, 0], [19, 0, 0], [20, 0, 0]], dtype=np.float32)
    for view in views:
        assert (view.explain(rows)[:, 0] > 0).tolist() == [False, False, True]


def test_gross_errors_come_before_all_that_stands_out():
    """A rare category is no strong evidence; a group far away is."""
    random = np.random.default_rng(0)
    x = np.column_stack([random.normal(size=(300, 2)), random.integers(0, 3, 300)]).astype(np.float32)
    x[:20, :2] = 1000 + 0.1 * x[:20, :2]
    x[299, 2] = 3
    score = fit_core(x, CellLayout(2, (4,)), seed=0)
    assert score.core.stands_out[:20].all()
    assert np.argmax(score.training_scores) == 299


def test_a_core_survives_a_file(tmp_path):
    x, _ = table(40, seed=10)
    score = fit_core(x, LAYOUT, seed=0)
    np.savez(tmp_path / "views.npz", **score.to_arrays())
    with np.load(tmp_path / "views.npz", allow_pickle=False) as arrays:
        again = ViewScore.from_arrays(dict(arrays), score.rows, LAYOUT)
    np.testing.assert_array_equal(again.score(x[:20]), score.score(x[:20]))
    np.testing.assert_array_equal(again.core.reason, score.core.reason)
    assert (again.core.n_top, again.core.agreement) == (score.core.n_top, score.core.agreement)


def test_large_tables_have_a_sampled_core_and_every_row_a_score(monkeypatch):
    monkeypatch.setattr(view_score, "MANY_ROWS", 200)
    monkeypatch.setattr(view_score, "MOST_ROWS", 200)
    monkeypatch.setattr("nptad.scoring.views.neighbours.MANY_ROWS", 200)
    x, odd = table(20, seed=3)
    score = fit_core(x, LAYOUT, seed=0)
    assert len(score.kept) <= 0.9 * 200
    assert ranking_metrics(odd, score.training_scores)["auroc"] > 0.95


def test_rows_outside_the_core_have_a_reason():
    x, _ = table(40, seed=10)
    score = fit_core(x, LAYOUT, seed=0)
    outside = np.setdiff1d(np.arange(len(x)), score.kept)
    assert (score.core.reason[score.kept] == -1).all()
    assert set(score.core.reason[outside]) <= set(range(len(MEASURES)))


@pytest.mark.parametrize("n_rows", [2, 3, 12])
def test_tiny_tables_have_finite_scores(n_rows):
    x = np.random.default_rng(0).normal(size=(n_rows, 2)).astype(np.float32)
    x[0, 0] = np.nan
    score = fit_core(x, CellLayout(2, ()), seed=0)
    assert np.isfinite(score.training_scores).all()


def test_distances_of_the_first_pass_leave_out_the_row_itself():
    """Two rows: the only other row is at distance 1 in ranges."""
    x = np.array([[0.0], [2.0]], dtype=np.float32)
    np.testing.assert_allclose(first_pass(x, CellLayout(1, ()), seed=0)[0], [1, 1])


@pytest.mark.parametrize("share", [0.03, 0.06, 0.099, 0.14, 0.3])
def test_a_category_whose_rows_differ_from_all_others_does_not_stand_out(share):
    """The suites of a hotel cost more and hold more people than all other rooms."""
    for seed in range(3):
        random = np.random.default_rng(seed)
        suite = random.random(800) < share
        x = np.column_stack([random.normal(5 * suite, 1), random.normal(6 * suite, 1), suite]).astype(np.float32)
        assert fit_core(x, CellLayout(2, (2,)), seed).core.stands_out.sum() <= 2
