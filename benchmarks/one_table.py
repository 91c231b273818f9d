"""The quick judge of anomalies inside one table: whether a change finds more of them.

    python benchmarks/one_table.py                               # nptad and what people use, all suites
    python benchmarks/one_table.py --half choosing --method mine:rank     # and a method of one's own

No labels are used: each method is fitted on the whole table, and its own rows are ranked and flagged. Suites:

* ``2 %`` and ``10 %``: the 150 real tables of ../shared/tables. The normal rows of the training and test part are put
  together and 900 of them drawn (all, if they are fewer); the anomalies are drawn from those of the test part, so many
  that they are 2 % (10 %) of the table. At 10 %, tables with too few anomalies are left out. One draw, seed 0.
* ``sets``: 30 sets of the paper, of more than 4,000 rows a sample with the true share of anomalies, seed 0.

As in ``quick.py``, tables at even places of the sorted names choose and those at odd places confirm. Scores are kept on
disk by table, method and code. A method of one's own is a function of encoded rows, their layout and a seed that
returns scores. Writes ``results/one-table-quick.md`` and ``.csv``.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import argparse
import csv
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
from scipy.stats import rankdata, wilcoxon

import quick
from nptad.bench.datasets import Table, find_file, load
from nptad.bench.one_table import METHODS, flag_metrics, whole_table
from nptad.bench.own import import_own
from nptad.bench.protocol import Clock, Scored, Split
from nptad.errors import TableWarning
from nptad.io.atomic import replacing
from nptad.tables.encode import encode
from nptad.tables.schema import learn_schema

SHARES = {"2 %": 0.02, "10 %": 0.10}
NORMAL_ROWS, MOST_ROWS = 900, 4000
LARGE = ("backdoor", "campaign", "forestcover", "fraud", "mnist", "mulcross")
"""The sets without which there are the 24 that early prototypes were measured on."""
OURS, YARDSTICK = "nptad", "iforest"
FIGURES = ("f1", "auroc", "average_precision", "f1_flagged", "share_flagged", "seconds")
CODE = ("nptad.scoring.core", "nptad.tables.encode", "nptad.tables.schema")
"""The modules that our scores depend on; what they import counts too."""


@dataclass(frozen=True)
class Task:
    """One table of one suite."""

    suite: str
    name: str
    half: str

    def read(self) -> Split:
        """The table; training and test rows are the same."""
        if self.suite == "sets":
            return whole_table(load(self.name, quick.DATA), 0, MOST_ROWS)
        normal, anomalies = read_parts(self.name)
        random = np.random.default_rng(0)
        normal = random.permutation(normal)[:NORMAL_ROWS]
        anomalies = random.permutation(anomalies)[: wanted(len(normal), SHARES[self.suite])]
        truth = np.arange(len(normal) + len(anomalies)) >= len(normal)
        return whole_table(Table(self.name, np.vstack([normal, anomalies]), truth, ()), 0)

    def file(self) -> Path | None:
        """Where it is; None for one that is computed."""
        return find_file(self.name, quick.DATA) if self.suite == "sets" else quick.TABLES / f"{self.name}.npz"

    def key(self, method: str) -> str:
        """What names the cached result of a method."""
        code = [quick.code_of(module) for module in CODE] if method == OURS else []
        code += [quick.code_of(method.partition(":")[0])] if ":" in method else []
        drawn = [str(SHARES), str(NORMAL_ROWS), str(MOST_ROWS)]
        parts = [self.suite, self.name, quick.checksum(self.file()), method, *drawn, *code]
        return sha256(json.dumps(parts).encode()).hexdigest()


def wanted(n_normal: int, share: float) -> int:
    """How many anomalies make this share of a table, at least one.

    >>> wanted(900, 0.02), wanted(900, 0.10), wanted(20, 0.02)
    (18, 100, 1)
    """
    return max(1, round(n_normal * share / (1 - share)))


def read_parts(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All normal rows of a table, and its anomalies."""
    with np.load(quick.TABLES / f"{name}.npz", allow_pickle=False) as arrays:
        train, test, truth = arrays["train"], arrays["test"], arrays["y"] == 1
        return np.vstack([train, test[~truth]]).astype(np.float64), test[truth].astype(np.float64)


def all_tasks() -> Iterator[Task]:
    """The tables of all suites whose data is at hand."""
    suites = quick.suites()
    for suite, share in SHARES.items():
        for name, half in quick.halves(suites["tables"].names).items() if "tables" in suites else ():
            normal, anomalies = read_parts(name)
            if len(anomalies) >= wanted(min(len(normal), NORMAL_ROWS), share):
                yield Task(suite, name, half)
    for name, half in quick.halves(suites["sets"].names).items() if "sets" in suites else ():
        yield Task("sets", name, half)


