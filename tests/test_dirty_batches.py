"""A batch that is not as clean as the training table is scored all the same, and what is odd about it is said."""

from __future__ import annotations

import io
import re
import warnings
from html import escape

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from nptad import NPTAD, InputError, TableWarning, detect_table, score_table
from nptad.io.read import read_table
from nptad.report import render, summarise

N = 300


def orders(n_rows=N, seed=0):
    random = np.random.default_rng(seed)
    length = random.normal(10, 2, n_rows)
    return pd.DataFrame(
        {
            "length": length.round(2),
            "weight": (3 * length + random.normal(0, 0.1, n_rows)).round(2),
            "colour": random.choice(["red", "blue"], n_rows),
            "sent": pd.Timestamp(2024, 1, 1) + pd.to_timedelta(random.integers(0, 9000, n_rows), "h"),
        }
    )


@pytest.fixture(scope="module")
def detector():
    return NPTAD(random_state=0).fit(orders())


def changed(**cells):
    """New rows as text, some cells of row 3 replaced."""
    table = orders(20, seed=1).astype(str)
    for name, cell in cells.items():
        table.loc[3, name] = cell
    return table


def test_numbers_and_times_as_text_are_the_same_cells(detector):
    np.testing.assert_array_equal(detector.score_samples(changed()), detector.score_samples(orders(20, seed=1)))


@pytest.mark.parametrize(
    ("name", "cell"), [("weight", "oops"), ("length", "inf"), ("sent", "2024-02-31"), ("sent", "soon")]
)
def test_an_unreadable_cell_is_an_oddity_of_its_row_and_of_no_other(detector, name, cell):
    with pytest.warns(TableWarning, match=f"1 cell.s. of column '{name}' cannot be read as a .* 'row 3|in row 3"):
        found = detector.detect(changed(**{name: cell}))
    clean = detector.detect(changed())
    others = np.arange(20) != 3
    np.testing.assert_array_equal(found.score[others], clean.score[others])
    assert found.anomaly[3]
    assert found.p_value[3] < 0.01
    assert len(found.notes) == 1
    why = detector.explain(changed(**{name: cell})[3:4])[0].reasons[0]
    assert (why.column, why.seen, why.suspicious) == (name, cell, True)


def test_an_unreadable_cell_is_not_merely_a_missing_one(detector):
    cells = [changed(weight=None), changed(weight="oops")]
    with pytest.warns(TableWarning, match="oops"):
        missing, unreadable = (detector.detect(table).score[3] for table in cells)
    assert unreadable != missing


def test_unreadable_cells_that_training_had_are_less_odd():
    random = np.random.default_rng(0)
    texts = [f"{x:.3f}" for x in random.normal(size=N)]
    often = ["n.a.?" if row % 20 == 0 else text for row, text in enumerate(texts)]
    other = random.normal(size=N)
    scores = []
    for column in (texts, often):
        with pytest.warns(TableWarning, match=r"n\.a\.\?"):
            detector = NPTAD(random_state=0).fit(pd.DataFrame({"a": [*column[:-1], "n.a.?"], "b": other}))
        with pytest.warns(TableWarning, match=r"n\.a\.\?"):
            found = detector.detect(pd.DataFrame({"a": ["n.a.?"], "b": [0.0]}))
        scores.append(found.score[0])
    assert scores[1] < scores[0]


def test_an_unknown_column_is_ignored_with_a_note(detector):
    with pytest.warns(TableWarning, match="'spare', which are ignored"):
        found = detector.detect(orders(20, seed=1).assign(spare=1))
    np.testing.assert_array_equal(found.score, detector.detect(orders(20, seed=1)).score)
    with pytest.raises(InputError, match="unknown column"):
        detector.detect(orders(20, seed=1).assign(spare=1), strict=True)


def test_a_missing_column_counts_as_missing_cells(detector):
    table = orders(20, seed=1)
    with pytest.warns(TableWarning, match="no column 'weight', whose cells count as missing"):
        found = detector.detect(table.drop(columns="weight"))
    np.testing.assert_array_equal(found.score, detector.detect(table.assign(weight=np.nan)).score)
    with pytest.raises(InputError, match="is missing 'weight'"):
        detector.detect(table.drop(columns="weight"), strict=True)
    with pytest.raises(InputError, match="is missing 'weight', 'sent', 'colour'"):
        detector.predict(table[["length"]])


@pytest.mark.parametrize("settings", [{}, {"n_members": 2, "n_steps": 3, "embedding_dim": 8}], ids=["views", "network"])
def test_a_table_without_rows_has_an_empty_result(settings):
    detector = NPTAD(random_state=0, **settings).fit(orders(60))
    empty = orders(1)[:0]
    assert detector.score_samples(empty).shape == detector.predict(empty).shape == (0,)
    found = score_table(detector, read_table(io.BytesIO(b"length,weight,colour,sent\n"), "csv"), reasons=True)
    assert found.table().num_rows == 0


