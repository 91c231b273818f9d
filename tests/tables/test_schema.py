"""Every kind of table gives the same encoding, odd columns are handled, bad ones get one clear sentence."""

from __future__ import annotations

import json
import warnings
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from nptad import NPTAD, InputError, TableWarning
from nptad.errors import CellTypeError
from nptad.tables.encode import check_columns, decode_cell, encode
from nptad.tables.frames import backend_of, read_columns
from nptad.tables.layout import LARGEST_STANDARDISED
from nptad.tables.schema import MAX_CATEGORIES, Schema, learn_schema

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
NUMBERS = [0.5, None, 2.5, -1.5]
DAY = 24 * 3600.0

any_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def column_of(values, dtype=object):
    """A NumPy table of one column."""
    column = np.empty((len(values), 1), dtype=dtype)
    column[:, 0] = values
    return column


def learn_quietly(table, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        return learn_schema(table, **options)


def learn_and_encode(table, **options):
    schema = learn_quietly(table, **options)
    return schema.columns[0], encode(schema, table)[:, 0]


def same(a, b):
    return np.array_equal(a, b, equal_nan=True)


# One table, many libraries


def mixed_columns():
    return {
        "number": NUMBERS,
        "whole": [1, 2, None, 4],
        "flag": [True, False, None, True],
        "text": ["red", "blue", None, "red"],
        "moment": [datetime(2024, 1, 1, 12), datetime(2024, 3, 1), None, datetime(9999, 12, 31)],
        "day": [date(2024, 1, 1), None, date(2024, 2, 29), date(1899, 12, 30)],
        "span": [timedelta(hours=1), None, timedelta(seconds=-3), timedelta(days=400)],
        "clock": [time(1, 2, 3), None, time(23, 59), time(12)],
        "price": [Decimal("1.50"), None, Decimal("2.25"), Decimal("9.75")],
        "identifier": [2**60 + 1, None, 3, 2**55],
    }


@pytest.mark.parametrize("other", ["polars", "pyarrow", "numpy"])
def test_every_library_gives_the_same_schema_and_encoding(other):
    columns = mixed_columns()
    frame = pd.DataFrame(columns)
    table = np.array(list(columns.values()), dtype=object).T if other == "numpy" else FRAMES[other](columns)
    schema = learn_schema(frame)
    learnt = learn_schema(table)
    assert [(c.kind, c.content, c.categories, c.missing) for c in learnt.columns] == [
        (c.kind, c.content, c.categories, c.missing) for c in schema.columns
    ]
    assert same(encode(schema, table), encode(schema, frame))
    assert same(encode(learnt, frame), encode(schema, frame))


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("Int64", [1, None, 3, 5]),
        ("Float32", [1, None, 3, 5]),
        ("int64[pyarrow]", [1, None, 3, 5]),
        ("boolean", [True, None, False, True]),
        ("string", ["a", None, "b", "a"]),
        ("category", ["a", None, "b", "a"]),
        ("datetime64[ns]", [datetime(2024, 1, 1), None, datetime(2024, 1, 5), datetime(2025, 1, 1)]),
        ("timedelta64[s]", [timedelta(1), None, timedelta(3), timedelta(9)]),
    ],
)
def test_pandas_dtypes_encode_like_plain_values(dtype, values):
    plain, encoded = learn_and_encode(column_of(values))
    column, typed = learn_and_encode(pd.DataFrame({"a": pd.Series(values, dtype=dtype)}))
    assert (column.kind, column.content, column.categories) == (plain.kind, plain.content, plain.categories)
    assert same(typed, encoded)
    assert np.isnan(typed).tolist() == [False, True, False, False]


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["a", "b", "never"])])
def test_polars_categories_and_enums_are_text(dtype):
    column, encoded = learn_and_encode(pl.DataFrame({"a": pl.Series(["b", "a", None], dtype=dtype)}))
    assert (column.content, column.categories) == ("text", ("a", "b"))
    assert same(encoded, [1, 0, np.nan])


