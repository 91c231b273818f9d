"""The commands on files, the way a user types them."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nptad.cli.app
from nptad.errors import InputError
from nptad.explain.result import CellReason, RowExplanation
from nptad.explain.sentences import reasons_text
from nptad.io.read import read_table
from nptad.io.sources import read_source
from nptad.io.write import write_table
from nptad.scoring.calibrate import Detection
from nptad.tables.selection import select_columns
from table_results import result_of

QUICK = ["--time-limit", "0.5", "--quiet"]


def orders(n_rows=80, seed=0):
    """Orders whose weight follows from their length and colour; the last one is wrong."""
    random = np.random.default_rng(seed)
    length = random.normal(10, 2, n_rows)
    colour = np.where(length > 10, "red", "blue")
    weight = 3 * length + np.where(colour == "red", 5, 0) + random.normal(0, 0.1, n_rows)
    weight[-1] = 200.0
    gaps = [None if i % 17 == 3 else value for i, value in enumerate(length.tolist())]
    known = [int(i == n_rows - 1) for i in range(n_rows)]
    return pa.table(
        {"id": [f"A{i}" for i in range(n_rows)], "length": gaps, "colour": colour, "weight": weight, "known": known}
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A CSV of orders and a model fitted on them."""
    folder = tmp_path_factory.mktemp("orders")
    write_table(orders(), folder / "orders.csv")
    ran = command("fit", folder / "orders.csv", "--model", folder / "model", "--ignore", "id,known", *QUICK)
    assert ran == (0, "", "")
    return folder


