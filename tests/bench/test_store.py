"""The store: nothing finished is lost, whatever happens to the writer."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from bench_helpers import a_task

from nptad.bench.store import append_record, config_hash, key_of, read_records
from nptad.errors import InputError


def run(seed, outcome="done", **more):
    return a_task(**{name: more.pop(name) for name in ("dataset", "config", "version") if name in more}).record(
        seed, outcome, **more
    )


def test_what_is_written_is_read(tmp_path):
    written = [run(seed, dataset=dataset, f1=1.5) for dataset in ("glass", "wine") for seed in range(3)]
    for record in reversed(written):
        append_record(tmp_path / "new" / "runs", record)
    assert read_records(tmp_path / "new" / "runs") == written
    assert sorted(path.name for path in (tmp_path / "new" / "runs").iterdir()) == ["glass.jsonl", "wine.jsonl"]


def test_a_directory_that_is_not_there_has_no_records(tmp_path):
    assert read_records(tmp_path / "none") == []


@pytest.mark.parametrize("change", [{"dataset": "glass"}, {"config": {"k": 1}}, {"version": 2}])
def test_runs_of_another_kind_are_kept_apart(tmp_path, change):
    for record in (run(0), run(0, **change), run(1)):
        append_record(tmp_path, record)
    assert len({key_of(record) for record in read_records(tmp_path)}) == 3


def test_the_last_record_of_a_run_counts(tmp_path):
    for f1 in (10.0, 20.0):
        append_record(tmp_path, run(0, f1=f1))
    assert [record["f1"] for record in read_records(tmp_path)] == [20.0]


def test_a_finished_run_beats_a_failed_one_whichever_file_they_are_in(tmp_path):
    append_record(tmp_path, run(0, "failed", reason="no memory"), ".shard-1-of-2")
    append_record(tmp_path, run(0, f1=20.0))  # a retry without shards: its file comes first in the alphabet
    append_record(tmp_path, run(1, "failed", reason="no time"))
    append_record(tmp_path, run(1, f1=30.0), ".shard-1-of-2")
    assert [record.get("f1") for record in read_records(tmp_path)] == [20.0, 30.0]


def test_shards_have_files_of_their_own(tmp_path):
    for seed in (0, 1):
        append_record(tmp_path, run(seed), f".shard-{seed + 1}-of-2")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"wine.shard-{i}-of-2.jsonl" for i in (1, 2)]
    assert [record["seed"] for record in read_records(tmp_path)] == [0, 1]


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_what_a_killed_writer_left_of_its_line_is_not_read_and_cut_off(tmp_path, kept):
    append_record(tmp_path, run(0))
    path = tmp_path / "wine.jsonl"
    whole = path.read_bytes()
    torn = json.dumps(run(1)).encode()
    path.write_bytes(whole + torn[:kept])
    assert [record["seed"] for record in read_records(tmp_path)] == [0]
    append_record(tmp_path, run(2))
    assert [record["seed"] for record in read_records(tmp_path)] == [0, 2]
    assert path.read_bytes().startswith(whole)


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", '{"dataset": "wine"}', "[1, 2]", "\ufffd"])
def test_a_line_that_is_no_record_is_named(tmp_path, line):
    append_record(tmp_path, run(0))
    path = tmp_path / "wine.jsonl"
    path.write_text(path.read_text() + line + "\n" + path.read_text())
    with pytest.raises(InputError, match=r"wine.jsonl, line 2 is not a record of a run; remove the line"):
        read_records(tmp_path)


_WRITER = """
import json, sys
from pathlib import Path
from nptad.bench.store import append_record
record = json.loads(sys.stdin.read())
for seed in range(int(sys.argv[2]), int(sys.argv[2]) + 40):
    append_record(Path(sys.argv[1]), {**record, "seed": seed, "padding": "x" * 10_000})
"""


def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path):
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), str(first)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for first in (0, 100, 200)
    ]
    for writer in writers:
        writer.stdin.write(json.dumps(run(0)).encode())
        writer.stdin.close()
    for writer in writers:
        with writer.stderr:
            assert writer.stderr.read() == b""
        assert writer.wait(timeout=30) == 0
    assert [record["seed"] for record in read_records(tmp_path)] == [*range(40), *range(100, 140), *range(200, 240)]


def test_the_hash_of_a_configuration_depends_on_its_values_only():
    assert config_hash({"a": 1, "sizes": (1, 2)}) == config_hash({"sizes": [1, 2], "a": 1})
    assert config_hash({"a": 1}) != config_hash({"a": 2})
    assert config_hash({"a": 1}) != config_hash({"b": 1})