@pytest.mark.parametrize("values", [[3, 1, 2], [3, 1, None]], ids=["complete", "with a missing cell"])
def test_whole_numbers_of_category_dtype_are_categories_whatever_else_the_column_holds(values):
    schema = learn_schema(pd.DataFrame({"a": pd.Categorical([1, 2, 3])}))
    table = pd.DataFrame({"a": pd.Categorical(values)})
    expected = [np.nan if v is None else v - 1 for v in values]
    assert schema.columns[0].categories == ("1", "2", "3")
    assert same(encode(schema, table)[:, 0], expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64, object])
def test_numpy_number_types_are_standardised_with_training_statistics(dtype):
    column, encoded = learn_and_encode(column_of([1, 2, 3, 6], dtype))
    assert (column.kind, column.mean, column.scale) == ("numeric", 3.0, np.std([1, 2, 3, 6]))
    assert np.allclose(encoded, (np.array([1, 2, 3, 6]) - 3) / column.scale)


def test_encoded_rows_are_float32_with_numbers_before_categories():
    table = pl.DataFrame({"c": ["x", "y", "z"], "n": [1.0, 2.0, 3.0], "b": [True, False, True]})
    schema = learn_schema(table)
    assert [c.name for c in schema.used] == ["n", "c", "b"]
    assert (schema.layout.n_numeric, schema.layout.cardinalities) == (1, (3, 2))
    assert encode(schema, table).dtype == np.float32


# Times