def command(*arguments, **more):
    """Exit code, standard output and standard error of a real process."""
    ran = subprocess.run(
        [sys.executable, "-m", "nptad.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "COLUMNS": "200"},
        **more,
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.fixture
def call(monkeypatch, capsys):
    """The same inside this process, which is faster."""

    def run(*arguments):
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["nptad", *map(str, arguments)])
        code = 0
        try:
            nptad.cli.app.main()
        except SystemExit as stopped:
            code = stopped.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_detect_finds_the_wrong_order_and_says_why(call, folder, tmp_path):
    output, report, model = tmp_path / "scores.csv", tmp_path / "report.html", tmp_path / "model"
    code, out, err = call(
        *("detect", folder / "orders.csv", "--ignore", "id", "--label", "known", "--top", "3"),
        *("--output", output, "--report", report, "--model", model, *QUICK),
    )
    assert (code, err) == (0, "")
    assert "1 of 80 rows looks anomalous" in out
    assert "A79" in out
    assert "weight is 200" in out
    assert "AUROC 1.000" in out
    scores = read_table(output)
    assert scores.column_names == ["row", "id", "known", "score", "p_value", "anomaly", "reasons"]
    assert scores.num_rows == 80
    assert scores["anomaly"].to_pylist() == [False] * 79 + [True]
    assert scores["reasons"][79].as_py().startswith("weight is 200")
    assert scores["reasons"].null_count == 79
    assert "weight" in report.read_text(encoding="utf-8")
    assert (model / "config.json").exists()


def test_detect_repeats_for_a_seed(call, folder, tmp_path):
    """A time limit would make the result depend on the clock, so training is cut short by hand."""
    outputs = []
    for name in ("a.csv", "b.csv"):
        arguments = (
            "--ignore",
            "id,known",
            "--seed",
            "3",
            "--output",
            tmp_path / name,
            "--time-limit",
            "1e-9",
            "--quiet",
        )
        assert call("detect", folder / "orders.csv", *arguments)[0] == 0
        outputs.append((tmp_path / name).read_bytes())
    assert outputs[0] == outputs[1]


def test_detect_to_standard_output_is_the_table_only(call, folder):
    code, out, _ = call("detect", folder / "orders.csv", "--ignore", "id,known", "--output", "-", *QUICK)
    assert code == 0
    assert len(list(csv.reader(io.StringIO(out)))) == 81


def test_detect_as_json_is_one_document(call, folder):
    code, out, _ = call("detect", folder / "orders.csv", "--ignore", "id,known", "--share", "0.05", "--json", *QUICK)
    assert code == 0
    assert isinstance(json.loads(out), dict)


def test_score_writes_one_line_per_row_to_standard_output(folder):
    text = (folder / "orders.csv").read_text(encoding="utf-8")
    code, out, err = command("score", folder / "model", "-", "--ignore", "id,known", "--quiet", input=text)
    assert (code, err) == (0, "")
    lines = list(csv.DictReader(io.StringIO(out)))
    assert [line["id"] for line in lines] == [f"A{i}" for i in range(80)]
    assert max(lines, key=lambda line: float(line["score"]))["id"] == "A79"


@pytest.mark.parametrize("name", ["new.parquet", "new.feather", "new.jsonl", "new.tsv", "new.csv.gz"])
def test_every_format_gives_the_same_scores(call, folder, tmp_path, name):
    table = orders(seed=1)
    write_table(table, tmp_path / name)
    pq.write_table(table, tmp_path / "plain.parquet")
    results = []
    for source, target in ((tmp_path / name, name), (tmp_path / "plain.parquet", "plain.csv")):
        target = tmp_path / f"scores-{target}"
        arguments = ("--ignore", "id,known", "--false-alarm-rate", "0.05", "--reasons", "--quiet", "--output", target)
        assert call("score", folder / "model", source, *arguments) == (0, "", "")
        results.append(read_table(target))
    assert results[0]["score"].to_pylist() == pytest.approx(results[1]["score"].to_pylist(), abs=1e-6)
    assert results[0]["anomaly"].to_pylist() == results[1]["anomaly"].to_pylist()
    flagged = [reason is not None for reason in results[0]["reasons"].to_pylist()]
    assert flagged == results[0]["anomaly"].to_pylist()


def test_score_tells_counts_as_json(call, folder, tmp_path):
    arguments = ("--ignore", "id", "--label", "known=1", "--false-alarm-rate", "0.05")
    code, out, _ = call(
        "score",
        folder / "model",
        folder / "orders.csv",
        *arguments,
        "--json",
        "--quiet",
        "--output",
        tmp_path / "s.csv",
    )
    assert code == 0
    counted = json.loads(out)
    assert (counted["rows"], counted["rule"], counted["auroc"]) == (80, "false_alarm_rate", 1.0)


def test_explain_shows_cells_and_training_rows(call, folder):
    arguments = (folder / "model", folder / "orders.csv", "--ignore", "id,known", "--rows", "4,79-80")
    code, out, _ = call("explain", *arguments)
    assert code == 0
    assert all(text in out for text in ("Row 4 (id A3", "Row 79 (id A78", "Row 80 (id A79", "missing", "similar rows"))
    assert out.count("times the usual distance") == 3
    code, out, _ = call("explain", *arguments, "--json")
    rows = json.loads(out)
    assert [row["row"] for row in rows] == [4, 79, 80]
    assert rows[2]["reasons"][0]["column"] == "weight"


def test_info_shows_columns_and_settings(call, folder):
    code, out, _ = call("info", folder / "model")
    assert code == 0
    assert "80 rows, 5 columns" in out
    assert "id (ignored)" in out
    assert "colour (categorical)" in out
    assert json.loads(call("info", folder / "model", "--json")[1])["rows"] == 80


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ("detect no.csv", 1, "no.csv"),
        ("detect orders.csv --output scores.xyz", 1, "scores.xyz"),
        ("detect orders.csv --ignore nothing", 1, "'nothing'"),
        ("detect orders.csv --label colour", 1, "--label colour=value"),
        ("detect orders.csv --label colour=pink", 1, "'pink'"),
        ("detect orders.csv --ignore id,length,colour,weight,known", 1, "ignore fewer"),
        ("detect orders.csv --share 0.0001 --ignore id,known", 1, "share=0.0001 is less than one of 80 rows"),
        ("detect orders.csv --share 2 --ignore id,known", 1, "share must be a number between 0 and 1"),
        ("detect orders.csv --ignore id,known --as nothing=category", 1, "--as"),
        ("detect orders.csv --ignore id,known --output model", 1, "no suffix"),
        ("detect orders.csv --ignore id,known --output orders.csv/scores.csv", 1, "Not a directory"),
        ("detect orders.csv --ignore id,known --report model", 1, "model cannot be written"),
        ("detect orders.csv --ignore id,known --model .", 1, "current directory"),
        ("detect orders.csv --ignore id,known --model orders.csv", 1, "not only a saved nptad model"),
        ("detect orders.csv --ignore id,known --output - --json", 1, "--output"),
        ("fit orders.csv --ignore id,known --model orders.csv", 1, "not only a saved nptad model"),
        ("fit orders.csv --ignore id,known --model new --network --checkpoint model", 1, "model cannot be written"),
        ("fit orders.csv --ignore id,known --model new --nproc 2", 1, "add --network"),
        ("fit orders.csv --ignore id,known --model new --checkpoint c", 1, "add --network"),
        ("fit orders.csv --ignore id,known --model new --as nothing=category", 1, "--as"),
        ("detect orders.csv --seed x", 2, "--seed"),
        ("detect", 2, "DATA"),
        ("score nowhere orders.csv", 1, "nowhere"),
        ("score . orders.csv", 1, ". holds no saved model"),
        ("score model orders.csv --ignore colour --strict", 1, "is missing 'colour'"),
        ("score model orders.csv --ignore id,known --json", 1, "--output"),
        ("score model orders.csv --ignore id,known --fdr 0.1 --false-alarm-rate 0.1", 1, "give one of them"),
        ("explain model orders.csv --ignore id,known --rows 81", 1, "no row 81"),
        ("explain model orders.csv --ignore id,known --rows x", 1, "'x'"),
        ("fit orders.csv", 2, "--model"),
        ("info orders.csv", 1, "orders.csv"),
    ],
)
def test_a_mistake_is_one_clear_message_and_a_code_before_training(call, folder, monkeypatch, arguments, code, named):
    def train(*arguments, **more):
        raise AssertionError("trained")

    monkeypatch.setattr("nptad.detector.fit_ensemble", train)
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    got, out, err = call(*arguments.split())
    assert (got, out) == (code, "")
    assert named in err
    if code == 1:
        assert err.startswith("nptad: ")
        assert err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_notes_are_lines_on_standard_error_unless_quiet(folder, tmp_path):
    table = orders().append_column("same", pa.array([1.5] * 80))
    write_table(table, tmp_path / "orders.csv")
    arguments = (
        "fit",
        tmp_path / "orders.csv",
        "--ignore",
        "id,known",
        "--time-limit",
        "0.2",
        "--model",
        tmp_path / "m",
    )
    code, _, err = command(*arguments)
    assert code == 0
    note = next(line for line in err.splitlines() if line.startswith("nptad: note: "))
    assert "same" in note
    assert command(*arguments, "--quiet")[2] == ""


