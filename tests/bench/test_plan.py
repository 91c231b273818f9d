"""The committed runs are what benchmarks/plan.sh makes."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from nptad.bench.commands import _plan
from nptad.bench.run import wanted_runs
from nptad.bench.series import is_current
from nptad.bench.store import key_of, read_records

ROOT = Path(__file__).parents[2]


def planned_keys():
    """The keys of all runs that the plan asks for, from its commands."""
    script = subprocess.run(
        ["bash", ROOT / "benchmarks" / "plan.sh"],
        env={**os.environ, "BENCH": "echo"},
        capture_output=True,
        text=True,
        check=True,
    )
    for line in script.stdout.splitlines():
        words = shlex.split(line)
        options: dict[str, list[str]] = {}
        for name, value in zip(words[::2], words[1::2], strict=True):
            options.setdefault(name, []).append(value)
        known = [options[name][0] for name in ("--methods", "--datasets", "--seeds")]
        preset = options.get("--preset", ["paper"])[0]
        for task in wanted_runs(_plan("paper", *known, preset, options.get("--set"))):
            yield key_of(task.record(task.seeds[0], "done"))


def test_every_committed_run_is_one_that_the_plan_makes():
    planned = set(planned_keys())
    tried = {  # before the settings that the plan has now; the page lists them
        ("backdoor", "npt-ad"),
        ("campaign", "npt-ad"),
        ("fraud", "npt-ad"),
    }
    stray = [
        key_of(record)
        for record in read_records(ROOT / "results" / "runs")
        if record["outcome"] == "done" and is_current(record) and key_of(record) not in planned
    ]
    assert {key[:2] for key in stray} <= tried
    assert len(stray) <= len(tried), stray
