"""One table from end to end: converted once, scored once, the same result for command, page and Python."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nptad.scoring.ensemble
import nptad.tables.frames
from nptad import NPTAD, InputError, detect_table, score_table
from nptad.report import summarise


def orders(n_rows: int = 60) -> pa.Table:
    x = np.random.default_rng(0).normal(size=n_rows)
    weight = 3 * x
    weight[7] = 40.0
    known = [int(row == 7) for row in range(n_rows)]
    return pa.table({"id": [f"A{row}" for row in range(n_rows)], "size": x, "weight": weight, "known": known})


def quick() -> NPTAD:
    return NPTAD(2, n_steps=30, embedding_dim=8, random_state=0)


def count_calls(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> list[tuple]:
    """The arguments of every call of a function from now on."""
    calls, function = [], getattr(module, name)

    def counted(*arguments, **named):
        calls.append(arguments)
        return function(*arguments, **named)

    monkeypatch.setattr(module, name, counted)
    return calls


def test_a_table_is_converted_once_and_every_row_scored_once(monkeypatch):
    converted = count_calls(monkeypatch, nptad.tables.frames, "_read_series")
    scored = count_calls(monkeypatch, nptad.scoring.ensemble, "score_rows")
    result = detect_table(orders(), quick(), ignore=["id"], label="known")
    summarise(result)
    assert [name for _, name, _ in converted] == ["id", "size", "weight", "known"]
    assert sum(len(rows) for _, rows, *_ in scored) == 60  # each by the one member that left it out


def test_the_result_has_the_anomaly_its_reason_and_the_ignored_columns():
    result = detect_table(orders(), quick(), ignore=["id"], label="known")
    assert np.flatnonzero(result.detection.anomaly).tolist() == [7]
    assert result.explanation[0].row == 7
    table = result.table()
    assert table.column_names == ["row", "id", "known", "score", "p_value", "anomaly", "reasons"]
    assert [row for row, why in enumerate(table["reasons"].to_pylist()) if why] == [7]
    assert len(result.explanation) == 10


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_of_other_libraries_give_the_same(kind):
    expected = detect_table(orders(), quick(), ignore=["id", "known"]).detection
    found = detect_table(kind(orders().to_pydict()), quick(), ignore=["id", "known"]).detection
    np.testing.assert_array_equal(found.score, expected.score)


def test_in_table_detection_is_what_detect_says_of_the_training_rows():
    features = orders().select(["size", "weight"])
    detector = quick()
    inside = detector.fit_detect(features, 0.05)
    again = detector.detect(features, false_alarm_rate=0.05)
    np.testing.assert_allclose(inside.score, again.score, rtol=1e-5)
    np.testing.assert_allclose(inside.p_value, again.p_value)


def test_new_rows_are_scored_with_their_keys():
    detector = quick().fit(orders().select(["size", "weight"]))
    new = pa.table({"id": ["new", "odd"], "size": [1.0, 1.0], "weight": [3.0, -30.0]})
    result = score_table(detector, new, ignore=["id"], false_alarm_rate=0.05, reasons=True)
    assert result.table()["id"].to_pylist() == ["new", "odd"]
    assert result.detection.anomaly.tolist() == [False, True]
    assert "weight is -30" in result.reasons()[1]


def test_columns_of_mixed_cells_are_read_as_by_the_detector():
    table = pd.DataFrame(orders().to_pydict()).astype({"size": object, "id": object})
    table.loc[3, "size"], table.loc[4, "id"] = "unknown", 17
    with pytest.warns(UserWarning, match="unknown"):
        found = detect_table(table, NPTAD(random_state=0), ignore=["id"])
    with pytest.warns(UserWarning, match="unknown"):
        expected = NPTAD(random_state=0).fit_detect(table.drop(columns="id"))
    np.testing.assert_array_equal(found.detection.score, expected.score)
    assert found.table()["id"].to_pylist()[3:5] == ["A3", "17"]


@pytest.mark.parametrize("odd", [[10**400, -(10**400)], [Decimal("sNaN"), Decimal("NaN"), Decimal("Infinity")]])
def test_numbers_that_arrow_cannot_hold_are_read_as_by_the_detector(odd):
    random = np.random.default_rng(0)
    cells = [*odd, *(type(odd[0])(number) for number in random.integers(0, 9, 40).tolist())]
    table = pd.DataFrame({"size": pd.Series(cells, dtype=object), "weight": random.normal(size=len(cells))})
    with pytest.warns(UserWarning, match="such as 'inf'"):
        found = detect_table(table, NPTAD(random_state=0))
    with pytest.warns(UserWarning, match="such as 'inf'"):
        expected = NPTAD(random_state=0).fit_detect(table)
    np.testing.assert_array_equal(found.detection.score, expected.score)


@pytest.mark.parametrize("library", [pd, pl, pa])
def test_a_name_with_a_nul_character_is_a_name(library):
    columns = {"a\0b": np.random.default_rng(0).normal(size=30), "": np.random.default_rng(1).normal(size=30)}
    frame = pa.table(columns) if library is pa else library.DataFrame(columns)
    found = detect_table(frame, NPTAD(random_state=0))
    assert len(found.detection.score) == 30
    assert list(found.detector.feature_names_in_) == ["a\0b", ""]


def test_a_table_without_names_is_refused():
    with pytest.raises(InputError, match="named columns"):
        detect_table(np.zeros((5, 2)))
