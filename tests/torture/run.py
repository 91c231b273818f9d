"""``make torture``: many hostile cases of every kind, each from a seed; what was done is not done again.

    python tests/torture/run.py [--only frames,files] [--many 1000] [--minutes 60]

Every case is a line of ``build/torture.jsonl``. A case that was begun and is not there has crashed the process, which
is a failure, too. At the end, or when the time is over, the counts of all seeds without failure go to
``results/torture.csv``, with the commit that was run, and their sums to ``results/torture.md``. These seeds are not run
again, even if the journal is lost. To repeat failures, delete the journal; to begin anew, both.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
JOURNAL = ROOT / "build" / "torture.jsonl"
RUNS, SUMMARY = ROOT / "results" / "torture.csv", ROOT / "results" / "torture.md"
KINDS = ("frames", "files", "models", "savers", "limits", "kills", "together", "page", "soak")
_INTERRUPTED = "interrupted"
_AT_ONCE = 1000  # cases in one process

sys.path.insert(0, str(ROOT / "tests"))


class Run(NamedTuple):
    """Cases of one kind with seeds in a row and without failure."""

    kind: str
    first: int
    end: int
    """The seed after the last."""
    code: str
    """The commit that was run."""
    counts: Counter[str]
    """How many had which outcome."""


def main() -> None:
    """Run what is left to do, then write the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of cases, separated by commas")
    parser.add_argument("--many", type=int, help="cases of each kind; by default as many as the kind says")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after this time")
    parser.add_argument("--seeds", nargs=3, help=argparse.SUPPRESS)  # what a process of ours does: kind, first, end
    chosen = parser.parse_args()
    until = time.monotonic() + 60 * chosen.minutes
    if chosen.seeds:
        work_off(chosen.seeds[0], range(int(chosen.seeds[1]), int(chosen.seeds[2])), until)
        return
    JOURNAL.parent.mkdir(exist_ok=True)
    for kind in chosen.only.split(","):
        many = chosen.many or importlib.import_module(f"torture.{kind}").MANY
        while (left := missing(kind, many)) and time.monotonic() < until:
            first, end = left[0], min(left[0] + _AT_ONCE, many)
            minutes = (until - time.monotonic()) / 60
            command = [sys.executable, __file__, "--seeds", kind, str(first), str(end), "--minutes", str(minutes)]
            with (JOURNAL.parent / "torture.log").open("ab") as log:
                subprocess.run(command, check=False, stderr=log, env={**os.environ, "RUST_BACKTRACE": "0"})
            if missing(kind, many) == left and time.monotonic() < until:
                sys.exit(f"The cases of {kind} cannot be run; {log.name} says why.")
            print(f"{kind}: {end} of {many}", flush=True)
    write_down(all_runs())
    SUMMARY.write_text(summary(runs(), failures()), encoding="utf-8")


def missing(kind: str, many: int) -> list[int]:
    """The seeds that no run has, and that were not begun, or interrupted by the user."""
    begun = {seed for found, seed in [*journal(), *written()] if found == kind}
    return [seed for seed in range(many) if seed not in begun]


def journal() -> dict[tuple[str, int], dict[str, Any]]:
    """The last line of every case, by kind and seed, but for those that were interrupted."""
    if not JOURNAL.exists():
        return {}
    lines = map(json.loads, JOURNAL.read_text(encoding="utf-8").splitlines())
    last = {(line["kind"], line["seed"]): line for line in lines}
    return {case: line for case, line in last.items() if line["outcome"] != _INTERRUPTED}


def failures() -> dict[tuple[str, int], str]:
    """Why cases in the journal failed."""
    return {
        case: line.get("trace", "the process crashed").strip().splitlines()[-1][:300]
        for case, line in sorted(journal().items())
        if line["outcome"] in (None, "failure")
    }


def runs() -> list[Run]:
    """The runs that are written down."""
    if not RUNS.exists():
        return []
    with RUNS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Run(row.pop("kind"), int(row.pop("first")), int(row.pop("end")), row.pop("code"), Counter(_numbers(row)))
        for row in rows
    ]


