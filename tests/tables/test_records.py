"""Rows one by one are what columns of such cells are, and no row changes another."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nptad.tables.encode import encode, encode_cells, match
from nptad.tables.frames import read_columns
from nptad.tables.records import read_records, record_problem
from nptad.tables.schema import learn_schema

ROWS = 60
random = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "size": random.normal(size=ROWS).round(3),
        "count": random.integers(0, 50, ROWS),
        "price": [f"${1000 + 7 * i:,}.50" for i in range(ROWS)],
        "colour": random.choice(["red", "blue", "7", "true"], ROWS),
        "paid": random.choice([True, False], ROWS),
        "agreed": random.choice(["yes", "no"], ROWS),
        "day": np.datetime64("2026-01-01") + random.integers(0, 300, ROWS).astype("timedelta64[D]"),
        "lasts": [f"{i % 24:02d}:{i:02d}:00" for i in range(ROWS)],
    }
)
SCHEMA = learn_schema(read_columns(TABLE))


def encoded(records, schema=SCHEMA):
    return encode_cells(schema, match(schema, read_records(schema, records)))


def records_of(table):
    return json.loads(table.assign(day=table["day"].dt.strftime("%Y-%m-%d")).to_json(orient="records"))


def test_all_contents_are_tried():
    contents = {column.content for column in SCHEMA.used}
    assert contents == {"number", "text", "boolean", "time", "duration"}
    assert {column.name for column in SCHEMA.used if column.convention} >= {"price", "agreed"}


def test_records_are_encoded_as_a_table_with_these_cells_is():
    np.testing.assert_array_equal(encoded(records_of(TABLE)), encode(SCHEMA, TABLE))


def test_a_cell_that_is_not_there_is_missing_and_one_of_another_kind_is_odd():
    good = records_of(TABLE)[0]
    rows = [{**good, "size": None, "colour": None}, {**good, "size": "oops", "colour": 7, "day": 3, "paid": 2}]
    del rows[0]["count"]
    x = dict(zip([column.name for column in SCHEMA.used], encoded(rows).T, strict=True))
    assert np.isnan([x[name][0] for name in ("size", "colour", "count")]).all()
    assert np.isinf([x[name][1] for name in ("size", "day")]).all()
    assert x["paid"][1] == -1  # a value that training did not see
    assert x["colour"][1] == encoded([{**good, "colour": "7"}])[0, list(x).index("colour")]
    assert np.isinf(encoded([{**good, "size": 10**400}])).any()


cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=6),
    st.sampled_from(["1,5", "1.5", "$2,000.50", "12 €", "31/01/2026", "1/31/2026", "2026-01-31", "yes", "08:30"]),
)
rows = st.fixed_dictionaries({}, optional=dict.fromkeys(TABLE.columns, cells))


@settings(max_examples=50)
@given(st.lists(rows, max_size=6))
def test_a_row_is_the_same_alone_and_in_company(records):
    together = encoded(records)
    alone = [encoded([record])[0] for record in records]
    assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(together, alone, strict=True))


def test_how_others_write_does_not_decide_how_a_cell_is_read():
    """A column of numbers has no convention: each text shows its own."""
    x = encoded([{"size": "1,5"}] * 9 + [{"size": "1.5"}])
    np.testing.assert_array_equal(x[0], x[-1])


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"size": 1.0}, "The row has 1 of the 8 columns of the model, which needs half of them; add count, price,"),
        ({"size": {"a": 1}}, "The row has a list or an object in column 'size'; give each"),
        (dict.fromkeys(list(TABLE)[:4]), None),
    ],
)
def test_a_row_that_cannot_be_scored_is_told(row, problem):
    found = record_problem(SCHEMA, row)
    assert found is None if problem is None else found.startswith(problem)
