"""NPT-AD in the benchmark: stacked seeds, scoring rules, and the paper's settings."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from math import ceil
from pathlib import Path

import numpy as np
import pytest
import torch

from nptad import NPTAD
from nptad.bench.datasets import DATASETS, load
from nptad.bench.npt import _encode, run_estimator, run_single_members, stack_size
from nptad.bench.presets import paper_settings, paper_table, preset_rule, preset_settings, scripts_settings
from nptad.bench.protocol import Split, split_table
from nptad.bench.registry import METHODS, Shape, shape_of
from nptad.bench.rules import RULES, rule_name
from nptad.bench.unfinished import Unfinished
from nptad.errors import InputError
from nptad.nn.masks import bank_size
from nptad.nn.rng import spawn_seeds
from nptad.scoring.ensemble import fit_ensemble
from nptad.scoring.score import mask_losses
from nptad.settings import Settings, default_settings
from nptad.training.checkpoint import write_checkpoint
from tiny_detector import score_all

TINY = Settings(n_steps=6, embedding_dim=8, n_heads=2, n_layers=2, mask_sizes=(1, 2))


def a_split(seed, levels=(0, 1, 2)):
    """Three numbers that depend on each other and a category; `levels` are those of the training rows."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(60, 3))
    numbers[:, 2] = numbers[:, 0] + 0.1 * numbers[:, 2]
    codes = np.r_[np.resize(levels, 24), random.integers(0, 3, 36)]
    rows = np.column_stack([numbers, codes])
    return Split(rows[:24], rows[24:], np.arange(36) >= 30, categorical=(3,))


def run(splits, seeds, settings=TINY):
    return list(run_single_members(splits, seeds, settings))


def test_seeds_in_a_stack_score_as_they_do_alone():
    seeds = [5, 0, 9]
    splits = [a_split(seed) for seed in seeds]
    together = run(splits, seeds)
    assert [scored.stack for scored in together] == [3, 3, 3]
    for split, seed, stacked in zip(splits, seeds, together, strict=True):
        (alone,) = run([split], [seed])
        assert alone.stack == 1
        np.testing.assert_allclose(stacked.scores, alone.scores, rtol=1e-4)
        for rule in RULES:
            np.testing.assert_allclose(stacked.rules[rule], alone.rules[rule], rtol=1e-4, err_msg=rule)
    assert not np.allclose(run([splits[0]], [1])[0].scores, together[0].scores, rtol=1e-2)  # the seed does matter


def test_splits_with_other_categories_are_no_members_of_the_same_stack():
    splits = [a_split(0), a_split(1, levels=(0, 1)), a_split(2, levels=(0, 1)), a_split(3)]
    seeds = [0, 1, 2, 3]
    together = run(splits, seeds)
    assert [scored.stack for scored in together] == [1, 2, 2, 1]
    for split, seed, scored in zip(splits, seeds, together, strict=True):
        np.testing.assert_allclose(scored.scores, run([split], [seed])[0].scores, rtol=1e-4)


def test_the_time_of_a_stack_is_shared_out():
    splits = [a_split(seed) for seed in range(4)]
    together = run(splits, list(range(4)))
    assert len({scored.clock.seconds["fit"] for scored in together}) == 1
    assert set(together[0].clock.seconds) == {"fit", "score", "reference"}
    assert len({id(scored.clock) for scored in together}) == 4


@pytest.mark.parametrize(("aggregation", "scale_masks"), [*itertools.product(["mean", "max"], [False, True])])
def test_rules_are_the_scores_of_the_library(aggregation, scale_masks):
    split, settings = a_split(4), replace(TINY, aggregation=aggregation, scale_masks=scale_masks)
    (scored,) = run([split], [4], settings)
    layout, train, test = _encode(split)
    ensemble, _ = fit_ensemble(train, layout, settings, spawn_seeds(4, 3), device=torch.device("cpu"))
    expected = score_all(ensemble, test, ensemble.assign_members(test))
    np.testing.assert_allclose(scored.scores, expected, rtol=1e-4)


def test_the_default_preset_is_the_estimator():
    splits = [a_split(seed) for seed in (1, 2)]
    for split, seed, scored in zip(splits, (1, 2), run_estimator(splits, [1, 2], TINY, 2), strict=True):
        detector = NPTAD(2, settings=TINY, columns=split.uses, random_state=seed).fit(split.train)
        np.testing.assert_array_equal(scored.scores, -detector.score_samples(split.test))
        assert (set(scored.clock.seconds), scored.rules) == ({"fit", "score"}, {})


