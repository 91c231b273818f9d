"""Rows like the training rows do not drift, whatever their columns are like."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from nptad import TableWarning
from nptad.explain.batch import training_cells
from nptad.scoring import drift
from nptad.scoring.drift import find_changes
from nptad.tables.encode import encode
from nptad.tables.schema import learn_schema

CATEGORICAL = ("alike", "names", "long tail")


def table(random, n):
    """Columns that make such tests difficult: ties, gaps, many rare categories, a long tail of them."""
    ranks = random.zipf(1.3, n)
    return pd.DataFrame(
        {
            "normal": random.normal(size=n),
            "ties": random.integers(0, 5, n),
            "gaps": np.where(random.random(n) < 0.1, np.nan, random.normal(size=n)),
            "few": random.choice(list("abcdef"), n, p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.02]),
            "alike": [f"e{i}" for i in random.integers(0, n // 10, n)],
            "names": [f"o{i}" for i in random.integers(0, n, n)],
            "long tail": [f"z{min(rank, 10**6)}" for rank in ranks],
        }
    )


@pytest.mark.parametrize(("n_training", "n_batch"), [(200, 40), (400, 400), (1000, 100)])
def test_held_out_rows_drift_no_more_often_than_promised(monkeypatch, n_training, n_batch):
    monkeypatch.setattr(drift, "FALSE_DRIFT", 0.05)
    found = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        rows = table(random, n_training + n_batch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            schema = learn_schema(rows[:n_training], dict.fromkeys(CATEGORICAL, "category"))
        known = training_cells(schema, encode(schema, rows[:n_training]))
        found += [schema.used[c.column].name for c in find_changes(encode(schema, rows[n_training:]), known)[:1]]
    # At the promised rate 2 of 40 are expected, and more than 6 less often than once in 100 times.
    assert len(found) <= 6, found


def test_the_tests_have_power_at_the_promised_rate():
    random = np.random.default_rng(0)
    rows = table(random, 600)
    schema = learn_schema(rows[:400], {"alike": "category", "names": "ignore", "long tail": "ignore"})
    known, batch = training_cells(schema, encode(schema, rows[:400])), rows[400:].copy()
    batch["normal"] *= 3
    batch["few"] = random.permutation(list("abcdef") * 34)[:200]
    batch["alike"] = batch["alike"].str.upper()
    batch.loc[batch.index[:50], "gaps"] = np.nan
    changes = {schema.used[c.column].name: c.kind for c in find_changes(encode(schema, batch), known)}
    assert changes == {"normal": "numbers", "gaps": "missing", "few": "categories", "alike": "unseen"}


def test_a_few_rows_show_nothing():
    rows = table(np.random.default_rng(0), 400)
    schema = learn_schema(rows[["normal"]])
    known = training_cells(schema, encode(schema, rows[["normal"]]))
    assert find_changes(encode(schema, rows[["normal"]][:19] + 50), known) == []
    assert len(find_changes(encode(schema, rows[["normal"]][:20] + 50), known)) == 1


def test_the_training_table_does_not_drift_from_itself_whatever_its_infinite_cells():
    rows = pd.DataFrame({"few": [7.0, np.inf] * 30, "flag": [True, None, True, False, False, True] * 10})
    with pytest.warns(TableWarning):
        schema = learn_schema(rows)
    encoded = encode(schema, rows)
    assert find_changes(encoded, training_cells(schema, encoded)) == []