def test_a_moment_is_seconds_since_1970_whatever_the_time_zone_of_the_machine(monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    import time as clock

    clock.tzset()
    try:
        column, _ = learn_and_encode(column_of([datetime(1970, 1, 1), datetime(1970, 1, 2), datetime(1970, 1, 3)]))
    finally:
        monkeypatch.undo()
        clock.tzset()
    assert column.mean == DAY


@any_frame
def test_the_same_instant_in_two_time_zones_is_the_same_cell(frame):
    utc = [datetime(2024, 1, d, 12, tzinfo=UTC) for d in (1, 2, 5)]
    east = [moment.astimezone(timezone(timedelta(hours=5))) for moment in utc]
    schema = learn_schema(frame({"a": utc}))
    assert same(encode(schema, frame({"a": east})), encode(schema, frame({"a": utc})))
    assert same(encode(schema, column_of(east)), encode(schema, column_of(utc)))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_resolution_of_a_timestamp_does_not_matter(unit):
    moments = [datetime(2024, 1, d) for d in (1, 2, 5)]
    schema = learn_schema(pa.table({"a": moments}))
    for table in (
        pa.table({"a": pa.array(moments, pa.timestamp(unit))}),
        pd.DataFrame({"a": pd.Series(moments, dtype=f"datetime64[{unit}]")}),
        np.array(moments, dtype=f"M8[{unit}]").reshape(-1, 1),
        column_of([np.datetime64(moment, unit) for moment in moments]),
    ):
        assert same(encode(schema, table), encode(schema, pa.table({"a": moments})))


def test_not_a_time_is_a_missing_cell():
    _, encoded = learn_and_encode(np.array([["2024-01-01"], ["NaT"], ["2024-01-05"]], dtype="M8[D]"))
    assert np.isnan(encoded).tolist() == [False, True, False]


# Missing cells


@pytest.mark.parametrize(
    "nothing", [None, np.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN"), np.datetime64("NaT")]
)
@pytest.mark.parametrize(
    "present", [["a", "b", "a"], [1.0, 2.0, 4.0], [True, False, True]], ids=["text", "number", "flag"]
)
def test_every_spelling_of_nothing_is_a_missing_cell(nothing, present):
    column, encoded = learn_and_encode(column_of([*present, nothing]))
    assert column.missing == 1
    assert same(encoded[:3], learn_and_encode(column_of(present))[1])
    assert np.isnan(encoded[3])


@any_frame
def test_a_batch_without_a_value_in_a_column_is_all_missing_there(frame):
    table = frame({"n": [1.0, 2.0, 4.0], "t": ["a", "b", "c"], "f": [True, False, True]})
    empty = frame({"n": [None], "t": [None], "f": [None]})
    assert np.isnan(encode(learn_schema(table), empty)).all()


# Unusual columns


def test_unusual_columns_are_reported_in_one_warning_per_fit(rng):
    table = pd.DataFrame(
        {"fine": rng.normal(size=200), "constant": 7, "empty": None, "id": [f"#{i}" for i in range(200)]}
    )
    with pytest.warns(TableWarning) as caught:
        detector = NPTAD(n_members=2, n_steps=2, embedding_dim=8, random_state=0).fit(table)
    (warning,) = caught
    for name in ("'constant'", "'empty'", "'id'"):
        assert name in str(warning.message)
    assert "'fine'" not in str(warning.message)
    assert warning.filename == __file__
    assert np.isfinite(detector.score_samples(table)).all()  # and no warning any more


def test_a_constant_column_only_tells_whether_a_cell_differs():
    schema = learn_quietly(np.array([[7.0, 1], [7, 2], [np.nan, 5]]))
    encoded = encode(schema, np.array([[7.0, 0], [8, 0], [np.nan, 0]]))
    assert same(encoded[:, 1], [0, -1, np.nan])


def test_a_constant_moment_differs_by_a_second():
    schema = learn_quietly(pl.DataFrame({"a": [datetime(2024, 1, 1)] * 3}))
    moments = pl.DataFrame({"a": [datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 1)]})
    assert encode(schema, moments)[:, 0].tolist() == [0, -1]


def test_an_all_missing_column_is_ignored_whatever_it_holds_later():
    schema = learn_quietly(pl.DataFrame({"a": [1.0, 2.0, 4.0], "empty": [None, None, None]}))
    assert [c.kind for c in schema.columns] == ["numeric", "ignored"]
    assert encode(schema, pl.DataFrame({"a": [1.0], "empty": ["surprise"]})).shape == (1, 1)


def test_long_warnings_and_errors_name_a_few_columns_and_count_the_rest():
    table = pd.DataFrame({f"c{i}": [1.0, 1.0] for i in range(9)})
    with pytest.warns(TableWarning, match=r"9 column\(s\) \('c0', .*'c4' and 4 more\)"):
        learn_schema(table)


@pytest.mark.parametrize(
    ("uses", "kinds"),
    [
        (None, ["numeric", "categorical"]),
        ({"two": "number"}, ["numeric", "numeric"]),
        ({"many": "category", "two": "number"}, ["categorical", "numeric"]),
        ({0: "category", -1: "category"}, ["categorical", "categorical"]),
        ({np.int64(0): "ignore"}, ["ignored", "categorical"]),
    ],
)
def test_two_valued_numbers_are_categories_unless_told_otherwise(uses, kinds):
    table = pl.DataFrame({"many": [1, 2, 3, 4], "two": [0, 1, 0, None]})
    assert [c.kind for c in learn_schema(table, uses).columns] == kinds


@pytest.mark.parametrize(
    "wrong", ["many", 3, ["many"], {"unknown": "number"}, {7: "number"}, {True: "number"}, {"many": "text"}]
)
def test_uses_that_are_none_or_name_no_column_are_refused(wrong):
    with pytest.raises(InputError, match="columns"):
        learn_schema(pl.DataFrame({"many": [1, 2, 3]}), wrong)


def test_unseen_categories_have_the_code_minus_one():
    schema = learn_schema(pl.DataFrame({"t": ["a", "b", "c"], "n": [3.0, 5.0, 3.0]}))
    assert encode(schema, pl.DataFrame({"t": ["A", "", "b"], "n": [4.0, 5.0, -3.0]})).tolist() == [
        [-1, -1],
        [-1, 1],
        [1, -1],
    ]


def test_the_rarest_of_many_categories_are_pooled_with_unseen_ones():
    values = [f"common {i}" for i in range(60)] * 2 + [f"rare {i:03}" for i in range(60)]
    with pytest.warns(TableWarning, match=f"more than {MAX_CATEGORIES} categories"):
        schema = learn_schema(column_of(values))
    (column,) = schema.columns
    assert set(column.categories) == {f"common {i}" for i in range(60)}
    codes = encode(schema, column_of(["common 3", "rare 001", "rare 059", "never seen"]))[:, 0]
    assert codes.tolist() == [column.categories.index("common 3"), 60, 60, 60]


def test_many_categories_that_come_again_are_kept_up_to_a_number():
    values = [f"{i:03}" for i in range(150)] * 2 + ["once"]
    with pytest.warns(TableWarning, match=r"the rarest are pooled\.$"):
        schema = learn_schema(column_of(values))
    assert schema.columns[0].cardinality == MAX_CATEGORIES
    assert encode(schema, column_of(["000", "149", "once", "never seen"]))[:, 0].tolist() == [0, 99, 99, -1]


@pytest.mark.parametrize("kind", ["text", "number"])
def test_names_of_rows_are_all_alike(kind):
    """No name is rarer than another, whichever row comes first in the table."""
    names = [f"P{i:03}" if kind == "text" else 1e6 + 7 * i for i in range(200)]
    with pytest.warns(TableWarning, match="leave out a column that only names the row") as caught:
        schema = learn_schema(column_of(names), {0: "category"})
    assert "constant" not in str(caught[0].message)
    new = "Q001" if kind == "text" else 5.0
    assert set(encode(schema, column_of([*names, new]))[:, 0]) == {0}


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6, width=64), min_size=2, max_size=20, unique_by=np.float32),
    st.sampled_from([np.float32, np.float64]),
)
def test_a_number_category_is_met_in_float32_and_float64_spelling(values, trained_as):
    exact = np.array(sorted(values)).reshape(-1, 1)
    schema = learn_quietly(exact.astype(trained_as), uses={0: "category"})
    for dtype in (np.float32, np.float64):
        assert encode(schema, exact.astype(dtype))[:, 0].tolist() == list(range(len(values)))


