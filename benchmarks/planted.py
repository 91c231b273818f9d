"""Does the explanation name the corrupted cells? Cells of normal rows are corrupted, on real data.

    python benchmarks/planted.py            # 15 data sets; two minutes on one idle core
    python benchmarks/planted.py pima       # one of them; the others stay as they were

Seven data sets chose how cells are named, eight confirm it. A random half of the normal rows (at most 1,000) trains a
detector with the library's defaults. In each of up to 50 held-out normal rows one cell, of a random column, is
replaced by a value of that column in the training rows: the one half a distribution away ("half": the quantile q of the
cell becomes q + 1/2 or q - 1/2, which looks normal by itself), or
the 1st or 99th percentile, whichever is on the other side of the median ("end"). The value must differ by at least
one standard deviation, else another column is drawn; columns of at most two values are left alone. Then the same with
two and with three cells, all in columns that depend on the others; data sets with fewer than six such columns are left
out. The largest rank of the corrupted cells among the cells of their row, by contribution to the score, is compared
with the rank by ``|z|``, the distance to the mean of the column in standard deviations. The suspicious cells, which the
sentence about a row names, are compared with the corrupted ones.

``results/planted.csv`` has every planted row, ``results/planted.md`` the shares.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict

from nptad import NPTAD
from nptad.bench.datasets import load
from nptad.errors import TableWarning

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("NPTAD_DATA", ROOT.parent / "shared" / "data"))
GALLERY = ROOT / "tests" / "gallery"
CELLS = ROOT / "results" / "planted.csv"
CHOOSING = ("abalone", "cardio", "diamonds", "letter", "pima", "satimage2", "wbc")
CONFIRMING = ("breastw", "glass", "ionosphere", "pendigits", "seismic", "shuttle", "thyroid", "vowels")
KINDS = ("half", "end")
SIZES = (1, 2, 3)
FEWEST_COLUMNS = 6
"""Dependent columns that a data set must have for more than one corrupted cell in a row."""
MAX_ROWS = 50
MAX_TRAINING_ROWS = 1000
FALSE_ALARM_RATE = 0.05
PREDICTABLE = 0.5
"""R² of a column from the others, above which it depends on them."""
FIELDS = (
    *("dataset", "kind", "cells", "row", "columns", "least_r2", "rank", "z_rank"),
    *("all_named", "others_named", "flagged", "flagged_before"),
)


def split(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and held-out normal rows."""
    if dataset == "diamonds":  # the numbers of a table of the gallery, without the wrong rows
        rows = pd.read_csv(GALLERY / "diamonds.csv.gz").select_dtypes("number")
        sizes = rows[["x", "y", "z"]]
        x = rows[((sizes > 0) & (sizes < 20)).all(axis=1)].to_numpy(float)
    else:
        table = load(dataset, DATA)
        x = table.x[~table.y]
    x = x[np.random.default_rng(0).permutation(len(x))]
    half = len(x) // 2
    return x[:half][:MAX_TRAINING_ROWS], x[half:][:MAX_ROWS]


def plant(
    train: np.ndarray, rows: np.ndarray, kind: str, usable: list[int], n_cells: int, seed: int
) -> tuple[np.ndarray, list[list[int]]]:
    """The rows with corrupted cells in usable columns, and these columns: fewer where values hardly differ."""
    random = np.random.default_rng(seed)
    planted, columns = rows.copy(), [list[int]() for _ in rows]
    spread = train.std(axis=0)
    for i, row in enumerate(rows):
        for j in random.permutation(usable):
            column = train[:, j]
            quantile = ((column < row[j]).mean() + (column <= row[j]).mean()) / 2
            other = (quantile + 0.5) % 1 if kind == "half" else 0.99 if quantile < 0.5 else 0.01
            value = np.quantile(column, other, method="nearest")
            if abs(value - row[j]) >= spread[j]:
                planted[i, j] = value
                columns[i].append(int(j))
            if len(columns[i]) == n_cells:
                break
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
    usable = [j for j in range(train.shape[1]) if len(np.unique(train[:, j])) > 2]
    dependent = [j for j in usable if r2[j] >= PREDICTABLE]
    found: list[dict[str, object]] = []
    for n_cells in SIZES if len(dependent) >= FEWEST_COLUMNS else SIZES[:1]:
        for seed, kind in enumerate(KINDS):
            rows, planted = plant(train, held_out, kind, dependent if n_cells > 1 else usable, n_cells, seed)
            after = detector.detect(rows, false_alarm_rate=FALSE_ALARM_RATE).anomaly
            for i, (why, columns) in enumerate(zip(detector.explain(rows), planted, strict=True)):
                if len(columns) < n_cells:
                    continue
                order = [reason.column for reason in why.reasons]
                distance = np.abs(rows[i] - center) / spread
                named = {reason.column for reason in why.reasons if reason.suspicious}
                values = (
                    *(dataset, kind, n_cells, i, " ".join(map(str, columns)), round(float(r2[columns].min()), 3)),
                    1 + max(order.index(j) for j in columns),
                    1 + int((distance > distance[columns].min()).sum()),
                    *(int(named >= set(columns)), len(named - set(columns)), int(after[i]), int(before[i])),
                )
                found.append(dict(zip(FIELDS, values, strict=True)))
    return found


