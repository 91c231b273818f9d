"""A small fitted detector on a table full of hostile texts, and what it found."""

from __future__ import annotations

import copy
import random
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from nptad import NPTAD, TableWarning
from nptad.report import summarise
from nptad.wording import shorten
from table_results import result_of

SCRIPT = "<script>alert('cell')</script>"
HOSTILE = (
    SCRIPT,
    SCRIPT * 400,
    "</script><script>alert(2)</script>",
    "\"'><img src=x onerror=alert(3)>",
    "<!-- <script>",
    "=HYPERLINK('http://example.invalid','x')",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt; &amp;",
    "👩‍👩‍👧‍👦 😀",
    "שלום עולם",
    "مرحبا 123",
    "\u202eturned around\u202c",
    "line\u2028and\u2029paragraph",
    "nul\x00 bell\x07 return\r\n tab\t",
    "lone \ud800 surrogate",
    "x" * 10_000,
    "",
    "   ",
)
NAMES = {"colour": "<script>alert('name')</script>", "shape": "שם </script>", "label": "n" * 10_000}


def hostile_tables() -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Training rows, new rows with anomalies, and which of them those are."""
    random_numbers = np.random.default_rng(0)
    x = random_numbers.normal(size=(160, 1))
    table = pd.DataFrame(np.hstack([x, 2 * x, -x]), columns=["a", "b", "c"])
    table["when"] = pd.Timestamp("2025-01-01") + pd.to_timedelta((100 * x[:, 0]).round(), unit="h")
    for name in NAMES.values():
        words = np.where(x[:, 0] > 0, "up", "down")
        table[name] = pd.Series(words, dtype=object)  # which may hold a lone surrogate
    table.loc[::7, "c"] = np.nan
    train, new = table.iloc[:100].copy(), table.iloc[100:].reset_index(drop=True)
    places = list(range(0, 60, 3))[: len(HOSTILE)]
    new.loc[places, NAMES["colour"]] = list(HOSTILE)
    new.loc[places, "b"] += 9
    train.loc[train.index[:3], NAMES["shape"]] = SCRIPT  # a hostile text among the known categories too
    truth = np.zeros(60, dtype=int)
    truth[places] = 1
    return train, new, truth


@pytest.fixture(scope="session")
def case() -> tuple[Any, ...]:
    """Detector, new rows, detection and labels."""
    train, new, truth = hostile_tables()
    detector = NPTAD(n_members=2, n_steps=30, embedding_dim=8, max_masked=1, random_state=3).fit(train)
    return detector, new, detector.detect(new, fdr=0.2), truth


@pytest.fixture(scope="session")
def keys(case: tuple[Any, ...]) -> pa.Table:
    """Columns that tell the rows apart."""
    numbers = [f"order {100 - row}" for row in range(len(case[1]))]
    return pa.table([numbers, [None, SCRIPT] * (len(numbers) // 2)], ["order", SCRIPT])


@pytest.fixture(scope="session")
def summary(case: tuple[Any, ...], keys: pa.Table) -> dict[str, Any]:
    detector, new, found, truth = case
    assert found.anomaly.sum() >= 10
    source, command = f"{SCRIPT}.csv", f"nptad detect {SCRIPT}"
    return summarise(result_of(detector, new, found, keys=keys, labels=truth), source=source, command=command)


@pytest.fixture(scope="session")
def quiet_summary(case: tuple[Any, ...]) -> dict[str, Any]:
    """Nothing is flagged, and there are no labels."""
    detector, *_ = case
    train, *_ = hostile_tables()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        return summarise(result_of(detector, train, detector.detect(train, fdr=0.02)))


@pytest.fixture(scope="session")
def large_summary(summary: dict[str, Any]) -> dict[str, Any]:
    """200 anomalies x 50 columns, a third of the names and cells hostile."""
    draw = random.Random(0)
    names = [shorten(HOSTILE[i % 16]) if i % 3 == 0 else f"measurement {i}" for i in range(50)]

    def cell() -> str | float:
        return shorten(draw.choice(HOSTILE)) if draw.random() < 1 / 3 else draw.gauss(0, 100)

    large, shares = copy.deepcopy(summary), []
    large["anomalies"] = []
    for row in range(200):
        weights = sorted((draw.paretovariate(1) for _ in range(50)), reverse=True)
        part = [round(weight / sum(weights), 4) for weight in weights]
        reasons = [
            {
                "column": names[(row + 7 * j) % 50],
                "seen": cell(),
                "expected": cell(),
                "contribution": part[j],
                "share": part[j],
                "probability": 0.01,
                "nearest": cell() if j % 2 else None,
                "suspicious": False,
                "similar": {"low": cell(), "high": cell(), "n_inside": 8, "n_rows": 10, "has_seen": False}
                if j % 3 == 0
                else None,
                "view": None,
                "column_number": (row + 7 * j) % 50,
                "position": draw.choice([-1.0, 0.3, 2.0, None]),
            }
            for j in range(10)
        ]
        anomaly = copy.deepcopy(summary["anomalies"][row % len(summary["anomalies"])])
        anomaly |= {"row": row, "reasons": reasons, "others": {"n": 40, "share": round(sum(part[10:]), 4)}}
        large["anomalies"].append(anomaly)
        shares.append(draw.sample(part, 50))
    large["heat_map"] = {"columns": names, "shares": shares}
    large["schema"] = [summary["schema"][i % 7] | {"name": names[i]} for i in range(50)]
    return large
