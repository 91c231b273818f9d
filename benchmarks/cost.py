"""What the default score costs: beside the network on sets of the paper, and as tables grow.

    python benchmarks/cost.py              # both stages; what is in results/cost.csv is not repeated
    python benchmarks/cost.py growth       # ten minutes

`sets`: fitting and scoring one split of nine sets by the default score and by the network that was the default before
it, `NPTAD(settings="network")`; three of them are trained here, of the others the stored runs say what they took
(`results/runs`). `growth`: the default score on random tables, one size after the other growing.

Every measurement runs in a process of its own with one thread. Processor seconds, not those of a clock, so that a busy
machine changes them little.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from nptad.bench.store import read_records
from nptad.io.atomic import replacing

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("NPTAD_DATA", ROOT.parent / "shared" / "data"))
RESULTS = ROOT / "results"
STAGES = ("sets", "growth")
SETS = ("wine", "wbc", "annthyroid", "cardio", "pendigits", "letter", "satimage2", "optdigits", "arrhythmia")
TRAINED = ("wine", "wbc", "annthyroid")
"""Sets on which the network is trained here."""
GROWTH = {
    "training rows": tuple((rows, 10) for rows in (1000, 5000, 20_000, 50_000, 100_000)),
    "columns": tuple((5000, columns) for columns in (5, 20, 100, 500)),
    "wide tables": ((200, 500), (500, 2000)),
    "a million rows": ((5000, 10),),
}
"""Rows and columns of the training tables."""
SCORED = {"training rows": 20_000, "columns": 2000, "wide tables": 1000, "a million rows": 1_000_000}
"""New rows that are scored."""
SINGLE_ROWS = 100
"""Rows that are scored one by one."""


@dataclass(frozen=True)
class Measured:
    """One line of the result."""

    stage: str
    method: str
    table: str
    rows: int
    """Training rows."""
    columns: int
    scored: int
    fit_seconds: float
    score_seconds: float
    row_ms: float
    """Milliseconds for a call with a single row."""
    peak_mib: int
    f1: float = 0.0
    auroc: float = 0.0

    @property
    def key(self) -> tuple[str, ...]:
        """What was measured."""
        return self.stage, self.method, self.table, str(self.rows), str(self.columns)


def random_rows(n_rows: int, n_columns: int, seed: int) -> np.ndarray:
    """Numbers that depend on three hidden ones."""
    weights = np.random.default_rng(0).normal(size=(3, n_columns))
    random = np.random.default_rng(seed)
    return random.normal(size=(n_rows, 3)) @ weights + 0.5 * random.normal(size=(n_rows, n_columns))


def measure(stage: str, method: str, table: str, rows: int, columns: int) -> Measured:
    """Fit and score in this process."""
    import resource

    import torch

    from nptad import NPTAD
    from nptad.bench.datasets import load
    from nptad.bench.protocol import metrics, split_table

    torch.set_num_threads(1)
    detector, truth = NPTAD(settings="network" if method == "network" else None, random_state=0), None
    if stage == "sets":
        split = split_table(load(table, DATA), seed=0)
        train, test, truth = split.train, split.test, split.truth
        detector.set_params(columns=split.uses if split.categorical else None)
    else:
        train, test = random_rows(rows, columns, 1), random_rows(SCORED[table], columns, 2)
    started = time.process_time()
    detector.fit(train)
    fitted = time.process_time()
    scores = detector.score_samples(test)
    scored = time.process_time()
    for row in range(SINGLE_ROWS):
        detector.score_samples(test[row % len(test)][None])
    ended = time.process_time()
    found = {} if truth is None else metrics(truth, -scores)
    return Measured(
        *(stage, method, table, *train.shape, len(test)),
        fit_seconds=round(fitted - started, 3),
        score_seconds=round(scored - fitted, 3),
        row_ms=round(1000 * (ended - scored) / SINGLE_ROWS, 2),
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **{name: found[name] for name in ("f1", "auroc") if name in found},
    )


def run_child(key: tuple[str, ...]) -> Measured:
    """The same in a new process with one thread."""
    variables = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", __file__, "--child", json.dumps(key)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **variables})
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def wanted(stage: str) -> list[tuple[str, ...]]:
    """The measurements of a stage: stage, method, table, rows, columns; a set knows its own size."""
    if stage == "sets":
        found = [(stage, "default", name, "", "") for name in SETS]
        return found + [(stage, "network", name, "", "") for name in TRAINED]
    sizes = [(table, *size) for table, all_sizes in GROWTH.items() for size in all_sizes]
    return [(stage, "default", table, str(rows), str(columns)) for table, rows, columns in sizes]


def read_results(path: Path) -> list[Measured]:
    """What was measured before."""
    if not path.exists():
        return []
    kinds = {field.name: {"int": int, "float": float}.get(str(field.type), str) for field in fields(Measured)}
    with path.open(newline="", encoding="utf-8") as file:
        return [Measured(**{name: kinds[name](text) for name, text in row.items()}) for row in csv.DictReader(file)]


def stored_networks() -> list[Measured]:
    """What the network took in the runs of the benchmark, on the same splits."""
    return [
        Measured(
            *("sets", "stored", record["dataset"], record["n_train"], 0, record["n_test"]),
            *(record["cpu_seconds"]["fit"], record["cpu_seconds"]["score"], 0.0, record["peak_mib"]),
            *(record["f1"], record["auroc"]),
        )
        for record in read_records(RESULTS / "runs")
        if (record["method"], record["preset"], record["seed"]) == ("npt-ad", "default", 0)
    ]


def write_results(measured: list[Measured]) -> None:
    """Table and page."""
    with replacing(RESULTS / "cost.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Measured)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(one) for one in measured)
    with replacing(RESULTS / "cost.md") as temporary:
        temporary.write_text(page(measured), encoding="utf-8")


def page(measured: list[Measured]) -> str:
    """The result in Markdown."""
    lines = [
        "# What the default score costs",
        "",
        f"Generated by `python benchmarks/cost.py` from `cost.csv`. Processor seconds, one thread, each measurement in "
        f"a process of its own. Peak memory is that of the whole process, torch included. {os.cpu_count()} cores, "
        f"{platform.machine()}, Python {platform.python_version()}.",
    ]
    found = {(one.table, one.method): one for one in [*stored_networks(), *measured] if one.stage == "sets"}
    names = [name for name in SETS if (name, "default") in found]
    if names:
        lines += [
            "",
            "## Beside the network",
            "",
            "Fitting and scoring one split (seed 0) of the paper's protocol. The network is `NPTAD(settings="
            '"network")`, the default before. A star: the seconds of a stored run of the benchmark (beside other load '
            "they are up to twice as many). F1 (as many flags as anomalies) and AUROC in %.",
            "",
            "| set | training rows | columns | network, fit s | default, fit s | times less | network, score s "
            "| default, score s | F1 network | F1 default | AUROC network | AUROC default |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for name in names:
            new, old = found[name, "default"], found.get((name, "network"), found[name, "stored"])
            star = "*" if old.method == "stored" else ""
            lines.append(
                f"| {name} | {new.rows:,} | {new.columns} | {old.fit_seconds:,.1f}{star} | {new.fit_seconds:.2f} "
                f"| {old.fit_seconds / new.fit_seconds:,.0f} | {old.score_seconds:.1f}{star} | {new.score_seconds:.2f} "
                f"| {old.f1:.1f} | {new.f1:.1f} | {old.auroc:.1f} | {new.auroc:.1f} |"
            )
    for table in GROWTH:
        sizes = [one for one in measured if one.stage == "growth" and one.table == table]
        if sizes:
            lines += [
                "",
                f"## {table.capitalize()}",
                "",
                f"Random numbers that depend on three hidden ones; {SCORED[table]:,} new rows are scored at once, "
                f"{SINGLE_ROWS} more one by one.",
                "",
                "| training rows | columns | fit, s | score, us a row | one row alone, ms | peak memory, MiB |",
                "|---:|---:|---:|---:|---:|---:|",
            ]
        for one in sorted(sizes, key=lambda one: (one.rows, one.columns)):
            lines.append(
                f"| {one.rows:,} | {one.columns} | {one.fit_seconds:.2f} | {1e6 * one.score_seconds / one.scored:.0f} "
                f"| {one.row_ms:.1f} | {one.peak_mib:,} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="stage", help=f"of {', '.join(STAGES)}; all by default")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        stage, method, table, rows, columns = json.loads(arguments.child)
        print(json.dumps(asdict(measure(stage, method, table, int(rows or 0), int(columns or 0)))))
        return
    for stage in arguments.stages or STAGES:
        for key in wanted(stage):
            known = read_results(RESULTS / "cost.csv")
            if not any(one.key[: 3 if stage == "sets" else 5] == key[: 3 if stage == "sets" else 5] for one in known):
                measured = run_child(key)
                write_results([*read_results(RESULTS / "cost.csv"), measured])
                print(measured, flush=True)
    print(page(read_results(RESULTS / "cost.csv")))


if __name__ == "__main__":
    main()