def test_a_score_does_not_depend_on_other_test_rows():
    split = a_split(0)
    few = replace(split, test=np.vstack([split.test[:5], [[1e6, 1e6, 1e6, 7.0]]]), truth=np.arange(6) > 4)
    (all_rows,), (some,) = run([split], [0]), run([few], [0])
    for rule in RULES:
        np.testing.assert_allclose(some.rules[rule][:5], all_rows.rules[rule][:5], rtol=1e-5, err_msg=rule)


def test_rules_by_hand():
    losses, reference = np.array([[4.0, 2.0], [0.0, 3.0]]), np.array([[1.0, 0.0], [3.0, 4.0], [2.0, 2.0]])
    scores = {name: rule(losses, reference).tolist() for name, rule in RULES.items()}
    assert scores["mean"] == [3, 1.5]
    assert scores["max"] == [4, 3]
    assert scores["scaled_mean"] == [1.5, 0.75]  # both masks have a mean of 2
    assert scores["scaled_max"] == [2, 1.5]
    np.testing.assert_allclose(scores["log"], [np.log(3 * 2) / 2, np.log(2.5) / 2])
    # Of three training rows none has a loss of 4 or more under the first mask, two have 2 or more under the second.
    np.testing.assert_allclose(scores["quantile"], [-np.log(1 / 4 * 3 / 4) / 2, -np.log(4 / 4 * 2 / 4) / 2])


def test_masks_that_are_always_right_are_not_divided_by_nothing():
    for name, rule in RULES.items():
        assert np.isfinite(rule(np.ones((2, 3)), np.zeros((4, 3)))).all(), name


def test_small_tables_are_stacked_and_large_ones_are_not():
    sizes = [stack_size(Settings(embedding_dim=16), n, 6) for n in (50, 500, 1000, 100_000)]
    assert sizes == [8, 5, 2, 1]
    config = METHODS["npt-ad"].configure("default", shape_of("wine"))
    assert METHODS["npt-ad"].stack(config, shape_of("wine")) == 1  # folds of one estimator are a stack already


# The paper's settings

OTHER_MASKS = {"seismic": "the paper's 276 masks are those of its 23 one-hot columns; we hide whole cells"}


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_rule_by_which_a_preset_is_read_is_that_of_its_settings(dataset):
    for preset in ("paper", "scripts"):
        settings = preset_settings(preset, dataset, 100, 5)
        assert preset_rule(preset, dataset) == rule_name(settings.aggregation, settings.scale_masks)


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_papers_settings_have_as_many_masks_as_the_paper_says(dataset):
    row, shape = paper_table("hyperparameters")[dataset], shape_of(dataset)
    settings = paper_settings(dataset, shape.n_train)
    masks = bank_size(shape.n_features, settings.mask_sizes)
    assert (masks == int(row["m"])) == (dataset not in OTHER_MASKS)
    assert masks <= settings.max_masks
    assert settings.row_attention == "full"
    steps = settings.n_steps / int(row["epochs"])
    assert steps == (1 if settings.batch_size is None else ceil(shape.n_train / settings.batch_size))
    assert settings.batch_size == (None if row["batch_size"] == "-1" else int(row["batch_size"]))
    assert settings.embedding_dim == int(row["e"])
    assert (settings.learning_rate, settings.mask_rate) == (float(row["lr"]), float(row["p_mask"]))


def test_a_column_that_is_constant_in_training_still_counts():
    """arrhythmia has 17 of them, and its published number of masks includes them."""
    rows = np.random.default_rng(0).normal(size=(20, 4))
    rows[:, 2] = 1.0
    assert _encode(Split(rows, rows, np.zeros(20, dtype=bool), ()))[0].n_features == 4


def test_real_tables_have_the_columns_of_the_registry():
    folder = Path(os.environ.get("NPTAD_DATA") or Path(__file__).parents[3] / "shared" / "data")
    names = ("wine", "lympho", "arrhythmia", "seismic", "optdigits", "abalone")
    if not all((folder / f"{name}.npz").exists() for name in names):
        pytest.skip(f"{folder} does not have the data sets")
    for name in names:
        split = split_table(load(name, folder), 0)
        assert _encode(split)[0].n_features == shape_of(name).n_features
        assert len(split.train) == shape_of(name).n_train


