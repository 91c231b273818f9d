"""What happens in the worker: reading files, describing columns, the job itself, and its time left."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import zipfile

import numpy as np
import pyarrow as pa
import pytest

import nptad
from nptad.errors import InputError
from nptad.io.read import read_table
from nptad.io.write import write_table
from nptad.processes import Child
from nptad.web import example, jobs
from nptad.web.choices import (
    Choices,
    column_uses,
    default_choices,
    form_values,
    ignored_columns,
    label_column,
    parse_choices,
)
from nptad.web.columns import describe_columns
from nptad.web.judging import judge
from nptad.web.pace import Pace, expected_work
from nptad.web.pages import PHASES, render
from nptad.web.runner import WORKER
from nptad.web.worker import MAX_COLUMNS, _command, detect, inspect
from nptad.wording import plural


def inspected(directory, data, name="table.csv", format="csv", max_bytes=10**6, max_rows=1000):
    directory.mkdir(exist_ok=True)
    if data is not None:
        (directory / jobs.UPLOAD).write_bytes(data)
    return inspect(directory=str(directory), name=name, format=format, max_bytes=max_bytes, max_rows=max_rows)


def csv(table):
    file = io.BytesIO()
    write_table(table, file)
    return file.getvalue()


MIXED = pa.table(
    {
        "id": [f"r{i}" for i in range(40)],
        "size": [float(i % 7) + 0.5 for i in range(40)],
        "flag": [i % 2 for i in range(40)],
        "kind": pa.array(["a", "b", None, "c"] * 10),
        "nothing": pa.nulls(40),
        "same": [3] * 40,
        "when": pa.array([86400 * i for i in range(40)], pa.timestamp("s")),
        "truth": [i > 20 for i in range(40)],
    }
)


def test_columns_are_described_as_they_are_understood():
    described = {column["name"]: column for column in describe_columns(MIXED)}
    assert {name: column["understood"] for name, column in described.items()} == {
        "id": "row identifier",
        "size": "numbers",
        "flag": "2 categories",
        "kind": "3 categories",
        "nothing": "empty",
        "same": "one value only",
        "when": "row sequence",
        "truth": "true or false",
    }
    assert {name: column["use"] for name, column in described.items()} == {
        "id": "ignore",
        "size": "number",
        "flag": "category",
        "kind": "category",
        "nothing": "ignore",
        "same": "category",
        "when": "ignore",
        "truth": "category",
    }
    assert described["kind"]["missing"] == "25%"
    assert described["size"]["samples"] == ["0.5", "1.5", "2.5", "3.5"]
    assert described["when"]["samples"][0] == "1970-01-01"
    assert described["flag"]["values"] == ["0", "1"]
    assert described["truth"]["values"] == ["False", "True"]
    assert described["id"]["values"] == described["same"]["values"] == []


def test_a_column_that_cannot_be_used_does_not_spoil_the_others():
    table = pa.table({"x": [1.0, 2.0, 3.0], "endless": [1.0, np.inf, 2.0], "list": [[1], [2], [3]]})
    x, endless, nested = describe_columns(table)
    assert x["use"] == "number"
    assert nested["uses"] == ["ignore"]
    assert "lists" in nested["understood"]
    assert endless["note"].startswith("1 cell cannot be read")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"x": [1.0]}), "1 row and 1 column; at least two rows"),
        (pa.table({"x": pa.nulls(3)}), "No column of the table can be used"),
        (pa.table({"x": [[1.0], [2.0]]}), "No column of the table can be used. Give each"),
    ],
)
def test_a_table_that_cannot_be_used_is_an_error(table, message):
    with pytest.raises(InputError, match=message):
        describe_columns(table)


def test_a_value_with_an_equals_sign_may_be_the_label_unless_that_names_another_column():
    columns = describe_columns(pa.table({"x": ["a=b", "c", "c"], "y": ["z", "d", "d"], "y=z": [1.0, 2.0, 3.0]}))
    assert [column["values"] for column in columns[:2]] == [["a=b", "c"], ["d"]]


def test_the_command_can_name_columns_with_commas_and_values_with_equals_signs():
    columns = describe_columns(pa.table({"a, b": [1.5, 2.5, 3.5], "c": [1.5, 2.5, 4.5], "x": ["p=q", "r", "r"]}))
    choices = Choices(("ignore", "category", "category"), (2, 0))
    command = _command("t.csv", choices, columns)
    assert (
        command == "nptad detect t.csv --as 'a, b=ignore' --as c=category --label x=p=q --seed 0 --report report.html"
    )


def test_choices_become_arguments_of_the_library():
    columns = describe_columns(MIXED)
    choices = default_choices(columns)
    assert ignored_columns(choices, columns) == ["id", "nothing", "when"]
    assert column_uses(choices, columns) == {}  # what the library finds by itself
    assert label_column(choices, columns) is None
    entered = {**form_values(choices), "use-1": "category", "use-2": "number", "use-3": "ignore", "label": "7:1"}
    choices = parse_choices(entered, columns, 40)
    assert ignored_columns(choices, columns) == ["id", "kind", "nothing", "when"]
    assert column_uses(choices, columns) == {"size": "category", "flag": "number", "kind": "ignore"}
    assert label_column(choices, columns) == "truth=True"
    assert Choices.from_dict(json.loads(json.dumps(choices.__dict__))) == choices
    assert parse_choices(form_values(choices), columns, 40) == choices


def test_a_job_with_a_limit_for_training_which_the_page_does_not_ask_for_any_more_is_read():
    job = jobs.Job("j", "t.csv", 60, [{}], Choices(("category",), seed=3))
    stored = json.loads(job.to_json())
    stored["choices"]["time_limit"] = 9.0
    assert jobs.Job.from_json(json.dumps(stored)) == job


@pytest.mark.parametrize(
    ("entered", "message"),
    [
        ({"use-0": "number"}, "cannot be used in this way"),
        ({"use-4": "category"}, "cannot be used in this way"),
        ({"label": "7"}, "no such label"),
        ({"label": "7:2"}, "no such label"),
        ({"label": "99:0"}, "no such label"),
        ({"label": "-1:0"}, "no such label"),
        ({"label": "9" * 5000 + ":0"}, "no such label"),
        ({"share": "0"}, "above 0 and at most 50"),
        ({"share": "51"}, "above 0 and at most 50"),
        ({"share": "nan"}, "above 0 and at most 50"),
        ({"share": "2.4"}, "at least 2.5%"),
        ({"seed": "-1"}, "of at least 0"),
        ({"seed": "1.5"}, "whole number"),
        ({"seed": "1e999"}, "of at least 0"),
        ({"seed": "soon"}, "of at least 0"),
        ({f"use-{i}": "ignore" for i in range(8)}, "No column is left"),
        ({**{f"use-{i}": "ignore" for i in range(7)}, "label": "7:0"}, "No column is left"),
    ],
)
def test_impossible_choices_are_one_sentence(entered, message):
    with pytest.raises(InputError, match=message):
        parse_choices(entered, describe_columns(MIXED), 40)


def test_decimal_commas_and_empty_fields_are_fine():
    choices = parse_choices({"share": " 2,5 ", "seed": ""}, describe_columns(MIXED), 40)
    assert (choices.share, choices.seed) == (0.025, 0)


def test_a_process_reads_an_upload_without_torch_and_without_the_current_folder(tmp_path, monkeypatch):
    for name in ("random", "json", "torch"):
        (tmp_path / f"{name}.py").write_text("open('marker', 'w').close()")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / jobs.UPLOAD).write_bytes(csv(MIXED))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    task = {"do": "inspect", "directory": "home", "name": "t.csv", "format": "csv", "max_bytes": 10**6, "max_rows": 99}
    errors = os.dup(2)
    with (tmp_path / "imports").open("w") as file:
        os.dup2(file.fileno(), 2)
        try:
            with Child(WORKER) as child:
                child.send(task)
                assert child.receive()[0]["done"]["n_rows"] == 40
        finally:
            os.dup2(errors, 2)
            os.close(errors)
    imported = {line.split("|")[-1].strip() for line in (tmp_path / "imports").read_text().splitlines()}
    assert "pyarrow" in imported
    assert not {"torch", "sklearn", "matplotlib"} & imported
    assert not (tmp_path / "marker").exists()


def test_a_workbook_and_an_archive_are_taken(tmp_path):
    sheet, archive = io.BytesIO(), io.BytesIO()
    write_table(MIXED, sheet, "xlsx")
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("orders.csv", csv(MIXED))
    for name, file in {"orders.xlsx": sheet, "orders.zip": archive}.items():
        found = inspected(tmp_path / name, file.getvalue(), name, name.partition(".")[2])
        assert (found["n_rows"], len(found["columns"])) == (40, len(MIXED.column_names))
        assert read_table(tmp_path / name / jobs.TABLE)["size"].to_pylist() == MIXED["size"].to_pylist()


def test_an_upload_becomes_an_arrow_file(tmp_path):
    found = inspected(tmp_path, csv(MIXED))
    assert found["n_rows"] == 40
    assert [path.name for path in tmp_path.iterdir()] == [jobs.TABLE]
    assert read_table(tmp_path / jobs.TABLE)["size"] == MIXED["size"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "wine.csv is empty"),
        (b"PK\x03\x04workbook", "wine.csv is an Excel workbook or a zip archive, not csv"),
        (b"a,b\n1\n2,3\n4,5,6\n", "wine.csv"),
        (b"PAR1", "wine.csv holds parquet data"),
        (b"\x00\x01\x02\x03" * 100, "wine.csv"),
        (gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:-9], "wine.csv cannot be unpacked"),
        (gzip.compress(bytes(2 * 10**7), mtime=0), "wine.csv is larger than 10 MB when unpacked"),
        (b"x\n" + b"1\n" * 1001, "wine.csv has 1,001 rows; this server takes 1,000"),
        (",".join(f"x{i}" for i in range(MAX_COLUMNS + 1)).encode() + b"\n", "columns"),
    ],
)
def test_a_bad_file_is_one_sentence_with_the_users_name_for_it(tmp_path, data, message):
    with pytest.raises(InputError, match=message) as raised:
        inspected(tmp_path / "secret place", data, "wine.csv")
    assert "secret place" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_example_is_understood_and_proposes_its_label(tmp_path):
    found = inspected(tmp_path, None, jobs.EXAMPLE, None)
    choices = Choices.from_dict(found["choices"])
    assert label_column(choices, found["columns"]) == "booking=wrong"
    assert ignored_columns(choices, found["columns"]) == ["parcel"]
    assert [column["missing"] != "none" for column in found["columns"]].count(True) == 2
    assert example.example_table().equals(read_table(tmp_path / jobs.TABLE))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished job on a table of a few mixed columns, and all messages of its worker."""
    random = np.random.default_rng(0)
    x = random.normal(size=60)
    table = pa.table(
        {
            "name": [f"row {i}" for i in range(60)],
            "x": x,
            "y": pa.array(2 * x + 0.01 * random.normal(size=60), mask=random.random(60) < 0.1),
            "kind": np.where(x > 0, "up", "down"),
            "tags": [[1]] * 60,
            "odd": [int(i == 7) for i in range(60)],
        }
    )
    table = table.set_column(1, "x", pa.array(np.where(np.arange(60) == 7, 40.0, x)))
    directory = tmp_path_factory.mktemp("job")
    file = io.BytesIO()
    write_table(table, file, "parquet")
    found = inspected(directory, file.getvalue(), "trend.parquet", "parquet")
    place = next(i for i, column in enumerate(found["columns"]) if column["name"] == "odd")
    choices = {**found["choices"], "label": [place, found["columns"][place]["values"].index("1")]}
    messages = []
    outcome = detect(
        directory=str(directory),
        name="trend.parquet",
        columns=found["columns"],
        choices=choices,
        tell=messages.append,
    )
    return directory, outcome, messages


