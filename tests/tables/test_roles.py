"""Columns that only identify a row are set aside, everywhere in the same way; measurements are not."""

from __future__ import annotations

import warnings
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from nptad import NPTAD, TableWarning, detect_table, load, score_table
from nptad.tables.schema import learn_schema
from nptad.web.columns import describe_columns

N = 60
ROWS = np.arange(N)
RANDOM = np.random.default_rng(0)
WORDS = ["the", "parcel", "was", "late", "nobody", "at", "depot", "could", "say", "why", "it", "came", "back"]

COLUMNS = {
    # Name: its cells and the role that it has.
    "order": ([f"A-{row}" for row in ROWS], "identifier"),
    "car": ([f"model {row // 2 if row < 20 else row}" for row in ROWS], "names"),
    "remark": ([" ".join(RANDOM.choice(WORDS, 8)) for _ in ROWS], "free text"),
    "tags": ([[int(row)] for row in ROWS], "nested"),
    "row": (ROWS + 1, "sequence"),
    "line": (10 * ROWS + ROWS % 3, "sequence"),
    "shuffled": (RANDOM.permutation(N) + 1000, "identifier"),
    "customer_id": (RANDOM.permutation(10**6)[:N], "identifier"),
    "written": ([datetime(2024, 1, 1) + timedelta(minutes=7 * int(row)) for row in ROWS], "sequence"),
    "nothing": ([None] * N, "empty"),
    "length": (RANDOM.normal(size=N), ""),
    "sorted length": (np.sort(RANDOM.normal(size=N)), ""),
    "population": (RANDOM.lognormal(10, 2, N).astype(int), ""),
    "sorted population": (np.sort(RANDOM.lognormal(10, 2, N).astype(int)), ""),
    "year": (1990 + ROWS % 30, ""),
    "visit": ([datetime(2024, 1, 1) + timedelta(hours=int(hour)) for hour in RANDOM.integers(0, 900, N)], ""),
    "postcode": ([f"{code:05}" for code in RANDOM.integers(0, 9, N)], ""),
    "colour": (["red", "blue", "green"] * 20, ""),
}
TABLE = pd.DataFrame({name: list(cells) for name, (cells, _) in COLUMNS.items()})
ROLES = {name: role for name, (_, role) in COLUMNS.items()}


def test_every_column_has_its_role():
    with pytest.warns(TableWarning, match=r"\('order', 'shuffled', 'customer_id'\) are identifiers"):
        schema = learn_schema(TABLE)
    assert {column.name: column.role for column in schema.columns} == ROLES
    assert {column.name: column.kind == "ignored" for column in schema.columns} == {
        n: r != "" for n, r in ROLES.items()
    }


def test_the_page_proposes_the_same():
    described = describe_columns(pa.Table.from_pandas(TABLE, preserve_index=False))
    assert {column["name"]: column["use"] == "ignore" for column in described} == {n: r != "" for n, r in ROLES.items()}


@pytest.mark.parametrize("name", [name for name, role in ROLES.items() if role not in ("", "nested", "empty")])
def test_a_user_may_use_such_a_column(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        assert learn_schema(TABLE, {name: "category"}).columns[list(ROLES).index(name)].kind == "categorical"


def test_in_an_array_without_names_nothing_is_set_aside():
    assert [column.kind for column in learn_schema(np.stack([ROWS, ROWS + 7.0], axis=1)).columns] == ["numeric"] * 2


def test_few_rows_may_differ_by_chance():
    assert learn_schema(pd.DataFrame({"a": range(19), "b": [str(row) + "x" for row in range(19)]})).ignored == ()


def test_a_model_remembers_what_was_set_aside(tmp_path):
    table = TABLE[["order", "length", "colour", "year"]].assign(known=0)
    with pytest.warns(TableWarning, match="'order'"):
        found = detect_table(table, NPTAD(random_state=0), ignore=["year"], label="known")
    assert found.keys.column_names == ["year", "order"]
    assert found.table().column_names[:4] == ["row", "year", "order", "known"]
    found.detector.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    again = score_table(loaded, table)
    assert again.detection.notes == ()
    assert again.keys.column_names == ["order", "year", "known"]
    np.testing.assert_array_equal(again.detection.score, found.detection.score)
    np.testing.assert_array_equal(loaded.detect(table[["length", "colour"]]).score, found.detection.score)
