"""How far scores move with the last bit of float32: what stands in the way of computing them elsewhere.

    python benchmarks/last_bit.py          # seconds; writes results/last_bit.md

Another runtime adds in another order, so that what a view says of a row may differ in its last bits. And it may take
numbers as float32 only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from load import made_table
from nptad import NPTAD
from nptad.io.atomic import replacing
from nptad.scoring.view_score import ViewScore, as_seen
from nptad.tables.encode import encode

RESULT = Path(__file__).parents[1] / "results" / "last_bit.md"
TABLES, TRAINING_ROWS, NEW_ROWS = 3, 2000, 2000
LAST_BIT = float(np.finfo(np.float32).eps) / 2
LIMITS = (1e-5, 0.01, 0.1)


def changes(seed: int) -> np.ndarray:
    """By which share of it the score of each new row changes, (2, n): with its views, and as float32."""
    detector = NPTAD(random_state=0).fit(made_table(TRAINING_ROWS, seed=2 * seed))
    scorer, random = detector.model_.scorer, np.random.default_rng(seed)
    assert isinstance(scorer, ViewScore)
    table = made_table(NEW_ROWS, seed=2 * seed + 1)
    x = encode(detector.schema_, table)
    by_view = [view.score(as_seen(view, x, scorer.rows)) for view in scorer.views]
    moved = [said * random.choice([1 - LAST_BIT, 1 + LAST_BIT], said.shape) for said in by_view]
    single = table.astype(dict.fromkeys(table.select_dtypes("float64"), "float32"))
    scores = scorer.surprise.score(by_view)
    others = np.stack([scorer.surprise.score(moved), scorer.score(encode(detector.schema_, single))])
    return np.abs(others - scores) / np.maximum(scores, np.finfo(float).tiny)


def main() -> None:
    """Measure, and write the page."""
    changed = np.concatenate([changes(seed) for seed in range(TABLES)], axis=1)
    lines = [
        "# The last bit",
        "",
        f"`python benchmarks/last_bit.py`: {TABLES} tables of {TRAINING_ROWS:,} rows and 20 columns as in `load.py`,",
        f"and {NEW_ROWS:,} new rows for each.",
        "",
        f"| what differs | scores that change by more than {LIMITS[0]:g} | by 1 % | by 10 % |",
        "|---|---:|---:|---:|",
    ]
    for name, rows in zip(("what each view says, by half a bit", "numbers come as float32"), changed, strict=True):
        lines.append(f"| {name} | {' | '.join(f'{np.mean(rows > limit):.2%}' for limit in LIMITS)} |")
    with replacing(RESULT) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
