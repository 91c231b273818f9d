"""What a user of the detector relies on."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pickle
import subprocess
import sys
import time
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.stats import gmean
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import nptad.scoring.ensemble
import nptad.scoring.score
from nptad import NPTAD, InputError, ModelFileError, Settings, TableWarning, TrainingError, default_settings
from nptad.nn.masks import mask_bank
from nptad.pipeline import detect_table
from nptad.report import summarise
from nptad.scoring.ensemble import fit_ensemble
from nptad.scoring.folds import left_out_rows
from nptad.scoring.forecast import Forecast
from nptad.scoring.nearest import nearest_distances
from nptad.settings import default_members
from nptad.tables.encode import encode
from nptad.training.loop import train
from tiny_detector import score_all, tiny


def related_numbers(n_rows, n_columns=4, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n_rows, 1)) * np.linspace(-1, 2, n_columns)
    return x + 0.1 * random.normal(size=x.shape)


def mixed_table(n_rows, seed=0):
    random = np.random.default_rng(seed)
    x = related_numbers(n_rows, 3, seed)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame["colour"] = np.where(x[:, 0] > 0, "red", np.where(x[:, 2] > 0.5, "green", "blue"))
    frame["flag"] = x[:, 1] > 0
    frame.loc[random.choice(n_rows, n_rows // 10, replace=False), "b"] = np.nan
    return frame


@pytest.fixture(scope="module")
def table():
    return related_numbers(60)


@pytest.fixture(scope="module")
def new_rows():
    return related_numbers(40, seed=1)


@pytest.fixture(scope="module")
def fitted(table):
    return tiny(n_members=3).fit(table)


@pytest.fixture(scope="module")
def fitted_alone(table):
    return tiny(n_members=1).fit(table)


@pytest.fixture(scope="module")
def mixed():
    return mixed_table(60)


@pytest.fixture(scope="module")
def fitted_mixed(mixed):
    return tiny(n_steps=60).fit(mixed)


# scikit-learn's contract


TOO_STRICT = dict.fromkeys(
    ("check_methods_sample_order_invariance", "check_methods_subset_invariance"),
    "scores are float32: equal to 1e-5 in any batch, where scikit-learn asks 1e-7",
)


@parametrize_with_checks([tiny(n_members=1), tiny(n_members=2)], expected_failed_checks=lambda _: TOO_STRICT)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


def test_scikit_learn_array_api_check():
    """Skipped above: scikit-learn runs it only if this variable is set before SciPy is imported."""
    program = (
        "from nptad import NPTAD\n"
        "from sklearn.utils.estimator_checks import check_array_api_input\n"
        "for n_members in (1, 2):\n"
        "    detector = NPTAD(n_members, n_steps=2, embedding_dim=8, random_state=0)\n"
        "    check_array_api_input('NPTAD', detector, array_namespace='numpy', expect_only_array_outputs=False)\n"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_works_at_the_end_of_a_pipeline(table, new_rows):
    pipeline = make_pipeline(StandardScaler(), tiny()).fit(table)
    assert set(pipeline.predict(new_rows)) <= {-1, 1}
    np.testing.assert_array_equal(
        pipeline.score_samples(new_rows) - pipeline[-1].offset_, pipeline.decision_function(new_rows)
    )


def test_clone_keeps_parameters_and_forgets_the_fit(fitted):
    copy = clone(fitted.set_params(settings=None))
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.score_samples([[0.0] * 4])


def test_clone_keeps_settings():
    settings = Settings(embedding_dim=8, mask_sizes=(1, 3))
    assert clone(NPTAD(settings=settings)).settings == settings


def test_grid_search_with_numpy_values_and_a_scorer(table):
    X = np.vstack([table[:30], table[:6] * [1, -3, 3, -3], table[30:], table[30:36] * [1, -3, 3, -3]])
    y = np.tile(np.repeat([1, -1], [30, 6]), 2)
    grid = {"embedding_dim": np.array([4, 8]), "max_masked": np.arange(1, 3), "learning_rate": np.logspace(-3, -2, 1)}
    search = GridSearchCV(tiny(), grid, scoring="roc_auc", cv=2).fit(X, y)
    assert search.best_params_["embedding_dim"] in (4, 8)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    json.dumps(search.best_estimator_.settings_.to_dict())


def test_cross_validation_with_a_callable_scorer(table):
    scores = cross_val_score(tiny(), table, scoring=lambda detector, X, y=None: detector.score_samples(X).mean(), cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib_workers_agree_with_this_process(table, new_rows, backend):
    def score(seed):
        return tiny(random_state=seed).fit(table).score_samples(new_rows)

    parallel = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(score)(seed) for seed in (0, 1))
    for seed in (0, 1):
        np.testing.assert_allclose(parallel[seed], score(seed), rtol=1e-4)


@pytest.mark.parametrize("round_trip", ["pickle", "joblib"])
@pytest.mark.parametrize("which", ["fitted", "fitted_alone", "fitted_mixed"])
def test_round_trip_keeps_scores_bit_for_bit(request, which, round_trip, tmp_path):
    detector = request.getfixturevalue(which)
    rows = mixed_table(30, seed=1) if which == "fitted_mixed" else related_numbers(30, seed=1)
    if round_trip == "pickle":
        copy = pickle.loads(pickle.dumps(detector))
    else:
        joblib.dump(detector, tmp_path / "detector")
        copy = joblib.load(tmp_path / "detector")
    np.testing.assert_array_equal(copy.score_samples(rows), detector.score_samples(rows))
    assert copy.offset_ == detector.offset_


def test_pickle_is_about_as_large_as_the_weights(fitted, new_rows):
    fitted.score_samples(new_rows)
    weights = sum(p.numel() * 4 for p in fitted.ensemble_.model.parameters())
    assert len(pickle.dumps(fitted)) < 1.5 * weights


# Scores, thresholds, labels


def test_decision_function_is_the_distance_to_the_offset(fitted, new_rows):
    scores = fitted.score_samples(new_rows)
    np.testing.assert_array_equal(fitted.decision_function(new_rows), scores - fitted.offset_)
    np.testing.assert_array_equal(fitted.predict(new_rows), np.where(scores < fitted.offset_, -1, 1))


def test_an_absurd_row_scores_lowest(fitted, new_rows):
    scores = fitted.score_samples(np.vstack([new_rows, [[50.0, -50.0, 50.0, -50.0]]]))
    assert scores.argmin() == len(new_rows)


@pytest.mark.parametrize("n_members", [1, 2])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.25, 0.5, np.float64(0.2)])
def test_contamination_flags_exactly_that_share_of_training_rows(table, n_members, share):
    labels = tiny(n_members=n_members, n_steps=1, contamination=share).fit_predict(table)
    assert (labels == -1).sum() == round(60 * share)


def test_auto_contamination_is_the_99th_percentile_of_the_training_rows_own_scores(fitted, table):
    np.testing.assert_array_equal(fitted.training_scores_, fitted.score_samples(table))
    assert fitted.offset_ == pytest.approx(-np.quantile(-fitted.score_samples(table), 0.99))


def test_auto_contamination_samples_the_rows_of_a_large_table(monkeypatch, table):
    monkeypatch.setattr("nptad.detector.CALIBRATION_ROWS", 20)
    detector = tiny()
    labels = detector.fit_predict(table)
    assert len(detector.training_scores_) == 20
    assert np.isin(detector.training_scores_, detector.score_samples(table)).all()
    np.testing.assert_array_equal(labels, detector.predict(table))


@pytest.mark.parametrize("n_members", [1, 3])
def test_fit_predict_is_fit_then_predict(table, n_members):
    detector = tiny(n_members=n_members, contamination=0.2)
    np.testing.assert_array_equal(detector.fit_predict(table), detector.predict(table))


def test_scoring_without_fit_is_an_error(table):
    for method in ("score_samples", "decision_function", "predict", "detect", "explain"):
        with pytest.raises(NotFittedError):
            getattr(NPTAD(), method)(table)


# Randomness


def test_same_seed_gives_the_same_bits_and_another_seed_others(fitted, table, new_rows):
    again = tiny(n_members=3).fit(table)
    other = tiny(n_members=3, random_state=1).fit(table)
    np.testing.assert_array_equal(again.score_samples(new_rows), fitted.score_samples(new_rows))
    np.testing.assert_array_equal(again.training_scores_, fitted.training_scores_)
    assert (other.score_samples(new_rows) != fitted.score_samples(new_rows)).all()


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng, np.int64])
def test_random_state_may_be_a_generator_or_a_numpy_integer(table, new_rows, make):
    scores = [tiny(n_steps=1, random_state=make(7)).fit(table).score_samples(new_rows) for _ in range(2)]
    np.testing.assert_array_equal(*scores)


def test_without_a_seed_every_fit_is_different(table, new_rows):
    detector = tiny(n_steps=1, random_state=None)
    assert (detector.fit(table).score_samples(new_rows) != detector.fit(table).score_samples(new_rows)).all()


def test_global_random_states_are_left_alone(table, new_rows):
    numpy_before, torch_before = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    tiny().fit(table).explain(new_rows[:3])
    numpy_after = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(numpy_after[1], numpy_before[1])
    assert numpy_after[2] == numpy_before[2]
    assert torch.equal(torch.get_rng_state(), torch_before)


# Invariances: equal to 1e-5 in any batch


@pytest.mark.parametrize("which", ["fitted", "fitted_alone"])
def test_scores_do_not_depend_on_row_order_or_batch_mates(request, which, table, new_rows):
    detector = request.getfixturevalue(which)
    rows = np.vstack([table[:30], new_rows])
    scores = detector.score_samples(rows)
    order = np.random.default_rng(0).permutation(len(rows))
    np.testing.assert_allclose(detector.score_samples(rows[order]), scores[order], rtol=1e-5)
    np.testing.assert_allclose(detector.score_samples(rows[::7]), scores[::7], rtol=1e-5)
    np.testing.assert_allclose([detector.score_samples(row[None])[0] for row in rows[25:35]], scores[25:35], rtol=1e-5)


@pytest.mark.parametrize("which", ["fitted", "fitted_alone"])
@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("scoring.score.CACHE_FRIENDLY", 64),
        ("scoring.score.MEMORY_BUDGET", 1),
        ("scoring.score._LOSSES_AT_ONCE", 50),
        ("detector._BLOCK_ROWS", 7),
    ],
)
def test_scores_do_not_depend_on_chunk_sizes(request, which, table, new_rows, monkeypatch, constant, value):
    detector = request.getfixturevalue(which)
    rows = np.vstack([table, new_rows])
    scores = detector.score_samples(rows)
    monkeypatch.setattr(f"nptad.{constant}", value)
    np.testing.assert_allclose(detector.score_samples(rows), scores, rtol=1e-5)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_scores_of_a_frame_in_blocks_are_those_of_the_whole(fitted_mixed, monkeypatch, library):
    rows = mixed_table(40, seed=1)
    scores = fitted_mixed.score_samples(rows)
    native = rows if library == "pandas" else pytest.importorskip("pyarrow").Table.from_pandas(rows)
    native = pytest.importorskip("polars").from_arrow(native) if library == "polars" else native
    monkeypatch.setattr("nptad.detector._BLOCK_ROWS", 7)
    np.testing.assert_allclose(fitted_mixed.score_samples(native), scores, rtol=1e-5)


def test_scores_do_not_depend_on_column_order(fitted_mixed, mixed):
    rows = mixed_table(30, seed=1)
    scores = fitted_mixed.score_samples(rows)
    np.testing.assert_array_equal(fitted_mixed.score_samples(rows[["flag", "c", "colour", "a", "b"]]), scores)


def test_number_of_threads_matters_only_to_rounding(table, new_rows):
    threads, scores = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            scores.append(tiny(n_steps=2).fit(table).score_samples(new_rows))
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_allclose(*scores, rtol=1e-3)


# Members are folds


@given(st.integers(2, 60), st.integers(2, 60), st.integers(0, 2**32))
def test_folds_are_equally_large_and_leave_out_every_row(n_rows, n_members, seed):
    left_out = left_out_rows(n_rows, min(n_members, n_rows), seed)
    assert len(set(left_out.sum(axis=1))) == 1
    assert left_out.any(axis=0).all()
    assert not left_out.all(axis=1).any()


def test_training_rows_are_scored_only_by_members_that_left_them_out(fitted, table):
    ensemble = fitted.ensemble_
    x = encode(fitted.schema_, table)
    assignment = ensemble.assign_members(x)
    by_member = ensemble.member_scores(x, assignment)
    np.testing.assert_array_equal(~np.isnan(by_member), ensemble.left_out.T)
    np.testing.assert_allclose(-fitted.score_samples(table), gmean(by_member, axis=1, nan_policy="omit"), rtol=1e-12)


def test_new_rows_are_scored_by_all_members(fitted, new_rows):
    x = encode(fitted.schema_, new_rows)
    by_member = fitted.ensemble_.member_scores(x, fitted.ensemble_.assign_members(x))
    np.testing.assert_allclose(-fitted.score_samples(new_rows), gmean(by_member, axis=1), rtol=1e-12)


def test_copies_of_a_training_row_share_the_average_of_their_witnesses(table):
    repeated = np.vstack([table, table[[5, 5]]])
    detector = tiny(n_members=4).fit(repeated)
    left_out = detector.ensemble_.left_out.astype(float)
    expected = (left_out / left_out.sum(axis=0))[:, [5, 60, 61]].mean(axis=1)
    assignment = detector.ensemble_.assign_members(encode(detector.schema_, table[5:6]))
    np.testing.assert_allclose(assignment.weights[0], expected)
    assert len(set(detector.score_samples(repeated)[[5, 60, 61]])) == 1


def test_a_poisoned_training_row_does_not_vouch_for_itself(fitted, table):
    clean = encode(fitted.schema_, table)
    poisoned = clean.copy()
    poisoned[7] = [1e3, -1e3, 1e3, -1e3]
    fit = functools.partial(
        fit_ensemble,
        layout=fitted.schema_.layout,
        # What is usual comes from all training rows.
        settings=dataclasses.replace(fitted.settings_, scale_masks=False, aggregation="mean"),
        seeds=[1, 2, 3, 4, 5],
        device=torch.device("cpu"),
    )
    with_it, _ = fit(poisoned)
    without_it, _ = fit(clean)
    innocent = np.flatnonzero(without_it.left_out[:, 7])
    row = poisoned[7:8]
    as_new = without_it.member_scores(row, without_it.assign_members(row))[0, innocent]
    as_training_row = score_all(with_it, row, with_it.assign_members(row))[0]
    assert as_training_row == pytest.approx(gmean(as_new), rel=1e-6)


def test_an_absurd_training_row_is_found_in_its_own_table(table):
    spoilt = table.copy()
    spoilt[11, 2] = 1e9
    for n_members in (1, 3):
        assert tiny(n_members=n_members).fit(spoilt).training_scores_.argmin() == 11


def test_a_single_member_leaves_a_training_row_out_of_its_context(fitted_alone, table):
    x = encode(fitted_alone.schema_, table)
    ensemble = fitted_alone.ensemble_
    assignment = ensemble.assign_members(x)
    np.testing.assert_array_equal(assignment.self_index, np.arange(len(x)))
    as_new = score_all(ensemble, x, dataclasses.replace(assignment, self_index=np.full(len(x), -1)))
    assert (-fitted_alone.score_samples(table) != as_new).all()


def test_a_small_context_still_recognises_training_rows(table):
    detector = tiny(n_members=1, settings=Settings(context_size=10)).fit(table)
    self_index = detector.ensemble_.assign_members(encode(detector.schema_, table)).self_index
    np.testing.assert_array_equal(np.sort(self_index[self_index >= 0]), np.arange(10))


def test_the_seed_draws_the_context(table):
    chosen = [
        tiny(n_members=1, random_state=seed, settings=Settings(context_size=10)).fit(table).ensemble_.context_source
        for seed in (0, 0, 1)
    ]
    assert len(chosen[0]) == 10
    np.testing.assert_array_equal(chosen[0], chosen[1])
    assert (chosen[0] != chosen[2]).any()


# Bad input


BAD_PARAMETERS = [
    *[("n_members", value) for value in (0, -1, 1.5, "two", True, 61)],
    *[("embedding_dim", value) for value in (0, 6, 2.0, "wide", True)],
    *[("n_steps", value) for value in (0, 1.5, "many")],
    *[("batch_size", value) for value in (1, 2.5, "all")],
    *[("learning_rate", value) for value in (0, -1, float("nan"), float("inf"), "fast", True)],
    *[("max_masked", value) for value in (0, 1.0, "r", True)],
    *[("contamination", value) for value in (0, 0.6, float("nan"), "lots", True, None, np.array([0.1, 0.2]))],
    *[("training", value) for value in ("dirty", None, 3)],
    *[("columns", value) for value in (5, "ab", ["a"], {"z": "number"}, {9: "number"}, {True: "ignore"})],
    *[("time_limit", value) for value in (0, -1, float("nan"), "soon", True)],
    *[("device", value) for value in ("gpu0", "meta", None, 3.5)],
    *[("random_state", value) for value in (-1, 1.5, "seed", True)],
    *[("verbose", value) for value in ("yes", None)],
    *[("settings", value) for value in ({}, "paper")],
]


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS, ids=lambda value: str(value).replace("\n", " "))
def test_a_bad_parameter_is_one_clear_sentence_and_no_fit(table, name, value):
    detector = tiny().set_params(**{name: value})
    with pytest.raises(InputError, match=name) as caught:
        detector.fit(table)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    with pytest.raises(NotFittedError):
        detector.predict(table)


def test_every_constructor_parameter_has_bad_values_above():
    assert {name for name, _ in BAD_PARAMETERS} == set(NPTAD().get_params())


def test_at_most_fourteen_parameters():
    assert len(NPTAD().get_params()) <= 14


@pytest.mark.parametrize("n_rows", [0, 1])
def test_too_few_rows(n_rows):
    with pytest.raises(InputError, match=r"0 sample|1 row"):
        tiny().fit(np.zeros((n_rows, 3)))


def test_a_failed_fit_leaves_the_detector_as_it_was(table, new_rows, monkeypatch):
    detector = tiny().fit(table)
    scores, attributes = detector.score_samples(new_rows), dict(vars(detector))

    def stop(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(nptad.scoring.ensemble.Ensemble, "member_scores", stop)
    with pytest.raises(KeyboardInterrupt):
        detector.fit(related_numbers(30, 6))
    monkeypatch.undo()
    assert vars(detector) == attributes
    np.testing.assert_array_equal(detector.score_samples(new_rows), scores)


def test_refit_forgets_column_names(mixed, table):
    detector = tiny(n_steps=1).fit(mixed)
    assert detector.feature_names_in_.tolist() == list(mixed.columns)
    detector.fit(table)
    assert not hasattr(detector, "feature_names_in_")
    assert detector.n_features_in_ == 4


# Time, checkpoints, progress


def test_time_limit_stops_early(table, new_rows):
    with pytest.warns(TableWarning, match=r"The time limit ended training after [\d,]+ of 100,000 steps"):
        detector = tiny(n_steps=100_000, time_limit=0.3).fit(table)
    assert 1 <= len(detector.history_) < 100_000
    assert detector.history_[-1]["seconds"] < 5
    assert np.isfinite(detector.score_samples(new_rows)).all()


@pytest.mark.filterwarnings("ignore:The time limit")
def test_a_network_that_the_limit_has_ended_says_so_in_report_and_model(table, tmp_path):
    frame = pd.DataFrame(table, columns=list("abcd"))
    result = detect_table(frame, tiny(n_steps=100_000, time_limit=0.2))
    said = result.detector.model_.network.ended_early
    assert "of 100,000 steps" in said
    summary = summarise(result)
    assert said in summary["result"]["notes"]
    assert summary["training"]["network"]["n_planned"] == 100_000
    result.detector.save(tmp_path / "model")
    assert said in (tmp_path / "model" / "README.md").read_text()


@pytest.mark.filterwarnings("ignore:The time limit")
def test_a_time_limit_includes_scoring_the_training_rows(monkeypatch):
    """By a clock that other programs on the machine do not move."""
    monkeypatch.setattr(time, "monotonic", time.process_time)
    rows = np.random.default_rng(0).normal(size=(400, 12))
    tiny(n_steps=1).fit(rows)
    started = time.process_time()
    tiny(n_steps=100_000, time_limit=2.0).fit(rows)
    assert time.process_time() - started < 2.5


def test_a_limit_that_is_not_reached_changes_nothing(table, new_rows):
    free, limited = (tiny(time_limit=limit).fit(table).score_samples(new_rows) for limit in (None, 600))
    np.testing.assert_array_equal(free, limited)


def test_training_leaves_time_for_scoring(table, monkeypatch):
    monkeypatch.setattr("nptad.scoring.forecast.forecast", lambda *_: Forecast(step=1.0, scoring=20.0))
    limits = []

    def stop(*arguments, time_limit, **more):
        limits.append(time_limit)
        raise KeyboardInterrupt

    monkeypatch.setattr("nptad.scoring.ensemble.train", stop)
    with pytest.raises(KeyboardInterrupt):
        tiny(time_limit=60).fit(table)
    assert 30 < limits[0] <= 40


def test_a_limit_that_no_network_can_keep_is_refused_before_training(table, monkeypatch):
    monkeypatch.setattr("nptad.scoring.forecast.forecast", lambda *_: Forecast(step=40.0, scoring=170.0))
    with pytest.raises(InputError, match="40 s for a training step and 3 min for scoring the training rows") as told:
        tiny(time_limit=60).fit(table)
    assert "allow 4 min at the very least" in str(told.value)
    assert str(told.value).count(".") == 1


def test_a_long_training_announces_how_long_it_takes(table, monkeypatch, capsys):
    def train(model, x, report, **more):
        for step in range(1, 5):
            report({"step": step, "planned": 2000, "loss": 1.0, "seconds": 0.1 * step})
        raise KeyboardInterrupt

    monkeypatch.setattr("nptad.scoring.ensemble.train", train)
    for verbose in (True, False):
        with pytest.raises(KeyboardInterrupt):
            tiny(verbose=verbose).fit(table)
        assert ("Training takes about 3 min (2,000 steps)." in capsys.readouterr().err) == verbose


def test_an_interrupted_fit_resumes_to_the_same_scores(table, new_rows, tmp_path, monkeypatch):
    checkpoint = tmp_path / "checkpoint"
    whole = tiny(n_steps=8).fit(table)

    def train_until_step_5(*arguments, report, **keywords):
        def report_and_stop(entry):
            report(entry)
            if entry["step"] == 5:
                raise KeyboardInterrupt

        return train(*arguments, report=report_and_stop, checkpoint_seconds=0, **keywords)

    monkeypatch.setattr("nptad.scoring.ensemble.train", train_until_step_5)
    with pytest.raises(KeyboardInterrupt):
        tiny(n_steps=8).fit(table, checkpoint=checkpoint)
    assert checkpoint.exists()
    monkeypatch.undo()

    with pytest.raises(ModelFileError, match="other data or settings"):
        tiny(n_steps=8, random_state=1).fit(table, checkpoint=checkpoint)
    resumed = tiny(n_steps=8).fit(table, checkpoint=checkpoint)
    assert checkpoint.exists()  # until the detector is saved, nothing else has what was learnt
    assert [entry["loss"] for entry in resumed.history_] == [entry["loss"] for entry in whole.history_]
    for name, weight in whole.ensemble_.model.state_dict().items():
        assert torch.equal(weight, resumed.ensemble_.model.state_dict()[name])
    np.testing.assert_array_equal(resumed.score_samples(new_rows), whole.score_samples(new_rows))


def test_history_has_one_entry_per_step(fitted):
    assert [entry["step"] for entry in fitted.history_] == [1, 2, 3, 4, 5]
    assert all(np.isfinite(entry["loss"]) for entry in fitted.history_)


def test_progress_goes_to_standard_error_only_and_reaches_the_end(table, new_rows, capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
    tiny(verbose=True, n_members=3).fit(table).score_samples(new_rows)
    out, err = capfd.readouterr()
    assert out == ""
    for description, total in (("Training", 5), ("Calibrating", 60), ("Scoring", 40)):
        assert description in err
        assert f"{total}/{total}" in err
    tiny().fit(table).score_samples(new_rows)
    assert capfd.readouterr() == ("", "")


# Odd tables


def test_rows_without_values_score_finite_with_one_warning(fitted, table, monkeypatch):
    monkeypatch.setattr("nptad.detector._BLOCK_ROWS", 10)
    rows = table[:30].copy()
    rows[[0, 25]] = np.nan
    with pytest.warns(TableWarning, match=r"2 row\(s\) have no value") as caught:
        scores = fitted.score_samples(rows)
    assert len(caught) == 1
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("n_members", [1, 2])
def test_training_rows_without_values_do_no_harm(table, n_members):
    rows = table.copy()
    rows[[3, 4]] = np.nan
    with pytest.warns(TableWarning, match="no value"):
        detector = tiny(n_members=n_members).fit(rows)
    assert np.isfinite(detector.training_scores_).all()
    assert np.isfinite(detector.score_samples(table)).all()


@pytest.mark.parametrize(("n_rows", "n_columns"), [(20, 2), (20, 1), (50, 13), (300, 30), (40, 70)])
def test_default_rule_works_for_tables_of_many_shapes(n_rows, n_columns):
    rows = related_numbers(n_rows, n_columns)
    detector = NPTAD(n_steps=3, n_members=None if n_rows < 100 else 2, random_state=0).fit(rows)
    scores = detector.score_samples(rows[:5] + 0.01)
    assert np.isfinite(scores).all()
    assert detector.settings_.row_attention == ("low_rank" if n_columns == 70 else "full")


@pytest.mark.parametrize("n_rows", [2, 3, 7, 8, 9])
def test_very_short_tables(n_rows):
    rows = related_numbers(n_rows, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        for n_members in (None, 2):
            detector = NPTAD(n_members, n_steps=2, columns=dict.fromkeys(range(3), "number"), random_state=0).fit(rows)
            assert np.isfinite(detector.training_scores_).all()


def test_mini_batches_and_max_aggregation(table, new_rows):
    settings = Settings(aggregation="max", context_size=20, batch_size=16)
    scores = tiny(settings=settings).fit(table).score_samples(new_rows)
    assert np.isfinite(scores).all()


def test_parameters_override_settings(table):
    settings = Settings(n_steps=2, mask_sizes=(1, 3), learning_rate=0.5)
    detector = NPTAD(2, embedding_dim=4, max_masked=2, settings=settings, random_state=0).fit(table)
    assert detector.settings_ == Settings(n_steps=2, mask_sizes=(1, 2), learning_rate=0.5, embedding_dim=4)


def test_max_masked_takes_all_masks_of_wide_tables_too():
    wide = np.random.default_rng(0).normal(size=(20, 24))
    assert len(tiny(max_masked=1).fit(wide).ensemble_.masks) == 24
    default = NPTAD(2, n_steps=2, random_state=0).fit(wide).ensemble_.masks
    assert (len(default), default.sum(1).tolist()) == (18, [4] * 18)


# Settings


@given(st.integers(2, 300_000), st.integers(1, 300))
def test_default_settings_are_sane_for_any_table(n_rows, n_features):
    settings = default_settings(n_rows, n_features)
    bank = mask_bank(n_features, settings.mask_sizes, settings.max_masks, seed=0)
    hidden = bank.sum(0).float()
    assert hidden.min() >= 1
    assert settings.mask_sizes == (1,) or hidden.mean() >= 3
    assert len(bank) <= 25
    assert settings.embedding_dim % settings.n_heads == 0
    assert (settings.row_attention == "full") == (n_features * settings.embedding_dim <= 512)
    assert (settings.batch_size or n_rows) <= 1024
    assert (settings.context_size or n_rows) <= 4096
    members = default_members(n_rows)
    assert 1 <= members <= n_rows
    assert members == 1 or n_rows - -(-n_rows // members) >= 2


@given(st.integers(2, 300_000), st.integers(1, 300))
def test_a_wider_table_never_gets_larger_cells(n_rows, n_features):
    narrow, wide = default_settings(n_rows, n_features), default_settings(n_rows, n_features + 1)
    assert wide.embedding_dim <= narrow.embedding_dim


@given(st.integers(2, 300_000), st.integers(1, 300))
def test_no_default_mask_hides_more_cells_than_training_does_on_average(n_rows, n_features):
    settings = default_settings(n_rows, n_features)
    assert settings.mask_sizes[-1] <= max(1, settings.mask_rate * n_features + 0.5)


@hypothesis_settings(deadline=None)
@given(
    st.builds(
        Settings,
        embedding_dim=st.sampled_from([4, 8, 64]),
        row_attention=st.sampled_from(["full", "low_rank", "none"]),
        dropout=st.floats(0, 1, exclude_max=True),
        learning_rate=st.floats(1e-6, 10),
        mask_sizes=st.sets(st.integers(1, 9), min_size=1).map(sorted),
        batch_size=st.none() | st.integers(2, 9),
        scale_masks=st.booleans(),
    )
)
def test_settings_survive_json(settings):
    assert Settings(**json.loads(json.dumps(settings.to_dict()))) == settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("embedding_dim", 10),
        ("rank", 6),
        ("n_layers", 0),
        ("n_heads", 1.0),
        ("max_masks", 0),
        ("context_size", 1),
        ("dropout", 1),
        ("dropout", None),
        ("attention_dropout", -0.1),
        ("row_attention", "some"),
        ("aggregation", "median"),
        ("aggregation", "nearest"),  # without scale_masks
        ("scale_masks", "no"),
        ("mask_sizes", ()),
        ("mask_sizes", (0, 1)),
        ("mask_sizes", (1, 1)),
        ("mask_sizes", 3),
    ],
)
def test_bad_settings_are_one_clear_sentence(name, value):
    with pytest.raises(InputError, match=rf"^{name} must be .*\.$"):
        Settings(**{name: value})


def test_a_note_about_a_large_table_names_the_row_of_the_table(fitted, table, monkeypatch):
    monkeypatch.setattr("nptad.detector._BLOCK_ROWS", 4)
    broken = np.array(table, dtype=float)
    broken[9, 0] = np.inf
    with pytest.warns(TableWarning, match="in row 9"):
        fitted.score_samples(broken)


def test_checkpoint_needs_a_seed_that_can_come_again(table, tmp_path):
    for random_state in (None, np.random.default_rng(0)):
        with pytest.raises(InputError, match="needs a whole number as random_state"):
            tiny(random_state=random_state).fit(table, checkpoint=tmp_path / "run")
    with pytest.raises(InputError, match="checkpoint must be a path"):
        tiny().fit(table, checkpoint=5)


def test_scaled_scores_of_training_rows_are_honest(table):
    """An absurd row must not shrink its own score by setting the scale of its fold."""
    poisoned = np.array(table, dtype=float)
    poisoned[7, 1] += 100 * poisoned[:, 1].std()
    settings = dataclasses.replace(default_settings(*poisoned.shape), scale_masks=True, embedding_dim=8, n_steps=5)
    detector = NPTAD(6, settings=settings, random_state=0).fit(poisoned)
    scores = detector.score_samples(poisoned)
    assert scores.argmin() == 7
    assert scores[7] < 10 * np.median(scores)


def test_the_usual_distance_is_that_of_rows_from_the_neighbours_of_members_that_left_them_out(fitted, table):
    ensemble, x = fitted.ensemble_, encode(fitted.schema_, table)
    distances = [
        (np.abs(row - x[~left_out]) / np.ptp(x[~left_out], axis=0)).mean(axis=1).min()
        for left_out in ensemble.left_out
        for row in x[left_out]
    ]
    assert ensemble.nearest_scale == pytest.approx(np.sqrt(np.mean(np.square(distances))), rel=1e-4)


def test_an_absurd_row_does_not_hide_the_odd_ones_of_its_column(fitted, table):
    """The usual loss under a mask is no more than one ordinary outlier would make it."""
    encoded = encode(fitted.schema_, table)
    absurd, outlier = encoded.copy(), encoded.copy()
    absurd[7, 1], outlier[7, 1] = 1e3, 6
    settings = dataclasses.replace(default_settings(*encoded.shape), embedding_dim=8, n_steps=5)
    scale_of_absurd, scale_of_outlier = (
        fit_ensemble(x, fitted.schema_.layout, settings, [1, 2, 3, 4, 5], device=torch.device("cpu"))[0].mask_scale
        for x in (absurd, outlier)
    )
    assert (scale_of_absurd < 3 * scale_of_outlier).all()


def test_training_rows_are_recognised_after_a_float32_file(fitted, table):
    single = np.array(table, dtype=np.float32)
    exact, rounded = fitted.score_samples(table), fitted.score_samples(single)
    assert np.isclose(exact, rounded, rtol=1e-4).mean() > 0.95


def test_embedding_dim_reaches_the_rule_for_wide_tables():
    rows = related_numbers(30, 40)
    for embedding_dim, row_attention in ((8, "full"), (16, "low_rank")):
        detector = NPTAD(1, n_steps=1, embedding_dim=embedding_dim, random_state=0).fit(rows)
        assert detector.settings_.row_attention == row_attention


def test_a_model_that_diverged_in_its_last_step_is_an_error(table):
    with pytest.raises(TrainingError, match="smaller learning_rate"):
        tiny(n_steps=1, learning_rate=1e30).fit(table)


def test_scores_do_not_depend_on_the_number_of_cores():
    """Members are shared out among cores; what each of them computes is the same."""
    rows = np.random.default_rng(0).normal(size=(90, 4))
    detector = NPTAD(3, n_steps=5, random_state=0).fit(rows[:60])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = detector.score_samples(rows)
        torch.set_num_threads(2)
        np.testing.assert_allclose(detector.score_samples(rows), alone, rtol=1e-5)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_distances_look_at_more_rows_than_the_context(table):
    settings = dataclasses.replace(default_settings(*table.shape), context_size=10, embedding_dim=8, n_steps=5)
    ensemble = NPTAD(3, settings=settings, random_state=0).fit(table).ensemble_
    for member, left_out, attended, near in zip(
        ensemble.members, ensemble.left_out, ensemble.context_rows, ensemble.neighbour_rows, strict=True
    ):
        assert member.cache[0][0].shape[2] == len(attended) == 10
        np.testing.assert_array_equal(ensemble.context_source[near], np.flatnonzero(~left_out))
        assert set(attended) < set(near)
        found = nearest_distances(torch.from_numpy(ensemble.context[near]), member.neighbours)
        assert found.tolist() == [0.0] * len(near)


def test_a_huge_table_keeps_a_sample_of_the_rows_for_distances(table, monkeypatch):
    monkeypatch.setattr("nptad.scoring.ensemble._NEIGHBOURS", 2)
    settings = dataclasses.replace(default_settings(*table.shape), context_size=10, embedding_dim=8, n_steps=5)
    once, again = (NPTAD(3, settings=settings, random_state=0).fit(table).ensemble_ for _ in range(2))
    assert once.neighbour_rows.shape == (3, 20)
    assert len(once.context) == len(np.union1d(once.context_rows, once.neighbour_rows)) <= 90
    np.testing.assert_array_equal(once.context_source, again.context_source)
    for left_out, near in zip(once.left_out, once.neighbour_rows, strict=True):
        assert not left_out[once.context_source[near]].any()
