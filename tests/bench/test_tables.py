"""Tables, the page and the figures, from a small made-up store."""

from __future__ import annotations

import csv
import io
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench_helpers import a_record, an_own_record, small_study, write_store

from nptad.bench.datasets import DATASETS
from nptad.bench.figures import OURS, accuracy_against_runtime, critical_difference, draw_all, ours_against_published
from nptad.bench.grid import Figure, Grid
from nptad.bench.page import write_page
from nptad.bench.presets import paper_table
from nptad.bench.registry import METHODS
from nptad.bench.rules import RULES
from nptad.bench.series import gather
from nptad.bench.store import read_records
from nptad.bench.tables import (
    ablation_table,
    against_published,
    contamination_table,
    main_table,
    published_f1,
    rank_table,
    rules_table,
    runtime_table,
    summary_table,
    variants_table,
)
from nptad.errors import InputError

# Grids

GRID = Grid(
    "name",
    "Shares in %, and R&D",
    ["data set", "a_b", "c"],
    [["x_1", Figure(72.25, 7.74, bold=True), Figure(-5.0)], ["y", None, "text, 50 %"], ["z", Figure(0.5), Figure(3.0)]],
)


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def read_markdown(text):
    """Rows of a Markdown table as column -> cell."""
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert all(len(row) == len(head) for row in body)
    return [dict(zip(head, row, strict=True)) for row in body]


def by_name(grid):
    return {next(iter(row.values())): row for row in read_markdown(grid.markdown())}


def test_the_summary_is_over_the_common_data_sets_and_has_the_best_first():
    runs = [
        a_record(name, method, preset, f1=f1, auroc=f1)
        for name, method, preset, f1 in (
            ("wine", "knn", "", 70.0),
            ("glass", "knn", "", 30.0),
            ("wine", "npt-ad", "paper", 60.0),
            ("glass", "npt-ad", "paper", 50.0),
            ("pima", "knn", "", 99.0),
        )
    ]
    rows = read_markdown(summary_table(gather(runs)).markdown())
    assert [(row["method"], row["F1"], row["mean rank (F1)"]) for row in rows] == [
        ("NPT-AD", "55.0", "2.0"),
        ("NPT-AD, authors' scripts", "55.0", "2.0"),
        ("KNN", "50.0", "2.0"),
    ]
    assert summary_table({}).rows == []


def test_the_summary_sets_each_method_beside_npt_ad_wherever_both_have_run():
    figures = {
        ("npt-ad", "paper"): {"wine": 60.0, "glass": 50.0, "pima": 10.0},
        ("knn", ""): {"wine": 70.0, "glass": 30.0, "pima": 40.0, "vowels": 99.0},
        ("lof", ""): {"wine": 60.0},
    }
    runs = [a_record(name, *column, f1=f1) for column, sets in figures.items() for name, f1 in sets.items()]
    rows = by_name(summary_table(gather(runs)))
    titles = ("sets", "F1 there", "NPT-AD there", "won-lost")
    assert {name: tuple(row[title] for title in titles) for name, row in rows.items()} == {
        "NPT-AD": ("3", "40.0", "", ""),
        "NPT-AD, authors' scripts": ("3", "40.0", "40.0", "0-0"),
        "KNN": ("3", "46.7", "40.0", "2-1"),
        "LOF": ("1", "60.0", "60.0", "0-0"),
    }


def test_the_summary_says_how_many_splits_each_method_has_had():
    seeds = {("wine", "knn"): 3, ("glass", "knn"): 5, ("wine", "lof"): 2, ("glass", "lof"): 2, ("pima", "lof"): 9}
    runs = [a_record(*name, seed=seed) for name, count in seeds.items() for seed in range(count)]
    rows = by_name(summary_table(gather(runs)))
    assert {name: row["splits"] for name, row in rows.items()} == {"KNN": "3-5", "LOF": "2"}


def test_the_summary_counts_training_and_scoring():
    seconds = {"fit": 2.0, "score": 1.0, "reference": 4.0}
    rows = by_name(summary_table(gather([a_record("glass", "npt-ad", "paper", cpu_seconds=seconds)])))
    assert (rows["NPT-AD"]["seconds"], rows["NPT-AD, authors' scripts"]["seconds"]) == ("3", "7")  # scaled masks


