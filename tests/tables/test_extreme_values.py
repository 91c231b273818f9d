"""Values at the ends of what a type can hold, and beyond: read exactly as numbers, or refused in one sentence."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from nptad.errors import InputError
from nptad.tables.frames import read_columns, to_arrow

EAST, WEST = dt.timezone(dt.timedelta(hours=14)), dt.timezone(dt.timedelta(hours=-14))
FAR = 2**62


def objects(*values):
    return pd.DataFrame({"a": pd.Series(values, dtype=object)})


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (objects(10**400, -(10**400), None), [np.inf, -np.inf, np.nan]),
        (pa.table({"a": pa.array([FAR, 1, None], pa.timestamp("s"))}), [float(FAR), 1, np.nan]),
        (pa.table({"a": pa.array([FAR, 1, None], pa.timestamp("ms", "Asia/Tokyo"))}), [FAR / 1e3, 1e-3, np.nan]),
        (pa.table({"a": pa.array([FAR, 1, None], pa.duration("s"))}), [float(FAR), 1, np.nan]),
        (pa.table({"a": pa.array([FAR, 1], pa.duration("ns"))}), [FAR / 1e9, 1e-9]),
        (pa.table({"a": pa.array([2**30, 1, None], pa.date32())}), [2**30 * 86400.0, 86400, np.nan]),
        (
            pl.DataFrame({"a": pl.Series([2**30, 1, None], dtype=pl.Int32).cast(pl.Date)}),
            [2**30 * 864e2, 864e2, np.nan],
        ),
        (pl.DataFrame({"a": pl.Series([FAR, 1, None]).cast(pl.Datetime("ms"))}), [FAR / 1e3, 1e-3, np.nan]),
        (pl.DataFrame({"a": pl.Series([FAR, 1]).cast(pl.Datetime("us", "Europe/Berlin"))}), [FAR / 1e6, 1e-6]),
        (pl.DataFrame({"a": pl.Series([FAR, 1, None]).cast(pl.Duration("ms"))}), [FAR / 1e3, 1e-3, np.nan]),
        (pd.DataFrame({"a": np.array([FAR, 1], "M8[s]")}), [float(FAR), 1]),
        (pd.DataFrame({"a": pd.Series(np.array([FAR, 1], "m8[s]"))}), [float(FAR), 1]),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01", None]).tz_localize("Europe/Berlin")}), [1577833200, np.nan]),
        (np.array([[FAR], ["NaT"]], "M8[s]"), [float(FAR), np.nan]),
        (np.array([["2001"], ["NaT"]], "M8[Y]"), [978307200, np.nan]),
        (np.array([[3], [1]], "m8[W]"), [3 * 604800, 604800]),
        (objects(Decimal("NaN"), Decimal("sNaN"), Decimal("1.5")), [np.nan, np.nan, 1.5]),
    ],
)
def test_values_at_the_ends_are_read_as_they_are(table, expected):
    (cells,) = read_columns(table).cells.values()
    np.testing.assert_array_equal(cells, np.array(expected, float))


@pytest.mark.parametrize(
    "table",
    [
        objects(dt.datetime(9999, 12, 31, tzinfo=WEST), dt.datetime(1, 1, 1, tzinfo=EAST)),
        objects(pd.Timestamp("0001-01-01", tz="Asia/Tokyo"), pd.NaT),
        objects(np.datetime64(2**40, "Y"), np.datetime64("2020")),
        objects(np.timedelta64(FAR, "s"), np.timedelta64(1, "Y")),
        np.array([[2**40]], "M8[Y]"),
        np.array([[FAR]], "m8[M]"),
        pa.table({"a": pa.array([FAR, 1], pa.date64())}),
        pa.table({"a": pa.array([1, 2**60]).view(pa.time64("us"))}),
        pa.table({"a": pa.array([FAR, 1], pa.timestamp("s")).dictionary_encode()}),
        pa.table({"a": pa.array([Decimal(10) ** 30], pa.decimal128(38, -5))}),
        pa.table(
            {
                "a": pa.Array.from_buffers(
                    pa.string(), 1, [None, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xff")]
                )
            }
        ),
    ],
)
def test_values_beyond_are_one_sentence(table):
    with pytest.raises(InputError, match=r"^Column ('a'|0)[ ,][^\n]*\.$"):
        read_columns(table)


@pytest.mark.parametrize(
    "table",
    [
        objects("\ud800"),
        pd.DataFrame({"a": [1j, 2]}),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
    ],
)
def test_a_frame_that_arrow_cannot_hold_is_one_sentence(table):
    with pytest.raises(InputError, match=r"^[^\n]*\.$"):
        to_arrow(table)


@pytest.mark.parametrize("row", [["\0", 5], [b"a", 5], [True, 5], [True, 1.5], ["x", dt.date(2020, 1, 1)]])
def test_a_cell_of_a_list_is_read_alike_alone_and_among_others(row):
    others = [[None, None], ["y", 7]]
    alone, among = read_columns([row]), read_columns([row, *others])
    for position, cell in enumerate(row):
        expected = read_columns(objects(cell, None)).cells["a"][0]
        assert alone.cells[position][0] == expected
        assert isinstance(alone.cells[position][0], type(expected))
        if position == 0 and not isinstance(cell, bool):
            assert among.cells[position][0] == expected