def test_interrupting_leaves_nothing_behind(folder, tmp_path):
    arguments = [
        "detect",
        "orders.csv",
        "--ignore",
        "id,known",
        "--output",
        tmp_path / "s.csv",
        "--model",
        tmp_path / "m",
        "--network",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "nptad.cli", *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "FORCE_COLOR": "1"},  # else the progress bar shows only at its end
    )
    seen = ""
    while "Training" not in seen:
        seen += process.stderr.read(1)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "nptad: interrupted" in err
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves_early_causes_no_traceback(folder):
    shell = (
        f"{sys.executable} -m nptad.cli score {folder / 'model'} {folder / 'orders.csv'} --ignore id,known --quiet "
        "| head -n 1; exit ${PIPESTATUS[0]}"
    )
    ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False, timeout=120)
    assert ran.stdout.startswith('"row","id"')
    assert "Traceback" not in ran.stderr
    assert ran.returncode in (0, 141)


def test_help_of_every_command_explains_its_options(call):
    for name in ("detect", "fit", "score", "explain", "info", "demo", "bench run", "bench status", "data fetch"):
        code, out, err = call(*name.split(), "--help")
        assert (code, err) == (0, "")
        assert "Usage: nptad" in out


def test_shell_completion_knows_the_commands():
    assert "detect" in nptad.cli.app.app.generate_completion(shell="bash")


