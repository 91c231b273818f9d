"""Score quality and cost against the number of context rows.

    python benchmarks/context.py                          # everything that is not in results/context.csv yet
    python benchmarks/context.py shuttle --sizes 500 1000

One member is trained for each data set, on mini-batches of 1,024 rows; only the context it scores with varies. Contexts
are nested: within a draw, a smaller one is part of a larger one. Test rows are the same for all of them: a random
sample of the other half of the normal rows and of the anomalies. A run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import os
import tempfile
import time
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure

from nptad.bench.datasets import load
from nptad.bench.protocol import metrics, split_table
from nptad.io.atomic import replacing
from nptad.nn.rng import spawn_seeds
from nptad.scoring.ensemble import Ensemble, fit_ensemble
from nptad.scoring.score import score_rows
from nptad.settings import default_settings
from nptad.tables.encode import encode
from nptad.tables.schema import learn_schema

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("NPTAD_DATA", ROOT.parent / "shared" / "data"))
RESULTS = ROOT / "results"
TEST_ROWS = {"shuttle": (1000, 4000), "forestcover": (1000, 4000), "campaign": (200, 600)}
"""Anomalies and normal rows that are scored; fewer where there are more columns, and so more masks."""
SIZES = (20, 100, 500, 1000, 2000, 4000, 8000, 16_000)
DRAWS = 2
FIELDS = ["dataset", "steps", "context", "draw", "f1", "auroc", "ms_per_row"]
COLOURS = ("#1f5fa8", "#c26a1b", "#4b8b5a")

Rows = list[dict[str, str]]


def read_results() -> Rows:
    """The rows of the result file so far."""
    path = RESULTS / "context.csv"
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def add_result(row: dict[str, object]) -> None:
    """Append one row by rewriting the file as a whole."""
    rows = [*read_results(), row]
    with replacing(RESULTS / "context.csv") as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def with_context(ensemble: Ensemble, x: np.ndarray, rows: np.ndarray) -> Ensemble:
    """The same single member with these training rows as context."""
    rows, places = np.sort(rows), np.arange(len(rows))[None]
    return dataclasses.replace(
        ensemble, context=x[rows], context_rows=places, neighbour_rows=places, context_source=rows
    )


def sample_test(truth: np.ndarray, anomalies: int, normals: int) -> np.ndarray:
    """Positions of a random sample of the anomalies and of the normal rows."""
    random = np.random.default_rng(0)
    kinds = ((truth, anomalies), (~truth, normals))
    return np.sort(np.concatenate([random.permutation(np.flatnonzero(of_kind))[:count] for of_kind, count in kinds]))


def run_dataset(dataset: str, sizes: list[int], draws: int, steps: int) -> None:
    """Train a member, score the test rows with every context that has no result yet."""
    done = {(r["dataset"], r["steps"], r["context"], r["draw"]) for r in read_results()}
    wanted = [(size, draw) for size in sizes for draw in range(draws)]
    missing = [(n, draw) for n, draw in wanted if (dataset, str(steps), str(n), str(draw)) not in done]
    if not missing:
        return
    split = split_table(load(dataset, DATA), seed=0)
    schema = learn_schema(split.train, split.uses)
    train, chosen = encode(schema, split.train), sample_test(split.truth, *TEST_ROWS[dataset])
    test, truth = torch.from_numpy(encode(schema, split.test[chosen])), split.truth[chosen]
    settings = dataclasses.replace(
        default_settings(*train.shape),
        n_steps=steps,
        batch_size=1024,
        mask_sizes=(1,),
        scale_masks=False,
        aggregation="mean",
        context_size=500,
    )
    checkpoint = Path(tempfile.gettempdir()) / f"nptad-context-{dataset}-{steps}.checkpoint"
    started = time.process_time()
    ensemble, history = fit_ensemble(
        train, schema.layout, settings, spawn_seeds(0, 3), device=torch.device("cpu"), checkpoint=checkpoint
    )
    print(f"{dataset}: {len(history)} steps, {time.process_time() - started:.0f} CPU seconds", flush=True)
    for size, draw in missing:
        order = np.random.default_rng(draw).permutation(len(train))
        (member,) = with_context(ensemble, train, order[:size]).members
        started = time.process_time()
        scores = score_rows(member, test, ensemble.masks)
        seconds = time.process_time() - started
        measured = metrics(truth, scores)
        row = {
            "dataset": dataset,
            "steps": steps,
            "context": size,
            "draw": draw,
            "f1": round(measured["f1"], 2),
            "auroc": round(measured["auroc"], 2),
            "ms_per_row": round(1000 * seconds / len(test), 3),
        }
        add_result(row)
        print(row, flush=True)


def curves(rows: Rows, dataset: str, metric: str) -> tuple[list[int], np.ndarray]:
    """Context sizes, and the metric for each of them and each draw, (sizes, draws)."""
    mine = [r for r in rows if r["dataset"] == dataset]
    sizes = sorted({int(r["context"]) for r in mine})
    return sizes, np.array([[float(r[metric]) for r in mine if int(r["context"]) == size] for size in sizes])


def table(rows: Rows) -> str:
    """Quality and cost of every context, as Markdown."""
    lines = [
        "# Score quality against context size",
        "",
        "Generated by `python benchmarks/context.py` from `context.csv`. One member for each data set, trained for",
        f"{rows[0]['steps']} steps on mini-batches of 1,024 rows; only the number of context rows varies.",
        f"Masks hide one cell. F1 and AUROC in %: mean and range over {DRAWS} random draws of the context.",
        "Time: CPU milliseconds for a row, one thread. Test rows (anomalies + normal): "
        + ", ".join(f"{name} {a:,} + {n:,}" for name, (a, n) in TEST_ROWS.items())
        + ".",
        "",
        "![Quality and time against context size](figures/context.png)",
        "",
        "| data set | context rows | F1 | AUROC | ms per row |",
        "|---|---|---|---|---|",
    ]
    for dataset in dict.fromkeys(r["dataset"] for r in rows):
        sizes, f1 = curves(rows, dataset, "f1")
        columns = f1, curves(rows, dataset, "auroc")[1], curves(rows, dataset, "ms_per_row")[1]
        for size, f1_draws, auroc_draws, times in zip(sizes, *columns, strict=True):
            quality = (
                f"{values.mean():.1f} ({values.min():.1f}-{values.max():.1f})" for values in (f1_draws, auroc_draws)
            )
            lines.append(f"| {dataset} | {size:,} | {' | '.join(quality)} | {times.mean():.2f} |")
    return "\n".join(lines) + "\n"


def draw_figure(rows: Rows) -> Figure:
    """F1, AUROC and time per row against context size, a line per data set, a point per draw."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    titles = {"f1": "F1 in %", "auroc": "AUROC in %", "ms_per_row": "CPU milliseconds per row"}
    for axes, (metric, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        for dataset, colour in zip(dict.fromkeys(r["dataset"] for r in rows), COLOURS, strict=False):
            sizes, values = curves(rows, dataset, metric)
            axes.plot(sizes, values.mean(axis=1), color=colour, label=dataset)
            axes.plot(sizes, values, ".", color=colour, markersize=5)
        axes.set_xscale("log", base=2)
        axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES], rotation=45)
        axes.minorticks_off()
        axes.set_title(title, loc="left")
        axes.set_xlabel("context rows")
        if metric == "ms_per_row":
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def main() -> None:
    """Run what is missing, write table and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=list(TEST_ROWS))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for dataset in arguments.datasets:
        run_dataset(dataset, arguments.sizes, arguments.draws, arguments.steps)
    rows = read_results()
    (RESULTS / "context.md").write_text(table(rows), encoding="utf-8")
    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "nptad"}
    with matplotlib.rc_context(style):
        for suffix in ("svg", "png"):
            draw_figure(rows).savefig(
                RESULTS / "figures" / f"context.{suffix}", dpi=150, metadata={"Date": None} if suffix == "svg" else None
            )
    print(table(rows))


if __name__ == "__main__":
    main()
