"""Models that live: false alarms on streams with and without updates, and what ten judged rows change.

    python benchmarks/stream.py             # everything that is not in results/stream.csv yet, then the page and figure
    python benchmarks/stream.py --page      # the page and the figure alone

Streams arrive in batches. Each batch is scored, then its normal rows are added to one of two models; the other one
stays as it was fitted. All at the default false-alarm rate of 1 %.

* electricity: made, half-hours of up to forty weeks: demand with the hour, the day and a slow trend, a price that
  follows it and wanders, a transfer that depends on both. In one row of a hundred a value is half or double that of a
  week ago.
* digits: the 1,797 handwritten digits of scikit-learn, digit by digit (our copy of pendigits does not say which digit a
  row is).
* annthyroid: in the order of its rows.

New kinds: a class that training did not have. Ten of its rows are accepted, and how many of the others are still
flagged is counted; then the same for rows that are rejected. The rows that are judged are not counted.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from nptad import NPTAD
from nptad.bench.datasets import load
from nptad.errors import TableWarning
from nptad.io.atomic import replacing

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("NPTAD_DATA", ROOT.parent / "shared" / "data"))
RESULTS = ROOT / "results"
SEEDS = 2
JUDGED = 10
MOST_NORMAL = 1500
KINDS = ("pendigits", "optdigits", "vowels", "satimage2", "annthyroid")
"""Sets whose anomalies are a class or a few."""
FIELDS = ["part", "name", "seed", "batch", "model", "rows", "flagged", "anomalies", "found", "cpu_seconds"]

Row = dict[str, str]
Batches = list[tuple[np.ndarray, np.ndarray]]


def electricity(seed: int, days: int, weeks: int) -> tuple[np.ndarray, Batches]:
    """Four weeks for training, and more weeks with labels, in batches of some days."""
    random = np.random.default_rng(seed)
    n = 48 * 7 * 40
    steps = np.arange(n)
    hour, day = steps % 48 / 2, steps // 48 % 7
    daily = np.sin((hour - 9) / 24 * 2 * np.pi) + 0.4 * np.sin((hour - 6) / 12 * 2 * np.pi)
    trend = steps / n * 2 + np.sin(steps / n * 2 * np.pi)
    demand = 10 + 2 * daily - 1.5 * (day >= 5) + trend + random.normal(0, 0.4, n)
    level = np.cumsum(random.normal(0, 0.012, n))
    price = np.exp(0.2 * demand + level + random.normal(0, 0.15, n))
    transfer = 0.5 * demand - 0.3 * np.log(price) + random.normal(0, 0.2, n)
    x = np.column_stack([hour, day, demand, price, transfer])
    wrong = random.random(n) < 0.01
    wrong[: 48 * 7 * 4] = False
    for row in np.flatnonzero(wrong):
        column = random.integers(2, 5)
        x[row, column] = x[row - 48 * 7, column] * random.choice([0.5, 2.0])
    train, batch = 48 * 7 * 4, 48 * days
    return x[:train], [
        (x[start : start + batch], wrong[start : start + batch])
        for start in range(train, train + 48 * 7 * weeks, batch)
    ]


def digits(seed: int) -> tuple[np.ndarray, Batches]:
    """Digits 0 to 4 for training, then more of them, then 5 to 9 one after the other, 60 rows at a time."""
    x, y = load_digits(return_X_y=True)
    random = np.random.default_rng(seed)
    order = [random.permutation(np.flatnonzero(y == digit)) for digit in range(10)]
    train = np.concatenate([rows[:120] for rows in order[:5]])
    parts = [random.permutation(np.concatenate([rows[120:] for rows in order[:5]]))]
    for digit in range(5, 10):
        parts += [order[digit][start : start + 60] for start in (0, 60, 120)]
    return x[train], [(x[part], np.zeros(len(part), bool)) for part in parts]


def annthyroid(seed: int) -> tuple[np.ndarray, Batches]:
    """The first 1,000 normal rows for training, then 400 rows at a time in the order of the file."""
    data = load("annthyroid", DATA)
    x, y = np.asarray(data.x, dtype=np.float64), np.asarray(data.y, dtype=bool)
    start = int(np.flatnonzero(~y)[1000])
    rest = np.split(np.arange(start, len(x)), np.arange(400, len(x) - start, 400))
    return x[:start][~y[:start]], [(x[part], y[part]) for part in rest]


STREAMS = {
    "electricity, by week": (partial(electricity, days=7, weeks=36), 48 * 7 * 6),
    "electricity, by day": (partial(electricity, days=1, weeks=12), 48 * 7 * 6),
    "digits": (digits, 2000),
    "annthyroid": (annthyroid, 2000),
}
"""Where a stream comes from, and how many rows the updated model may know."""


def run_stream(name: str, seed: int) -> Iterator[Row]:
    """How each batch is judged by a model that stays and one that is updated with the normal rows of the batch."""
    make, budget = STREAMS[name]
    train, batches = make(seed)
    models = {model: NPTAD(random_state=seed).fit(train) for model in ("stays", "updated")}
    for number, (x, wrong) in enumerate(batches):
        for model, detector in models.items():
            flags = detector.predict(x) < 0
            started = time.process_time()
            if model == "updated":
                detector.update(x[~wrong], most_rows=budget)
            yield counted("stream", name, seed, number, model, flags, wrong, time.process_time() - started)


def counted(
    part: str, name: str, seed: int, batch: int, model: str, flags: np.ndarray, wrong: np.ndarray, seconds: float
) -> Row:
    """A line of the results."""
    values = (len(flags) - wrong.sum(), flags[~wrong].sum(), wrong.sum(), flags[wrong].sum(), f"{seconds:.3f}")
    return dict(zip(FIELDS, map(str, (part, name, seed, batch, model, *values)), strict=True))


def of_a_new_kind(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows without the kind, new rows without it, and the kind, all in random order."""
    random = np.random.default_rng(seed)
    if name.startswith("digit "):
        x, y = load_digits(return_X_y=True)
        is_kind = y == int(name.removeprefix("digit "))
    else:
        data = load(name, DATA)
        x, is_kind = np.asarray(data.x, dtype=np.float64), np.asarray(data.y, dtype=bool)
    others, kind = random.permutation(np.flatnonzero(~is_kind)), random.permutation(np.flatnonzero(is_kind))
    half = len(others) // 2
    return x[others[:half]], x[others[half : half + MOST_NORMAL]], x[kind]