def test_large_identifiers_are_not_confused_with_their_neighbours():
    schema = learn_schema(np.array([[20240101], [20240102], [20240103]]), {0: "category"})
    assert encode(schema, np.array([[20240101], [20240102], [20240103], [20240104]]))[:, 0].tolist() == [0, 1, 2, -1]


def test_numbers_are_the_categories_that_training_spelt_as_text():
    schema = learn_schema(column_of(["22", 23, "x", 1.5, True]))
    assert schema.columns[0].categories == ("1.5", "22", "23", "True", "x")
    assert encode(schema, np.array([[22.0], [23.0], [1.5]]))[:, 0].tolist() == [1, 2, 0]
    assert encode(schema, np.array([[True]]))[:, 0].tolist() == [3]


def test_flags_and_zero_one_numbers_stand_for_each_other():
    flags, numbers = np.array([[True], [False], [True]]), np.array([[1.0], [0.0], [1.0]])
    assert same(encode(learn_schema(flags), numbers), encode(learn_schema(flags), flags))
    assert same(encode(learn_schema(numbers), flags), encode(learn_schema(numbers), numbers))
    assert same(encode(learn_schema(flags), np.array([[2.0], [np.nan]])), [[-1], [np.nan]])


# Extreme and impossible values


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-1e150, 1e150), min_size=2, max_size=8),
    st.lists(st.floats(allow_infinity=False), min_size=1, max_size=8),
)
def test_finite_numbers_however_large_encode_to_finite_ones(training, new):
    schema = learn_quietly(np.array(training).reshape(-1, 1), uses={0: "number"})
    encoded = encode(schema, np.array(new).reshape(-1, 1))[:, 0]
    assert same(np.isnan(encoded), np.isnan(new))
    assert (np.abs(encoded[~np.isnan(encoded)]) <= LARGEST_STANDARDISED).all()


