"""The stored runs of classical methods agree with figures that others have computed on the same data."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from nptad.bench.series import MethodColumn, gather
from nptad.bench.store import read_records

ROOT = Path(__file__).parents[2]
REFERENCE = (
    Path(os.environ.get("NPTAD_DATA") or ROOT.parent / "shared" / "data").parent / "reference" / "classical_f1.csv"
)
NAMES = {"iforest": "iforest", "knn": "knn5_std", "1nn": "knn1_minmax", "lof": "lof20_minmax"}
"""Our names of the methods, and those of the file."""


@pytest.mark.skipif(not REFERENCE.exists(), reason="needs reference/classical_f1.csv beside NPTAD_DATA or in ../shared")
@pytest.mark.parametrize("method", NAMES)
def test_f1_is_that_of_the_reference_but_for_the_splits(method):
    with REFERENCE.open(encoding="utf-8", newline="") as file:
        reference = {row["dataset"]: float(row["f1"]) for row in csv.DictReader(file) if row["method"] == NAMES[method]}
    results = gather(read_records(ROOT / "results" / "runs"))
    differences = [
        results[MethodColumn(method, ""), name].values().mean() - f1
        for name, f1 in reference.items()
        if (MethodColumn(method, ""), name) in results
    ]
    assert len(differences) >= 15
    assert abs(np.mean(differences)) < 2