def run_kind(name: str, seed: int) -> Iterator[Row]:
    """Flags on other rows of a kind and on normal rows, before and after ten rows of the kind are judged."""
    train, normal, kind = of_a_new_kind(name, seed)
    detector = NPTAD(random_state=seed).fit(train)
    flagged = detector.predict(kind) < 0
    judged = {"accepted": np.flatnonzero(flagged)[:JUDGED], "rejected": np.arange(JUDGED)}
    for verdict, rows in judged.items():
        if len(rows) < JUDGED or len(kind) < JUDGED + 10:
            continue
        rest = np.delete(kind, rows, axis=0)
        x, wrong = np.vstack([normal, rest]), np.arange(len(normal) + len(rest)) >= len(normal)
        before = detector.predict(x) < 0
        started = time.process_time()
        number = (detector.accept if verdict == "accepted" else detector.reject)(kind[rows])
        seconds = time.process_time() - started
        after = detector.predict(x) < 0
        detector.undo(number)
        yield counted(verdict, name, seed, 0, "before", before, wrong, 0.0)
        yield counted(verdict, name, seed, 0, "after", after, wrong, seconds)


def share(rows: list[Row], of: str, counted_among: str) -> str:
    """A share in percent; nothing if there is nothing to count among."""
    total = sum(int(row[counted_among]) for row in rows)
    return f"{100 * sum(int(row[of]) for row in rows) / total:.1f}" if total else ""


def median_batch(rows: list[Row]) -> float:
    """The median over batches and seeds of the false alarms in percent."""
    return float(np.median([100 * int(row["flagged"]) / int(row["rows"]) for row in rows]))


