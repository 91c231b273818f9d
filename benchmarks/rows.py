"""What more training rows bring: the views compare with 5,000, 20,000 and all training rows.

    python benchmarks/rows.py                     # everything that is not in results/rows.csv yet
    python benchmarks/rows.py forestcover --splits 1

Whatever `nptad.scoring.view_score` would keep, all of the given number of rows are compared with here: on sets where
no tree is fast that takes minutes. Smaller samples are part of larger ones. Calibrated with 10,000 of the rows at most,
so that only what rows are compared with differs. Test rows are 20,000 normal ones and at most 10,000 anomalies.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from pathlib import Path

import numpy as np

from nptad.bench.datasets import load
from nptad.bench.protocol import Split, metrics, split_table
from nptad.errors import TableWarning
from nptad.io.atomic import replacing
from nptad.scoring.folds import left_out_rows
from nptad.scoring.surprise import CombinedSurprise, Surprise, combine, surprise_among_others
from nptad.scoring.views import VIEWS, NearestInParts, NearestInRanges
from nptad.scoring.views.nearest import draw_parts, in_ranges
from nptad.scoring.views.neighbours import Neighbours
from nptad.tables.encode import encode
from nptad.tables.layout import CellLayout
from nptad.tables.schema import Use, learn_schema

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("NPTAD_DATA", ROOT.parent / "shared" / "data"))
RESULTS = ROOT / "results"
SETS = ("shuttle", "forestcover", "mulcross", "campaign", "fraud")
SIZES = (5000, 20_000, 10**9)
SPLITS = 2
CALIBRATION_ROWS, TEST_NORMALS, TEST_ANOMALIES = 10_000, 20_000, 10_000
FIGURES = ("f1", "auroc", "average_precision")
COLUMNS = ("score", *(view.name for view in VIEWS[:4]))
FIELDS = ["dataset", "split", "columns", "rows", "cpu_seconds", *(f"{c}: {f}" for c in COLUMNS for f in FIGURES)]

Row = dict[str, str]


def sample(split: Split, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows in random order, test rows and which of them are anomalies."""
    random = np.random.default_rng(seed)
    anomalies = random.permutation(np.flatnonzero(split.truth))[:TEST_ANOMALIES]
    normals = random.permutation(np.flatnonzero(~split.truth))[:TEST_NORMALS]
    test = np.sort(np.concatenate([anomalies, normals]))
    return random.permutation(split.train), split.test[test], split.truth[test]


def nearest_in_parts(x: np.ndarray, new: np.ndarray, layout: CellLayout, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The scores of :class:`NearestInParts` for the first ``n`` training rows and for new rows."""
    rows, others = (in_ranges(x, part, layout.n_numeric) for part in (x, new))
    found: list[list[np.ndarray]] = [[], []]
    for part in draw_parts(x.shape[1]):
        columns = part[: layout.n_numeric], part[layout.n_numeric :]
        known = rows.columns(*columns)
        neighbours = Neighbours(known)
        among = neighbours.nearest(known[np.arange(n)], np.arange(n))[0]
        found[0].append(surprise_among_others(among))
        found[1].append(Surprise.fit(among).apply(neighbours.nearest(others.columns(*columns))[0]))
    return combine(np.stack(found[0])), combine(np.stack(found[1]))


def measure(train: np.ndarray, test: np.ndarray, truth: np.ndarray, uses: dict[str | int, Use] | None) -> Row:
    """Figures of the score and of the first views if rows are compared with all of ``train``."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        schema = learn_schema(train, uses)
    x, new, layout = encode(schema, train), encode(schema, test), schema.layout
    n = min(len(x), CALIBRATION_ROWS)
    training, found = [], []
    for kind in VIEWS:
        if issubclass(kind, NearestInRanges):
            view = kind(x, np.array(layout.n_numeric))
            training.append(view._neighbours.nearest(view._cells(x[:n]), np.arange(n))[0])
            found.append(view.score(new))
        elif kind is NearestInParts:
            among, others = nearest_in_parts(x, new, layout, n)
            training.append(among)
            found.append(others[:, None])
        else:
            fitted, out_of_fold = kind.fit(x, layout, left_out_rows(len(x), 5, 0))
            training.append(out_of_fold[:n])
            found.append(fitted.score(new))
    combined, _ = CombinedSurprise.fit(training)
    scores = dict(zip(COLUMNS, [combined.score(found), *combined.by_view(found).mean(axis=2)], strict=False))
    result = {"columns": str(x.shape[1]), "rows": str(len(x)), "cpu_seconds": f"{time.process_time() - started:.0f}"}
    for name, values in scores.items():
        measured = metrics(truth, values)
        result |= {f"{name}: {figure}": f"{measured[figure]:.2f}" for figure in FIGURES}
    return result


def read_results() -> list[Row]:
    """The rows of the result file so far."""
    path = RESULTS / "rows.csv"
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def add_result(row: Row) -> None:
    """Append one row by rewriting the file as a whole."""
    rows = [*read_results(), row]
    with replacing(RESULTS / "rows.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def page(rows: list[Row]) -> str:
    """Means over the splits in Markdown."""
    lines = [
        "# What more training rows bring",
        "",
        "Generated by `python benchmarks/rows.py` from `rows.csv`. F1 / AUROC / average precision in %, means over the "
        "splits. Rows are compared with so many training rows; calibration, test rows and everything else are the same "
        "(at most 10,000 rows calibrate; the test rows are 20,000 normal ones and at most 10,000 anomalies).",
        "",
        f"| set | columns | training rows | splits | {' | '.join(COLUMNS)} | processor s |",
        f"|---|---:|---:|---:|{'---|' * len(COLUMNS)}---:|",
    ]
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["dataset"], int(row["rows"])), []).append(row)
    for (dataset, n_rows), group in groups.items():
        cells = [
            " / ".join(f"{np.mean([float(row[f'{column}: {figure}']) for row in group]):.1f}" for figure in FIGURES)
            for column in COLUMNS
        ]
        seconds = np.mean([float(row["cpu_seconds"]) for row in group])
        lines.append(
            f"| {dataset} | {group[0]['columns']} | {n_rows:,} | {len(group)} | {' | '.join(cells)} | {seconds:.0f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is missing, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=list(SETS))
    parser.add_argument("--splits", type=int, default=SPLITS)
    arguments = parser.parse_args()
    for dataset in arguments.datasets:
        table = load(dataset, DATA)
        for seed in range(arguments.splits):
            split = split_table(table, seed)
            train, test, truth = sample(split, seed)
            done = {(row["dataset"], row["split"], row["rows"]) for row in read_results()}
            for size in sorted({min(size, len(train)) for size in SIZES}):
                if (dataset, str(seed), str(size)) not in done:
                    found = measure(train[:size], test, truth, split.uses if split.categorical else None)
                    add_result({"dataset": dataset, "split": str(seed), **found})
    (RESULTS / "rows.md").write_text(page(read_results()), encoding="utf-8")
    print(page(read_results()))


if __name__ == "__main__":
    main()
