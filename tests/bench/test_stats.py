"""From records to figures, and the published figures to the paper's own conclusions."""

from __future__ import annotations

import warnings
from itertools import combinations, permutations

import numpy as np
import pytest
from bench_helpers import a_record, an_own_record
from scipy import stats as scipy_stats

from nptad.bench.datasets import DATASETS
from nptad.bench.presets import paper_table
from nptad.bench.registry import METHODS
from nptad.bench.stats import (
    MethodColumn,
    all_series,
    best_group,
    columns_of,
    common_datasets,
    dependencies,
    gather,
    has_published_rows,
    mean_ranks,
    out_of_order,
    spread,
)
from nptad.bench.tables import published_f1

NPT, TRANSFORMER, MASK_KNN = (
    MethodColumn("npt-ad", "paper"),
    MethodColumn("transformer", "paper"),
    MethodColumn("mask-knn", ""),
)


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


def test_a_series_has_the_finished_runs_in_the_order_of_seeds():
    records = [a_record("wine", "npt-ad", "paper", seed, f1=10.0 * seed) for seed in (2, 0, 1)]
    records += [a_record("wine", "npt-ad", "paper", 3, outcome="time"), a_record("glass", "npt-ad", "paper", 0)]
    results = gather(records)
    assert set(results) == {(NPT, "wine"), (NPT, "glass")}
    series = results[NPT, "wine"]
    assert series.values().tolist() == [0, 10, 20]
    assert series.values("auroc").tolist() == [50, 55, 60]
    assert series.values("auroc", "log").tolist() == [50, 55, 60]
    assert series.seconds() == (2.0, 1.0)


@pytest.mark.parametrize(("scale_masks", "training"), [(True, 6.0), (False, 2.0)])
def test_losses_of_training_rows_are_part_of_training_where_masks_are_scaled_by_them(scale_masks, training):
    seconds = {"fit": 2.0, "score": 1.0, "reference": 4.0}
    record = a_record("wine", "npt-ad", "paper", settings={"scale_masks": scale_masks}, cpu_seconds=seconds)
    series = gather([record])[NPT, "wine"]
    assert series.seconds() == (training, 1.0)


def test_of_several_configurations_the_one_with_most_seeds_counts_then_the_newest():
    few = [a_record("wine", "npt-ad", "paper", seed, settings={"n_steps": 1}, finished="2030") for seed in (0, 1)]
    many = [a_record("wine", "npt-ad", "paper", seed, settings={"n_steps": 2}, finished="2020") for seed in (0, 1, 2)]
    newer = [{**record, "config": {"n_steps": 3}, "config_hash": "other", "finished": "2025"} for record in many]
    assert gather(few + many)[NPT, "wine"].config["n_steps"] == 2
    assert gather(many + newer)[NPT, "wine"].config["n_steps"] == 3
    assert gather(newer + many)[NPT, "wine"].config["n_steps"] == 3
    assert [one.config["n_steps"] for one in all_series(few + newer + many)[NPT, "wine"]] == [3, 2, 1]


def test_runs_on_other_rows_are_another_series():
    """Those from before records had a checksum are on the published rows."""
    published = DATASETS["wine"].sha256
    records = [a_record("wine", "npt-ad", "paper", 0), a_record("wine", "npt-ad", "paper", 1, content=published)]
    generated = a_record("wine", "npt-ad", "paper", 2, content="0123456789ab")
    first, second = all_series([*records, generated])[NPT, "wine"]
    assert ([r["seed"] for r in first.records], has_published_rows(first.records[0])) == ([0, 1], True)
    assert ([r["seed"] for r in second.records], has_published_rows(second.records[0])) == ([2], False)
    assert has_published_rows(a_record("speech", "npt-ad", "paper", content="0123456789ab"))


def test_runs_of_another_version_or_of_methods_not_listed_do_not_count():
    record = a_record("wine", "mask-knn")
    assert gather([{**record, "version": 0}, {**record, "method": "gone"}]) == {}
    ours = [a_record("wine", "npt-ad", preset) for preset in ("paper", "default")]
    assert ours[0]["version"] < ours[1]["version"]  # the library's score has changed, the paper's has not
    older = [{**record, "version": ours[0]["version"]} for record in ours]
    assert [column.preset for column, _ in gather(older)] == ["paper"]


def test_a_method_of_ones_own_comes_last_under_its_full_name_and_is_not_imported():
    records = [a_record("wine", "mask-knn"), an_own_record("wine"), a_record("wine", "npt-ad", "paper")]
    columns = columns_of(gather(records), ["wine"])
    assert [column.label for column in columns] == ["NPT-AD", "Mask-KNN", "mine:Class"]
    assert MethodColumn("mine:KNN", "").label == "mine:KNN"  # not to be taken for ours


def test_columns_come_in_the_order_of_methods_the_papers_preset_first():
    listed = [("mask-knn", ""), ("npt-ad", "default"), ("transformer", "paper"), ("npt-ad", "paper")]
    results = gather([a_record("wine", method, preset) for method, preset in listed])
    assert columns_of(results, ["wine"]) == [NPT, TRANSFORMER, MethodColumn("npt-ad", "default"), MASK_KNN]
    labels = [column.label for column in columns_of(results, ["wine"])]
    assert labels == ["NPT-AD", "Transformer", "NPT-AD, library", "Mask-KNN"]


def test_common_data_sets_are_those_of_all_columns():
    records = [a_record(dataset, "npt-ad", "paper") for dataset in ("wine", "glass", "pima")]
    records += [a_record(dataset, "mask-knn") for dataset in ("pima", "wine")]
    assert common_datasets(gather(records), [NPT, MASK_KNN], ["pima", "glass", "wine"]) == ["pima", "wine"]


def test_every_method_has_a_name_of_its_own():
    assert len({spec.label for spec in METHODS.values()}) == len(METHODS)