def page(results: list[Row]) -> str:
    """The page of the results."""

    def of(**wanted: str) -> list[Row]:
        return [row for row in results if all(row[key] == value for key, value in wanted.items())]

    lines = [
        "# Models that live",
        "",
        "Generated by `python benchmarks/stream.py` from `stream.csv`. Shares in %, at the default false-alarm rate of "
        "1 %, over all batches and seeds.",
        "",
        "## Streams",
        "",
        "Each batch is scored before its normal rows are added. False alarms should be 1 %; in brackets those of the "
        "median batch.",
        "",
        "| stream | batches | normal rows | false alarms, model stays | false alarms, model updated | anomalies found, "
        "stays | anomalies found, updated | processor s of an update |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in STREAMS:
        stays, updated = (of(part="stream", name=name, model=model) for model in ("stays", "updated"))
        if not stays:
            continue
        n_batches = len({row["batch"] for row in stays})
        n_rows = sum(int(row["rows"]) for row in stays)
        seconds = np.median([float(row["cpu_seconds"]) for row in updated])
        alarms = (f"{share(rows, 'flagged', 'rows')} ({median_batch(rows):.1f})" for rows in (stays, updated))
        found = (share(rows, "found", "anomalies") for rows in (stays, updated))
        lines.append(f"| {name} | {n_batches} | {n_rows:,} | {' | '.join([*alarms, *found])} | {seconds:.2f} |")
    lines += [
        "",
        "Where rows drift, those of today lie at the edge of what the model knows, so that updates cut the false "
        "alarms and do not end them: after a jump they come back until it is learnt. Each new digit is such a jump: "
        "its first 60 rows are flagged, the next ones hardly, as the figure shows.",
        "",
        "![False alarms by batch](figures/stream.svg)",
        "",
    ]
    for verdict, said in (
        ("accepted", "Ten flagged rows of the kind are accepted; the others of the kind should stop alarming."),
        ("rejected", "Ten rows of the kind are rejected; the others should alarm more, normal rows not."),
    ):
        lines += [
            f"## Ten rows {verdict}",
            "",
            f"{said} Kinds with fewer than {JUDGED} flagged rows are left out." if verdict == "accepted" else said,
            "",
            "| kind | others of the kind | flagged before | flagged after | false alarms before | false alarms after |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for name in dict.fromkeys(row["name"] for row in of(part=verdict)):
            before, after = (of(part=verdict, name=name, model=model) for model in ("before", "after"))
            kind = (share(rows, "found", "anomalies") for rows in (before, after))
            alarms = (share(rows, "flagged", "rows") for rows in (before, after))
            n_others = sum(int(row["anomalies"]) for row in before)
            lines.append(f"| {name} | {n_others:,} | {' | '.join([*kind, *alarms])} |")
        medians = [
            np.median([float(share(of(part=verdict, name=name, model=model), "found", "anomalies")) for name in names])
            for model in ("before", "after")
            if (names := {row["name"] for row in of(part=verdict)})
        ]
        lines += ["", "Median over the kinds: {:.1f} before, {:.1f} after.".format(*medians), ""] if medians else [""]
    return "\n".join(lines)


def draw(results: list[Row]) -> Figure:
    """False alarms by batch, of both models."""
    labels = {"stays": "the model stays", "updated": "the model is updated after each batch"}
    figure = Figure(figsize=(7.2, 8.4), layout="constrained")
    for axes, name in zip(figure.subplots(len(STREAMS), 1), STREAMS, strict=True):
        for model, colour in (("stays", "#8a949b"), ("updated", "#00897b")):
            rows = [row for row in results if (row["part"], row["name"], row["model"]) == ("stream", name, model)]
            batches = sorted({int(row["batch"]) for row in rows})
            shares = [
                100
                * sum(int(r["flagged"]) for r in rows if int(r["batch"]) == batch)
                / sum(int(r["rows"]) for r in rows if int(r["batch"]) == batch)
                for batch in batches
            ]
            size = 3 if len(batches) < 60 else 0
            axes.plot(np.array(batches) + 1, shares, color=colour, marker="o", markersize=size, label=labels[model])
        axes.axhline(1, color="#5b6770", linewidth=0.7, linestyle="--")
        axes.set(title=name, ylabel="false alarms in %", ylim=(0, None))
    axes.set_xlabel("batch")
    figure.legend(handles=figure.axes[0].lines[:2], loc="outside upper center", ncols=2, frameon=False)
    return figure


def main() -> None:
    """Run what is missing, and make the page and the figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--page", action="store_true")
    only_page = parser.parse_args().page
    path = RESULTS / "stream.csv"
    results: list[Row] = []
    if path.exists():
        with path.open(newline="") as file:
            results = list(csv.DictReader(file))
    done = {(row["part"] == "stream", row["name"], row["seed"]) for row in results}
    kinds = [*KINDS, *(f"digit {digit}" for digit in range(10))]
    names = [*((True, name) for name in STREAMS), *((False, name) for name in kinds)]
    tasks = [(*what, seed) for seed in range(SEEDS) for what in names]
    tasks = [(is_stream, name, seed) for is_stream, name, seed in tasks if (is_stream, name, str(seed)) not in done]
    for is_stream, name, seed in [] if only_page else tasks:
        with warnings.catch_warnings(action="ignore", category=TableWarning):
            results += (run_stream if is_stream else run_kind)(name, seed)
        with replacing(path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(results)
        print(name, seed, flush=True)
    (RESULTS / "stream.md").write_text(page(results))
    figure = draw(results)
    for suffix in ("svg", "png"):
        metadata = {"Date": None} if suffix == "svg" else None
        figure.savefig(RESULTS / "figures" / f"stream.{suffix}", dpi=120, metadata=metadata)


if __name__ == "__main__":
    main()