def test_markdown():
    assert read_markdown(GRID.markdown()) == [
        {"data set": "x_1", "a_b": "**72.2 ± 7.7**", "c": "-5.0"},
        {"data set": "y", "a_b": "", "c": "text, 50 %"},
        {"data set": "z", "a_b": "0.5", "c": "3.0"},
    ]


def test_csv_has_a_column_for_spreads_where_there_are_any():
    assert read_csv(GRID.csv()) == [
        {"data set": "x_1", "a_b": "72.250", "a_b_std": "7.740", "c": "-5.000"},
        {"data set": "y", "a_b": "", "a_b_std": "", "c": "text, 50 %"},
        {"data set": "z", "a_b": "0.500", "a_b_std": "", "c": "3.000"},
    ]


def test_latex_is_balanced_and_escaped():
    text = GRID.latex()
    assert re.findall(r"\\begin\{(\w+)\}", text) == re.findall(r"\\end\{(\w+)\}", text)[::-1] == ["table", "tabular"]
    assert text.count("{") == text.count("}")
    assert r"\begin{tabular}{lrr}" in text
    assert r"\caption{Shares in \%, and R\&D}" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert rows == [
        r"data set & a\_b & c \\",
        r"x\_1 & $\mathbf{72.2 \pm 7.7}$ & $-5.0$ \\",
        r"y &  & text, 50 \% \\",
        r"z & $0.5$ & $3.0$ \\",
    ]


@pytest.mark.parametrize(("n_columns", "shrunk"), [(8, False), (9, True)])
def test_wide_tables_are_made_to_fit_the_page(n_columns, shrunk):
    text = Grid("wide", "", ["x"] * n_columns, [["1"] * n_columns]).latex()
    assert (r"\resizebox{\textwidth}{!}{" in text) == shrunk
    assert text.count("{") == text.count("}")
    assert text.index(r"\caption") < text.index(r"\begin{tabular}")