def test_the_papers_settings_of_some_data_sets():
    lympho = paper_settings("lympho", 71)
    assert (lympho.mask_sizes, lympho.n_steps, lympho.embedding_dim, lympho.learning_rate) == ((1, 4), 100, 16, 0.01)
    glass, scripts = paper_settings("glass", 102), scripts_settings("glass", 102)
    assert (glass.aggregation, glass.scale_masks, glass.mask_sizes) == ("mean", False, (1, 2, 3, 4))
    assert scripts == replace(glass, aggregation="max", scale_masks=True)
    assert scripts_settings("breastw", 222) == replace(paper_settings("breastw", 222), n_steps=100)
    assert scripts_settings("pima", 250) == paper_settings("pima", 250)
    fraud = paper_settings("fraud", 142_157)
    assert (fraud.batch_size, fraud.n_steps, fraud.embedding_dim, fraud.mask_rate) == (4096, 3500, 32, 0.2)
    separable = paper_settings("separable", 900)  # caption of the paper's figure on contamination
    assert (separable.n_steps, separable.batch_size, separable.learning_rate) == (100, None, 0.01)
    assert (separable.embedding_dim, separable.mask_sizes, separable.mask_rate) == (16, (1,), 0.15)


def test_data_sets_that_the_paper_does_not_have_need_the_default_preset():
    with pytest.raises(InputError, match="The paper has no settings for 'mine'; use the preset 'default'"):
        paper_settings("mine", 100)
    assert preset_settings("default", "mine", 100, 5) == default_settings(100, 5)


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_the_transformer_is_npt_ad_without_row_attention(preset):
    ours, theirs = (METHODS[name].configure(preset, shape_of("wine")) for name in ("npt-ad", "transformer"))
    assert theirs == {**ours, "row_attention": "none"}
    assert (ours["n_members"] == 1) == (preset == "paper")


def test_mask_knn_hides_one_feature_of_large_tables_only():
    sizes = [METHODS["mask-knn"].configure("paper", Shape("any", 10, 5, n))["max_masked"] for n in (200_000, 200_001)]
    assert sizes == [2, 1]
    assert METHODS["mask-knn"].configure("paper", shape_of("backdoor")) == {"max_masked": 1}  # as the paper counts


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("stop_in", ["training", "score", "reference"])
def test_a_stopped_run_goes_on_and_ends_as_if_it_had_not_stopped(monkeypatch, tmp_path, stop_in):
    monkeypatch.setattr("nptad.bench.npt._LOSSES_AT_ONCE", 10 * 10)  # ten rows under ten masks
    monkeypatch.setattr("nptad.bench.npt.SECONDS", 0)  # everything is written at once
    monkeypatch.setattr("nptad.bench.unfinished.SECONDS", -1)
    split = a_split(0)
    (whole,) = run([split], [0])
    blocks = []

    def counted(*args, **kwargs):
        blocks.append(args)
        if len(blocks) == {"score": 3, "reference": 6}.get(stop_in):
            raise StoppedError
        return mask_losses(*args, **kwargs)

    def stopping_write(path, fingerprint, tensors, used, history):
        write_checkpoint(path, fingerprint, tensors, used, history)
        if stop_in == "training" and len(history) == 3:
            raise StoppedError

    monkeypatch.setattr("nptad.bench.npt.mask_losses", counted)
    monkeypatch.setattr("nptad.training.loop.write_checkpoint", stopping_write)
    with pytest.raises(StoppedError):
        list(run_single_members([split], [0], TINY, tmp_path / "run"))
    before = Unfinished(tmp_path / "run").clock.cpu_seconds["fit"]
    assert before > 0

    stop_in, done = "nowhere", len(blocks)
    steps = []
    monkeypatch.setattr("nptad.training.loop.write_checkpoint", lambda *args: steps.append(len(args[4])))
    (resumed,) = run_single_members([split], [0], TINY, tmp_path / "run")
    assert steps[0] == (3 if done == 0 else TINY.n_steps)
    assert len(blocks) - done == 4 + 3 - max(0, done - 1)  # of 36 test rows and 24 training rows, ten at a time
    np.testing.assert_array_equal(resumed.scores, whole.scores)
    for rule in RULES:
        np.testing.assert_array_equal(resumed.rules[rule], whole.rules[rule], err_msg=rule)
    assert resumed.clock.cpu_seconds["fit"] > before  # the time of both


def test_a_model_too_large_to_be_written_again_and_again_is_not_kept(monkeypatch, tmp_path):
    monkeypatch.setattr("nptad.bench.npt.LARGEST_MODEL", 10)
    list(run_single_members([a_split(0)], [0], TINY, tmp_path / "run"))
    assert not (tmp_path / "run").exists()
