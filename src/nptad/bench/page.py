"""``results/README.md``: the tables and figures, and the runs behind them."""

from __future__ import annotations

import csv
from pathlib import Path

from nptad.bench.datasets import DATASETS
from nptad.bench.grid import Cell, Grid
from nptad.bench.presets import paper_settings
from nptad.bench.registry import method_spec
from nptad.bench.rules import RULES_TEXT
from nptad.bench.series import Results, Series, all_series, columns_of, datasets_of, gather, is_current
from nptad.bench.stats import out_of_order
from nptad.bench.store import RunRecord, require_records
from nptad.bench.tables import (
    CONTAMINATION,
    SCRIPTS,
    VARIED,
    all_tables,
    compare_with_published,
    paper_order,
    rules_verdict,
)
from nptad.io.atomic import replacing

_NOT_KNOWN = "not examined yet."


def write_page(results: Path) -> list[Path]:
    """Write all tables and the page, and return the files."""
    records = require_records(results / "runs")
    series = gather(records)
    grids = all_tables(series)
    written = [path for grid in grids.values() for path in grid.write(results / "tables")]
    page = results / "README.md"
    drawn = {path.stem for path in (results / "figures").glob("*.svg")}
    text = _page(records, series, grids, drawn, _read_reasons(results / "reasons.csv"))
    with replacing(page) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return [*written, page]


def _page(
    records: list[RunRecord], results: Results, grids: dict[str, Grid], drawn: set[str], reasons: dict[str, str]
) -> str:
    def section(title: str, *names: str, figures: tuple[str, ...] = ()) -> str:
        pictures = "".join(f"![{title}](figures/{figure}.svg)\n\n" for figure in figures if figure in drawn)
        body = "\n".join(f"{grids[name].caption}\n\n{grids[name].markdown()}" for name in names)
        return f"## {title}\n\n{pictures}{body}"

    specs = {column.method: method_spec(column.method) for column in columns_of(results, datasets_of(results))}
    return "\n".join(
        [
            "# Results",
            "",
            "`nptad bench tables` and `nptad bench figures` make this page from `runs/`; `benchmarks/plan.sh` lists",
            "the commands of the runs. Every seed is another random split: half of the normal rows are for training,",
            "the rest and all anomalies are scored. As many rows are flagged as there are anomalies. The paper has 20",
            "runs on one split. `tables/` has the same tables as CSV and LaTeX.",
            "",
            "NPT-AD has the settings of the paper's text: the score is the mean loss over the masks, unscaled. NPT-AD,",
            "authors' scripts, is the same models, scored as the authors' scripts do on some sets: by the largest",
            "loss, or by losses scaled mask by mask (and on breastw 100 steps, not 500, where such runs are there).",
            "",
            _coverage(records, results, reasons),
            section("NPT-AD against the published figures", "against_published", figures=("against_published",)),
            _not_level(results, reasons),
            section("All methods", "summary"),
            section("All methods, F1", "main_f1", figures=("mean_f1", "mean_rank", "critical_difference")),
            "".join(f"* {spec.label}: {spec.note}\n" for spec in specs.values() if spec.note),
            section("The order of the methods", "mean_ranks"),
            _misplaced(results, reasons),
            section("All methods, AUROC", "main_auroc"),
            section("All methods, average precision", "main_average_precision"),
            section("Published settings of the compared methods", *(f"variants_{method}" for method in VARIED)),
            section("Which dependencies matter", "ablation"),
            section("Contaminated training rows", "contamination", figures=("contamination",)),
            _contamination_settings(results),
            f"{reasons['contamination']}\n" if "contamination" in reasons else "",
            section("Scoring rules", "rules_f1", "rules_auroc"),
            *(rules_verdict(grids[name]) for name in ("rules_f1", "rules_auroc") if grids[name].rows),
            f"The rules: {RULES_TEXT}\n",
            section("Run time", "runtime", figures=("accuracy_runtime",)),
        ]
    )


