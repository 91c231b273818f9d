"""What a model answers: the scores of ``detect``, whoever asks at the same time, and a sentence for what is wrong."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nptad import NPTAD
from nptad.service.messages import Request
from nptad.service.scoring import EXPLAINED_ROWS, ModelScorer
from tiny_detector import tiny


def made(n_rows, seed):
    random = np.random.default_rng(seed)
    size = random.normal(size=n_rows)
    weight = 3 * size + 0.1 * random.normal(size=n_rows)
    return pd.DataFrame({"size": size, "weight": weight, "colour": np.where(size > 0, "red", "blue")})


@pytest.fixture(scope="module", params=["views", "network"])
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    detector = (NPTAD(random_state=0) if request.param == "views" else tiny()).fit(made(200, 0))
    detector.save(folder)
    return detector, ModelScorer(str(folder), None, 1000)


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    detector = NPTAD(random_state=0).fit(made(200, 0))
    detector.save(folder)
    return detector, ModelScorer(str(folder), 0.05, 1000)


def json_request(rows, kind="score"):
    return Request(kind, "json", json.dumps(rows).encode())


def rows_of(table):
    return json.loads(table.to_json(orient="records", double_precision=15))


def contents(scorer, *requests):
    answers = scorer.answer(requests)
    return [(answer.status, json.loads(answer.body)) for answer in answers]


def scores(content):
    return np.array([row["score"] for row in content["rows"]])


def table_bodies(table):
    arrow, parquet = io.BytesIO(), io.BytesIO()
    whole = pa.Table.from_pandas(table, preserve_index=False)
    with pa.ipc.new_stream(arrow, whole.schema) as writer:
        writer.write_table(whole)
    pq.write_table(whole, parquet)
    return {"csv": table.to_csv(index=False).encode(), "arrow": arrow.getvalue(), "parquet": parquet.getvalue()}


def test_requests_of_all_formats_are_scored_together_as_in_process_alone(model):
    detector, scorer = model
    tables = [made(n_rows, seed) for seed, n_rows in enumerate((1, 7, 1, 30), 1)]
    requests = [json_request(rows_of(table)) for table in tables]
    requests += [Request("score", format, body) for format, body in table_bodies(tables[3]).items()]
    for (status, content), table in zip(contents(scorer, *requests), [*tables, *tables[3:] * 3], strict=True):
        found = detector.detect(table)
        assert status == 200
        np.testing.assert_allclose(scores(content), found.score, rtol=1e-5)
        np.testing.assert_allclose([row["p_value"] for row in content["rows"]], found.p_value, rtol=1e-4)
        assert [row["anomaly"] for row in content["rows"]] == found.anomaly.tolist()
        assert content["flagged"] == found.anomaly.sum()


def test_poisoned_rows_change_no_other_row(views):
    detector, scorer = views
    good = rows_of(made(3, 1))
    bad = [7, None, [], {}, {"size": [1], "weight": 1, "colour": "red"}, {"size": 1}]
    odd = {"size": "oops", "weight": 10**400, "colour": "green"}
    (status, content), (_, other) = contents(
        scorer, json_request([bad[0], good[0], *bad[1:], odd, *good[1:]]), json_request(good[:1])
    )
    rows = content["rows"]
    assert status == 200
    assert ["error" in row for row in rows] == [True, False, *[True] * 5, False, False, False]
    assert all(row["score"] is None and row["error"].endswith(".") for row in rows if "error" in row)
    found = detector.detect(made(3, 1)).score
    np.testing.assert_allclose([rows[i]["score"] for i in (1, 8, 9)], found, rtol=1e-5)
    np.testing.assert_allclose(scores(other), found[:1], rtol=1e-5)
    assert rows[7]["unreadable"] == ["size", "weight"]
    assert rows[7]["anomaly"]
    assert scorer.answer([json_request([*bad])])[0].refused == len(bad)


@pytest.mark.parametrize(
    ("format", "body", "status", "sentence"),
    [
        ("json", b"{", 400, "The body cannot be read as JSON ("),
        ("json", b"\xff\xfe", 400, "The body cannot be read as JSON ("),
        ("json", b"[" * 100_000, 400, "The body cannot be read as JSON ("),
        ("json", b'{"row": []}', 422, "The body is JSON, but has no rows; send an array of rows, or an object"),
        ("json", b"[" + b"0," * 1000 + b"0]", 413, "The body has 1,001 rows, and 1,000 are taken at a time; send it"),
        ("csv", b"", 400, "The body is empty; give"),
        ("csv", b"size,weight\n1\n", 400, "Line 2 of The body has 1 cell(s), the header has 2;"),
        ("csv", b"other\n1\n2\n", 422, "The feature names should match those that were passed during fit:"),
        ("csv", b"size,weight,colour\n" + b"1,2,red\n" * 1001, 413, "The body has 1,001 rows"),
        ("parquet", b"PAR1 and so on", 400, "The body cannot be read as Parquet ("),
        ("arrow", b"nothing like it", 400, "The body cannot be read as Arrow ("),
    ],
)
def test_a_bad_body_is_one_sentence_for_its_sender_only(views, format, body, status, sentence):
    (got, content), (fine, _) = contents(views[1], Request("score", format, body), json_request(rows_of(made(2, 1))))
    assert (got, fine) == (status, 200)
    assert content["error"].startswith(sentence)
    assert content["error"].endswith(".")


def test_reasons_are_those_of_explain(model):
    detector, scorer = model
    table = pd.concat([made(2, 1), pd.DataFrame({"size": [1.0], "weight": [-9.0], "colour": ["red"]})])
    ((status, content),) = contents(scorer, json_request(rows_of(table), "explain"))
    assert status == 200
    for row, why in zip(content["rows"], detector.explain(table), strict=True):
        assert row["reasons"][0]["column"] == why.reasons[0].column
        np.testing.assert_allclose(
            [reason["contribution"] for reason in row["reasons"]],
            [reason.contribution for reason in why.reasons],
            rtol=1e-3,
            atol=1e-6,
        )
    assert "weight" in content["rows"][2]["reasons_text"]


def test_a_cell_that_cannot_be_read_is_shown_as_it_was_sent(views):
    ((_, content),) = contents(views[1], json_request([{"size": "oops", "weight": 1, "colour": "red"}], "explain"))
    assert content["rows"][0]["reasons"][0]["seen"] == "oops"
    assert "size is oops" in content["rows"][0]["reasons_text"]


def test_few_rows_are_explained_at_a_time(tmp_path):
    NPTAD(random_state=0).fit(made(50, 0)).save(tmp_path / "model")
    scorer = ModelScorer(str(tmp_path / "model"), None, 10**6)
    assert scorer.answer([json_request([0] * (EXPLAINED_ROWS + 1), "explain")])[0].status == 413


def test_the_training_table_is_recognised_in_one_request_and_not_put_together_of_two(views):
    detector, scorer = views
    training = made(200, 0)
    whole, first, second = (
        Request("score", "csv", t.to_csv(index=False).encode()) for t in (training, training[:100], training[100:])
    )
    (_, known), (_, half), (_, other) = contents(scorer, whole, first, second)
    np.testing.assert_allclose(scores(known), detector.detect(training).score, rtol=1e-5)
    halves = [detector.detect(part).score for part in (training[:100], training[100:])]
    np.testing.assert_allclose(np.concatenate([scores(half), scores(other)]), np.concatenate(halves), rtol=1e-5)
    (_, half), (_, other) = contents(scorer, first, second)
    np.testing.assert_allclose(np.concatenate([scores(half), scores(other)]), np.concatenate(halves), rtol=1e-5)
    assert not np.allclose(np.concatenate(halves), scores(known))


def test_columns_without_names_come_as_lists(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 2))
    detector = NPTAD(random_state=0).fit(x)
    detector.save(tmp_path / "model")
    scorer = ModelScorer(str(tmp_path / "model"), None, 100)
    ((_, content),) = contents(scorer, json_request([[0.5, 9.0], [1], {"0": 1}]))
    np.testing.assert_allclose(content["rows"][0]["score"], detector.detect([[0.5, 9.0]]).score[0], rtol=1e-5)
    expected = "The row is not a list of 2 cells; the columns of this model have no names."
    assert [row.get("error") for row in content["rows"]] == [None, expected, expected]
    assert len(scorer.facts()["answer"]["rows"]) == 1


def test_the_example_is_a_row_that_goes_together(tmp_path):
    """A row of means is none: here no row is between the two groups, and weight is three times the size."""
    random = np.random.default_rng(0)
    size = np.where(random.random(300) < 0.5, 10, 50) + random.integers(0, 4, 300)
    table = pd.DataFrame({"size": size, "weight": 3 * size, "paid": random.random(300) < 0.5})
    NPTAD(random_state=0).fit(table).save(tmp_path / "model")
    facts = ModelScorer(str(tmp_path / "model"), None, 100).facts()
    example = {column["name"]: column["example"] for column in facts["columns"]}
    assert example["weight"] == 3 * example["size"]
    assert (type(example["size"]), type(example["paid"])) == (int, bool)
    assert facts["answer"]["rows"][0]["anomaly"] is False


def test_a_failure_of_one_request_is_not_that_of_others(views, monkeypatch, capsys):
    _, scorer = views
    real = scorer._table
    monkeypatch.setattr(scorer, "_table", lambda request, most: real(request, most) if request.body else 1 / 0)
    (bad, content), (good, _) = contents(scorer, Request("score", "csv", b""), json_request(rows_of(made(1, 1))))
    assert (bad, good) == (500, 200)
    assert "no fault of yours" in content["error"]
    assert json.loads(capsys.readouterr().err)["event"] == "failed"


def test_drift_and_the_share_of_flags_are_told_of_the_last_rows(tmp_path):
    NPTAD(random_state=0).fit(made(200, 0)).save(tmp_path / "model")
    scorer = ModelScorer(str(tmp_path / "model"), None, 10**4)
    assert scorer.last_rows.compare() is None  # nothing was scored yet, not even the example
    scorer.answer([json_request(rows_of(made(300, 1)))])
    news = scorer.last_rows.compare()
    assert news["drifted"] == []
    assert news["flagged_share"] < 0.1
    assert scorer.last_rows.compare() is None  # it was said a moment ago
    scorer.last_rows._next = 0
    drifted = made(2500, 2).assign(colour="green")
    scorer.answer([json_request(rows_of(drifted))])
    assert scorer.last_rows.compare() == {"drifted": ["colour"], "flagged_share": 1.0}
    assert sum(len(block) for block, _ in scorer.last_rows._blocks) == 2000
