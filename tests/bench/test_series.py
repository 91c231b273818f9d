"""From records to the columns of the tables."""

from __future__ import annotations

from bench_helpers import a_record, an_own_record

from nptad.bench.datasets import DATASETS
from nptad.bench.registry import METHODS
from nptad.bench.rules import RULES
from nptad.bench.series import MethodColumn, all_series, columns_of, common_datasets, gather, has_published_rows

NPT, SCRIPTS, TRANSFORMER, MASK_KNN = (
    MethodColumn("npt-ad", "paper"),
    MethodColumn("npt-ad", "scripts"),
    MethodColumn("transformer", "paper"),
    MethodColumn("mask-knn", ""),
)


def test_a_series_has_the_finished_runs_in_the_order_of_seeds():
    records = [a_record("wine", "npt-ad", "paper", seed, f1=10.0 * seed) for seed in (2, 0, 1)]
    records += [a_record("wine", "npt-ad", "paper", 3, outcome="time"), a_record("glass", "npt-ad", "paper", 0)]
    results = gather(records)
    assert set(results) == {(column, name) for column in (NPT, SCRIPTS) for name in ("wine", "glass")}
    series = results[NPT, "wine"]
    assert series.values().tolist() == [0, 10, 20]
    assert series.values("auroc").tolist() == [50, 55, 60]
    assert series.values("auroc", "log").tolist() == [50, 55, 60]
    assert series.seconds() == (2.0, 1.0)


def test_a_single_model_counts_for_the_papers_text_and_for_the_scripts_each_with_its_rule():
    rules = {name: {"f1": float(place)} for place, name in enumerate(RULES)}
    results = gather([a_record(name, "npt-ad", "paper", rules=rules) for name in ("glass", "pima", "separable@0.1")])
    read = {(column.preset, name): one.rule for (column, name), one in results.items()}
    assert read == {
        ("paper", "glass"): "mean",
        ("paper", "pima"): "mean",
        ("paper", "separable@0.1"): "mean",
        ("scripts", "glass"): "scaled_max",
        ("scripts", "pima"): "mean",
    }
    assert results[SCRIPTS, "glass"].values().tolist() == [list(RULES).index("scaled_max")]
    assert list(gather([a_record("glass", "transformer", "paper")])) == [(TRANSFORMER, "glass")]


def test_losses_of_training_rows_are_part_of_training_where_masks_are_scaled_by_them():
    seconds = {"fit": 2.0, "score": 1.0, "reference": 4.0}
    results = gather([a_record("glass", "npt-ad", "paper", cpu_seconds=seconds)])
    assert (results[NPT, "glass"].seconds(), results[SCRIPTS, "glass"].seconds()) == ((2.0, 1.0), (6.0, 1.0))


def test_runs_without_a_cut_count_before_more_runs_with_one():
    cut = [a_record("wine", "npt-ad", "paper", seed, settings={"n_steps": 7}, finished="2030") for seed in range(5)]
    results = gather([*cut, a_record("wine", "npt-ad", "paper")])
    assert results[NPT, "wine"].changes() == []
    assert gather(cut)[NPT, "wine"].changes() == ["n_steps 7 instead of 1000"]


def test_steps_of_the_scripts_are_a_cut_of_the_text_and_the_other_way_round():
    text = a_record("breastw", "npt-ad", "paper")
    scripts = a_record("breastw", "npt-ad", "scripts")
    results = gather([text, scripts])
    assert (results[NPT, "breastw"].config["n_steps"], results[SCRIPTS, "breastw"].config["n_steps"]) == (500, 100)
    assert gather([text])[SCRIPTS, "breastw"].changes() == ["n_steps 500 instead of 100"]


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
    assert [column.preset for column, _ in gather(older)] == ["paper", "scripts"]


def test_a_method_of_ones_own_comes_last_under_its_full_name_and_is_not_imported():
    records = [a_record("wine", "mask-knn"), an_own_record("wine"), a_record("wine", "npt-ad", "paper")]
    columns = columns_of(gather(records), ["wine"])
    assert [column.label for column in columns] == ["NPT-AD", "NPT-AD, authors' scripts", "Mask-KNN", "mine:Class"]
    assert MethodColumn("mine:KNN", "").label == "mine:KNN"  # not to be taken for ours


def test_columns_come_in_the_order_of_methods_the_papers_preset_first():
    listed = [("mask-knn", ""), ("npt-ad", "default"), ("transformer", "paper"), ("npt-ad", "paper")]
    results = gather([a_record("wine", method, preset) for method, preset in listed])
    assert columns_of(results, ["wine"]) == [
        NPT,
        TRANSFORMER,
        SCRIPTS,
        MethodColumn("npt-ad", "default"),
        MASK_KNN,
    ]
    labels = [column.label for column in columns_of(results, ["wine"])]
    assert labels == ["NPT-AD", "Transformer", "NPT-AD, authors' scripts", "NPT-AD, library", "Mask-KNN"]


def test_common_data_sets_are_those_of_all_columns():
    records = [a_record(dataset, "npt-ad", "paper") for dataset in ("wine", "glass", "pima")]
    records += [a_record(dataset, "mask-knn") for dataset in ("pima", "wine")]
    assert common_datasets(gather(records), [NPT, MASK_KNN], ["pima", "glass", "wine"]) == ["pima", "wine"]


def test_every_method_has_a_name_of_its_own():
    assert len({spec.label for spec in METHODS.values()}) == len(METHODS)