def test_a_grid_without_rows_still_has_its_head(tmp_path):
    empty = Grid("empty", "", ["a", "b"], [])
    assert empty.csv() == "a,b\n"
    assert read_markdown(empty.markdown()) == []
    assert {path.name for path in empty.write(tmp_path)} == {"empty.md", "empty.csv", "empty.tex"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.csv", "empty.md", "empty.tex"]


# Tables


@pytest.fixture
def results():
    return gather(small_study())


def test_main_table(results):
    rows = by_name(main_table(results, "f1"))
    assert list(rows) == ["wine", "glass", "breastw", "mean", "mean std", "mean rank"]
    assert rows["wine"] == {
        "data set": "wine",
        "NPT-AD": "**72.0 ± 2.0**",
        "Transformer": "32.0 ± 2.0",
        "NPT-AD, authors' scripts": "**72.0 ± 2.0**",
        "NPT-AD, library": "**74.0 ± 2.0**",
        "Mask-KNN": "42.0 ± 2.0",
        "NPT-AD, published": "72.5",
        "Transformer, published": "23.5",
        "Mask-KNN, published": "28.0",
    }
    assert [rows[name]["NPT-AD"] for name in ("mean", "mean std", "mean rank")] == ["73.0", "2.0", "2.5"]
    assert rows["mean"]["NPT-AD, published"] == "64.8"  # (72.5 + 26.2 + 95.7) / 3
    assert [rows["mean rank"][name] for name in ("NPT-AD, library", "Mask-KNN", "Transformer")] == ["1.0", "4.0", "5.0"]


def test_only_f1_has_published_figures_beside_it(results):
    grid = main_table(results, "auroc")
    assert not [column for column in grid.columns if "published" in column]
    assert by_name(grid)["wine"]["NPT-AD"] == "**86.0 ± 1.0**"


def test_summaries_are_over_the_data_sets_that_all_methods_have():
    records = [*small_study(), a_record("pima", "mask-knn", f1=0.0)]
    grid = main_table(gather(records), "f1")
    rows = by_name(grid)
    assert rows["pima"]["Mask-KNN"] == "**0.0**"
    assert rows["pima"]["NPT-AD"] == ""
    assert rows["mean"]["Mask-KNN"] == "43.0"
    assert "over the 3 data sets that all methods have" in grid.caption
    only = main_table(gather([a_record("pima", "mask-knn")]), "f1")
    assert "over the 1 data set that all methods have" in only.caption


def test_a_method_of_the_contamination_study_only_is_no_column_without_figures():
    records = [*small_study(), a_record("separable@0.1", "transformer", "default")]
    assert main_table(gather(records), "f1") == main_table(gather(small_study()), "f1")


def test_a_single_run_has_no_spread_that_could_count_in_the_mean():
    records = [a_record("wine", "mask-knn", seed=seed, f1=value) for seed, value in enumerate((40.0, 60.0))]
    records += [
        a_record("glass", "mask-knn"),
        a_record("wine", "npt-ad", "paper"),
        a_record("glass", "npt-ad", "paper"),
    ]
    rows = by_name(main_table(gather(records), "f1"))
    assert rows["wine"]["Mask-KNN"] == "**50.0 ± 14.1**"
    assert rows["glass"]["Mask-KNN"] == "**50.0**"
    assert rows["mean std"]["Mask-KNN"] == "14.1"
    assert rows["mean std"]["NPT-AD"] == ""


def test_ablation_says_which_dependencies_matter(results):
    rows = by_name(ablation_table(results))
    assert list(rows) == ["wine", "glass", "breastw", "mean F1", "mean AUROC", "mean AUROC, published"]
    said = ("features", "rows", "features, published", "rows, published")
    assert [rows["wine"][name] for name in said] == ["yes", "yes", "yes", "yes"]
    assert [rows["glass"][name] for name in said] == ["yes", "yes", "no", "yes"]
    assert [rows["mean F1"][name] for name in ("Transformer", "Mask-KNN", "NPT-AD")] == ["33.0", "43.0", "73.0"]
    assert rows["mean AUROC"]["NPT-AD"] == "86.5"
    assert rows["mean AUROC, published"]["Mask-KNN"] == "84.5"


def test_against_published(results):
    rows = by_name(against_published(results))
    assert rows["wine"] == {
        "data set": "wine",
        "seeds": "3",
        "cuts": "none",
        "ours": "72.0 ± 2.0",
        "published": "72.5",
        "difference": "-0.5",
        "two standard errors": "9.5",  # of a spread of 7.7 as published, more than ours, with 3 and 20 runs
        "verdict": "level",
        "NPT-AD, authors' scripts": "72.0 ± 2.0",
    }
    assert rows["glass"]["difference"] == "46.8"
    assert (
        rows["mean, 3 data sets, all"]["difference"] == rows["mean, 3 data sets, without cuts"]["difference"] == "8.2"
    )
    assert (rows["mean AUROC"]["ours"], rows["mean AUROC"]["published"]) == ("86.5", "89.8")


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [((70.0, 80.0), "level"), ((61.0, 63.0), "level"), ((59.0, 61.0), "below"), ((84.0, 86.0), "above")],
)
def test_level_with_the_published_figure_is_within_two_standard_errors(ours, verdict):
    """On wine 72.5 is published, with a spread of 7.7: two standard errors of two runs are 11.4."""
    runs = [a_record("wine", "npt-ad", "paper", seed, f1=f1) for seed, f1 in enumerate(ours)]
    runs.append(a_record("pima", "npt-ad", "paper", f1=68.0, settings={"n_steps": 7}))
    rows = by_name(against_published(gather(runs)))
    assert rows["wine"]["verdict"] == verdict
    assert (rows["wine"]["cuts"], rows["pima"]["cuts"]) == ("none", "n_steps")
    assert rows["mean, 1 data set, with cuts"]["ours"] == "68.0"


def test_runs_that_the_scripts_rules_cannot_score_are_beside_the_published_figures_too():
    members = a_record("wine", "npt-ad", "paper", settings={"n_members": 4}, rules={}, f1=60.0)
    row = by_name(against_published(gather([members])))["wine"]
    assert (row["ours"], row["cuts"], row["NPT-AD, authors' scripts"]) == ("60.0", "n_members", "")


