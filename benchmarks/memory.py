"""Memory needed to score a million rows above the loaded model and table (Linux).

python benchmarks/memory.py [rows]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import nptad


def resident(field: str) -> float:
    """VmRSS (now) or VmHWM (peak) of this process in MiB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Fit a small model with a context of 1,000 rows, save, load, score."""
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        train = random.normal(size=(1000, 13))
        nptad.NPTAD(n_members=1, n_steps=5, embedding_dim=8, max_masked=1, random_state=0).fit(train).save(
            f"{folder}/model"
        )
        detector = nptad.load(f"{folder}/model")
    table = random.normal(size=(n_rows, 13))
    detector.score_samples(table[:10_000])  # the context cache belongs to the loaded model
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = resident("VmRSS")
    started = time.perf_counter()
    scores = detector.score_samples(table)
    seconds = time.perf_counter() - started
    print(
        f"{len(scores):,} rows x 13 columns, context 1,000, 13 masks: {resident('VmHWM') - before:.0f} MiB above the "
        f"loaded model and table, {n_rows / seconds:,.0f} rows per second."
    )


if __name__ == "__main__":
    main()
