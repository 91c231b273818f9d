"""However a command ends, one line says why, nothing is half-written, and nothing goes where it does not belong."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from nptad import NPTAD, InputError
from nptad.cli.app import main
from nptad.cli.ending import one_line_at_the_end
from nptad.processes import Stopped

COMMAND = [sys.executable, "-P", "-m", "nptad.cli"]


@pytest.fixture
def table(tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"])
    table.to_csv(tmp_path / "table.csv", index=False)
    return table


@pytest.fixture
def handlers():
    """Puts the signal handlers back."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("The table has no rows."), 1, "The table has no rows."),
        (KeyboardInterrupt(), 130, "interrupted; no file was left half-written."),
        (Stopped(signal.SIGTERM), 143, "stopped by SIGTERM; no file was left half-written."),
        (
            OSError(errno.EMFILE, "Too many open files", "a"),
            1,
            "Too many open files; allow more of them, for instance ",
        ),
        (OSError(errno.EACCES, "Permission denied", "a"), 1, "a cannot be used: Permission denied."),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "Standard output cannot be written: No space left"),
        (OSError(errno.EAGAIN, "Try again"), 1, "The system refused something: Try again."),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(handlers, capsys, error, code, line):
    with pytest.raises(SystemExit) as ended, one_line_at_the_end():
        raise error
    assert ended.value.code == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"nptad: {line}")
    assert err.count("\n") == 1


def test_a_second_signal_does_not_disturb_the_clearing_up(handlers, capsys):
    cleared_up = []

    def run():
        with one_line_at_the_end():
            try:
                signal.raise_signal(signal.SIGHUP)
            finally:
                for number in (signal.SIGTERM, signal.SIGHUP):
                    signal.raise_signal(number)
                cleared_up.append(True)

    with pytest.raises(SystemExit) as ended:
        run()
    assert (ended.value.code, cleared_up) == (129, [True])
    assert capsys.readouterr().err == "nptad: stopped by SIGHUP; no file was left half-written.\n"


@pytest.mark.parametrize("ignored", [False, True], ids=["", "nohup"])
def test_a_signal_ends_a_command_unless_it_is_ignored(tmp_path, ignored):
    def start():
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)

    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    with subprocess.Popen([*COMMAND, "detect", "-"], preexec_fn=start, text=True, **pipes) as process:
        with open(f"/proc/{process.pid}/wchan") as state:
            while "pipe" not in state.read():  # it reads standard input
                state.seek(0)
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate("" if ignored else None, timeout=60)
    assert out == ""
    if ignored:
        assert (process.returncode, "standard input" in err) == (1, True)
    else:
        assert (process.returncode, err) == (129, "nptad: stopped by SIGHUP; no file was left half-written.\n")


def in_shell(words, cwd):
    """A command with its redirections: exit code, standard output and standard error."""
    line = " ".join([*COMMAND, words])
    ran = subprocess.run(["bash", "-c", line], cwd=cwd, capture_output=True, text=True, check=False, timeout=120)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--version >/dev/full", "Standard output cannot be written: No space left on device."),
        ("--version >&-", "Standard output cannot be written: Bad file descriptor."),
        ("detect - <&-", "standard input cannot be read: Bad file descriptor."),
        ("detect nothing.csv 2>/dev/full", None),
        ("detect nothing.csv 2>&-", None),
    ],
)
def test_a_stream_that_is_full_or_closed_is_told(tmp_path, words, line):
    assert in_shell(words, tmp_path) == (1, "", "" if line is None else f"nptad: {line}\n")


def test_notes_do_not_go_into_a_file_when_standard_error_is_closed(tmp_path, table):
    NPTAD(random_state=0).fit(table).save(tmp_path / "model")
    assert in_shell("score model table.csv --output scores.csv 2>&-", tmp_path) == (0, "", "")
    assert len(pd.read_csv(tmp_path / "scores.csv")) == len(table)


def test_the_checkpoint_is_deleted_after_the_model_is_saved(handlers, tmp_path, table, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = "fit table.csv --model model --network --checkpoint run --time-limit 0.1 --quiet"
    monkeypatch.setattr(sys, "argv", ["nptad", *words.split()])

    def fail(detector, directory):
        raise InputError(f"{directory} cannot be written: No space left on device.")

    with monkeypatch.context() as patch:
        patch.setattr(NPTAD, "save", fail)
        with pytest.raises(SystemExit, match="1"):
            main()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "table.csv"]
    main()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "table.csv"]
    assert "No space left" in capsys.readouterr().err
