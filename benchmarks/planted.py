"""Does the explanation name the corrupted cell? One cell of normal rows is corrupted, on real data.

    python benchmarks/planted.py            # cardio, pima, wbc; about half an hour on one thread
    python benchmarks/planted.py pima       # one of them; the others stay as they were

A random half of the normal rows trains a detector with the library's defaults. In each of up to 100 held-out normal
rows one cell, of a random column, is replaced by a value of that column in the training rows: the one half a
distribution away ("half": the quantile q of the cell becomes q + 1/2 or q - 1/2, which looks normal by itself), or
the 1st or 99th percentile, whichever is on the other side of the median ("end"). The value must differ by at least
one standard deviation, else another column is drawn; columns of at most two values are left alone. The rank of the
corrupted cell among the cells of its row, by contribution to the score, is compared with its rank by ``|z|``, the
distance to the mean of the column in standard deviations.

``results/planted.csv`` has every planted cell, ``results/planted.md`` the shares.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict

from nptad import NPTAD
from nptad.bench.datasets import load
from nptad.errors import TableWarning

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("NPTAD_DATA", ROOT.parent / "shared" / "data"))
CELLS = ROOT / "results" / "planted.csv"
DATASETS = ("cardio", "pima", "wbc")
KINDS = ("half", "end")
MAX_ROWS = 100
FALSE_ALARM_RATE = 0.05
PREDICTABLE = 0.5
"""R² of a column from the others, above which it depends on them."""
FIELDS = ("dataset", "kind", "row", "column", "column_r2", "rank", "z_rank", "flagged", "flagged_before")


def split(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and held-out normal rows."""
    table = load(dataset, DATA)
    normal = np.random.default_rng(0).permutation(np.flatnonzero(~table.y))
    half = len(normal) // 2
    return table.x[normal[:half]], table.x[normal[half:]][:MAX_ROWS]


def plant(train: np.ndarray, rows: np.ndarray, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows with one corrupted cell each, and its column."""
    random = np.random.default_rng(seed)
    planted, columns = rows.copy(), np.empty(len(rows), dtype=int)
    spread = train.std(axis=0)
    usable = [j for j in range(train.shape[1]) if len(np.unique(train[:, j])) > 2]
    for i, row in enumerate(rows):
        for j in random.permutation(usable):
            column = train[:, j]
            quantile = ((column < row[j]).mean() + (column <= row[j]).mean()) / 2
            other = (quantile + 0.5) % 1 if kind == "half" else 0.99 if quantile < 0.5 else 0.01
            value = np.quantile(column, other, method="nearest")
            if abs(value - row[j]) >= spread[j]:
                planted[i, j], columns[i] = value, j
                break
        else:
            raise SystemExit(f"Row {i} has no cell that could be corrupted.")
    return planted, columns


def predictability(train: np.ndarray) -> np.ndarray:
    """Cross-validated R² of each column from the others, by ridge regression: a yardstick that is not the model's."""
    z = (train - train.mean(axis=0)) / np.maximum(train.std(axis=0), 1e-12)
    result = []
    for j in range(z.shape[1]):
        predicted = cross_val_predict(RidgeCV(np.logspace(-3, 3, 7)), np.delete(z, j, axis=1), z[:, j], cv=5)
        result.append(1 - ((z[:, j] - predicted) ** 2).mean())
    return np.array(result)


def run(dataset: str) -> list[dict[str, object]]:
    """Plant and explain; one row for every planted cell."""
    train, held_out = split(dataset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        detector = NPTAD(random_state=0).fit(train)
    r2, center, spread = predictability(train), train.mean(axis=0), np.maximum(train.std(axis=0), 1e-12)
    before = detector.detect(held_out, false_alarm_rate=FALSE_ALARM_RATE).anomaly
    cells: list[dict[str, object]] = []
    for seed, kind in enumerate(KINDS):
        rows, columns = plant(train, held_out, kind, seed)
        after = detector.detect(rows, false_alarm_rate=FALSE_ALARM_RATE).anomaly
        for i, (why, column) in enumerate(zip(detector.explain(rows), columns, strict=True)):
            distance = np.abs(rows[i] - center) / spread
            values = (
                dataset,
                kind,
                i,
                column,
                round(float(r2[column]), 3),
                1 + [reason.column for reason in why.reasons].index(column),
                1 + int((distance > distance[column]).sum()),
                int(after[i]),
                int(before[i]),
            )
            cells.append(dict(zip(FIELDS, values, strict=True)))
    return cells


def page(cells: list[dict[str, object]]) -> str:
    """The shares as Markdown."""
    lines = [
        "# Planted anomalies",
        "",
        "Generated by `python benchmarks/planted.py`, which says how; every cell is in `planted.csv`. One cell of each",
        "held-out normal row was replaced by another value of its column: half a distribution away (`half`, normal by",
        "itself) or at the other end (`end`). Shares in % of the planted rows.",
        "",
        f"`dependent`: planted cells in columns with R² >= {PREDICTABLE} from the other columns (cross-validated ridge",
        f"regression). `flagged`: p-value <= {FALSE_ALARM_RATE}, after planting and before; those before are false",
        "alarms.",
        "",
        "| data set | planted | rows | ranked first | in the first three | first by abs(z) | dependent "
        "| of these first | flagged | flagged before |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for dataset, kind in dict.fromkeys((str(c["dataset"]), str(c["kind"])) for c in cells):
        mine = [c for c in cells if (c["dataset"], c["kind"]) == (dataset, kind)]
        rank, z_rank, r2, after, before = (
            np.array([float(str(c[name])) for c in mine])
            for name in ("rank", "z_rank", "column_r2", "flagged", "flagged_before")
        )
        dependent = r2 >= PREDICTABLE
        of_these = f"{100 * (rank[dependent] == 1).mean():.0f}" if dependent.any() else "-"
        lines.append(
            f"| {dataset} | {kind} | {len(mine)} | {100 * (rank == 1).mean():.0f} | {100 * (rank <= 3).mean():.0f} "
            f"| {100 * (z_rank == 1).mean():.0f} | {dependent.sum()} | {of_these} | {100 * after.mean():.0f} "
            f"| {100 * before.mean():.0f} |"
        )
    return "\n".join(lines) + "\n"


def read_cells() -> list[dict[str, object]]:
    """What earlier runs have written."""
    if not CELLS.exists():
        return []
    with CELLS.open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Run the data sets asked for, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    kept = [cell for cell in read_cells() if cell["dataset"] not in arguments.datasets]
    cells = kept + [cell for dataset in arguments.datasets for cell in run(dataset)]
    cells.sort(key=lambda cell: str(cell["dataset"]))
    with CELLS.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(cells)
    (ROOT / "results" / "planted.md").write_text(page(cells), encoding="utf-8")
    print(page(cells))


if __name__ == "__main__":
    main()