def test_what_the_user_says_about_a_row_changes_the_kept_model(done, tmp_path):
    shutil.copytree(done[0], tmp_path / "job")
    result, odd = tmp_path / "job" / jobs.RESULT, read_table(done[0] / jobs.TABLE).slice(7, 1)

    def say(verdict, row=8):
        judge(directory=str(tmp_path / "job"), row=row, verdict=verdict)
        with zipfile.ZipFile(result / jobs.MODEL) as archive:
            archive.extractall(tmp_path / verdict)
        rows = json.loads((result / jobs.DIGEST).read_text())["rows"]
        verdicts = [entry.get("verdict") for entry in rows if entry["row"] == 8]
        return float(-nptad.load(tmp_path / verdict / "model").score_samples(odd)[0]), verdicts

    fine, verdicts = say("fine")
    assert verdicts == ["fine"]
    anomaly, verdicts = say("anomaly")
    assert verdicts == ["anomaly"]
    before, verdicts = say("undo")
    assert verdicts == [None]
    assert fine < 0.01 < before
    assert anomaly > before - 0.11  # so odd by itself that likeness adds nothing
    with pytest.raises(InputError, match="Row 999 is not listed"):
        say("fine", 999)


def test_the_job_finds_the_odd_row_and_says_why(done):
    directory, outcome, _ = done
    digest = json.loads((directory / jobs.RESULT / jobs.DIGEST).read_text())
    row, n_flagged = digest["rows"][0], digest["n_flagged"]
    assert 1 <= n_flagged == len(digest["rows"]) <= 2  # the odd row, and at most one beside it
    assert outcome["headline"] == plural(n_flagged, "row") + " flagged"
    assert (row["row"], row["names"], row["label"]) == (8, ["row 7"], 1)
    assert row["sentences"][0][0] in (["column", "x"], ["column", "y"])