def test_the_report_of_a_table_without_rows_says_so(detector, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        detector.report(orders(1).assign(known=1)[:0], tmp_path / "report.html", label="known")
    page = (tmp_path / "report.html").read_text()
    assert "The table has no rows." in page
    assert not re.search(r"\bnan\b", page.partition("<main")[2])


def test_the_result_of_a_table_without_rows_has_the_columns_of_any_other():
    with pytest.warns(TableWarning, match="identifiers"):
        detector = NPTAD(random_state=0).fit(orders().assign(id=[f"A{row}" for row in range(N)]))
    table = orders(3).assign(id=["A1", "A2", "A3"])
    some = score_table(detector, table, reasons=True).table()
    assert "id" in some.column_names
    for none in (table[:0], pa.Table.from_pandas(table[:0], preserve_index=False), table[:0].astype(object)):
        assert score_table(detector, none, reasons=True).table().column_names == some.column_names


def test_a_network_scores_a_batch_with_an_unreadable_cell():
    detector = NPTAD(2, n_steps=3, embedding_dim=8, random_state=0).fit(orders(60))
    with pytest.warns(TableWarning, match="oops"):
        found = detector.detect(changed(weight="oops"), false_alarm_rate=0.1)
    assert np.isfinite(found.score).all()
    assert found.score.argmax() == 3
    assert detector.explain(changed(weight="oops"))[3].reasons[0].seen == "oops"


def test_an_unreadable_cell_of_the_training_table_itself_is_found():
    table = orders().astype(str)
    table.loc[7, "weight"] = "oops"
    with pytest.warns(TableWarning, match="'oops' in row 7"):
        found = detect_table(table, NPTAD(random_state=0), share=0.01)
    assert found.detection.ranking()[0] == 7
    assert found.reasons()[7].startswith("weight is oops, which cannot be read; similar rows have about ")


def test_the_report_counts_what_cannot_be_read(detector):
    with pytest.warns(TableWarning):
        found = score_table(detector, changed(weight="oops"), reasons=True)
    notes = summarise(found)["result"]["notes"]
    assert any("1 cell(s) of column 'weight' cannot be read as a number (such as 'oops' in row 3)" in n for n in notes)


# Drift


def drift_of(detector, table):
    return detector.detect(table).drift


def test_rows_like_the_training_rows_do_not_drift(detector):
    assert drift_of(detector, orders(200, seed=2)) == ()
    assert drift_of(detector, orders()) == ()


def test_upper_case_categories_are_found(detector):
    table = orders(200, seed=2)
    sentences = drift_of(detector, table.assign(colour=table["colour"].str.upper()))
    assert sentences == ("colour: 200 of 200 values were never seen in training; most flags come from this column.",)


def test_changed_units_are_found(detector):
    table = orders(200, seed=2)
    (sentence,) = drift_of(detector, table.assign(weight=1000 * table["weight"]))
    assert sentence.startswith("weight: 200 of 200 values are outside the range of training (")
    (sentence,) = drift_of(detector, table.assign(weight=table["weight"] + 3))
    assert sentence.startswith("weight: the values are distributed otherwise than in training (median 3")


def test_swapped_columns_are_found(detector):
    sentences = drift_of(detector, orders(200, seed=2).rename(columns={"weight": "length", "length": "weight"}))
    assert [sentence.split(":")[0] for sentence in sentences] == ["length", "weight"]


def test_more_gaps_and_unreadable_cells_are_found(detector):
    table = orders(200, seed=2).astype(str)
    table.loc[:60, "length"] = None
    table.loc[:60, "weight"] = "?!"
    with pytest.warns(TableWarning, match="61 cell"):
        sentences = drift_of(detector, table)
    assert sentences[0].startswith("length: 61 of 200 cells are missing (in training none)")
    assert sentences[1].startswith("weight: 61 of 200 cells cannot be read as a number (in training none)")


def test_other_shares_of_categories_are_found(detector):
    table = orders(200, seed=2)
    table.loc[:150, "colour"] = "red"
    (sentence,) = drift_of(detector, table)
    assert sentence.startswith("colour: the values have other shares than in training: ")


def test_the_report_says_drift_first(detector):
    table = orders(200, seed=2)
    found = score_table(detector, table.assign(colour=table["colour"].str.upper()))
    summary = summarise(found)
    assert summary["result"]["drift"] == list(found.detection.drift)
    assert "Next, look at the columns that differ from training" in summary["result"]["meaning"]
    page = render(summary)
    assert page.index(escape(found.detection.drift[0])) < page.index('id="anomalies"')
