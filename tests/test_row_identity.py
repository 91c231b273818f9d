"""A row is called the same everywhere, so that a user finds it in the table it came from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from nptad import NPTAD, detect_table, score_table
from nptad.cli.terminal import explained_rows
from nptad.io.read import read_table
from nptad.io.write import write_table
from nptad.report import render, summarise
from nptad.tables.identity import Identity

ODD = 41
INDICES = {
    "texts": [f"order {row}" for row in range(60)],
    "equal": ["same"] * 60,
    "times": pd.date_range("2024-01-01", periods=60),
    "levels": pd.MultiIndex.from_product([["a", "b"], range(30)], names=["half", "number"]),
}
SAID = {"texts": "order 41", "equal": "same", "times": "2024-02-11", "levels": "b / 11"}


def orders(index=None) -> pd.DataFrame:
    x = np.random.default_rng(0).normal(size=60)
    weight = 2 * x
    weight[ODD] = -30.0
    return pd.DataFrame({"id": [f"A{row}" for row in range(60)], "x": x, "weight": weight}, index=index)


@pytest.fixture(scope="module")
def detector() -> NPTAD:
    with pytest.warns(UserWarning, match="identifiers"):
        return NPTAD(random_state=0).fit(orders().drop(index=ODD))


@pytest.mark.parametrize("kind", INDICES)
def test_results_of_frames_with_an_index_have_it(detector, kind):
    table = orders(INDICES[kind])
    found = detector.detect(table)
    frame = found.frame()
    assert frame.index.equals(table.index)
    assert list(frame.columns) == ["row", "id", "score", "p_value", "anomaly"]
    assert frame["id"].tolist() == table["id"].tolist()
    assert table.index[found.anomaly].equals(frame.index[frame.anomaly])


@pytest.mark.parametrize("kind", INDICES)
def test_explained_rows_have_the_labels_of_the_table_they_were_taken_from(detector, kind):
    table = orders(INDICES[kind])
    explanation = detector.explain(table[table["id"] == "A41"])
    assert (explanation[0].row, explanation[0].label, explanation[0].key) == (0, SAID[kind], {"id": "A41"})
    frame = explanation.frame()
    assert set(frame["row"]) == {SAID[kind]}
    assert set(frame["id"]) == {"A41"}
    assert f"Row {SAID[kind]} (id A41)" in explanation.html()


def test_rows_that_pandas_has_numbered_keep_their_numbers(detector):
    table = orders()
    explanation = detector.explain(table[table.weight < -20])
    assert [why.label for why in explanation] == [ODD]
    assert explanation.frame()["row"].tolist() == [ODD, ODD]
    assert detector.explain(table.to_numpy(dtype=object)[:1, :])[0].label == 0


def test_an_index_is_no_column_of_the_table():
    with pytest.warns(UserWarning, match="identifiers"):
        result = detect_table(orders(INDICES["texts"]), NPTAD(random_state=0))
    assert [column.name for column in result.detector.schema_.columns] == ["id", "x", "weight"]
    assert result.detection.frame().loc["order 41", "id"] == "A41"
    assert result.table()["row"].to_pylist()[ODD] == "order 41"
    assert result.explanation[0].label == "order 41"
    summary = summarise(result)
    first = summary["anomalies"][0]
    assert (first["row"], first["key"]) == ("order 41", ["A41"])
    assert {row["row"] for row in first["similar_rows"]} <= set(INDICES["texts"])  # training rows are of this table
    assert "Rows have the labels of the index." in render(summary)


@pytest.mark.parametrize("library", [pl.from_pandas, pa.Table.from_pandas])
def test_frames_without_an_index_keep_their_key_columns(detector, library):
    table = library(orders())
    frame = detector.detect(table).frame()
    assert type(frame) is type(table)
    assert list(getattr(frame, "column_names", None) or frame.columns) == ["row", "id", "score", "p_value", "anomaly"]
    assert detector.explain(table[ODD : ODD + 1] if library is pl.from_pandas else table.slice(ODD, 1))[0].key == {
        "id": "A41"
    }


def test_a_key_called_like_a_result_keeps_its_name():
    table = orders().rename(columns={"id": "score"})
    with pytest.warns(UserWarning, match="identifiers"):
        detector = NPTAD(random_state=0).fit(table)
    assert list(detector.detect(table).frame().columns) == ["row", "score", "nptad_score", "p_value", "anomaly"]


def test_rows_of_files_are_counted_from_1_everywhere(detector, tmp_path):
    write_table(pa.Table.from_pandas(orders()), tmp_path / "orders.csv")
    table = read_table(tmp_path / "orders.csv")
    result = score_table(detector, table, reasons=True, first_row=1)
    written = result.table()
    assert written.filter(written["anomaly"])["row"].to_pylist() == [ODD + 1]
    why = explained_rows(result.explanation)[0]
    assert (why["row"], why["key"]) == (ODD + 1, {"id": "A41"})
    nearest = result.explanation[0].nearest.row
    assert why["nearest"]["row"] == nearest + 1
    summary = summarise(result)
    assert summary["anomalies"][0]["row"] == ODD + 1
    assert summary["anomalies"][0]["nearest"]["row"] == nearest + 1
    assert "Rows are counted from 1, without the header." in render(summary)


def test_part_of_a_part_is_called_as_in_the_whole():
    whole = Identity(first=1).take(np.array([2, 5, 8]), 9)
    assert [whole.take(slice(1, None), 3).label(place) for place in (0, 1)] == [6, 9]
    assert list(whole.labels(3)) == [3, 6, 9]