@pytest.mark.parametrize("phase", PHASES)
def test_the_page_can_be_loaded_in_every_phase(phase):
    job = jobs.Job("j", "t.csv", 60, [{}], Choices(("category",)), state="running")
    standing = {"line": "running, 5%", "phase": phase, "share": 0.05, "left": "a few seconds left"}
    page = render("progress", job=job, standing=standing, line=[job], form_token="", config=None).body.decode()
    assert re.findall('data-phase="([A-Za-z]+)" aria-current="step"', page) == [phase]


def test_scores_model_and_report_are_there_and_nothing_else(done):
    directory, _, _ = done
    assert {path.name for path in directory.iterdir()} == {jobs.TABLE, jobs.RESULT}
    expected = {jobs.REPORT, jobs.SCORES_CSV, jobs.SCORES_PARQUET, jobs.MODEL, jobs.DIGEST}
    assert {path.name for path in (directory / jobs.RESULT).iterdir()} == expected
    scores = read_table(directory / jobs.RESULT / jobs.SCORES_PARQUET)
    assert scores.column_names == ["row", "name", "odd", "score", "p_value", "anomaly", "reasons"]
    assert scores["anomaly"].to_pylist().index(True) == int(np.argmax(scores["score"].to_numpy())) == 7
    assert read_table(directory / jobs.RESULT / jobs.SCORES_CSV).num_rows == 60
    report = (directory / jobs.RESULT / jobs.REPORT).read_text()
    assert "trend.parquet" in report
    assert re.search(r"nptad detect trend.parquet --label odd=1 .*--seed 0", report)