def page(cells: list[dict[str, object]]) -> str:
    """The shares as Markdown."""
    lines = [
        "# Planted anomalies",
        "",
        "Generated by `python benchmarks/planted.py`, which says how; every row is in `planted.csv`. One to three",
        "cells of each held-out normal row were replaced by other values of their columns: half a distribution away",
        "(`half`, normal by themselves) or at the other end (`end`). Shares in % of the planted rows.",
        "",
        "`ranked first`: the corrupted cells come first among the reasons; `by abs(z)`: they are furthest from the",
        "means of their columns. `dependent`: rows whose corrupted cells are all in columns with",
        f"R² >= {PREDICTABLE} from the others (cross-validated ridge regression). `named`: the suspicious cells are",
        "exactly the corrupted ones; `others`: at least one other cell is among them. `flagged`: p-value <=",
        f"{FALSE_ALARM_RATE}, after planting and before; those before are false alarms. `-`: no such row.",
        "",
    ]
    for title, datasets in (("Chose how cells are named", CHOOSING), ("Confirm it", CONFIRMING)):
        mine = [cell for cell in cells if cell["dataset"] in datasets]
        lines += [f"## {title}", "", *_means(mine), "", *_table(mine), ""]
    return "\n".join(lines)


def _means(cells: list[dict[str, object]]) -> list[str]:
    """Means over data sets of the share of rows whose corrupted cells are exactly the suspicious ones."""
    lines = ["| cells in dependent columns | data sets | named | of the flagged rows |", "|---|---|---|---|"]
    for kind, size in [(kind, size) for size in SIZES for kind in KINDS]:
        found: dict[str, list[tuple[bool, bool]]] = {}
        for c in cells:
            if (c["kind"], int(str(c["cells"]))) == (kind, size) and float(str(c["least_r2"])) >= PREDICTABLE:
                exact = (int(str(c["all_named"])), int(str(c["others_named"]))) == (1, 0)
                found.setdefault(str(c["dataset"]), []).append((exact, bool(int(str(c["flagged"])))))
        named = [np.mean([exact for exact, _ in rows]) for rows in found.values()]
        flagged = [[exact for exact, is_flagged in rows if is_flagged] for rows in found.values()]
        of_flagged = np.mean([np.mean(exact) for exact in flagged if exact])
        lines.append(f"| {size}, {kind} | {len(found)} | {100 * np.mean(named):.0f} | {100 * of_flagged:.0f} |")
    return lines


def _table(cells: list[dict[str, object]]) -> list[str]:
    """One line for each data set, kind and number of cells."""
    lines = [
        "| data set | planted | cells | rows | ranked first | by abs(z) | dependent | of these first | named | others "
        "| flagged | of these named | flagged before |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for group in dict.fromkeys((str(c["dataset"]), str(c["kind"]), int(str(c["cells"]))) for c in cells):
        mine = [c for c in cells if (str(c["dataset"]), str(c["kind"]), int(str(c["cells"]))) == group]
        rank, z_rank, r2, all_named, others, after, before = (
            np.array([float(str(c[name])) for c in mine])
            for name in ("rank", "z_rank", "least_r2", "all_named", "others_named", "flagged", "flagged_before")
        )
        first, dependent, named = rank == group[2], r2 >= PREDICTABLE, (all_named == 1) & (others == 0)
        shares = [first, z_rank == group[2], dependent, first[dependent], named, others > 0]
        shares += [after, named[after == 1], before]
        texts = [f"{100 * share.mean():.0f}" if len(share) else "-" for share in shares]
        lines.append(f"| {' | '.join([*map(str, group), str(len(mine)), *texts])} |")
    return lines


def read_cells() -> list[dict[str, object]]:
    """What earlier runs have written."""
    if not CELLS.exists():
        return []
    with CELLS.open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Run the data sets asked for, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=CHOOSING + CONFIRMING)
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
