"""The calibrated score: explanations add up to it, files keep it, and its p-values mean what they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from threadpoolctl import ThreadpoolController, threadpool_limits

from nptad.scoring.view_score import ViewScore
from nptad.scoring.views import VIEWS, NearestInRanges, OutsideRange
from nptad.tables.layout import CellLayout

LAYOUT = CellLayout(2, (3,))


def rows(n_rows: int, seed: int) -> np.ndarray:
    """Two numbers that depend on one another, a category that depends on both, a few gaps."""
    random = np.random.default_rng(seed)
    x = random.normal(size=n_rows)
    y = x + 0.1 * random.normal(size=n_rows)
    table = np.column_stack([x, y, np.digitize(x, [-0.5, 0.5])]).astype(np.float32)
    table[random.random(n_rows) < 0.05, 1] = np.nan
    return table


@pytest.fixture(scope="module")
def score() -> ViewScore:
    return ViewScore.fit(rows(300, 0), LAYOUT, seed=0)


def test_explanations_add_up_to_the_score_and_name_the_odd_cell(score):
    x = rows(20, 1)
    x[0] = [0.0, 6.0, 1]  # the second number does not fit
    x[1] = [0.0, 0.0, -1]  # a category never seen
    parts = score.explain(x)
    assert parts.shape == (20, len(VIEWS), 3)
    assert (parts >= 0).all()
    np.testing.assert_allclose(parts.sum(axis=(1, 2)), 1.0, rtol=1e-9)
    assert parts[:2].sum(axis=1).argmax(axis=1).tolist() == [1, 2]


def test_a_row_that_surprises_no_view_has_no_contributions():
    x = np.repeat(rows(150, 0), 2, axis=0)
    score = ViewScore.fit(x, LAYOUT, 0, (NearestInRanges, OutsideRange))
    inside = x[:1]
    assert score.score(inside).tolist() == [0]
    assert (score.explain(inside) == 0).all()


def test_scores_survive_a_file(score, tmp_path):
    x = rows(50, 3)
    np.savez(tmp_path / "views.npz", **score.to_arrays())
    with np.load(tmp_path / "views.npz", allow_pickle=False) as arrays:
        again = ViewScore.from_arrays(dict(arrays), score.rows, LAYOUT)
    np.testing.assert_array_equal(again.score(x), score.score(x))
    np.testing.assert_array_equal(again.training_scores, score.training_scores)
    assert again.is_training_table(rows(300, 0))


def test_a_row_among_many_equally_near_ones_scores_the_same_alone_and_in_company():
    """Which of them is found depends on rounding; distances that differ by that changed p-values by many rows."""
    random = np.random.default_rng(4)
    steps = random.random(4) * 3 + 0.5
    x, new = (((random.normal(size=(n, 4)) * 2).round() / steps).astype(np.float32) for n in (600, 60))
    score = ViewScore.fit(x, CellLayout(4, ()), 0)
    np.testing.assert_allclose([score.score(row[None])[0] for row in new], score.score(new), rtol=1e-9)


def test_matrix_products_do_not_wait_for_threads():
    """Beside other load, the threads of BLAS wait for one that does not run, and a fit of a second takes minutes."""

    def blas_threads() -> set[int]:
        return {pool["num_threads"] for pool in ThreadpoolController().select(user_api="blas").info()}

    found = []

    class Recording(OutsideRange):
        def score(self, x: np.ndarray) -> np.ndarray:
            found.append(blas_threads())
            return super().score(x)

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        score = ViewScore.fit(rows(300, 0), LAYOUT, 0, (NearestInRanges, Recording))
        score.score(rows(10, 1))
        score.by_view(rows(10, 1))
        score.explain(rows(10, 1))
        assert blas_threads() == before
    assert found
    assert all(threads == {1} for threads in found)


def test_false_alarms_keep_to_their_rate():
    """Exact binomial bounds over many small tables; the rates of one table depend on its training rows."""
    alarms = {0.05: 0, 0.1: 0}
    n_tables, n_new = 30, 100
    for seed in range(n_tables):
        fitted = ViewScore.fit(rows(200, 1000 + seed), LAYOUT, seed)
        p = np.exp(-fitted.score(rows(n_new, 2000 + seed)))
        for rate in alarms:
            alarms[rate] += int((p <= rate).sum())
    for rate, count in alarms.items():
        # The rate of a table varies by about its own square root over 200 training rows, which widens the bounds.
        spread = 1 + n_new / 200
        n_effective = n_tables * n_new / spread
        assert count / spread <= binom.ppf(0.999, n_effective, rate)
        assert count > 0.5 * rate * n_tables * n_new
