"""Streams: two real processes and real pipes, slow writers, gone readers, bad lines, signals, kill -9."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import psutil
import pytest

import nptad
from nptad import NPTAD, InputError
from nptad.cli.app import app
from nptad.scale.stream import LONGEST_LINE, LineScorer

COMMAND = [sys.executable, "-P", "-m", "nptad.cli", "score"]


def table(n: int, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(random.normal(size=(n, 2)), columns=["a", "b"])
    frame["kind"] = random.choice(["x", "y"], n)
    frame["code"] = random.choice([100.0, 200.0, 300.0], n)
    return frame


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream") / "model"
    NPTAD(random_state=0).fit(table(100)).save(folder)
    return folder


@pytest.fixture(scope="module")
def scorer_of(model):
    return lambda **options: LineScorer(nptad.load(model), **options)


def lines(frame: pd.DataFrame) -> list[bytes]:
    return [json.dumps(row).encode() for row in frame.to_dict("records")]


@contextlib.contextmanager
def streaming(model, *options, **pipes):
    command = [*COMMAND, str(model), "-", "--stream", *options]
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **pipes}
    with subprocess.Popen(command, **given) as process:
        try:
            yield process
        finally:
            process.kill()


def say(process, line: bytes) -> dict:
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_lines_have_the_scores_of_a_table_whatever_their_company(model, scorer_of):
    new = table(60, 1)
    new.loc[3, ["a", "kind"]] = [9.0, "never"]
    expected = nptad.load(model).detect(new)
    found = scorer_of()(lines(new))
    assert [result["score"] for result in found] == expected.score.tolist()
    assert [result["p_value"] for result in found] == expected.p_value.tolist()
    assert [result["anomaly"] for result in found] == expected.anomaly.tolist()
    alone = scorer_of()
    assert [alone([line])[0] for line in lines(new)] == found
    training = scorer_of()(lines(table(100)))  # new rows, though together they are the training table
    assert [result["score"] for result in training] != (-nptad.load(model).score_samples(table(100))).tolist()


def test_cells_of_other_kinds_do_not_disturb_their_neighbours(scorer_of):
    rows = [
        {"a": 1, "b": 2, "kind": "x", "code": 100},
        {"a": "1.5", "b": "2,5", "kind": None, "code": "100"},
        {"a": "n/a", "b": True, "kind": 7, "code": 1e300},
        {"b": 0.5, "kind": "x", "code": float("nan")},
    ]
    together = scorer_of()([json.dumps(row).encode() for row in rows])
    alone = scorer_of()
    assert [alone([json.dumps(row).encode()])[0] for row in rows] == together
    assert all("error" not in result for result in together)


def test_a_bad_line_is_a_line_with_an_error(scorer_of):
    good = {"a": 1.0, "b": 2.0, "kind": "x", "code": 100.0}
    bad = {
        b"hello": "not a JSON object",
        b"[1, 2]": "not a JSON object",
        b"\xff\xfe": "not a JSON object",
        b"[" * 100_000: "not a JSON object",
        json.dumps({**good, "a": [1]}).encode(): "'a' has a list",
        json.dumps({**good, "b": 10**400}).encode(): "'b' is too large",
        b'{"a": 1}': "is missing 'b', 'code', 'kind'",
    }
    given = [line for pair in bad for line in (pair, json.dumps(good).encode())]
    found = scorer_of()(given)
    assert [result["row"] for result in found] == list(range(1, len(given) + 1))
    for result, said in zip(found[::2], bad.values(), strict=True):
        assert said in result["error"]
    assert len({result["score"] for result in found[1::2]}) == 1


def test_ignored_columns_come_along_and_reasons_if_asked(scorer_of):
    line = json.dumps({"a": 9.0, "b": 0.1, "kind": "x", "code": 100.0, "id": "\ud800", "score": 3}).encode()
    (found,) = scorer_of(ignore=["id", "score"], reasons=True)([line])
    assert list(found) == ["row", "id", "score", "nptad_score", "p_value", "anomaly", "reasons"]
    assert (found["id"], found["score"]) == ("\ud800", 3)
    assert found["reasons"].startswith("a is 9")


def test_each_line_is_answered_at_once_until_a_signal_comes(model):
    with streaming(model) as process:
        assert say(process, lines(table(1, 1))[0])["row"] == 1
        assert say(process, b"nonsense")["error"] == "The line is not a JSON object."
        assert say(process, b'\n{"a": 1, "b": 1, "kind": "x", "code": 100}')["row"] == 3  # empty lines do not count
        before = psutil.Process(process.pid).memory_info().rss
        for _ in range(40):  # a line that does not end
            process.stdin.write(b"x" * LONGEST_LINE)
        process.stdin.flush()
        assert psutil.Process(process.pid).memory_info().rss - before < 10 * LONGEST_LINE
        assert "more than 1,048,576 bytes" in say(process, b"")["error"]
        assert "score" in say(process, lines(table(1, 1))[0])
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stdout.read() == b""
        assert b"0 of 5 rows flagged, 2 lines could not be read." in process.stderr.read()


def test_a_signal_ends_it_though_nobody_reads(model):
    with streaming(model) as process:
        say(process, lines(table(1, 1))[0])
        flood = b"\n".join(lines(table(200, 1)) * 20)
        feeding = threading.Thread(target=_feed, args=(process.stdin, flood))
        feeding.start()
        feeding.join(2)  # the pipes are full, or soon will be
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        feeding.join()


def _feed(stdin, data: bytes) -> None:
    with contextlib.suppress(OSError):
        stdin.write(data)


def test_after_kill_9_of_the_writer_all_that_it_wrote_is_scored(model):
    source = f"import sys, time; sys.stdout.write({(lines(table(1, 1))[0].decode() + chr(10)) * 3!r} + '{{\"a\": 1, ')"
    writer = subprocess.Popen(
        [sys.executable, "-c", f"{source}; sys.stdout.flush(); time.sleep(600)"], stdout=subprocess.PIPE
    )
    with streaming(model, stdin=writer.stdout) as process:
        writer.stdout.close()
        rows = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert all("score" in row for row in rows)
        writer.kill()
        writer.wait()
        assert json.loads(process.stdout.readline())["error"] == "The line is not a JSON object."
        assert process.wait(60) == 0


def test_after_kill_9_of_the_reader_it_ends_quietly(model):
    reader = subprocess.Popen(
        [sys.executable, "-c", "import sys, time; sys.stdin.readline(); print('read', flush=True); time.sleep(600)"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with streaming(model, "--quiet", stdout=reader.stdin) as process:
        reader.stdin.close()
        process.stdin.write(lines(table(1, 1))[0] + b"\n")
        process.stdin.flush()
        assert reader.stdout.readline() == b"read\n"
        reader.kill()
        reader.wait()
        reader.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(lines(table(1, 1))[0] + b"\n")
            process.stdin.flush()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


@pytest.mark.parametrize(
    "options",
    [["-", "--fdr", "0.1"], ["-", "--jobs", "2"], ["table.csv"], ["-", "--output", "o.csv"], ["-", "--all-columns"]],
)
def test_what_does_not_go_with_a_stream_is_refused(model, options):
    with pytest.raises(InputError, match="--stream"):
        app(["score", str(model), *options, "--stream"], exit_on_error=False, result_action="return_value")
