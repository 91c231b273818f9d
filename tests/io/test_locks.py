"""Files that one process at a time may have open."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from nptad.errors import InputError
from nptad.io.locks import open_locked

_HOLDER = """
import sys
from pathlib import Path
from nptad.io.locks import open_locked
file = open_locked(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the lock."""
    command = [sys.executable, "-c", _HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_a_locked_file_is_refused_with_the_given_message(holder, tmp_path):
    with pytest.raises(InputError, match="Somebody else"):
        open_locked(tmp_path / "lock", busy="Somebody else has it.")


def test_the_lock_of_a_killed_process_is_gone(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    with open_locked(tmp_path / "lock", "ab+") as file:  # waits
        file.write(b"mine")
    with open_locked(tmp_path / "lock", busy="Still locked."):
        assert (tmp_path / "lock").read_bytes() == b"mine"


def test_without_locks_in_the_system_files_are_only_opened(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with open_locked(tmp_path / "lock", busy="Locked."), open_locked(tmp_path / "lock", busy="Locked."):
        pass


def test_the_benchmark_can_be_imported_where_there_are_no_locks():
    program = "import joblib, psutil, sys; sys.modules |= {'fcntl': None, 'resource': None}; import nptad.bench.run"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
