"""Files are written whole or not at all, keep their mode, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys

import pytest

from nptad.io import atomic
from nptad.io.atomic import remove_leftovers, replacing, writing

_WRITER = """
import sys
from pathlib import Path
from nptad.io.atomic import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    print(temporary.name, flush=True)
    sys.stdin.read()
"""


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.fixture
def writer(tmp_path):
    """Another process in the middle of writing."""
    command = [sys.executable, "-c", _WRITER, str(tmp_path / "file")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.temporary = tmp_path / process.stdout.readline().strip()
        yield process
        process.kill()


def test_a_new_file_has_the_mode_of_any_new_file(umask, tmp_path):
    with writing(tmp_path / "file") as file:
        file.write(b"new")
    assert mode_of(tmp_path / "file") == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o444, 0o666, 0o777])
def test_a_replaced_file_keeps_its_mode(umask, tmp_path, mode):
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(mode)
    with writing(tmp_path / "file") as file:
        file.write(b"new")
    assert (tmp_path / "file").read_text() == "new"
    assert mode_of(tmp_path / "file") == mode


def test_a_private_file_is_private_while_it_is_written(tmp_path):
    (tmp_path / "file").touch(0o600)
    (tmp_path / "open").touch(0o644)
    for name in ("file", "open"):
        with replacing(tmp_path / name) as temporary:
            assert mode_of(temporary) == 0o600
    with replacing(tmp_path / "new", 0o600) as temporary:
        assert mode_of(temporary) == 0o600
    assert mode_of(tmp_path / "new") == 0o600


def test_what_a_killed_writer_left_is_removed_by_the_next_write(writer, tmp_path):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert writer.temporary.exists()
    with writing(tmp_path / "another") as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == ["another"]


def test_what_another_process_is_writing_is_left_alone(writer, tmp_path):
    with writing(tmp_path / "file") as file:
        file.write(b"mine")
    assert writer.temporary.exists()
    writer.communicate("")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "half"


def test_only_files_are_taken_for_left(tmp_path):
    (tmp_path / ".nptad-directory.tmp").mkdir()
    os.mkfifo(tmp_path / ".nptad-pipe.tmp")
    (tmp_path / "mine").touch()
    (tmp_path / ".nptad-link.tmp").symlink_to(tmp_path / "mine")
    before = set(os.listdir(tmp_path))
    remove_leftovers(tmp_path)
    assert set(os.listdir(tmp_path)) == before


def test_without_locks_nothing_is_taken_for_left(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    (tmp_path / ".nptad-left.tmp").touch()
    with writing(tmp_path / "file") as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == [".nptad-left.tmp", "file"]


def test_a_new_file_that_is_taken_for_left_is_made_again(monkeypatch, tmp_path):
    """As if another process had removed it before it was locked."""
    first = True

    def lock(file, *, wait):
        nonlocal first
        if wait and first:
            first = False
            for path in tmp_path.glob(atomic.TEMPORARY):
                path.unlink()
        return True

    monkeypatch.setattr(atomic, "lock", lock)
    with writing(tmp_path / "file") as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [OSError("broken"), KeyboardInterrupt()])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    (tmp_path / "file").write_text("old")

    def write():
        with writing(tmp_path / "file") as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert (tmp_path / "file").read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]
