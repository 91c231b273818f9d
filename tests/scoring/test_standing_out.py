"""How many rows stand out: none in clean tables, about as many as there are where they are far away."""

from __future__ import annotations

import numpy as np
import pytest

from nptad.scoring.standing_out import standing_out

DRAWS = {
    "exponential": lambda random, n: random.exponential(size=n),
    "gamma": lambda random, n: random.gamma(2, size=n),
    "normal": lambda random, n: np.abs(random.normal(size=n)),
    "uniform": lambda random, n: random.uniform(size=n),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("n_rows", [150, 1000, 5000])
def test_next_to_nothing_stands_out_of_clean_scores(draw, n_rows):
    flagged = [standing_out(draw(np.random.default_rng(seed), n_rows)).sum() for seed in range(40)]
    assert np.mean(np.array(flagged) > 0) <= 0.1
    assert np.mean(flagged) <= 0.002 * n_rows


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("n_rows", [300, 1000, 5000])
def test_scores_beyond_a_gap_stand_out(share, n_rows):
    close = 0
    for seed in range(20):
        scores = np.random.default_rng(seed).exponential(size=n_rows)
        n_odd = round(share * n_rows)
        scores[:n_odd] += 4 * np.log(n_rows)
        found = standing_out(scores)
        close += bool(found[:n_odd].all() and abs(found.sum() - n_odd) <= max(1, 0.2 * n_odd))
    assert close >= 19


def test_all_rows_above_one_that_stands_out_do_too():
    scores = np.random.default_rng(0).exponential(size=500)
    scores[:10] += 20
    found = standing_out(scores)
    assert scores[found].min() > scores[~found].max()


@pytest.mark.parametrize(
    "scores", [np.zeros(1), np.zeros(100), np.arange(3.0), np.repeat([0.0, 9.0], [95, 5]), np.full(50, 3.0)]
)
def test_too_little_to_tell_flags_nothing(scores):
    assert not standing_out(scores).any()


def test_rows_far_below_the_others_are_no_matter():
    scores = np.random.default_rng(0).exponential(size=1000)
    scores[:5] = -1e6
    assert not standing_out(scores).any()
