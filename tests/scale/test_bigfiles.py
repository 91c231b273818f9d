"""Files scored in parts: the same scores as in one process, and nothing lost whatever is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import nptad.cli.app
from nptad import InputError, ModelFileError, load
from nptad.errors import TableWarning, WorkerError
from nptad.io.write import write_table
from nptad.scale.arrow import ScoringOptions, open_scorer
from nptad.scale.bigfiles import find_files, score_files
from nptad.scale.processes import LocalWorker, local_workers, score_table
from order_tables import orders


@pytest.fixture
def inputs(tmp_path):
    """Three files, of 3, 1 and 2 parts of 500 rows."""
    for number, n_rows in enumerate((1300, 40, 700)):
        write_table(orders(n_rows, 10 + number), tmp_path / f"{number}.parquet")
    return find_files(tmp_path / "*.parquet")


@pytest.fixture
def options(model):
    return ScoringOptions(model, ["id"])


class Here:
    """A worker in this process, for tests in which nothing happens to it: starting one takes seconds."""

    def __init__(self, options):
        self.scorer = open_scorer(options)

    def score(self, table, report):
        return score_table(self.scorer, table)

    def close(self):
        pass


def here(options, jobs):
    return [lambda: Here(options)]


def expected(options, inputs):
    """What one process makes of the files one by one."""
    detector, tables = load(options.model), [pq.read_table(path) for path in inputs]
    found = [detector.detect(table.drop_columns("id"), false_alarm_rate=0.01) for table in tables]
    return pa.table(
        {
            "file": [path for path, table in zip(inputs, tables, strict=True) for _ in range(len(table))],
            "row": np.concatenate([np.arange(len(table)) + 1 for table in tables]),
            "id": [name for table in tables for name in table["id"].to_pylist()],
            "score": np.concatenate([one.score for one in found]),
            "p_value": np.concatenate([one.p_value for one in found]),
            "anomaly": np.concatenate([one.anomaly for one in found]),
        }
    )


def require_scores(output, options, inputs):
    """The directory, read as one table, holds the rows of all inputs in their order, with the same scores."""
    table, wanted = pq.read_table(output), expected(options, inputs)
    assert table.column_names == wanted.column_names
    for name in wanted.column_names:
        if name in ("score", "p_value"):
            np.testing.assert_allclose(table[name], wanted[name], rtol=1e-5)
        else:
            assert table[name].to_pylist() == wanted[name].to_pylist()
    assert not list(output.glob(".*"))


def parts_of(output):
    return {path.name: path.stat().st_mtime_ns for path in output.glob("part-*")}


def test_scores_order_and_keys_are_those_of_one_process(options, inputs, tmp_path, small_parts):
    output = tmp_path / "out"
    scored = score_files(options, inputs, output, jobs=2)
    require_scores(output, options, inputs)
    assert (scored.files, scored.parts, scored.rows) == (3, 6, 2040)
    assert scored.anomalies == sum(expected(options, inputs)["anomaly"].to_pylist())
    before = parts_of(output)
    assert score_files(options, inputs, output, jobs=1) == scored  # nothing is scored twice
    assert parts_of(output) == before


def test_text_and_arrow_files_give_the_scores_of_parquet(options, tmp_path, small_parts):
    table = orders(700, 3)
    scores = []
    for name in ("a.parquet", "a.csv", "a.arrow", "a.tsv", "a.csv.gz"):
        write_table(table, tmp_path / name)
        score_files(options, [str(tmp_path / name)], tmp_path / f"out-{name}", engine=here)
        scores.append(pq.read_table(tmp_path / f"out-{name}").drop_columns("file"))
    assert all(score.equals(scores[0]) for score in scores)  # the same parts: the same bits


def test_reasons_and_a_file_without_rows(options, tmp_path):
    write_table(orders(0, 1), tmp_path / "0.parquet")
    write_table(orders(60, 1).rename_columns(["file", "size", "weight", "colour"]), tmp_path / "1.parquet")
    one, two = str(tmp_path / "0.parquet"), str(tmp_path / "1.parquet")
    assert score_files(replace(options, reasons=True), [one], tmp_path / "none", engine=here).rows == 0
    score_files(replace(options, reasons=True, ignore=("file",)), [two], tmp_path / "out", engine=here)
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == ["nptad_file", "row", "file", "score", "p_value", "anomaly", "reasons"]
    assert [why is not None for why in table["reasons"].to_pylist()] == table["anomaly"].to_pylist()


def test_notes_of_workers_reach_the_user_once(model, tmp_path):
    table = orders(20, 1)
    empty = pa.table({"id": ["x"], "size": pa.nulls(1, pa.float64()), "weight": [None], "colour": pa.nulls(1)})
    write_table(pa.concat_tables([table, empty], promote_options="permissive"), tmp_path / "a.parquet")
    with pytest.warns(TableWarning, match=r"a\.parquet: 1 row\(s\) have no value"):
        score_files(ScoringOptions(model, ["id"]), [str(tmp_path / "a.parquet")], tmp_path / "out", engine=here)


# What the user sees when something breaks.


def test_a_killed_worker_is_told_and_the_next_run_goes_on(options, inputs, tmp_path, small_parts):
    killed = []

    class Doomed(LocalWorker):
        def score(self, table, report):
            if len(killed) == 2:
                os.kill(self._child.pid, signal.SIGKILL)
            killed.append(self._child.pid)
            return super().score(table, report)

    output = tmp_path / "out"
    with pytest.raises(WorkerError, match=r"killed by signal 9 .* 2 part\(s\) .* run the same command again"):
        score_files(options, inputs, output, engine=lambda options, jobs: [lambda: Doomed(options)])
    finished = parts_of(output)
    assert len(finished) == 2
    assert not any(map(psutil.pid_exists, killed))
    score_files(options, inputs, output, engine=here)
    require_scores(output, options, inputs)
    assert finished.items() <= parts_of(output).items()


@pytest.mark.parametrize("worker", [Here, LocalWorker])
def test_workers_that_find_another_model_score_nothing(options, inputs, tmp_path, worker):
    model = shutil.copytree(options.model, tmp_path / "model")
    options = replace(options, model=str(model))

    def replaced_meanwhile(options):
        load(model).set_params(random_state=1).save(model)
        return worker(options)

    with pytest.raises(ModelFileError, match=r"was replaced by another .* 0 part\(s\) .* are finished and kept"):
        score_files(
            options, inputs, tmp_path / "out", engine=lambda options, jobs: [lambda: replaced_meanwhile(options)]
        )
    assert not parts_of(tmp_path / "out")


def in_background(model, path, output, jobs):
    """The command as a process of its own, with small parts."""
    code = (
        "import sys, nptad.cli.app, nptad.io.read as read\n"
        "read._LARGEST_PART_ROWS = read._SMALLEST_PART_ROWS = 500\n"
        "nptad.cli.app.main()"
    )
    arguments = ["score", model, path, "--output", f"{output}/", "--ignore", "id", "--jobs", jobs, "--quiet"]
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.PIPE, text=True)


def test_nothing_in_the_current_folder_is_imported(options, inputs, tmp_path):
    for name in ("random", "json", "torch"):
        (tmp_path / f"{name}.py").write_text("open('marker', 'w').close()")
    arguments = ["score", options.model, inputs[1], "--output", "out/", "--ignore", "id", "--jobs", "2", "--quiet"]
    # -P as the installed command, whose first folder of modules is its own
    ran = subprocess.run([sys.executable, "-P", "-m", "nptad.cli", *map(str, arguments)], cwd=tmp_path, check=False)
    assert ran.returncode == 0
    assert len(parts_of(tmp_path / "out")) == 1
    assert not (tmp_path / "marker").exists()


def wait_until(condition, seconds=120):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_kill_9_of_the_parent_loses_only_what_was_under_way(options, tmp_path, small_parts):
    write_table(orders(10_000, 1), tmp_path / "a.parquet")
    inputs, output = [str(tmp_path / "a.parquet")], tmp_path / "out"
    with in_background(options.model, inputs[0], output, 2) as process:
        wait_until(lambda: len(parts_of(output)) >= 3 or process.poll() is not None)
        workers = psutil.Process(process.pid).children()
        process.kill()
        process.wait()
    assert len(workers) == 2
    assert psutil.wait_procs(workers, timeout=30)[1] == []  # they do not go on without their parent
    finished = parts_of(output)
    assert 3 <= len(finished) < 20
    for name in finished:
        assert len(pq.read_table(output / name)) == 500
    (output / ".nptad-left.tmp").write_bytes(b"half a part")
    score_files(options, inputs, output, engine=here)
    require_scores(output, options, inputs)
    assert finished.items() <= parts_of(output).items()


def test_ctrl_c_leaves_finished_parts_and_no_process(options, tmp_path):
    write_table(orders(10_000, 1), tmp_path / "a.parquet")
    output = tmp_path / "out"
    with in_background(options.model, tmp_path / "a.parquet", output, 1) as process:
        wait_until(lambda: len(parts_of(output)) >= 2 or process.poll() is not None)
        workers = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert psutil.wait_procs(workers, timeout=30)[1] == []
    assert not list(output.glob(".*"))


def test_a_full_disk_is_told_and_the_next_run_goes_on(options, inputs, tmp_path, small_parts):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        output = disk / "out"
        with pytest.raises(
            InputError, match=r"cannot be written: No space left on device.* run the same command again"
        ):
            score_files(options, inputs, output, engine=here)
        finished = parts_of(output)
        assert 0 < len(finished) < 6
        assert not list(output.glob(".*"))
        subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
        score_files(options, inputs, output, engine=here)
        require_scores(output, options, inputs)
        assert finished.items() <= parts_of(output).items()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_damaged_input_is_named_and_the_others_are_finished(options, inputs, tmp_path, small_parts):
    output, damaged = tmp_path / "out", Path(inputs[1])
    good = damaged.read_bytes()
    damaged.write_bytes(good[:-30])
    with pytest.raises(InputError, match=r"1\.parquet cannot be read as Parquet .* The other 2 file\(s\) are scored"):
        score_files(options, inputs, output, engine=here)
    finished = parts_of(output)
    assert len(finished) == 5
    damaged.write_bytes(good)
    score_files(options, inputs, output, engine=here)
    require_scores(output, options, inputs)
    assert finished.items() <= parts_of(output).items()


def test_rows_that_do_not_fit_the_model_are_told_with_their_file(options, inputs, tmp_path, small_parts):
    write_table(pq.read_table(inputs[0]).drop_columns(["weight", "size"]), inputs[0])
    with pytest.raises(InputError, match=r"0\.parquet.*'weight'") as refused:
        score_files(options, inputs, tmp_path / "out", engine=here)
    assert "\n" not in str(refused.value)


def test_going_on_with_something_else_is_refused(options, inputs, model, tmp_path, small_parts):
    output = tmp_path / "out"
    score_files(options, inputs[:2], output, engine=here)
    other = tmp_path / "model"
    detector = load(model)
    detector.model_ = replace(detector.model_, offset=detector.offset_ + 1)
    detector.save(other)
    for changed, named in (
        (replace(options, false_alarm_rate=0.05), "another false-alarm rate"),
        (replace(options, ignore=("id", "colour")), "another list of ignored columns"),
        (replace(options, reasons=True), "another choice of reasons"),
        (replace(options, model=str(other)), "another model"),
    ):
        with pytest.raises(InputError, match=named):
            score_files(changed, inputs[:2], output)
    with pytest.raises(InputError, match="other input files"):
        score_files(options, inputs, output)
    shutil.copytree(model, tmp_path / "moved")
    score_files(replace(options, model=str(tmp_path / "moved")), inputs[:2], output)  # the same model elsewhere
    write_table(orders(1300, 99), inputs[0])
    with pytest.raises(InputError, match=r"0\.parquet was changed .* delete .*part-00000-\*"):
        score_files(options, inputs[:2], output)


def test_a_directory_of_something_else_is_left_alone(options, inputs, tmp_path):
    with pytest.raises(InputError, match="holds other files"):
        score_files(options, inputs, tmp_path)
    output = tmp_path / "out"
    score_files(options, inputs[1:2], output, engine=here)
    (output / "part-00000-00000.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"part-00000-00000\.parquet is damaged; delete it"):
        score_files(options, inputs[1:2], output)
    (output / "part-00000-00000.parquet").unlink()
    (output / "_nptad.json").write_text("{}")
    with pytest.raises(InputError, match=r"_nptad\.json is damaged"):
        score_files(options, inputs[1:2], output)


def test_two_runs_cannot_write_to_one_directory(options, inputs, tmp_path):
    reached, go_on = threading.Event(), threading.Event()

    class Slow(Here):
        def score(self, table, report):
            reached.set()
            go_on.wait(60)
            return super().score(table, report)

    def engine(options, jobs):
        return [lambda: Slow(options)]

    output = tmp_path / "out"
    first = threading.Thread(target=score_files, args=(options, inputs[1:2], output), kwargs={"engine": engine})
    first.start()
    reached.wait(60)
    with pytest.raises(InputError, match="Another nptad is writing"):
        score_files(options, inputs[1:2], output)
    go_on.set()
    first.join()
    assert len(parts_of(output)) == 1


def test_workers_share_the_cores_and_the_gpus(options, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    told = [maker.args[0] for maker in local_workers(options, 2)]
    assert [(one.threads, one.device) for one in told] == [(3, "auto")] * 2
    assert len(local_workers(options, None)) == 6
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert local_workers(options, 1)[0].args[0].threads == 1
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [maker.args[0].device for maker in local_workers(options, None)] == ["cuda:0", "cuda:1"]
    assert local_workers(replace(options, device="cpu"), 3)[2].args[0].device == "cpu"


# The command.


def call(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["nptad", "score", *map(str, arguments)])
    code = 0
    try:
        nptad.cli.app.main()
    except SystemExit as stopped:
        code = stopped.code
    return code, *capsys.readouterr()


def test_the_command_scores_a_pattern_into_a_directory(options, inputs, tmp_path, monkeypatch, capsys, small_parts):
    monkeypatch.setattr("nptad.progress._FIRST_LINE", 0.0)
    arguments = (options.model, tmp_path / "*.parquet", "--output", f"{tmp_path}/out/", "--ignore", "id", "--jobs", "1")
    code, out, err = call(monkeypatch, capsys, *arguments)
    assert (code, out) == (0, "")
    assert "Scoring" in err
    assert "of 2,040 rows flagged, at a false-alarm rate of 0.01; 6 part(s) written." in err
    require_scores(tmp_path / "out", options, inputs)
    code, out, err = call(monkeypatch, capsys, *arguments, "--json", "--quiet")  # an existing directory
    assert (code, err, json.loads(out)["rows"]) == (0, "", 2040)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--output out/ --fdr 0.1", "--false-alarm-rate"),
        ("--output out/ --label id", "--label"),
        ("--output out/ --false-alarm-rate 7", "between 0 and 1"),
        ("--output out.csv --jobs 2", "--jobs"),
        ("--output out", "write out/"),
        ("--output out.csv --engine ray", "--engine"),
    ],
)
def test_what_goes_together_and_what_not(options, inputs, tmp_path, monkeypatch, capsys, arguments, named):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(monkeypatch, capsys, options.model, "1.parquet", "--ignore", "id", *arguments.split())
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert named in err
    assert not (tmp_path / "out").exists()


def test_names_that_stand_for_no_file_are_refused(tmp_path, options, monkeypatch, capsys):
    with pytest.raises(InputError, match=r"no\.parquet does not exist"):
        score_files(options, [str(tmp_path / "no.parquet")], tmp_path / "out")
    with pytest.raises(InputError, match="no file"):
        find_files(tmp_path / "*.parquet")
    for name in ("b.parquet", "a.csv"):
        (tmp_path / name).touch()
    assert find_files(tmp_path) == [str(tmp_path / "a.csv"), str(tmp_path / "b.parquet")]
    monkeypatch.chdir(tmp_path)
    assert "no file *.pdf" in call(monkeypatch, capsys, options.model, "*.pdf", "--output", "out.csv")[2]
    err = call(monkeypatch, capsys, options.model, "-", "--output", f"{tmp_path}/out/")[2]
    assert "Only files of this machine can be scored in parts" in err