def _coverage(records: list[RunRecord], results: Results, reasons: dict[str, str]) -> str:
    """Seeds done, what differs from the presets, what failed, what was not run and why.

    The column of the authors' scripts has the runs of the paper's text, scored differently.
    """
    datasets = datasets_of(results)
    columns = columns_of(results, datasets)
    counts: list[list[Cell]] = [
        [name, *(str(len(results[c, name].records)) if (c, name) in results else None for c in columns)]
        for name in datasets
    ]
    done = Grid("coverage", "", ["data set", *(column.label for column in columns)], counts).markdown()
    changed = [
        f"* {dataset}, {column.label}: {text}"
        for dataset in datasets
        for column in columns
        if (column, dataset) in results and (text := _changed(results[column, dataset])) and column != SCRIPTS
    ]
    others = [
        f"* {one.dataset}, {one.column.label}: {_changed(one) or 'as in the preset'}; F1 {one.values().mean():.1f}, "
        f"{len(one.records)} seed{'s' * (len(one.records) > 1)}"
        for (column, _), alternatives in all_series(records).items()
        for one in alternatives[1:]
        if column != SCRIPTS
    ]
    tried = {r["dataset"] for r in records}
    missing = []
    for name in DATASETS:
        if not any((column, name) in results for column in columns):
            why = "no run has finished." if name in tried else f"not run yet. {DATASETS[name].note}".strip()
            missing.append(f"* {name}: {reasons.get(name, why)}")
    lists = {
        "Settings that differ from the preset, where no runs without such a cut are there:": changed or ["* none"],
        "Also tried with other settings, not in the tables:": others,
        "Runs without a result:": _failures(records),
        "Data sets without a result:": missing,
    }
    sections = [f"\n{title}\n\n" + "\n".join(lines) + "\n" for title, lines in lists.items() if lines]
    return f"## Coverage\n\nSeeds done:\n\n{done}" + "".join(sections)


def _failures(records: list[RunRecord]) -> list[str]:
    """A line for all seeds with the same reason, without those that have a result with other settings."""

    def run_of(r: RunRecord) -> tuple[str, str, str, int]:
        return r["dataset"], r["method"], r["preset"], r["seed"]

    current = [r for r in records if is_current(r)]
    done = {run_of(r) for r in current if r["outcome"] == "done"}
    seeds: dict[tuple[str, str], list[str]] = {}
    for r in current:
        if r["outcome"] != "done" and run_of(r) not in done:
            name = f"{r['method']} {r['preset']}".strip()
            seeds.setdefault((f"{r['dataset']}, {name}", f"{r['outcome']}, {r['reason']}"), []).append(str(r["seed"]))
    return [f"* {run}, seed{'s' * (len(s) > 1)} {', '.join(s)}: {reason}" for (run, reason), s in seeds.items()]


def _changed(series: Series) -> str:
    return ", ".join(series.changes())


def _contamination_settings(results: Results) -> str:
    """The settings of NPT-AD and the Transformer in the study of contamination."""
    columns = columns_of(results, CONTAMINATION)
    if not columns:
        return ""
    paper = paper_settings("separable", n_train=0)
    changed = [
        f"* {column.label}: {text}"
        for column in columns
        for dataset in CONTAMINATION
        if (column, dataset) in results and (text := _changed(results[column, dataset]))
    ]
    said = (
        f"The paper's settings: {paper.n_steps} steps of all rows, learning rate {paper.learning_rate}, embedding "
        f"{paper.embedding_dim}, masking probability {paper.mask_rate}, masks of one cell."
    )
    return "\n".join([f"{said} What differs:", "", *dict.fromkeys(changed), ""] if changed else [said, ""])


def _read_reasons(path: Path) -> dict[str, str]:
    """Reasons written by hand, if there are any.

    They are about data sets without a result or with a low one (by name), methods out of the paper's order (by label),
    or ``contamination``.
    """
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["about"]: row["reason"] for row in csv.DictReader(file)}


def _not_level(results: Results, reasons: dict[str, str]) -> str:
    """The reason for each data set on which NPT-AD is not level with the published F1."""
    compared = {dataset: compare_with_published(results, dataset) for dataset in DATASETS}
    said = {dataset: one.verdict for dataset, one in compared.items() if one is not None and one.verdict != "level"}
    title = "Not level with the published figure, with the reasons in `reasons.csv`:"
    return _with_reasons(title, {f"{dataset}, {verdict}": dataset for dataset, verdict in said.items()}, reasons)


def _misplaced(results: Results, reasons: dict[str, str]) -> str:
    """The reason for each of the fewest methods without which the order is the paper's."""
    lines = paper_order(results)
    places = out_of_order([theirs for _, _, theirs in lines], [ours for _, ours, _ in lines])
    title = "Without these methods the order is the paper's; the reasons are in `reasons.csv`:"
    return _with_reasons(title, {label: label for label in (lines[place][0].label for place in places)}, reasons)


def _with_reasons(title: str, about: dict[str, str], reasons: dict[str, str]) -> str:
    """A list of what is to be explained, each with the reason that has this name."""
    bullets = [f"* **{said}**: {reasons.get(name, _NOT_KNOWN)}" for said, name in about.items()]
    return "\n".join([title, "", *bullets, ""]) if about else ""
