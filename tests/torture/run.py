"""``make torture``: many hostile cases of every kind, each from a seed; what was done is not done again.

    python tests/torture/run.py [--only frames,files] [--many 1000] [--minutes 60]

Every case is a line of ``build/torture.jsonl``. A case that was begun and is not there has crashed the process, which
is a failure, too. At the end, or when the time is over, ``results/torture.md`` has the counts of all lines.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
JOURNAL, SUMMARY = ROOT / "build" / "torture.jsonl", ROOT / "results" / "torture.md"
KINDS = ("frames", "files", "models", "savers", "limits", "kills", "together", "page", "soak")
_INTERRUPTED = "interrupted"
_AT_ONCE = 1000  # cases in one process

sys.path.insert(0, str(ROOT / "tests"))


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
    SUMMARY.write_text(summary(), encoding="utf-8")


def missing(kind: str, many: int) -> list[int]:
    """The seeds that were not begun, or interrupted by the user."""
    last = {line["seed"]: line["outcome"] for line in journal() if line["kind"] == kind}
    begun = {seed for seed, outcome in last.items() if outcome != _INTERRUPTED}
    return [seed for seed in range(many) if seed not in begun]


def journal() -> Iterator[dict[str, Any]]:
    """All lines; of a case that was begun and ended, both."""
    if JOURNAL.exists():
        yield from map(json.loads, JOURNAL.read_text(encoding="utf-8").splitlines())


def work_off(kind: str, seeds: range, until: float) -> None:
    """Do some cases, one after the other, until a time of the monotonic clock."""
    begun = set(range(seeds.stop)) - set(missing(kind, seeds.stop))
    module = importlib.import_module(f"torture.{kind}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with JOURNAL.open("a", encoding="utf-8") as file:
        for seed in seeds:
            if seed in begun or time.monotonic() > until:
                continue
            print(json.dumps({"kind": kind, "seed": seed, "outcome": None}), file=file, flush=True)
            ended = {"kind": kind, "seed": seed, **attempt(module, seed)}
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


def summary() -> str:
    """The counts of the journal as a page."""
    from torture.outcomes import ALLOWED

    last = {(line["kind"], line["seed"]): line for line in journal()}
    last = {case: line for case, line in last.items() if line["outcome"] != _INTERRUPTED}
    counts: dict[str, Counter[str]] = {}
    for (kind, _), line in last.items():
        counts.setdefault(kind, Counter())[line["outcome"] or "failure"] += 1
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
    for kind, found in sorted(counts.items()):
        about = (importlib.import_module(f"torture.{kind}").__doc__ or "").splitlines()[0]
        text.append(f"| {kind} | {found.total()} | {' | '.join(str(found[name]) for name in outcomes)} | {about} |")
    failed = [(*key, line) for key, line in sorted(last.items()) if line["outcome"] in (None, "failure")]
    if failed:
        text += ["", "## Failures", ""]
        for kind, seed, line in failed:
            reason = line.get("trace", "the process crashed").strip().splitlines()[-1][:300]
            text.append(f"* {kind}, seed {seed}: `{reason}`")
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    main()
