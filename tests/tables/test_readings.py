"""Text cells become numbers, truth values and times, as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from nptad import TableWarning
from nptad.tables.encode import decode_cell, encode, readable
from nptad.tables.readings import UNREADABLE, Reading, find_reading
from nptad.tables.schema import learn_schema


def cells(*texts):
    return np.array(texts, dtype=object)


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["$1,200", "$3.50", "-$7", "($1.5)"], [1200, 3.5, -7, -1.5]),
        (["1 200 €", "3,50 €", "(7) €"], [1200, 3.5, -7]),
        (["1.234.567,5", "2"], [1234567.5, 2]),
        (["$1", "$(1,250)", "$ (7)"], [1, -1250, -7]),
        (["₹ 1,23,456.50", "12,34,567", "7"], [123456.5, 1234567, 7]),
        (["1'000", "CHF 2'500.25"], [1000, 2500.25]),
        (["12%", "3.5 %", "-1%"], [12, 3.5, -1]),
        (["(350)", "12", "3-"], [-350, 12, -3]),
        (["1.5k", "2M", "0.5bn", "1e3"], [1500, 2e6, 5e8, 1000]),
        (["1,234", "5,678"], [1234, 5678]),
        (["1,5", "2,25", "1.234,5"], [1.5, 2.25, 1234.5]),
        (["\N{MINUS SIGN}4", "+4", ".5", "5."], [-4, 4, 0.5, 5]),
        (["1\N{NO-BREAK SPACE}200", "3\N{NARROW NO-BREAK SPACE}400"], [1200, 3400]),
        (["-", ".", "N/A", "", " 7 "], [np.nan, np.nan, np.nan, np.nan, 7]),
    ],
)
def test_numbers_are_read_as_people_write_them(texts, numbers):
    reading = find_reading(cells(*texts, None))
    assert reading.content == "number"
    np.testing.assert_array_equal(reading.values(cells(*texts, None)), [*numbers, np.nan])


@pytest.mark.parametrize(
    "texts",
    [
        ["007", "12"],
        ["1.2.3", "1.2.4"],
        ["10.0.0.1", "10.0.0.2"],
        ["$5", "5 €"],
        ["--5", "5"],
        ["1,5", "2.25"],
        ["S", "M", "5"],
        ["12A", "13B"],
        ["1 2", "3 4"],
        ["$(5", "$6"],
        ["$((5))", "$6"],
        ["1.2.24", "1.10.24"],
        ["555-1234", "555-9876"],
    ],
)
def test_what_only_resembles_numbers_stays_text(texts):
    assert find_reading(cells(*texts)) is None


DAY = datetime(2024, 2, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("texts", "moments"),
    [
        (["13.02.2024", "1.3.2024"], [DAY, datetime(2024, 3, 1, tzinfo=UTC)]),
        (["2/13/2024", "3/1/24"], [DAY, datetime(2024, 3, 1, tzinfo=UTC)]),
        (["13/02/2024", "01/03/2024"], [DAY, datetime(2024, 3, 1, tzinfo=UTC)]),
        (["01/03/2024", "02/04/2024"], [datetime(2024, 1, 3, tzinfo=UTC), datetime(2024, 2, 4, tzinfo=UTC)]),
        (["13 Feb 2024", "Mar 1, 2024"], [DAY, datetime(2024, 3, 1, tzinfo=UTC)]),
        (["2024/02/13", "2024-3-1"], [DAY, datetime(2024, 3, 1, tzinfo=UTC)]),
        (["13.02.24", "01.03.24"], [DAY, datetime(2024, 3, 1, tzinfo=UTC)]),
        (["13-Feb-24", "1-Mar-2024"], [DAY, datetime(2024, 3, 1, tzinfo=UTC)]),
        (["Feb-13-2024", "Mar 1 2024"], [DAY, datetime(2024, 3, 1, tzinfo=UTC)]),
        (["Feb 2024", "March 2024"], [DAY.replace(day=1), datetime(2024, 3, 1, tzinfo=UTC)]),
        (
            ["Tue, 13 Feb 2024 15:30:00 GMT", "Friday 1 Mar 2024"],
            [DAY.replace(hour=15, minute=30), datetime(2024, 3, 1, tzinfo=UTC)],
        ),
        (["2024-02-13T01:00:00+01:00", "2024-02-13 00:00Z"], [DAY, DAY]),
        (["13.02.2024 15:30", "13.02.2024, 3:30 pm"], [DAY.replace(hour=15, minute=30)] * 2),
        (["2024-02-12 19:00:00.250 -0500", ""], [DAY.replace(microsecond=250000), None]),
    ],
)
def test_times_are_read_as_people_write_them(texts, moments):
    reading = find_reading(cells(*texts))
    assert reading.content == "time"
    expected = [np.nan if moment is None else moment.timestamp() for moment in moments]
    np.testing.assert_array_equal(reading.values(cells(*texts)), expected)


def test_times_of_day_are_read_with_am_and_pm():
    reading = find_reading(cells("1:05 PM", "12:00 am", "11:59:30 p.m.", "13:00"))
    assert reading.content == "duration"
    texts = cells("1:05 PM", "12:00 am", "11:59:30 p.m.", "13:00", "13:00 pm")
    assert reading.values(texts).tolist() == [47100, 0, 86370, 46800, UNREADABLE]


@pytest.mark.parametrize("text", ["2024-02-30", "31.04.2024", "2024-01-01 25:00", "13:00 pm", "0000-01-01", "never"])
def test_a_day_that_the_calendar_does_not_have_is_unreadable(text):
    assert Reading("time", "day").value(text) == UNREADABLE


@pytest.mark.parametrize(
    ("texts", "flags"),
    [
        (["yes", "No", "YES", None], [True, False, True, None]),
        (["ja", "nein"], [True, False]),
        (["oui", "non"], [True, False]),
        (["vero", "falso"], [True, False]),
        (["да", "Нет"], [True, False]),
    ],
)
def test_truth_values_are_read_in_several_languages(texts, flags):
    reading = find_reading(cells(*texts))
    assert reading.content == "boolean"
    assert reading.values(cells(*texts)).tolist() == flags


@pytest.mark.parametrize("texts", [["yes", "no", "maybe"], ["yes", "nein"], ["yes"], ["on", "no"]])
def test_truth_values_must_all_agree(texts):
    assert find_reading(cells(*texts)) is None


@pytest.mark.parametrize(("n_wrong", "is_number"), [(0, True), (10, True), (12, False)])
def test_a_column_is_a_number_if_nearly_all_cells_are(n_wrong, is_number):
    texts = [f"{row}.5" for row in range(100 - n_wrong)] + ["oops"] * n_wrong
    assert (find_reading(cells(*texts)) is not None) == is_number


def test_a_few_different_codes_are_no_numbers_with_a_mistake():
    assert find_reading(cells(*["1", "2", "3"] * 50, "x")) is None


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_prices_are_numbers_in_every_frame(frame):
    prices = [f"${1000 + 17 * row * row % 701:,}" for row in range(40)]
    table = frame({"price": [*prices[:7], "ask us", *prices[8:], None]})
    with pytest.warns(TableWarning, match="1 of 40 cells of column 'price' cannot .*, such as 'ask us' in row 7"):
        schema = learn_schema(table)
    (column,) = schema.columns
    assert (column.kind, column.content, column.low, column.high) == ("numeric", "number", 1000, 1679)
    assert (column.missing, column.unreadable) == (1, 1)
    encoded = encode(schema, table)[:, 0]
    assert (encoded[7], np.isnan(encoded[40])) == (np.inf, True)
    np.testing.assert_array_equal(encode(schema, frame({"price": [1017, 1068]}))[:, 0], encoded[1:3])


def test_the_author_of_a_table_may_say_that_numbers_are_categories():
    numbers = ["1", "2", "3"]
    assert learn_schema(pd.DataFrame({"a": pd.Categorical(numbers)})).columns[0].content == "text"
    assert learn_schema(pd.DataFrame({"a": numbers}), {"a": "category"}).columns[0].content == "text"
    assert learn_schema(pd.DataFrame({"a": numbers})).columns[0].content == "number"


def test_a_user_may_say_that_a_text_is_a_number():
    table = pd.DataFrame({"a": ["1", "2", "3", "three", "drei"]})
    with pytest.warns(TableWarning, match="2 of 5 cells"):
        schema = learn_schema(table, {"a": "number"})
    assert encode(schema, table)[3:, 0].tolist() == [np.inf, np.inf]


# Values come back as they were

ROUND = {
    "whole number": ([3, 5, 12, 1000003], None),
    "cents": ([0.1, 0.25, 19.99, 3.3], None),
    "negative": ([-0.001, 0.0, 0.001, 5.0], None),
    "truth": ([True, False, True, True], None),
    "text": (["a", "b", "", "a"], None),
    "hours": (
        [datetime(2013, 1, day, 22) for day in (1, 9, 20, 31)],
        [f"2013-01-{d:02d}T22:00:00" for d in (1, 9, 20, 31)],
    ),
    "days": (
        [datetime(1999, 1, 1), datetime(2024, 2, 29), datetime(2031, 7, 5)],
        ["1999-01-01", "2024-02-29", "2031-07-05"],
    ),
    "with a zone": (
        pd.to_datetime(["2013-01-01T05:00Z", "2013-07-01T05:00Z", "2013-09-01T17:30Z"]).tz_convert("America/New_York"),
        ["2013-01-01T00:00:00-05:00", "2013-07-01T01:00:00-04:00", "2013-09-01T13:30:00-04:00"],
    ),
    "prices": (["$1,200", "$3.50", "$7", "$80.25"], [1200.0, 3.5, 7.0, 80.25]),
    "answers": (["yes", "no", "no", "yes"], ["yes", "no", "no", "yes"]),
}


@pytest.mark.parametrize(("values", "shown"), ROUND.values(), ids=ROUND.keys())
def test_a_cell_comes_back_as_it_was(values, shown):
    table = pd.DataFrame({"a": values})
    schema = learn_schema(table)
    (column,) = schema.used
    decoded = [readable(column, decode_cell(column, float(code))) for code in encode(schema, table)[:, 0]]
    assert decoded == (list(values) if shown is None else shown)
    assert "-0.0" not in map(str, decoded)


def test_an_expected_value_is_a_possible_one():
    column = learn_schema(pd.DataFrame({"month": [1, 5, 9, 12]})).columns[0]
    assert [decode_cell(column, code) for code in (-9.0, 0.01, 9.0)] == [1, 7, 12]
