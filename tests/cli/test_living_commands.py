"""The commands that change a saved model: what they do, what they print, and what they refuse."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import nptad
from nptad import NPTAD, InputError
from nptad.cli.app import app


def parcels(n: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    weight = random.normal(500, 80, n)
    frame = pd.DataFrame({"id": [f"P{i}" for i in range(n)], "weight": weight, "length": weight / 10})
    frame["length"] += random.normal(0, 3, n)
    return frame


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("living") / "model"
    NPTAD(columns={"id": "ignore"}, random_state=0).fit(parcels(200, 0)).save(folder)
    return folder


@pytest.fixture
def model(fitted, tmp_path):
    shutil.copytree(fitted, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def new(tmp_path):
    """A file with three heavy parcels, the 4th, 11th and 12th row."""
    table = parcels(60, 1)
    table.loc[[3, 10, 11], "weight"] = [3000.0, 3020.0, 2990.0]
    table.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


def run(*arguments):
    app([str(argument) for argument in arguments], exit_on_error=False, result_action="return_value")


def flagged(model, new) -> list[int]:
    return [int(row) + 1 for row in np.flatnonzero(nptad.load(model).detect(pd.read_csv(new)).anomaly)]


def test_judged_rows_count_from_1_and_their_like_change(model, new, capsys):
    assert {4, 11, 12} <= set(flagged(model, new))
    run("feedback", model, new, "--fine", "4,11", "--reason", "pallets")
    printed = capsys.readouterr().out
    assert "pallets" in printed
    assert "The model knows 200 rows." in printed
    assert not {4, 11, 12} & set(flagged(model, new))
    run("feedback", model, new, "--anomaly", "12", "--json")
    (record,) = json.loads(capsys.readouterr().out)["records"]
    assert (record["id"], record["kind"], record["n_rows"]) == (2, "reject", 1)
    assert set(flagged(model, new)) & {4, 11, 12} == {12}
    run("explain", model, new, "--rows", "12")
    run("score", model, new, "--reasons", "--output", new.with_name("scores.csv"), "--quiet")
    assert pd.read_csv(new.with_name("scores.csv"))["reasons"][11].startswith("like a known anomaly (record 2). weight")


def test_scores_with_all_columns_can_be_judged(model, new, capsys):
    scores = new.with_name("scores.csv")
    run("score", model, new, "--all-columns", "--output", scores, "--quiet")
    assert pd.read_csv(scores).columns.tolist()[:5] == ["row", "id", "weight", "length", "score"]
    run("feedback", model, scores, "--fine", "4,11")
    assert not {4, 11, 12} & set(flagged(model, new))


def test_all_changes_are_listed_and_taken_back(model, fitted, new, capsys):
    run("feedback", model, new, "--fine", "4", "--anomaly", "11-12", "--quiet")
    run("update", model, new, "--most-rows", "250", "--quiet")
    assert capsys.readouterr().out == ""
    run("feedback", model, "--list", "--json")
    listed = json.loads(capsys.readouterr().out)
    assert [record["kind"] for record in listed["records"]] == ["accept", "reject", "update"]
    assert listed["known_rows"] == 248  # the two rejected rows are known and not compared with
    run("info", model)
    assert "3 changes since the fit" in capsys.readouterr().out
    for number in (1, 2):
        run("feedback", model, "--undo", number, "--quiet")
    run("feedback", model, "--undo", 3)
    assert "Record 3 is taken back. The model knows 190 rows." in capsys.readouterr().out  # ten had left


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["new.csv"], "Give a table with --fine or --anomaly"),
        (["--fine", "3"], "Give a table"),
        (["new.csv", "--list"], "Give a table"),
        (["--list", "--undo", "1"], "Give a table"),
        (["new.csv", "--fine", "61"], "no row 61: the table has 60 rows, counted from 1"),
        (["new.csv", "--anomaly", "x"], "--anomaly 'x' is not a list"),
        (["new.csv", "--fine", "3-5", "--anomaly", "4"], "Row 4 cannot be both"),
        (["scores.csv", "--fine", "1"], "the table that was scored, or scores with --all-columns"),
        (["--undo", "7"], "no record 7"),
    ],
)
def test_mistakes_are_told_and_change_nothing(model, new, monkeypatch, options, said):
    monkeypatch.chdir(new.parent)
    pd.DataFrame({"row": [1], "score": [9.0]}).to_csv("scores.csv", index=False)
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    with pytest.raises(InputError, match=said):
        run("feedback", model, *options)
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before


def test_a_model_that_changed_meanwhile_is_not_overwritten(model, new, monkeypatch):
    accept = NPTAD.accept

    def slowly(self, *arguments, **options):
        number = accept(self, *arguments, **options)
        other = nptad.load(model)
        accept(other, pd.read_csv(new)[:1])
        other.save(model)
        return number

    monkeypatch.setattr(NPTAD, "accept", slowly)
    with pytest.raises(InputError, match="changed by another program"):
        run("feedback", model, new, "--fine", "4")
    assert [record.n_rows for record in nptad.load(model).feedback_] == [1]