def test_labels_may_be_words_numbers_or_truth_values():
    for values in (
        [0, 1, 0],
        ["no", "YES", "no"],
        [False, True, False],
        ["normal", "anomaly", "normal"],
        [0.0, 1.0, -1.0],
    ):
        selection = select_columns(pa.table({"x": [1, 2, 3], "y": values}), label="y")
        assert selection.labels.tolist() == [False, True, False]
    with pytest.raises(InputError, match="'maybe'"):
        select_columns(pa.table({"x": [1, 2], "y": ["yes", "maybe"]}), label="y")


def test_a_column_with_an_equals_sign_in_its_name_can_be_the_label():
    table = pa.table({"x": [1, 2], "a=b": ["p", "q"]})
    assert select_columns(table, label="a=b=q").labels.tolist() == [False, True]


@pytest.mark.parametrize(
    ("values", "marked"),
    [
        ([False, True], ["true", "True", "1"]),
        ([0, 1], ["1", "1.0"]),
        ([1.0, -1.0], ["-1", "-1.0"]),
        ([None, 1.0], ["1"]),
        (["p", "a=b"], ["a=b"]),
        (["p", "true"], ["true"]),
        (["01", "1"], ["1"]),
    ],
)
def test_the_value_of_a_label_is_met_as_people_write_it(values, marked):
    for value in marked:
        selection = select_columns(pa.table({"x": [1, 2], "y": values}), label=f"y={value}")
        assert selection.labels.tolist() == [False, True]


def test_a_column_with_a_comma_in_its_name_can_be_named(call, folder, tmp_path):
    table = orders().rename_columns(["id", "length, m", "colour", "weight", "known, surely"])
    write_table(table, tmp_path / "orders.csv")
    arguments = (tmp_path / "orders.csv", "--model", tmp_path / "model", "--ignore", "known, surely,id", *QUICK)
    assert call("fit", *arguments, "--as", "length, m=category") == (0, "", "")
    kinds = {c["name"]: c["kind"] for c in json.loads(call("info", tmp_path / "model", "--json")[1])["columns"]}
    used = {"length, m": "categorical", "colour": "categorical", "weight": "numeric"}
    assert kinds == {**used, "id": "ignored", "known, surely": "ignored"}
    for output in (tmp_path / "scores.parquet", f"{tmp_path}/parts/"):
        scored = call("score", tmp_path / "model", *arguments[:1], *arguments[3:5], "--output", output, "--quiet")
        assert scored == (0, "", "")
        assert {"known, surely", "id"} < set(pq.read_table(output).column_names)


def test_a_model_needs_no_list_of_ignored_columns_and_drift_is_said_first(call, folder, tmp_path):
    table = orders(80, seed=1)
    upper = pa.array([colour.upper() for colour in table["colour"].to_pylist()])
    write_table(table.set_column(2, "colour", upper), tmp_path / "new.csv")
    code, _, err = call("score", folder / "model", tmp_path / "new.csv", "--output", tmp_path / "scores.csv")
    assert code == 0
    drift, headline = err.splitlines()[-2:]
    assert drift.startswith("Drift: colour: 80 of 80 values were never seen in training")
    assert "of 80 rows look" in headline
    assert {"id", "known"} < set(read_table(tmp_path / "scores.csv").column_names)
    arguments = ("score", folder / "model", tmp_path / "new.csv", "--output", tmp_path / "scores.csv", "--json")
    assert json.loads(call(*arguments, "--quiet")[1])["drift"] == [drift.removeprefix("Drift: ")]


def test_a_file_without_rows_has_a_result_without_rows(call, folder, tmp_path):
    (tmp_path / "none.csv").write_text("length,colour,weight\n", encoding="utf-8")
    code, out, _ = call("score", folder / "model", tmp_path / "none.csv", "--quiet")
    assert (code, out) == (0, '"row","score","p_value","anomaly","reasons"\n')


