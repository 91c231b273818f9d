"""Damaged files: read whole and in parts they are the same table, or the same sentence."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from mutated_files import FILES, INSERTED, mutated, outcome, read_in_parts
from nptad.io import text
from nptad.io.read import read_table
from torture.outcomes import REFUSED, RESULT, Failure

SAMPLE = range(200)
MANY = 10_000


def case(seed: int, folder: Path) -> str:
    """One file."""
    random = Random(seed)
    suffix, data = random.choice(FILES)
    path = folder / f"x{suffix if random.random() < 0.9 else random.choice(FILES)[0]}"
    path.write_bytes(mutated(data, [_mutation(random) for _ in range(random.choice([1, 1, 2, 4, 8]))]))
    kept, text.BLOCK_BYTES = text.BLOCK_BYTES, random.choice([64, text.BLOCK_BYTES])
    try:
        whole = outcome(read_table, path)
        if path.suffix != ".jsonl" and (in_parts := outcome(read_in_parts, path)) != whole:
            raise Failure(f"whole: {str(whole)[:300]}, in parts: {str(in_parts)[:300]}")
    finally:
        text.BLOCK_BYTES = kept
    if not isinstance(whole, str):
        return RESULT
    if not whole.strip() or "\n" in whole:
        raise Failure(f"not one sentence: {whole!r}")
    return REFUSED


def _mutation(random: Random) -> tuple[str, float, Any]:
    kind = random.choice(["flip", "flip", "insert", "delete", "cut"])
    how = {"flip": random.randrange(8), "insert": random.choice(INSERTED), "delete": random.randint(1, 40), "cut": None}
    return kind, random.random(), how[kind]