def test_the_model_can_be_used(done, tmp_path):
    directory, _, _ = done
    with zipfile.ZipFile(directory / jobs.RESULT / jobs.MODEL) as archive:
        assert all(name.startswith("model/") for name in archive.namelist())
        archive.extractall(tmp_path)
    detector = nptad.load(tmp_path / "model")
    features = read_table(directory / jobs.TABLE).select(["x", "y", "kind"])
    scores = read_table(directory / jobs.RESULT / jobs.SCORES_PARQUET)["score"].to_numpy()
    np.testing.assert_array_equal(-detector.score_samples(features), scores)


def test_progress_goes_through_all_phases_and_never_back(done):
    progress = [message["progress"] for message in done[2]]
    phases = list(dict.fromkeys(told["phase"] for told in progress))
    assert phases == list(PHASES)
    shares = [told["share"] for told in progress]
    assert shares == sorted(shares)
    assert shares[-1] <= 1


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_the_time_left_is_right_when_the_guess_is():
    clock, work = Clock(), {"Fitting": 100.0, "Explaining": 50.0}
    pace = Pace(work, clock=clock)
    assert pace.update("Fitting", 0, 10) == (0.0, None)
    clock.now = 50.0
    assert pace.update("Fitting", 5, 10) == (pytest.approx(1 / 3), pytest.approx(100))
    clock.now = 100.0
    pace.update("Fitting", 10, 10)
    assert pace.update("Explaining", 0, 10) == (pytest.approx(2 / 3), pytest.approx(50))
    clock.now = 150.0
    assert pace.update("Explaining", 10, 10) == (1.0, 0.0)


def test_a_phase_that_is_slower_than_expected_corrects_the_guess_but_not_the_bar():
    clock = Clock()
    pace = Pace({"Fitting": 100.0, "Explaining": 10.0}, clock=clock)
    pace.update("Fitting", 0, 10)
    clock.now = 100.0
    before, _ = pace.update("Fitting", 10, 10)
    pace.update("Explaining", 0, 10)
    clock.now = 150.0
    share, left = pace.update("Explaining", 1, 10)
    assert share == before
    assert left == pytest.approx(450)


def test_a_wide_row_is_more_work_to_explain():
    narrow, wide = expected_work(1000, 10, 10), expected_work(1000, 100, 10)
    assert wide["Explaining"] == 10 * narrow["Explaining"]
    assert list(wide) == ["Fitting", "Explaining", "Writing"]