def test_training_numbers_too_large_to_average_are_refused():
    with pytest.raises(InputError, match="'big' are too large to average"):
        learn_schema(pd.DataFrame({"big": [1e308, -1e308, 1.7e308]}))


@any_frame
@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_infinity_is_an_unreadable_cell(frame, infinite):
    table = frame({"b": [1.0, 2.0, 3.0], "a": [1.0, 2.0, infinite]})
    with pytest.warns(TableWarning, match="1 of 3 cells of column 'a' cannot be read as numbers, such as '-?inf' in"):
        schema = learn_schema(table, {"a": "number"})
    assert (schema.columns[1].mean, schema.columns[1].unreadable) == (1.5, 1)
    assert encode(schema, table)[:, 1].tolist() == [-1, 1, np.inf]


@pytest.mark.parametrize(
    "table", [np.array([[1.0], [np.inf]]), column_of([1, 10**400]), column_of([1, Decimal("1e999")])]
)
def test_infinity_in_an_array_is_told_by_position_and_row(table):
    with pytest.warns(TableWarning, match=r"column 0 .*row 1"):
        learn_schema(table)


@pytest.mark.parametrize(
    "cell", [{"a": 1}, [1, 2], {1}, object(), 1j, pd.Period("2024-01")], ids=lambda v: type(v).__name__
)
def test_a_cell_that_is_no_value_is_refused_by_column_row_and_type(cell):
    with pytest.raises(CellTypeError, match=f"Column 0, row 1 holds a {type(cell).__name__}"):
        learn_schema(column_of([1.0, cell, None]))


@pytest.mark.parametrize("values", [[[1, 2], [3, 4]], [{"x": 1}, {"x": 2}]], ids=["lists", "structs"])
@any_frame
def test_nested_columns_are_set_aside(frame, values):
    with pytest.warns(TableWarning, match=r"\('a'\) hold lists or objects and are ignored"):
        schema = learn_schema(frame({"a": values, "b": [1.5, 2.5]}), {"b": "number"})
    assert (schema.columns[0].kind, schema.columns[0].role) == ("ignored", "nested")
    assert encode(schema, frame({"a": values, "b": [1.5, 2.5]})).tolist() == [[-1], [1]]


# Matching columns


@any_frame
def test_column_order_does_not_matter_by_name(frame):
    columns = {"n": NUMBERS, "t": ["a", "b", "c", None], "f": [1.0, 0.0, 1.0, 1.0]}
    schema = learn_schema(frame(columns))
    reversed_order = frame(dict(reversed(columns.items())))
    assert same(encode(schema, reversed_order), encode(schema, frame(columns)))


@any_frame
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "the table is missing 'b'"),
        (["a", "b", "c"], r"the table has the unknown column\(s\) 'c'"),
        (["a", "B"], r"the table is missing 'b' and has the unknown column\(s\) 'B'"),
    ],
)
def test_a_missing_or_extra_column_is_told_and_in_a_strict_check_refused(frame, names, message):
    schema = learn_schema(frame({"a": [1, 2, 3], "b": [3, 2, 1]}))
    raw = read_columns(frame({name: [1, 2, 3] for name in names}))
    with pytest.raises(InputError, match=message):
        check_columns(schema, raw, strict=True)
    assert len(check_columns(schema, raw)) == len(set(names) ^ {"a", "b"})
    assert np.isnan(encode(schema, raw)[:, 1]).all() == ("b" not in names)


@any_frame
def test_a_table_without_most_columns_is_refused(frame):
    schema = learn_schema(frame({"a": [1, 2, 3], "b": [3, 2, 1], "c": [2, 3, 1]}))
    with pytest.raises(InputError, match="the table is missing 'b', 'c'"):
        check_columns(schema, read_columns(frame({"a": [1]})))