def test_of_two_spreads_the_larger_one_counts():
    runs = [a_record("wine", "npt-ad", "paper", seed, f1=f1) for seed, f1 in enumerate((40.0, 80.0))]
    margin = by_name(against_published(gather(runs)))["wine"]["two standard errors"]
    assert float(margin) == pytest.approx(2 * 40 / 2**0.5 * (1 / 2 + 1 / 20) ** 0.5, abs=0.1)


def test_runtime_stands_beside_the_papers(results):
    row = by_name(runtime_table(results))["wine"]
    assert [row[name] for name in ("NPT-AD, train", "NPT-AD, score", "paper, train", "paper, score")] == [
        "2.0",
        "1.0",
        "63",
        "68",
    ]


RANKED = {"npt-ad": 60.0, "icl": 50.0, "knn": 90.0, "mask-knn": 40.0, "iforest": 30.0}
"""In the paper's order, but for KNN."""


def ranked_study():
    return [
        a_record(dataset, method, "paper" if method == "npt-ad" else "", f1=f1)
        for dataset in ("wine", "glass")
        for method, f1 in RANKED.items()
    ]


def test_mean_ranks_stand_beside_the_published_ones():
    others = [a_record("wine", "lof", f1=99.0), a_record("wine", "npt-ad", "default", f1=99.0)]  # not in the paper
    rows = by_name(rank_table(gather([*ranked_study(), *others, a_record("pima", "knn")])))
    assert [tuple(row.values()) for row in rows.values()] == [
        ("KNN", "1", "1.0", "1.0", "3", "5.6"),
        ("NPT-AD", "2", "2.0", "2.0", "1", "3.4"),
        ("ICL", "3", "3.0", "3.0", "2", "4.0"),
        ("Mask-KNN", "4", "4.0", "4.0", "4", "6.6"),
        ("IForest", "5", "5.0", "5.0", "5", "8.1"),
    ]
    goad = [a_record(name, "goad", f1=f1) for name, f1 in (("wine", 1.0), ("glass", 1.0))]
    other = [a_record(name, "goad-kdd", f1=99.0) for name in ("wine", "glass")]
    rows = by_name(rank_table(gather([*ranked_study(), *goad, *other])))  # other settings are ranked with the rest
    assert tuple(rows["KNN"].values()) == ("KNN", "1", "1.0", "2.0", "3", "5.6")
    assert tuple(rows["GOAD, KDD"].values()) == ("GOAD, KDD", "", "", "1.0", "", "")
    assert "the 2 data sets" in rank_table(gather(ranked_study())).caption
    assert rank_table({}).rows == []


def test_every_method_that_the_paper_ranks_is_ours_too():
    assert set(paper_table("mean_rank_f1")) < set(METHODS)


def test_rules_table():
    def runs(dataset, **f1):
        rules = {rule: {"f1": f1.get(rule, 50.0), "auroc": 80.0} for rule in RULES}
        return [a_record(dataset, "npt-ad", "paper", seed, rules=rules) for seed in (0, 1)]

    rows = by_name(rules_table(gather([*runs("wine", log=60.0), *runs("glass", log=20.0, max=80.0)]), "f1"))
    assert (rows["wine"]["log"], rows["glass"]["max"], rows["glass"]["log"]) == (
        "**60.0 ± 0.0**",
        "**80.0 ± 0.0**",
        "20.0 ± 0.0",
    )
    assert (rows["mean"]["log"], rows["mean"]["max"]) == ("40.0", "65.0")
    assert (rows["mean rank"]["log"], rows["mean rank"]["max"]) == ("3.5", "2.5")
    assert rows["largest loss to the best rule"]["log"] == "60.0"


def test_runs_without_rules_have_no_place_in_the_rules_table():
    members = a_record("wine", "npt-ad", "paper", settings={"n_members": 4}, rules={})
    assert rules_table(gather([members])).rows == []