@pytest.mark.parametrize(("name", "content"), [("a.csv", ""), ("a.jsonl", "\n"), ("a.json", "[]")])
def test_an_empty_file_has_a_result_without_rows(call, folder, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    code, _, err = call("score", folder / "model", tmp_path / name, "--output", tmp_path / "scores.csv")
    assert (code, "None of 0 rows" in err) == (0, True)
    call("score", folder / "model", folder / "orders.csv", "--output", tmp_path / "some.csv")
    assert (tmp_path / "scores.csv").read_text().splitlines() == (tmp_path / "some.csv").read_text().splitlines()[:1]
    code, _, err = call("detect", tmp_path / name)
    assert (code, "is empty" in err or "has no columns" in err) == (1, True)


def test_results_keep_a_users_column_of_the_same_name():
    detection = Detection(np.array([1.0]), np.array([0.5]), np.array([False]), 0.1, "fdr", 0.1, "pyarrow")
    table = result_of(nptad.NPTAD(), np.zeros((1, 1)), detection, keys=pa.table({"score": ["mine"]})).table()
    assert table.column_names == ["row", "score", "nptad_score", "p_value", "anomaly", "reasons"]
    assert table["score"].to_pylist() == ["mine"]


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """A model of columns of text that look like truth values, numbers and dates in the rows of ``some``."""
    folder = tmp_path_factory.mktemp("states")
    random = np.random.default_rng(0)
    kinds = [("true", "1.0", "2024-01-01"), ("false", "2.0", "2024-01-02"), ("unknown", "x", "never")]
    rows = [(*kinds[i % 3], f"{random.normal():.3f}") for i in range(90)]
    # One row more than training has: the training table itself has out-of-fold scores.
    new = [*rows, rows[0]]
    tables = {"training": rows, "all": new, "some": [row for row in new if row[0] != "unknown"]}
    for name, kept in tables.items():
        lines = ["on,code,since,size", *(",".join(row) for row in kept)]
        (folder / f"{name}.csv").write_text("\n".join(lines), encoding="utf-8")
        objects = (
            f'{{"on": {on}, "code": {code}, "since": "{since}", "size": {size}}}' for on, code, since, size in kept
        )
        text = "\n".join(objects).replace("unknown", '"unknown"').replace(" x,", ' "x",')
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    assert command("fit", folder / "training.csv", "--model", folder / "model", *QUICK) == (0, "", "")
    return folder


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_the_score_of_a_row_does_not_depend_on_the_rest_of_the_file(call, states, tmp_path, suffix):
    scores = {}
    for name in ("all", "some"):
        output = tmp_path / f"{name}.parquet"
        arguments = (states / "model", states / f"{name}.{suffix}", "--output", output, "--fdr", 0.1, "--quiet")
        assert call("score", *arguments) == (0, "", "")
        scores[name] = pq.read_table(output)["score"].to_pylist()
    assert scores["some"] == pytest.approx([score for i, score in enumerate(scores["all"]) if i % 3 < 2], rel=1e-5)
    _, out, _ = call("explain", states / "model", states / f"some.{suffix}", "--rows", 1, "--json")
    assert {"true", "1.0", "2024-01-01"} < {reason["seen"] for reason in json.loads(out)[0]["reasons"]}


def test_the_score_of_a_row_does_not_depend_on_the_rest_of_a_file_read_in_parts(call, states, tmp_path):
    for output in (tmp_path / "whole.parquet", f"{tmp_path}/parts/"):
        arguments = (states / "model", states / "some.csv", "--output", output, "--false-alarm-rate", 0.1, "--quiet")
        assert call("score", *arguments) == (0, "", "")
    assert pq.read_table(tmp_path / "parts")["score"].equals(pq.read_table(tmp_path / "whole.parquet")["score"])


def test_a_stray_cell_among_numbers_is_told_and_odd(folder, tmp_path):
    lines = (folder / "orders.csv").read_text(encoding="utf-8").splitlines()
    lines[5] = lines[5].replace(lines[5].split(",")[3], '"22OO"')
    (tmp_path / "orders.csv").write_text("\n".join(lines), encoding="utf-8")
    fit = ("fit", tmp_path / "orders.csv", "--model", tmp_path / "model", "--ignore", "id,known", "--time-limit", 0.1)
    code, _, err = command(*fit)
    assert code == 0
    assert "1 of 80 cells of column 'weight' cannot be read as numbers, such as '22OO' in row 5" in err
    for model in (tmp_path / "model", folder / "model"):
        code, out, err = command("score", model, tmp_path / "orders.csv")
        assert code == 0
        assert "'22OO' in row 5" in err
    scored = sorted(csv.DictReader(io.StringIO(out)), key=lambda row: -float(row["score"]))
    assert "A4" in {row["id"] for row in scored[:2]}
    _, out, _ = command("explain", folder / "model", tmp_path / "orders.csv", "--rows", 5)
    assert "22OO" in out


HOSTILE = "\x1b[31mred\x9b2J\a"


def test_control_characters_of_a_table_do_not_reach_the_terminal(call, tmp_path):
    table = (
        orders()
        .set_column(2, f"colour{HOSTILE}", pa.array([HOSTILE, "blue"] * 40))
        .append_column(f"key{HOSTILE}", pa.array([HOSTILE] * 80))
    )
    write_table(table, tmp_path / "orders.parquet")
    options = ("--ignore", f"id,known,key{HOSTILE}", "--time-limit", 0.2)
    outputs = [
        command("detect", tmp_path / "orders.parquet", "--model", tmp_path / "model", *options),
        call("explain", tmp_path / "model", tmp_path / "orders.parquet", "--rows", 1, *options[:2]),
        call("explain", tmp_path / "model", tmp_path / "orders.parquet", "--rows", 1, "--json", *options[:2]),
        call("info", tmp_path / "model"),
        call("score", tmp_path / "model", tmp_path / "orders.parquet", "--ignore", "nothing"),
    ]
    assert [code for code, _, _ in outputs] == [0, 0, 0, 0, 1]
    for _, out, err in outputs:
        assert "red" in out + err
        assert not set("\x1b\x9b\a") & set(out + err)
    assert json.loads(outputs[2][1])[0]["reasons"][0]["column"] in ("length", "weight", f"colour{HOSTILE}")


def test_a_sheet_of_a_workbook_and_a_result_as_a_workbook(call, folder, tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["nothing here"])
    sheet = book.create_sheet("Orders")
    for row in [orders().column_names, *zip(*orders().to_pydict().values(), strict=True)]:
        sheet.append(row)
    book.save(tmp_path / "orders.xlsx")
    output = tmp_path / "scores.xlsx"
    arguments = (tmp_path / "orders.xlsx", "--sheet", "Orders", "--ignore", "id,known")
    code, out, err = call("detect", *arguments, "--output", output, "--report", tmp_path / "report.html", *QUICK)
    assert (code, err) == (0, "")
    assert "A79" in out
    assert "orders.xlsx" in (tmp_path / "report.html").read_text(encoding="utf-8")
    scores = read_table(output)
    assert scores.column_names == ["row", "id", "known", "score", "p_value", "anomaly", "reasons"]
    assert scores["anomaly"].to_pylist() == [False] * 79 + [True]
    again = ("detect", folder / "orders.csv", "--ignore", "id,known", "--output", tmp_path / "again.json", *QUICK)
    assert call(*again)[0] == 0
    again = read_table(tmp_path / "again.json")["score"].to_pylist()
    assert again == pytest.approx(scores["score"].to_pylist(), rel=1e-14)  # openpyxl writes 16 digits
    assert call("fit", *arguments, "--model", tmp_path / "model", *QUICK) == (0, "", "")
    code, out, _ = call("explain", folder / "model", *arguments, "--rows", 80)
    assert (code, "weight" in out) == (0, True)
    code, _, err = call("detect", tmp_path / "orders.xlsx", "--sheet", "Oders", *QUICK)
    assert (code, "has no sheet 'Oders'; it has 'Sheet', 'Orders'" in err) == (1, True)


def test_a_folder_is_one_table_and_results_say_the_file(call, folder, tmp_path):
    (tmp_path / "in").mkdir()
    write_table(orders()[:40], tmp_path / "in" / "a.csv")
    write_table(orders()[40:], tmp_path / "in" / "b.parquet")
    output = tmp_path / "scores.csv"
    for place in (tmp_path / "in", tmp_path / "in" / "*"):
        code, out, err = call("detect", place, "--ignore", "id,known", "--output", output, *QUICK)
        assert (code, err) == (0, "")
        assert "b.parquet" in out
        scores = read_table(output)
        assert scores["file"].to_pylist() == ["a.csv"] * 40 + ["b.parquet"] * 40
        assert scores["anomaly"].to_pylist() == [False] * 79 + [True]
        arguments = (folder / "model", place, "--ignore", "id,known", "--quiet")
        assert call("score", *arguments, "--output", output)[0] == 0
        assert read_table(output)["anomaly"][79].as_py()


def test_the_report_of_a_query_has_no_password_in_it(call, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(tmp_path / "shop.db") as connection:
        rows = orders()  # noqa: F841  duckdb finds it by its name
        connection.execute("create table orders as select * from rows")
    place = f"duckdb:{tmp_path}/shop.db#select length, colour, weight from orders where 'secret' is not null"
    code, out, _ = call("detect", place, "--json", *QUICK)
    assert code == 0
    assert '"shop.db"' in out
    assert "secret" not in out


def test_places_that_cannot_be_scored_in_parts(call, folder, tmp_path):
    for place in ("-", "https://example.org/a.csv", "duckdb:x.db#select 1"):
        code, _, err = call("score", folder / "model", place, "--output", f"{tmp_path}/")
        assert (code, "can be scored in parts" in err) == (1, True)
    code, _, err = call("detect", folder / "orders.csv", "--output", "https://example.org/scores.csv")
    assert (code, "cannot be written to" in err) == (1, True)


@pytest.mark.parametrize("name", ["sheet.xlsb", "sheet.XLS", "sheet.ods"])
def test_a_workbook_of_another_kind_is_told_what_to_do(call, tmp_path, name):
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    code, _, err = call("detect", tmp_path / name)
    assert code == 1
    assert "save it as .xlsx or CSV" in err
    assert "save it as .xlsx or CSV" in call("detect", "orders.csv", "--output", tmp_path / name)[2]


def test_a_reason_whose_category_was_expected_says_how_likely_it_was():
    reasons = (CellReason("kind", "p", "p", 0.9, 0.07), CellReason("kind 2", "q", "r", 0.8, 0.01))
    assert (
        reasons_text(RowExplanation(0, 2.0, reasons, (), 0.0, None)) == "kind is p, 7% likely. kind 2 is q, expected r"
    )


def test_a_reason_that_is_a_difference_from_the_nearest_row_says_what_that_one_has():
    reasons = (CellReason("kind", "p", "p", 0.9, 0.93, "q"), CellReason("size", 7.0, 2.0, 0.8, None, 3.25))
    assert (
        reasons_text(RowExplanation(0, 2.0, reasons, (), 0.0, None))
        == "kind is p, a similar row has q. size is 7, a similar row has 3.25"
    )


def test_a_report_can_go_to_a_pipe_on_standard_output(folder):
    code, out, err = command("detect", folder / "orders.csv", "--ignore", "id,known", "--report", "/dev/stdout", *QUICK)
    assert (code, err) == (0, "")
    assert out.startswith("<!doctype html>")
    assert "of 80 rows look" in out[out.index("</html>") :]


def test_results_go_to_a_table_of_a_data_base(call, folder, tmp_path):
    pytest.importorskip("duckdb")
    place = f"duckdb:{tmp_path}/shop.db"
    assert call("detect", folder / "orders.csv", "--output", f"{place}#found", "--ignore", "id,known", *QUICK)[0] == 0
    for _ in range(2):
        ran = call("score", folder / "model", folder / "orders.csv", "--output", f"{place}#scores", "--quiet")
        assert ran == (0, "", "")
    call("score", folder / "model", folder / "orders.csv", "--output", tmp_path / "scores.parquet", "--quiet")
    assert read_source(f"{place}#select * from scores").table.equals(read_table(tmp_path / "scores.parquet"))
    found = read_source(f"{place}#select * from found").table
    assert found["id"].to_pylist() == orders()["id"].to_pylist()
    assert "weight is 200" in found["reasons"].to_pylist()[-1]
    code, _, err = call("score", folder / "model", f"{place}#select 1 as a", "--output", "duckdb:shop.db#select 1")
    assert (code, "'select 1' is no name of a table" in err) == (1, True)
    code, _, err = call("score", folder / "model", "-", "--output", "postgresql://ann:secret@127.0.0.1:9/shop#scores")
    assert (code, "127.0.0.1:9/shop cannot be written" in err, "secret" in err) == (1, True, False)
    assert call("score", folder / "model", "-", "--output", "postgresql://ann@127.0.0.1:9/")[0] == 1