def test_columns_that_were_set_aside_may_be_missing():
    schema = learn_schema(pd.DataFrame({"a": [1.5, 2, 3], "note": ["x", "y", "z"]}), {"note": "ignore"})
    assert check_columns(schema, read_columns(pd.DataFrame({"a": [1.0]})), strict=True) == []


def test_an_array_of_another_width_is_refused(rng):
    with pytest.raises(InputError, match="X has 2 features, but NPTAD is expecting 3"):
        encode(learn_schema(rng.normal(size=(5, 3))), rng.normal(size=(5, 2)))


def test_an_array_is_matched_by_position(rng):
    x = rng.normal(size=(5, 2))
    assert same(encode(learn_schema(pd.DataFrame(x, columns=["b", "a"])), x), encode(learn_schema(x), x))


@pytest.mark.parametrize("names", [[0, 1, 2], [7, 5, 2019], ["x", 0, 1]], ids=str)
def test_integer_names_of_pandas_match_by_name(rng, names):
    table = pd.DataFrame(rng.normal(size=(5, 3)), columns=names)
    schema = learn_schema(table)
    expected = encode(schema, table)
    assert same(encode(schema, table[names[::-1]]), expected)
    assert same(encode(schema, table.to_numpy()), expected)
    with pytest.raises(InputError, match=f"missing '{names[0]}'"):
        check_columns(schema, read_columns(table.rename(columns={names[0]: 99})), strict=True)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(np.ones((3, 2)), columns=["twin", "twin"]),
        pd.DataFrame(np.ones((3, 2)), columns=[1, "1"]),
        pa.table([[1], [2]], names=["twin", "twin"]),
    ],
    ids=["pandas", "pandas 1 and '1'", "pyarrow"],
)
def test_two_columns_of_one_name_are_refused(table):
    with pytest.raises(InputError, match=r"('twin'|'1').*give each column its own name"):
        learn_schema(table)


@pytest.mark.parametrize(
    ("training", "later", "expected"),
    [
        ([1.5, 2.5, 3.5], ["2.5", "oops", None], [0, np.inf, np.nan]),
        ([datetime(2024, 1, 1), datetime(2024, 1, 3)], [1.0, None], [np.inf, np.nan]),
        ([datetime(2024, 1, 1), datetime(2024, 1, 3)], ["2024-01-02", "2024-02-31"], [0, np.inf]),
        (["x", "y"], [datetime(2024, 1, 1), None], [-1, np.nan]),
        ([True, False], ["maybe", "true", None], [-1, 1, np.nan]),
    ],
)
@any_frame
def test_another_kind_of_cell_than_in_training_is_unreadable_or_never_seen(frame, training, later, expected):
    encoded = encode(learn_schema(frame({"a": training})), frame({"a": later}))
    np.testing.assert_array_equal(encoded[:, 0], np.array(expected, dtype=np.float32))


@any_frame
def test_truth_values_and_whole_numbers_are_met_in_the_spelling_of_training(frame):
    schema = learn_schema(frame({"on": ["true", "false", "unknown"], "code": ["7", "8", "x"]}))
    assert encode(schema, frame({"on": [False, True], "code": [7.0, 8.0]})).tolist() == [[0, 0], [1, 1]]
    assert encode(schema, frame({"on": ["true", "unknown"], "code": ["7.0", "07"]})).tolist() == [[1, 0], [2, -1]]


def test_numbers_with_a_stray_text_are_told(rng):
    numbers = [f"{number:.2f}" for number in rng.normal(size=140)]
    with pytest.warns(TableWarning, match=r"1 of 139 cells of column 'power' cannot .*, such as '22OO' in row 7"):
        schema = learn_schema(pa.table({"power": [*numbers[:7], "22OO", *numbers[8:139], None]}))
    assert (schema.columns[0].content, schema.columns[0].kind) == ("number", "numeric")