def test_each_varied_method_has_a_table_of_its_published_settings():
    runs = {"drocc": {"wine": 60.0, "glass": 20.0}, "drocc-thyroid": {"wine": 50.0}, "goad": {"wine": 1.0}}
    records = [a_record(name, method, f1=f1) for method, sets in runs.items() for name, f1 in sets.items()]
    rows = by_name(variants_table(gather(records), "drocc"))
    assert rows["wine"] == {"data set": "wine", "DROCC": "60.0", "DROCC, thyroid": "50.0"}
    assert rows["glass"]["DROCC, thyroid"] == ""
    assert rows["mean"] == {"data set": "mean", "DROCC": "60.0", "DROCC, thyroid": "50.0"}


def test_contamination_table(results):
    rows = by_name(contamination_table(results))
    assert list(rows) == ["0%", "5%"]
    assert rows["5%"]["NPT-AD, F1"] == "74.5 ± 0.7"
    assert rows["0%"]["Transformer, AUROC"] == "99.8 ± 0.4"


@pytest.mark.parametrize("table", [main_table, rules_table])
def test_tables_of_nothing_are_empty(table):
    assert table({}, "f1").rows == []
    assert contamination_table({}).rows == ablation_table({}).rows == runtime_table({}).rows == []


def test_every_published_figure_of_npt_ad_is_there():
    assert all(published_f1(dataset, "npt-ad") is not None for dataset in DATASETS)
    assert published_f1("forestcover", "transformer") is None


# The page

