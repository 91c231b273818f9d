"""Accuracy with the paper's hyper-parameters on the benchmark sets, beside the paper's figures.

    python benchmarks/accuracy.py wine breastw glass           # five random splits each
    python benchmarks/accuracy.py letter --row-attention low_rank --steps 300

Results go to ``results/accuracy.csv``, one row per split; splits that are already there are not run again. The split
is the paper's: a random half of the normal rows trains, the other half and all anomalies are scored, and as many
rows are flagged as there are anomalies. ``results/accuracy.md`` is the table made of them.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import fcntl
import os
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from nptad.ensemble import fit_ensemble
from nptad.errors import TableWarning
from nptad.files import replacing
from nptad.rng import spawn_seeds
from nptad.score import score_rows
from nptad.settings import Settings, default_settings
from nptad.table import encode, learn_schema

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
DATA = Path(os.environ.get("NPTAD_DATA", SHARED / "data"))
RESULTS = ROOT / "results" / "accuracy.csv"
# How the authors' code aggregates (design.md, section 3). Where it takes z-scores of each mask over the test set, we
# scale masks by training rows instead.
MAX_AGGREGATION = {"arrhythmia", "cardio", "glass", "ionosphere", "optdigits", "wine"}
SCALED_MASKS = {"arrhythmia", "glass", "optdigits", "vertebral"}
CONFIGURATION = ["dataset", "preset", "row_attention", "embedding_dim", "attention_dropout", "scale_masks", "steps"]
FIELDS = [*CONFIGURATION, "split", "f1", "auroc", "train_seconds", "score_seconds"]


def paper_settings(dataset: str) -> Settings:
    """The paper's hyper-parameters of a data set (its table 5)."""
    with (SHARED / "paper" / "hyperparameters.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["dataset"] == dataset)
    return Settings(
        n_steps=int(row["epochs"]),
        batch_size=None if row["batch_size"] == "-1" else int(row["batch_size"]),
        learning_rate=float(row["lr"]),
        mask_rate=float(row["p_mask"]),
        embedding_dim=int(row["e"]),
        mask_sizes=(1, 4) if dataset == "lympho" else tuple(range(1, int(row["r"]) + 1)),
        aggregation="max" if dataset in MAX_AGGREGATION else "mean",
        scale_masks=dataset in SCALED_MASKS,
    )


def library_settings(dataset: str) -> Settings:
    """What the library would choose for the training half of a data set."""
    table, y, _ = load(dataset)
    return default_settings(int((y == 0).sum()) // 2, table.shape[1])


def load(dataset: str) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Rows, labels (1 = anomaly) and the positions of category columns."""
    with np.load(DATA / f"{dataset}.npz", allow_pickle=False) as file:
        return file["X"].astype(np.float64), file["y"], file["categorical"].tolist()


def run_split(dataset: str, split: int, settings: Settings) -> dict[str, object]:
    """Train and score one random split."""
    table, y, categorical = load(dataset)
    normal = np.random.default_rng(split).permutation(np.flatnonzero(y == 0))
    half = len(normal) // 2
    train_rows, test_rows = normal[:half], np.concatenate([normal[half:], np.flatnonzero(y == 1)])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        schema = learn_schema(table[train_rows], categorical or None)
    x_train, x_test = encode(schema, table[train_rows]), encode(schema, table[test_rows])
    started = time.perf_counter()
    ensemble, _ = fit_ensemble(x_train, schema.layout, settings, spawn_seeds(split, 3), device=torch.device("cpu"))
    trained = time.perf_counter()
    # The paper's score: test rows that equal a training row are new rows all the same.
    scores = score_rows(ensemble.members[0], torch.from_numpy(x_test), ensemble.masks, settings.aggregation)
    scored = time.perf_counter()

    truth = y[test_rows] == 1
    flagged = np.argsort(-scores, kind="stable")[: truth.sum()]
    return {
        "split": split,
        "f1": round(100 * float(truth[flagged].mean()), 2),
        "auroc": round(100 * float(roc_auc_score(truth, scores)), 2),
        "train_seconds": round(trained - started, 1),
        "score_seconds": round(scored - trained, 1),
    }


def read_results() -> list[dict[str, str]]:
    """The rows of the result file so far."""
    if not RESULTS.exists():
        return []
    with RESULTS.open() as file:
        return list(csv.DictReader(file))


def add_result(row: dict[str, object]) -> None:
    """Append one row by rewriting the file as a whole."""
    RESULTS.parent.mkdir(exist_ok=True)
    with (RESULTS.parent / ".accuracy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several runs may share the file
        rows = [*read_results(), row]
        with replacing(RESULTS) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def table() -> str:
    """Mean and standard deviation over splits, the paper's figure beside them, as Markdown."""
    with (SHARED / "paper" / "f1.csv").open() as file:
        paper = {row["dataset"]: row for row in csv.DictReader(file)}
    rows = read_results()
    lines = [
        "# Accuracy on the benchmark sets",
        "",
        "Generated by `python benchmarks/accuracy.py` from `accuracy.csv`: F1 and AUROC in %, mean and standard",
        "deviation over random splits (the paper: 20 runs on one split). Preset `paper` has the paper's settings but",
        "for what a row says otherwise; masks are scaled by training rows where the authors' code takes z-scores over",
        "the test set. Preset `default` is one member with the library's settings.",
        "",
        "| data set | preset | row attention | E | attention dropout | masks scaled | steps | splits | F1 | AUROC "
        "| paper F1 |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for group in sorted(dict.fromkeys(tuple(r[name] for name in CONFIGURATION) for r in rows)):
        mine = [r for r in rows if tuple(r[name] for name in CONFIGURATION) == group]
        f1, auroc = (np.array([float(r[metric]) for r in mine]) for metric in ("f1", "auroc"))
        published = paper[group[0]]
        lines.append(
            f"| {' | '.join(group)} | {len(mine)} | {f1.mean():.1f} ± {f1.std():.1f} | {auroc.mean():.1f} "
            f"| {published['npt_ad']} ± {published['npt_ad_std']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--preset", choices=("paper", "default"), default="paper")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--embedding-dim", type=int)
    parser.add_argument("--row-attention", choices=("full", "low_rank", "none"))
    parser.add_argument("--attention-dropout", type=float)
    parser.add_argument("--scale-masks", action="store_true", default=None)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    asked = {
        "n_steps": arguments.steps,
        "embedding_dim": arguments.embedding_dim,
        "row_attention": arguments.row_attention,
        "attention_dropout": arguments.attention_dropout,
        "scale_masks": arguments.scale_masks,
    }
    for dataset in arguments.datasets:
        preset = paper_settings(dataset) if arguments.preset == "paper" else library_settings(dataset)
        settings = dataclasses.replace(preset, **{k: v for k, v in asked.items() if v is not None})
        configuration = {
            "dataset": dataset,
            "preset": arguments.preset,
            "row_attention": settings.row_attention,
            "embedding_dim": str(settings.embedding_dim),
            "attention_dropout": str(settings.attention_dropout),
            "scale_masks": str(settings.scale_masks),
            "steps": str(settings.n_steps),
        }
        done = {int(r["split"]) for r in read_results() if configuration.items() <= r.items()}
        for split in sorted(set(range(arguments.splits)) - done):
            row = configuration | run_split(dataset, split, settings)
            add_result(row)
            print(row, flush=True)
    (RESULTS.parent / "accuracy.md").write_text(table(), encoding="utf-8")
    print(table())


if __name__ == "__main__":
    main()
