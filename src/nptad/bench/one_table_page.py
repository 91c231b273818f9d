"""``results/one-table/README.md``: the tables of the one-table protocol from the stored runs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from nptad.bench.datasets import DATASETS
from nptad.bench.grid import Cell, Figure, Grid
from nptad.bench.one_table import METHODS, MOST_ROWS
from nptad.bench.series import count_datasets
from nptad.bench.stats import mean_ranks
from nptad.bench.store import RunRecord, read_records
from nptad.io.atomic import replacing

_METRICS = {
    "auroc": "AUROC",
    "average_precision": "average precision",
    "f1": "F1",
    "f1_flagged": "F1 of the flags",
}

_ABOUT = f"""# Anomalies inside one table

`nptad bench tables` and `nptad bench figures` make this page from `runs/`, which
`nptad bench run --protocol one-table --datasets all --seeds 0-4` fills. The whole table without labels is fitted, and
its own rows are ranked and flagged; of more than {MOST_ROWS:,} rows a sample with the true share of anomalies, another
one for each seed. F1: as many rows are flagged as there are anomalies; F1 of the flags: of what a method flags by
default.
"""


def one_table_values(results: Path, metric: str) -> tuple[list[str], list[str], np.ndarray]:
    """The data sets that all methods have, the methods, and the means of a metric over seeds, (data sets, methods)."""
    runs = _runs(results)
    methods = [name for name in METHODS if any(method == name for _, method in runs)]
    names = [name for name in DATASETS if methods and all((name, method) in runs for method in methods)]
    values = [[_mean(runs[name, method], metric) for method in methods] for name in names]
    return names, methods, np.array(values).reshape(len(names), len(methods))


def write_one_table_page(results: Path) -> list[Path]:
    """Write the tables and the page, if there are runs, and return the files."""
    folder = results / "one-table"
    names, _, _ = one_table_values(results, "auroc")
    if not names:
        return []
    grids = [_summary(results), *(_by_set(results, metric) for metric in ("auroc", "average_precision"))]
    written = [path for grid in grids for path in grid.write(folder / "tables")]
    drawn = (folder / "critical_difference.svg").exists()
    diagram = "![Mean ranks](critical_difference.svg)\n" if drawn else ""
    notes = "".join(f"* {spec.label}: {spec.note}\n" for spec in METHODS.values() if spec.note)
    parts = [f"{grid.caption}\n\n{grid.markdown()}" for grid in grids]
    with replacing(folder / "README.md") as temporary:
        temporary.write_text("\n".join(filter(None, [_ABOUT, diagram, parts[0], notes, *parts[1:]])), encoding="utf-8")
    return [*written, folder / "README.md"]


def _runs(results: Path) -> dict[tuple[str, str], list[RunRecord]]:
    runs: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    for record in read_records(results / "one-table" / "runs"):
        spec = METHODS.get(record["method"])
        if record["outcome"] == "done" and spec is not None and record["version"] == spec.version:
            runs[record["dataset"], record["method"]].append(record)
    return dict(runs)


def _mean(records: list[RunRecord], metric: str) -> float:
    return float(np.mean([record[metric] for record in records]))


def _summary(results: Path) -> Grid:
    names, methods, auroc = one_table_values(results, "auroc")
    means = {metric: one_table_values(results, metric)[2].mean(axis=0) for metric in _METRICS}
    ranks, runs = mean_ranks(auroc), _runs(results)
    forest = auroc[:, methods.index("iforest")] if "iforest" in methods else None
    rows: list[list[Cell]] = []
    for place in np.argsort(-means["auroc"], kind="stable"):
        series = [runs[name, methods[place]] for name in names]
        seconds = np.median([np.mean([sum(r["cpu_seconds"].values()) for r in records]) for records in series])
        seeds = [len(records) for records in series]
        behind = None if forest is None else Figure(float((auroc[:, place] - forest).min()))
        rows.append(
            [
                METHODS[methods[place]].label,
                *(Figure(float(means[metric][place])) for metric in _METRICS),
                Figure(float(ranks[place])),
                behind,
                f"{min(seeds)}-{max(seeds)}" if min(seeds) < max(seeds) else str(seeds[0]),
                f"{seconds:.2g}",
            ]
        )
    return Grid(
        "summary",
        f"Means in % over {count_datasets(names)}. Worst: the AUROC minus that of IForest where it is least. "
        "Seconds: processor time on the median set.",
        ["method", *_METRICS.values(), "mean rank (AUROC)", "worst", "seeds", "seconds"],
        rows,
    )


def _by_set(results: Path, metric: str) -> Grid:
    names, methods, values = one_table_values(results, metric)
    rows: list[list[Cell]] = [
        [name, *(Figure(float(value), bold=bool(value >= line.max())) for value in line)]
        for name, line in zip(names, values, strict=True)
    ]
    title = _METRICS[metric]
    labels = [METHODS[method].label for method in methods]
    return Grid(
        metric, f"{title[0].upper()}{title[1:]} in %, means over seeds; bold: the highest.", ["", *labels], rows
    )