FIGURES = {"mean_f1", "mean_rank", "critical_difference", "contamination", "accuracy_runtime", "against_published"}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The small study with its figures."""
    results = tmp_path_factory.mktemp("results")
    write_store(results, small_study())
    draw_all(results)
    return results


def page_of(results, records):
    write_store(results, records)
    write_page(results)
    return (results / "README.md").read_text(encoding="utf-8")


def test_the_page_has_all_studies_and_the_tables_are_files_too(tmp_path):
    page = page_of(tmp_path, small_study())
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert headings[0] == "Coverage"
    for study in ("published", "F1", "AUROC", "average precision", "dependencies", "Contaminated", "rules", "Run time"):
        assert any(study in heading for heading in headings), study
    for path in (tmp_path / "tables").glob("*.md"):
        assert path.read_text(encoding="utf-8") in page
    assert {path.suffix for path in (tmp_path / "tables").iterdir()} == {".md", ".csv", ".tex"}
    assert "\nBy F1, " in page
    assert "\nThe rules: mean of the losses" in page
    assert all(
        read_csv(path.read_text(encoding="utf-8")) or path.stem.startswith("variants_")
        for path in (tmp_path / "tables").glob("*.csv")
    )


def section(page, title):
    return page.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_coverage_is_honest(tmp_path):
    records = small_study()
    records += [a_record("vowels", "npt-ad", "paper", seed, settings={"n_steps": 7}) for seed in (0, 1)]
    records += [a_record("thyroid", "transformer", "paper", settings={"max_masks": 4})]
    records += [a_record("letter", "mask-knn", seed=seed, outcome="memory") for seed in (0, 1, 5)]
    records += [a_record("vowels", "npt-ad", "paper", outcome="time")]  # but done with fewer steps
    records += [{**a_record("musk", "mask-knn"), "version": 0}, a_record("musk", "mask-knn", outcome="failed")]
    tmp_path.joinpath("reasons.csv").write_text("about,reason\nmnist,It would take a week.\n")
    coverage = section(page_of(tmp_path, records), "Coverage")
    assert "| wine | 3 | 3 | 3 | 3 | 3 |" in coverage
    assert "| vowels | 2 |  | 2 |  |  |" in coverage
    assert "* vowels, NPT-AD: n_steps 7 instead of 1000\n" in coverage
    assert "* thyroid, Transformer: max_masks 4 instead of 21\n" in coverage  # its bank is no larger
    assert "* wine, " not in coverage
    assert "* pima, npt-ad paper, seed 0: time, it broke" in coverage
    assert "* vowels, npt-ad" not in coverage
    assert "* musk, mask-knn, seed 0: failed, it broke" in coverage  # what was done before, another version did
    assert "* letter, mask-knn, seeds 0, 1, 5: memory, it broke" in coverage
    not_run = coverage.partition("Data sets without a result:")[2]
    assert "* mnist: It would take a week.\n" in not_run
    assert "* letter: no run has finished.\n" in not_run
    assert "* musk: no run has finished.\n" in not_run
    assert "* pendigits: not run yet.\n" in not_run
    assert f"* speech: not run yet. {DATASETS['speech'].note}\n" in not_run
    assert all(
        f"* {name}: " in not_run for name in DATASETS if name not in ("wine", "glass", "breastw", "vowels", "thyroid")
    )
    assert "* wine" not in not_run


def test_what_was_tried_with_other_settings_is_listed(tmp_path):
    tried = {"n_steps": 7}
    records = [a_record("wine", "npt-ad", "paper", seed) for seed in (0, 1)]
    records += [a_record("wine", "npt-ad", "paper", settings=tried, f1=61.26)]
    coverage = section(page_of(tmp_path, records), "Coverage")
    others = coverage.partition("Also tried with other settings, not in the tables:")[2]
    assert "\n* wine, NPT-AD: n_steps 7 instead of 1000; F1 61.3, 1 seed\n" in others


def test_what_stands_in_for_the_published_rows_is_told(tmp_path):
    stand_in = a_record("separable@0.1", "npt-ad", "paper", content="0123456789ab")
    study = section(page_of(tmp_path, [stand_in]), "Contaminated training rows")
    assert "* NPT-AD: generated rows instead of the published ones\n" in study


def test_settings_that_are_no_more_do_not_stop_the_page(tmp_path):
    page = page_of(tmp_path, [a_record("wine", "npt-ad", "paper", settings={"gone": 5})])
    assert "* wine, NPT-AD: gone 5\n" in page


def test_what_is_not_level_with_the_published_figure_has_a_reason(tmp_path):
    records = [a_record("wine", "npt-ad", "paper", f1=67.6), a_record("letter", "npt-ad", "paper", f1=60.0)]
    records += [a_record("musk", "npt-ad", "paper", f1=90.0), a_record("pima", "npt-ad", "paper", f1=80.0)]
    tmp_path.joinpath("reasons.csv").write_text('about,reason\nletter,"Half the steps, to save time."\n')
    text = section(page_of(tmp_path, records), "NPT-AD against the published figures")
    assert "* **letter, below**: Half the steps, to save time.\n" in text
    assert "* **musk, below**: not examined yet.\n" in text
    assert "* **pima, above**: not examined yet.\n" in text
    assert "**wine" not in text


def test_who_is_not_in_the_papers_order_has_a_reason(tmp_path):
    page = page_of(tmp_path / "without", ranked_study())
    assert "* **KNN**: not examined yet.\n" in section(page, "The order of the methods")
    (tmp_path / "with").mkdir()
    (tmp_path / "with" / "reasons.csv").write_text("about,reason\nKNN,The data sets are few.\n")
    order = section(page_of(tmp_path / "with", ranked_study()), "The order of the methods")
    assert re.findall(r"^\* .+", order, re.MULTILINE) == ["* **KNN**: The data sets are few."]
    in_order = [record for record in ranked_study() if record["method"] != "knn"]
    assert "* **" not in section(page_of(tmp_path / "in order", in_order), "The order of the methods")


def test_what_is_known_about_the_contamination_study_stands_beside_it(tmp_path):
    tmp_path.joinpath("reasons.csv").write_text("about,reason\ncontamination,The set is our own.\n")
    assert "\nThe set is our own.\n" in section(page_of(tmp_path, small_study()), "Contaminated training rows")


def test_the_settings_of_the_contamination_study_stand_beside_it(tmp_path):
    records = [a_record(f"separable@{share}", "npt-ad", "paper", settings={"dropout": 0}) for share in (0, 0.05)]
    study = section(page_of(tmp_path, [*records, a_record("separable@0", "goad")]), "Contaminated training rows")
    assert (
        "The paper's settings: 100 steps of all rows, learning rate 0.01, embedding 16, masking probability 0.15, "
        "masks of one cell. What differs:\n\n* NPT-AD: dropout 0 instead of 0.1\n"
    ) in study
    assert study.count("instead of") == 1


def test_a_method_of_ones_own_is_in_all_tables_and_figures(tmp_path):
    study = [*small_study(), *(an_own_record(name, f1=99.0) for name in ("wine", "glass", "breastw"))]
    page = page_of(tmp_path, study)
    assert "| wine | 3 | 3 | 3 | 3 | 3 | 1 |" in section(page, "Coverage")
    assert "| mine:Class | 99.0 |" in section(page, "All methods")
    assert "| mine:Class |" in section(page, "All methods, F1")
    draw_all(tmp_path)
    for name in ("mean_f1", "mean_rank", "critical_difference", "accuracy_runtime"):
        assert any("mine:Class" in said for said in words(tmp_path / "figures" / f"{name}.svg")), name


def test_a_method_tried_on_few_data_sets_leaves_the_means_of_the_others_alone(tmp_path):
    page = page_of(tmp_path, [*small_study(), an_own_record("wine", f1=99.0)])
    summary = section(page, "All methods")
    assert "the 3 data sets on which every method has run (except mine:Class)" in summary
    assert "| NPT-AD | 73.0 |" in summary
    assert "| mine:Class |  |  |  | 1 |" in summary
    mean = next(line for line in section(page, "All methods, F1").splitlines() if line.startswith("| mean |"))
    assert mean.split(" | ")[1:7] == ["73.0", "33.0", "73.0", "75.0", "43.0", ""]


def test_a_data_set_of_ones_own_is_in_the_tables_after_the_papers(tmp_path):
    columns = [("npt-ad", "paper"), ("npt-ad", "default"), ("transformer", "paper"), ("mask-knn", "")]
    own = [{**a_record("wine", *column, f1=99.0), "dataset": "mine:rows"} for column in columns]
    page = page_of(tmp_path, [*small_study(), *own])
    assert "| mine:rows | 1 | 1 |  | 1 | 1 |\n\n" in section(page, "Coverage")
    assert "| mine:rows | **99.0** | **99.0** |  | **99.0** | **99.0** |  |  |  |\n| mean |" in section(
        page, "All methods, F1"
    )
    said = section(page, "All methods")
    assert "the 3 data sets on which every method has run" in said  # the authors have no script for the fourth


def test_the_page_shows_the_figures_that_there_are(drawn, tmp_path):
    assert "](figures/" not in page_of(tmp_path, small_study())
    write_page(drawn)
    page = (drawn / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(figures/(\w+)\.svg\)", page)) == FIGURES


def test_our_results_have_the_summary_of_the_committed_runs():
    results = Path(__file__).parents[2] / "results"
    summary = summary_table(gather(read_records(results / "runs")))
    assert f"{summary.caption}\n\n{summary.markdown()}" in (results / "README.md").read_text(encoding="utf-8")


def test_readme_has_the_figures_beside_the_published_ones():
    root = Path(__file__).parents[2]
    grid = against_published(gather(read_records(root / "results" / "runs")))
    words = " ".join((root / "README.md").read_text(encoding="utf-8").split())
    rows = by_name(grid)
    for name, said in (
        ("all", "a mean F1 of {ours} where {published} is published"),
        ("without cuts", "{n} sets that ran without any cut have {ours} where {published} is published"),
        ("with cuts", "the {n} that had to be cut to fit two cores have {ours} where {published} is"),
    ):
        title = next(row for row in rows if row.startswith("mean, ") and row.endswith(f", {name}"))
        assert said.format(n=title.split()[1], **rows[title]) in words
    verdicts = [row["verdict"] for row in rows.values()]
    counts = {verdict: verdicts.count(verdict) for verdict in ("level", "above", "below")}
    assert "on {level} sets, above on {above} and below on {below}".format(**counts) in words


def test_the_page_says_what_has_to_be_known_about_a_method_if_it_has_results(tmp_path):
    note = f"* OCSVM: {METHODS['ocsvm'].note}\n"
    assert note not in page_of(tmp_path / "without", small_study())
    assert note in page_of(tmp_path / "with", [*small_study(), a_record("wine", "ocsvm")])


@pytest.mark.parametrize("make", [write_page, draw_all])
def test_without_any_runs_nothing_is_written(tmp_path, make):
    with pytest.raises(InputError, match=r"There are no runs in .*/results/runs; "):
        make(tmp_path / "results")
    assert list(tmp_path.iterdir()) == []


# Figures


def test_figures_are_well_formed_and_the_same_every_time(drawn):
    first = {path: path.read_bytes() for path in (drawn / "figures").iterdir()}
    assert {path.name for path in first} == {f"{name}.{suffix}" for name in FIGURES for suffix in ("svg", "png")}
    for path, content in first.items():
        if path.suffix == ".svg":
            assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
        else:
            assert content.startswith(b"\x89PNG")
    assert {path: path.read_bytes() for path in draw_all(drawn)} == first


def words(path):
    """matplotlib draws text as paths and leaves the words in comments."""
    return set(re.findall(r"<!-- (.+?) -->", path.read_text()))


def test_figures_name_methods_and_numbers(drawn):
    bars = words(drawn / "figures" / "mean_f1.svg")
    assert {"NPT-AD", "NPT-AD, library", "Transformer", "Mask-KNN", "73.0", "75.0", "33.0", "43.0"} <= bars
    assert {"2.5", "1.0", "5.0", "4.0"} <= words(drawn / "figures" / "mean_rank.svg")
    assert {"wine", "glass", "breastw"} <= words(drawn / "figures" / "against_published.svg")
    assert "pima" not in words(drawn / "figures" / "against_published.svg")


def test_only_what_the_runs_allow_is_drawn(tmp_path):
    write_store(tmp_path, [a_record("wine", "npt-ad", "paper"), a_record("glass", "mask-knn")])
    assert {path.stem for path in draw_all(tmp_path)} == {"against_published"}


def test_figures_that_can_be_drawn_no_more_are_removed(tmp_path):
    write_store(tmp_path, small_study())
    draw_all(tmp_path)
    (tmp_path / "figures" / "mine.svg").touch()
    shutil.rmtree(tmp_path / "runs")
    write_store(tmp_path, [a_record("wine", "npt-ad", "paper"), a_record("pima", "lof")])  # nothing in common
    left = {path.stem for path in draw_all(tmp_path)}
    assert left == {"against_published"}
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {*left, "mine"}


@pytest.mark.parametrize("draw", [accuracy_against_runtime, ours_against_published])
def test_the_names_of_points_cover_nothing_and_stay_in_the_picture(draw):
    """All points are in one corner: the lowest and fastest, or the highest."""
    crowd = [
        a_record(dataset, name, f1=50 + i / 5)
        for i, name in enumerate(METHODS)
        if not METHODS[name].presets
        for dataset in DATASETS
    ]
    crowd += [a_record(name, "npt-ad", "paper", f1=published_f1(name, "npt-ad")) for name in DATASETS]
    figure = draw(gather(crowd))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    names = [text.get_window_extent() for text in axes.texts if text.get_text()]
    assert len(names) >= 16
    for i, name in enumerate(names):
        assert name.count_overlaps(names[:i]) == 0
        assert axes.bbox.padded(1).containsx(name.x0)
        assert axes.bbox.padded(1).containsx(name.x1)
        assert axes.bbox.padded(1).containsy(name.y0)
        assert axes.bbox.padded(1).containsy(name.y1)


def test_ours_stand_out_among_the_ranks(results):
    figure = critical_difference(results)
    colours = {text.get_text().strip(): text.get_color() for text in figure.axes[0].texts}
    assert {name for name, colour in colours.items() if colour == OURS} == {
        "NPT-AD (2.5)",
        "NPT-AD, authors' scripts (2.5)",
        "NPT-AD, library (1.0)",
    }
    assert len(colours) == 5


def test_methods_that_are_equal_everywhere_can_be_drawn(tmp_path):
    columns = (("npt-ad", "paper"), ("transformer", "paper"), ("mask-knn", ""))
    write_store(tmp_path, [a_record(d, m, p, f1=100.0) for d in ("wine", "glass", "pima", "musk") for m, p in columns])
    assert "mean_rank" in {path.stem for path in draw_all(tmp_path)}
