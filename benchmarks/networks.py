"""The network that was the default, the default score, and the retrieving network, on nine sets of the paper.

    python benchmarks/networks.py           # what is not in results/networks.csv yet
    python benchmarks/networks.py cardio    # trains the old default on this set too: five minutes

The old default is ``NPTAD(settings="network")``. It is trained here on the sets where that takes about a minute; what
is known of the others are the stored runs of the benchmark (``results/runs``). One split (seed 0) of the paper's
protocol, one thread, processor seconds, so that a busy machine changes them little. Of both networks:

* the error on normal test rows, which no network has seen: each number of a row is hidden alone and predicted, and the
  squared error counts in standard deviations, beyond 1 by its logarithm. The retrieving network predicts the mean of
  its mixture.
* how many training rows a row attends to: the exponential of the entropy of its weights. Of the old default, the
  weights are the mean over heads, blocks and masks, and the training rows those of its context (4,096 at most).

Writes ``results/networks.csv`` and ``results/networks.md``.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from nptad import NPTAD
from nptad.bench.datasets import load
from nptad.bench.methods.retrieval import RetrievalNetwork
from nptad.bench.protocol import Split, metrics, split_table
from nptad.bench.store import read_records
from nptad.errors import TableWarning
from nptad.io.atomic import replacing
from nptad.nn.retrieval import RetrievalNetwork as Network
from nptad.scoring.score import context_weights, expected_cells, log_above_one
from nptad.tables.encode import encode

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("NPTAD_DATA", ROOT.parent / "shared" / "data"))
RESULTS = ROOT / "results"
SETS = ("wine", "wbc", "annthyroid", "cardio", "pendigits", "letter", "satimage2", "optdigits", "arrhythmia")
TRAINED = ("wine", "wbc", "annthyroid")
"""Sets on which the old default is trained if none is named."""
JUDGED = 100
"""Normal test rows of which errors and attended rows are measured."""
FIELDS = ["dataset", "method", "rows", "columns", "fit_seconds", "score_seconds", "f1", "auroc", "error", "attended"]

Row = dict[str, str]


def effective(weights: np.ndarray) -> float:
    """The mean number of rows that rows (n, C) attend to: the exponential of the entropy of their weights.

    >>> effective(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    1.5
    """
    shares = weights / weights.sum(axis=1, keepdims=True)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    return float(np.exp(entropy).mean())


def error_of(predicted: np.ndarray, x: np.ndarray) -> float:
    """The mean squared error of numbers, beyond 1 by its logarithm."""
    squares = torch.from_numpy((predicted - x) ** 2)
    return float(log_above_one(squares[~squares.isnan()]).mean())


def of_old_default(detector: NPTAD, x: np.ndarray) -> tuple[float, float]:
    """Error and attended rows, on encoded rows that are new to all members."""
    n = detector.schema_.layout.n_numeric
    rows = torch.from_numpy(x)
    members, masks = detector.ensemble_.members, detector.ensemble_.masks
    predicted = np.mean([expected_cells(member, rows).numeric.numpy() for member in members], axis=0)
    attended = [effective(context_weights(member, rows, masks).double().numpy()) for member in members]
    return error_of(predicted, x[:, :n]), float(np.mean(attended))


def of_retrieval(method: RetrievalNetwork, x: np.ndarray) -> tuple[float, float]:
    """The same of the retrieving network."""
    network, rows, context = method.view_._tensors(x)
    n, weights = network.sizes.layout.n_numeric, method.view_.retrieved(x, len(context))[1]
    return error_of(mixture_means(network, rows, context), x[:, :n]), effective(weights.astype(np.float64))


def mixture_means(network: Network, x: torch.Tensor, context: torch.Tensor) -> np.ndarray:
    """The mean of the mixture for each number, without the part that can be anything; no gaps."""
    nothing = torch.zeros(1, 1, 1, dtype=torch.bool)
    keys, absent = network.project(context[None], nothing), network.hidden_cells()
    cells, hints = network.cells(x[None], nothing), x[None] - network.residuals(x[None])
    residuals, whole = network.residuals(context[None])[0], cells.sum(2)
    means = []
    for j in range(network.sizes.layout.n_numeric):
        logits = network.logits(whole - cells[:, :, j] + absent[:, None, j], keys)
        share, near = network._head[0, j], network._near[0, j]
        weights = (share[:-1, None, None] * logits.softmax(-1)[0]).sum(0) + share[-1] / len(context)
        means.append((1 - near) * weights @ context[:, j] + near * (hints[0, :, j] + weights @ residuals[:, j]))
    return torch.stack(means, 1).numpy()


def measure(name: str, method: str) -> Row:
    """Fit, score and look inside."""
    split = split_table(load(name, DATA), seed=0)
    uses = split.uses if split.categorical else None
    fit: dict[str, Callable[[], NPTAD | RetrievalNetwork]] = {
        "old default": lambda: NPTAD(settings="network", columns=uses, random_state=0).fit(split.train),
        "default": lambda: NPTAD(columns=uses, random_state=0).fit(split.train),
        "retrieval": lambda: RetrievalNetwork(columns=uses).fit(split.train),
    }
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        detector = fit[method]()
    fitted = time.process_time()
    scores = detector.score(split.test) if method == "retrieval" else -detector.score_samples(split.test)
    scored = time.process_time()
    found = metrics(split.truth, scores)
    row = {"dataset": name, "method": method, "rows": f"{len(split.train)}", "columns": f"{split.train.shape[1]}"}
    row |= {"fit_seconds": f"{fitted - started:.2f}", "score_seconds": f"{scored - fitted:.2f}"}
    row |= {figure: f"{found[figure]:.1f}" for figure in ("f1", "auroc")}
    if method != "default":
        error, attended = (of_old_default if method == "old default" else of_retrieval)(
            detector, judged(detector, split)
        )
        row |= {"error": f"{error:.3f}", "attended": f"{attended:.0f}"}
    return row


def judged(detector: NPTAD | RetrievalNetwork, split: Split) -> np.ndarray:
    """Some normal test rows, encoded."""
    return encode(detector.schema_, split.test[~split.truth][:JUDGED])


def stored() -> dict[str, Row]:
    """What the stored runs say of the old default."""
    return {
        record["dataset"]: {
            "fit_seconds": f"{record['cpu_seconds']['fit']:.1f}*",
            "f1": f"{record['f1']:.1f}",
            "auroc": f"{record['auroc']:.1f}",
        }
        for record in read_records(RESULTS / "runs")
        if (record["method"], record["preset"], record["seed"]) == ("npt-ad", "default", 0)
    }


def read_results() -> list[Row]:
    """The rows of the result file so far."""
    path = RESULTS / "networks.csv"
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_results(rows: list[Row]) -> None:
    """The file and the page."""
    with replacing(RESULTS / "networks.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with replacing(RESULTS / "networks.md") as temporary:
        temporary.write_text(page(rows, stored()), encoding="utf-8")


def page(rows: list[Row], known: dict[str, Row]) -> str:
    """The result in Markdown."""
    found = {(row["dataset"], row["method"]): row for row in rows}
    lines = [
        "# The old default, the default score and the retrieving network",
        "",
        "Generated by `python benchmarks/networks.py` from `networks.csv`; the script says how. Processor seconds of "
        "one thread. A star: a stored run of the benchmark (its seconds are up to twice as many beside other load), "
        "which knows no error and no attended rows. Times less: how many times less processor time fitting the default "
        "score and the retrieving network take than the old default. Error: on normal test rows; attended: effective "
        "number of training rows.",
        "",
        "| set | training rows | columns | fit, s: old | default | retrieval | times less: default | retrieval "
        "| F1: old | default | retrieval | AUROC: old | default | retrieval | error: old | retrieval "
        "| attended: old | retrieval |",
        f"|---|{17 * '---:|'}",
    ]
    for name in SETS:
        if not {(name, "default"), (name, "retrieval")} <= set(found):
            continue
        new, ours = found[name, "default"], found[name, "retrieval"]
        old = found.get((name, "old default")) or known[name]
        all_three = (old, new, ours)
        cells = [name, *(f"{int(new[field]):,}" for field in ("rows", "columns"))]
        cells += [part["fit_seconds"] for part in all_three]
        seconds = float(old["fit_seconds"].rstrip("*"))
        cells += [f"{seconds / float(part['fit_seconds']):,.0f}" for part in (new, ours)]
        cells += [part[figure] for figure in ("f1", "auroc") for part in all_three]
        cells += [part.get(field) or "" for field in ("error", "attended") for part in (old, ours)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", nargs="*", default=list(TRAINED), help="sets on which the old default is trained")
    trained = parser.parse_args().trained
    torch.set_num_threads(1)
    RetrievalNetwork().fit(np.random.default_rng(0).normal(size=(50, 2)))  # what the first fit loads is not counted
    wanted = [(name, method) for name in SETS for method in ("default", "retrieval")]
    wanted += [(name, "old default") for name in trained]
    for name, method in wanted:
        rows = read_results()
        if not any((row["dataset"], row["method"]) == (name, method) for row in rows):
            row = measure(name, method)
            print(row, flush=True)
            write_results(sorted([*rows, row], key=lambda row: SETS.index(row["dataset"])))


if __name__ == "__main__":
    main()
