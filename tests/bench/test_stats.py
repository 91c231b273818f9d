"""Statistics, and the published figures to the paper's own conclusions."""

from __future__ import annotations

import warnings
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from nptad.bench.presets import paper_table
from nptad.bench.stats import best_group, dependencies, mean_ranks, out_of_order, spread
from nptad.bench.tables import published_f1


def test_the_published_figures_give_the_papers_dependencies_but_for_two():
    disagreeing = []
    for dataset, row in paper_table("dependencies").items():
        figures = [published_f1(dataset, method) for method in ("transformer", "mask-knn", "npt-ad")]
        if None in figures:
            assert dataset == "forestcover"  # has no figure for the Transformer
        elif dependencies(*figures) != (row["feature_feature"] == "1", row["sample_sample"] == "1"):
            disagreeing.append(dataset)
    assert disagreeing == ["shuttle", "campaign"]


def test_ranks_are_shared_by_equals_and_averaged_over_data_sets():
    assert mean_ranks(np.array([[3.0, 2.0, 1.0]])).tolist() == [1, 2, 3]
    assert mean_ranks(np.array([[5.0, 5.0, 5.0], [3.0, 2.0, 1.0]])).tolist() == [1.5, 2, 2.5]


def test_the_best_and_those_not_significantly_worse_are_marked():
    random = np.random.default_rng(0)
    samples = [random.normal(mean, 2, size) for mean, size in ((80, 20), (79.8, 9), (70, 20), (60, 5))]
    p_values = [scipy_stats.ttest_ind(samples[0], sample, equal_var=False).pvalue for sample in samples[1:]]
    assert [p >= 0.05 for p in p_values] == [True, False, False]
    assert best_group(samples) == [True, True, False, False]


def test_the_t_test_allows_for_different_spreads():
    """Student's test, which pools the variances, would say something else here."""
    steady, scattered = np.full(40, 50.0) + np.tile([-0.5, 0.5], 20), np.array([20.0, 45.0, 60.0])
    assert scipy_stats.ttest_ind(steady, scattered).pvalue < 0.05
    assert best_group([steady, scattered]) == [True, True]


@pytest.mark.parametrize(
    ("samples", "marks"),
    [
        ([[100.0] * 5, [100.0] * 5], [True, True]),
        ([[100.0] * 5, [99.9] * 7], [True, False]),  # the standard deviation of seven 99.9 is not quite 0
        ([[100.0] * 5, [90.0, 91.0, 92.0]], [True, False]),
        ([[100.0] * 5, [80.0, 120.0, 90.0]], [True, True]),
        ([[60.0], [80.0, 81.0, 82.0]], [False, True]),
        ([[60.0], [59.0]], [True, False]),
        ([[60.0]], [True]),
        ([[90.0], [80.0, 81.0, 82.0], [79.5, 80.5, 81.5], [50.0, 51.0]], [True, True, True, False]),
        ([[81.0], [80.0, 81.0, 82.0], [80.9]], [True, True, False]),
        # The best is too scattered to beat the last, but the second is not.
        ([[60.0, 90.0, 81.0], [75.0, 76.0, 74.0, 75.0], [54.0, 55.0, 53.0]], [True, True, False]),
    ],
)
def test_samples_without_spread_or_of_one_run_are_compared_without_complaint(samples, marks):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert best_group([np.array(sample) for sample in samples]) == marks


def test_the_spread_is_that_of_a_sample_and_one_run_has_none():
    assert spread(np.array([1.0, 3.0])) == pytest.approx(np.sqrt(2))
    assert spread(np.array([1.0])) is None


@pytest.mark.parametrize(
    ("values", "left_out"),
    [([], []), ([1], []), ([1, 2, 2, 3], []), ([1, 5, 2, 3, 4], [1]), ([2, 3, 4, 1], [3]), ([3, 2, 1], [0, 2])],
)
def test_who_is_out_of_order(values, left_out):
    assert out_of_order(values, range(1, len(values) + 1)) == left_out


@pytest.mark.parametrize("size", [3, 4, 5])
def test_no_smaller_choice_would_leave_the_rest_in_order_and_none_as_small_would_be_nearer(size):
    def apart(places):
        return sum(abs(order[place] - place) for place in places)

    for order in permutations(range(size)):
        kept = [place for place in range(size) if place not in out_of_order(order, range(size))]
        in_order = [
            places
            for n in range(1, size + 1)
            for places in combinations(range(size), n)
            if list(places) == sorted(places, key=lambda place: order[place])
        ]
        assert tuple(kept) in in_order
        longest = max(map(len, in_order))
        assert len(kept) == longest
        assert apart(kept) == min(apart(places) for places in in_order if len(places) == longest)