def test_codes_among_which_some_are_numbers_are_not_told(recwarn):
    learn_schema(pa.table({"code": ["1", "2", "3", "x", "y", "z"] * 10, "key": ["01", "02", "x"] * 20}))
    assert not recwarn


# No table at all


@any_frame
def test_one_row_is_too_few_to_learn_from_but_can_be_encoded(frame):
    one = frame({"a": [1.0]})
    with pytest.raises(InputError, match="needs at least 2"):
        learn_schema(one)
    assert encode(learn_schema(frame({"a": [1.0, 2.0, 3.0]})), one).shape == (1, 1)


@pytest.mark.parametrize("empty", [*(f({"a": []}) for f in FRAMES.values()), np.empty((0, 1))], ids=[*FRAMES, "numpy"])
def test_a_table_without_rows_is_refused(empty):
    with pytest.raises(InputError, match="no rows"):
        learn_schema(empty)
    assert encode(learn_schema(np.arange(3.0).reshape(-1, 1)), empty).shape == (0, 1)


@pytest.mark.parametrize(
    "empty", [pd.DataFrame(index=range(3)), pl.DataFrame(), pa.table({}), np.empty((3, 0))], ids=type
)
def test_a_table_without_columns_is_refused(empty):
    with pytest.raises(InputError, match="no columns"):
        learn_schema(empty)


def test_a_table_without_values_is_refused():
    with pytest.warns(TableWarning), pytest.raises(InputError, match="left to learn from"):
        learn_schema(np.full((3, 2), np.nan))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (csr_array(np.eye(3)), r"Sparse data is not supported; pass X.toarray\(\)"),
        (np.eye(3) * 1j, "Complex data not supported"),
        (np.arange(3.0), "Expected 2D array"),
        (np.zeros((2, 2, 2)), "Expected 2D array"),
        (pd.Series([1.0, 2.0]), "Expected 2D array"),
        (pl.Series([1.0, 2.0]), "Expected 2D array"),
        ([[1.0, 2.0], [3.0]], "rows of the table differ in length"),
        ({"a": [1.0, 2.0]}, "got a dict"),
        ("table.csv", "got a str"),
        (None, "got a NoneType"),
        (pl.LazyFrame({"a": [1.0]}), "collect a lazy one"),
    ],
)
def test_what_is_no_table_is_refused_in_one_sentence(table, message):
    with pytest.raises(InputError, match=message) as caught:
        learn_schema(table)
    assert "\n" not in str(caught.value)


# Properties over many tables

TEXTS = st.text(max_size=5)
CELLS = {
    "number": st.floats(-1e9, 1e9, width=32),
    "flag": st.booleans(),
    "text": TEXTS,
    "moment": st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)),
}


@st.composite
def tables(draw):
    """A polars table with columns of all kinds, odd names and missing cells, at least one value in it."""
    n_rows = draw(st.integers(2, 12))
    letters = st.characters(codec="utf-8", exclude_characters="^")  # polars takes a name like ^a$ for a pattern
    names = draw(st.lists(st.text(letters, max_size=8), min_size=1, max_size=5, unique=True))
    columns = {}
    for i, name in enumerate(names):
        kind = draw(st.sampled_from(list(CELLS)))
        cell = CELLS[kind] if i == 0 else st.none() | CELLS[kind]
        columns[name] = draw(st.lists(cell, min_size=n_rows, max_size=n_rows))
    return pl.DataFrame(columns, strict=False)


@settings(max_examples=60, deadline=None)
@given(tables())
def test_a_schema_survives_json(table):
    schema = learn_quietly(table)
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema
    assert same(encode(again, table), encode(schema, table))