def _numbers(row: dict[str, str]) -> dict[str, int]:
    return {name: int(text) for name, text in row.items()}


def written() -> set[tuple[str, int]]:
    """Kind and seed of all cases that are written down."""
    return {(run.kind, seed) for run in runs() for seed in range(run.first, run.end)}


def all_runs() -> list[Run]:
    """The runs that are written down, and what the journal has beyond them; no seed is counted twice."""
    left_out, found = written() | set(failures()), runs()
    for (kind, seed), line in sorted(journal().items()):
        if (kind, seed) in left_out:
            continue
        if not found or (found[-1].kind, found[-1].end, found[-1].code) != (kind, seed, line["code"]):
            found.append(Run(kind, seed, seed, line["code"], Counter()))
        last = found[-1]
        found[-1] = last._replace(end=seed + 1, counts=last.counts + Counter([line["outcome"]]))
    return sorted(found, key=lambda run: run[:2])


def write_down(found: list[Run]) -> None:
    """Write runs to be read by :func:`runs`."""
    from torture.outcomes import ALLOWED

    with RUNS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kind", "first", "end", "code", *ALLOWED])
        writer.writerows([*run[:4], *(run.counts[name] for name in ALLOWED)] for run in found)


def work_off(kind: str, seeds: range, until: float) -> None:
    """Do some cases, one after the other, until a time of the monotonic clock."""
    begun = set(range(seeds.stop)) - set(missing(kind, seeds.stop))
    module = importlib.import_module(f"torture.{kind}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    code = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    with JOURNAL.open("a", encoding="utf-8") as file:
        for seed in seeds:
            if seed in begun or time.monotonic() > until:
                continue
            case = {"kind": kind, "seed": seed, "code": code}
            print(json.dumps({**case, "outcome": None}), file=file, flush=True)
            ended = {**case, **attempt(module, seed)}
            print(json.dumps(ended), file=file, flush=True)
            if ended["outcome"] == _INTERRUPTED:
                sys.exit(_INTERRUPTED)


def attempt(module: Any, seed: int) -> dict[str, Any]:
    """The outcome of a case, and what went wrong if it is a failure."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            return {"outcome": module.case(seed, Path(folder))}
        except KeyboardInterrupt:
            return {"outcome": _INTERRUPTED}
        except Exception:
            return {"outcome": "failure", "trace": traceback.format_exc()[-3000:]}


def summary(found: list[Run], failed: dict[tuple[str, int], str]) -> str:
    """Runs and failures as a page."""
    from torture.outcomes import ALLOWED

    counts: dict[str, Counter[str]] = {}
    for kind, counted in [
        *((run.kind, run.counts) for run in found),
        *((kind, Counter(["failure"])) for kind, _ in failed),
    ]:
        counts[kind] = counts.get(kind, Counter()) + counted
    outcomes = [*ALLOWED, "failure"]
    text = [
        "# Hostile cases",
        "",
        "Written by `make torture`. Every case is made from its seed; a failure names it.",
        "",
    ]
    text += [f"* {name}: {meaning}" for name, meaning in ALLOWED.items()]
    text += ["* failure: anything else, a crash of the process included", ""]
    text += [f"| kind | cases | {' | '.join(outcomes)} | what it is |", f"|---|{'--:|' * (len(outcomes) + 1)}---|"]
    for kind, sums in sorted(counts.items()):
        about = (importlib.import_module(f"torture.{kind}").__doc__ or "").splitlines()[0]
        text.append(f"| {kind} | {sums.total()} | {' | '.join(str(sums[name]) for name in outcomes)} | {about} |")
    if failed:
        text += ["", "## Failures", "", *(f"* {kind}, seed {seed}: `{why}`" for (kind, seed), why in failed.items())]
    text += ["", "## Runs", "", "Each seed is counted once, with the commit that it was run on.", ""]
    text += ["| kind | seeds | commit |", "|---|---|---|"]
    text += [f"| {run.kind} | {run.first} to {run.end - 1} | {run.code} |" for run in found]
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    main()