def run_own(source: str, split: Split) -> Scored:
    """Scores of a function of encoded rows, layout and seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        schema = learn_schema(split.train, split.uses if split.categorical else None)
    rank: Callable[..., np.ndarray] = import_own(source, "method")
    x, clock = encode(schema, split.train), Clock()
    with clock("fit"):
        scores = rank(x, schema.layout, 0)
    return Scored(scores, clock)


def measure(task: Task, methods: list[str], folder: Path) -> dict[str, dict[str, float]]:
    """The figures of all methods on one table; what the cache lacks is computed."""
    found, split = {}, None
    for method in methods:
        path = folder / f"{task.key(method)}.json"
        if not path.exists():
            split = task.read() if split is None else split
            if ":" in method:
                scored = run_own(method, split)
            else:
                spec = METHODS[method]
                scored = next(spec.run([split], [0], spec.configure("default", None)))  # type: ignore[arg-type]
            values = dict(zip(quick.FIGURES, quick.figures(split.truth, scored.scores), strict=True))
            flagged = flag_metrics(split.truth, scored)
            figures = {
                "f1": values["f1_at_k"],
                "auroc": values["auroc"],
                "average_precision": values["average_precision"],
                "f1_flagged": flagged.get("f1_flagged", np.nan),
                "share_flagged": 100 * flagged.get("n_flagged", np.nan) / len(split.truth),
                "seconds": scored.clock.cpu_seconds["fit"],
            }
            with replacing(path) as temporary:
                temporary.write_text(json.dumps({name: float(value) for name, value in figures.items()}))
        found[method] = json.loads(path.read_text())
    return found


Results = dict[Task, dict[str, dict[str, float]]]

HEADER = "| | AUROC | average precision | F1 | F1 of flags | flagged % | rank (AUROC) | won / lost, IForest | p | s |"


def lines(results: Results, methods: list[str]) -> Iterator[str]:
    """The rows of the table of one suite and half, best mean AUROC first."""
    values = np.array([[[by[m][name] for name in FIGURES] for m in methods] for by in results.values()])
    auroc = values[:, :, FIGURES.index("auroc")]
    ranks = rankdata(-auroc.round(3), axis=1).mean(axis=0)
    means = values.mean(axis=0)
    for place in np.argsort(-auroc.mean(axis=0), kind="stable"):
        f1, area, precision, f1_flagged, flagged, _ = means[place]
        ahead = auroc[:, place] - auroc[:, methods.index(YARDSTICK)]
        compared = f"{(ahead > 0.05).sum()} / {(ahead < -0.05).sum()}" if methods[place] != YARDSTICK else ""
        p = f"{wilcoxon(ahead).pvalue:.2g}" if np.any(ahead != 0) else ""
        cells = [f"{value:.1f}" for value in (area, precision, f1, f1_flagged, flagged, ranks[place])]
        label = METHODS[methods[place]].label if methods[place] in METHODS else methods[place]
        yield f"| {' | '.join([label, *cells, compared, p, f'{values[:, place, -1].sum():.0f}'])} |"


def report(results: Results, methods: list[str]) -> str:
    """The page of results."""
    text = [
        "# The quick judge of anomalies inside one table",
        "",
        "Generated by `python benchmarks/one_table.py`, which says how the tables are made. Means over tables in %. "
        "F1: as many rows are flagged as there are anomalies; F1 of flags: of what the method flags by default. "
        "Rank, won / lost and the paired Wilcoxon test against IForest are about AUROC. s: processor seconds for all "
        "tables of the part.",
    ]
    for suite in dict.fromkeys(task.suite for task in results):
        of_suite = {task: by for task, by in results.items() if task.suite == suite}
        halves = ["choosing", "confirming"]
        parts = {half: {task: by for task, by in of_suite.items() if task.half == half} for half in halves}
        parts["all"] = of_suite
        if suite == "sets":
            parts["all without the six large ones"] = {t: by for t, by in of_suite.items() if t.name not in LARGE}
        for name, part in parts.items():
            if part:
                text += ["", f"## {suite}, {name} ({len(part)})", "", HEADER, "|---|" + 9 * "---|"]
                text += lines(part, methods)
    behind = sorted(
        (by[OURS]["auroc"] - by[YARDSTICK]["auroc"], task.suite, task.name, by[OURS]["auroc"])
        for task, by in results.items()
    )
    text += ["", "## Where nptad is more than 5 points of AUROC below IForest", ""]
    text += [f"* {suite}, {name}: {auroc:.1f}, {ahead:+.1f}" for ahead, suite, name, auroc in behind if ahead < -5]
    return "\n".join(text) + "\n"


def write_csv(results: Results, path: Path) -> None:
    """One row for each table and method."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["suite", "half", "table", "method", *FIGURES])
        for task, by in results.items():
            for method, values in by.items():
                cells = [f"{values[name]:.2f}" for name in FIGURES]
                writer.writerow([task.suite, task.half, task.name, method, *cells])


def main(arguments: list[str] | None = None) -> None:
    """Compute what is missing, judge, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=[*SHARES, "sets"], help="default: all")
    parser.add_argument("--half", action="append", choices=["choosing", "confirming"], help="default: both")
    parser.add_argument("--method", action="append", default=[], help="one more method, module:function")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "nptad" / "quick")
    parser.add_argument("--results", type=Path, default=quick.ROOT / "results")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args(arguments)
    given.cache.mkdir(parents=True, exist_ok=True)
    methods = [*METHODS, *given.method]
    chosen_suites, chosen_halves = given.suite or [*SHARES, "sets"], given.half or ["choosing", "confirming"]
    tasks = [task for task in all_tasks() if task.suite in chosen_suites and task.half in chosen_halves]
    results: Results = {}
    with ProcessPoolExecutor(given.processes) as pool:
        found = pool.map(partial(measure, methods=methods, folder=given.cache), tasks)
        for task, figures in zip(tasks, found, strict=True):
            results[task] = figures
            if sys.stderr.isatty():
                print(f"\r{len(results)} of {len(tasks)} tables", end="", file=sys.stderr, flush=True)
    text = report(results, methods)
    given.results.mkdir(exist_ok=True)
    write_csv(results, given.results / "one-table-quick.csv")
    with replacing(given.results / "one-table-quick.md") as temporary:
        temporary.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