@settings(max_examples=60, deadline=None)
@given(tables())
def test_training_cells_have_known_codes_and_decode_to_themselves(table):
    schema = learn_quietly(table)
    encoded = encode(schema, table)
    for j, column in enumerate(schema.used):
        assert np.isnan(encoded[:, j]).sum() == column.missing
        for cell, code in zip(table[column.name].to_list(), encoded[:, j], strict=True):
            value = decode_cell(column, float(code))
            if cell is None:
                assert value is None
            elif column.kind == "categorical" and column.content != "time":
                assert value == cell
            else:
                seconds = cell.replace(tzinfo=UTC).timestamp() if column.content == "time" else cell
                assert value == pytest.approx(seconds, rel=1e-5, abs=1e-5 * max(column.scale, 1e-300))


@settings(max_examples=40, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_a_row_encodes_the_same_alone_and_in_any_company(table, random):
    schema = learn_quietly(table)
    encoded = encode(schema, table)
    row = random.randrange(len(table))
    names = random.sample(table.columns, len(table.columns))
    assert same(encode(schema, table[row : row + 1].select(names))[0], encoded[row])
    assert same(encode(schema, pa.table(table.to_dict(as_series=False))), encoded)


def test_an_unseen_category_stands_out_among_many_common_ones():
    """Two hundred cities, all common: the rarest share a code, but one never seen does not join them."""
    cities = pd.DataFrame({"city": [f"city {i % 200}" for i in range(2000)]})
    with pytest.warns(TableWarning, match="more than 100 categories"):
        schema = learn_schema(cities)
    assert len(schema.columns[0].pooled) == 101
    codes = encode(schema, pd.DataFrame({"city": ["city 0", "city 199", schema.columns[0].pooled[0], "nowhere"]}))[:, 0]
    assert codes[2] == 99
    assert codes[3] == -1


def test_frame_labels_come_before_positions():
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=[10, 2, 5])
    kinds = {c.name: c.kind for c in learn_schema(frame, {2: "category"}).columns}
    assert kinds == {"10": "numeric", "2": "categorical", "5": "numeric"}


def test_masked_cells_of_a_masked_array_are_missing():
    rows = np.ma.masked_array(np.arange(8.0).reshape(4, 2), mask=[[0, 1], [0, 0], [0, 0], [0, 0]])
    encoded = encode(learn_schema(rows), rows)
    assert np.isnan(encoded).tolist() == [[False, True], [False, False], [False, False], [False, False]]


def test_a_record_batch_is_read_like_a_table():
    batch = pa.record_batch({"b": [1.5, 2.5, 3.5], "a": ["x", "y", "x"]})
    schema = learn_schema(batch)
    assert [column.name for column in schema.columns] == ["b", "a"]
    turned = batch.select(["a", "b"])
    assert same(encode(schema, turned), encode(schema, pa.Table.from_batches([batch])))
    assert backend_of(batch) == "pyarrow"


@pytest.mark.parametrize(
    "values",
    [
        [datetime(2020, 1, 1), timedelta(hours=30), "a"],
        [date(9999, 12, 31), pd.Timestamp.max, time(5), 1.5, None],
        pd.Categorical([pd.Timestamp("2020-01-01", tz="Asia/Tokyo"), pd.Timestamp("2021-01-01 10:00", tz="UTC")]),
    ],
    ids=["durations and text", "clocks and numbers", "categories"],
)
def test_a_time_among_other_values_is_the_same_category_alone(values):
    table = pd.DataFrame({"x": pd.Series(values, dtype=None if isinstance(values, pd.Categorical) else object)})
    schema = learn_schema(table)
    whole = encode(schema, table)
    for row, value in enumerate(values):
        np.testing.assert_array_equal(encode(schema, pd.DataFrame({"x": [value]})), whole[row : row + 1])


def test_one_is_a_truth_value_alone_and_among_words():
    schema = learn_schema(pd.DataFrame({"x": [True, False, True]}))
    batch = pd.DataFrame({"x": pd.Series([1, True, 0.0, "false", 4], dtype=object)})
    assert encode(schema, batch)[:, 0].tolist() == [1, 1, 0, 0, -1]
    assert [encode(schema, batch[row : row + 1])[0, 0] for row in range(5)] == [1, 1, 0, 0, -1]
