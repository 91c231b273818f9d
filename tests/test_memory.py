"""Too little memory is one sentence, before the work if that can be known."""

from __future__ import annotations

import errno
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch

from nptad import NPTAD, memory
from nptad.cli import app
from nptad.errors import MemoryShortage
from nptad.io import read
from nptad.io.write import write_table
from nptad.memory import available_memory, memory_explained

resource = pytest.importorskip("resource", reason="this system has no limits of a process")

LIMITED = """
import resource, sys
name, most, *sys.argv[1:] = sys.argv[1:]
resource.setrlimit(getattr(resource, name), (int(most), int(most)))
from nptad.cli.app import main
main()
"""


def limited(limit, most, *arguments):
    """A command of nptad in a process with a limit of memory."""
    command = [sys.executable, "-c", LIMITED, limit, str(most), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file of some hundred kB that is a table of 1.6 GB."""
    path = tmp_path_factory.mktemp("large") / "zeros.parquet"
    zeros = pa.array(np.zeros(10_000_000))
    write_table(pa.table({f"x{j}": zeros for j in range(20)}), path)
    return path


@pytest.mark.parametrize("limit", ["RLIMIT_DATA", "RLIMIT_AS"])
def test_a_table_that_does_not_fit_is_refused_with_what_it_needs(large, limit):
    ended = limited(limit, 10**9, "detect", large, "--quiet")
    assert ended.returncode == 1, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert "10,000,000 rows and 20 columns, which needs at least 1.60 GB of memory, and there are 0." in line
    assert "fewer columns" in line
    assert "truncated" not in line


@pytest.mark.parametrize(
    ("limit", "most", "needed"), [("RLIMIT_DATA", 350_000_000, "0.40"), ("RLIMIT_AS", 1_100_000_000, "0.80")]
)
def test_libraries_that_do_not_fit_are_not_loaded(tmp_path, limit, most, needed):
    write_table(pa.table({"a": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    ended = limited(limit, most, "detect", tmp_path / "t.parquet")  # OpenBLAS would ask for ever, and torch abort
    assert ended.returncode == 1, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"nptad: This command needs at least {needed} GB of memory, and there are 0.")


def no_memory(*_, **__):
    raise MemoryError


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.ArrowMemoryError("malloc of size 64 failed"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        ImportError("libtorch.so: failed to map segment from shared object"),
    ],
)
def test_whatever_a_library_says_is_one_sentence(error):
    with pytest.raises(MemoryShortage, match=r"^This needs more memory than there is[^\n]*\.$"), memory_explained():
        raise error


def test_what_torch_says_is_known():
    with pytest.raises(MemoryShortage), memory_explained():
        torch.empty(2**50)


def test_other_errors_come_through():
    with pytest.raises(RuntimeError, match="other"), memory_explained():
        raise RuntimeError("other")


def test_a_command_without_memory_ends_with_one_line(tmp_path, monkeypatch, capsys):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n2,3\n")
    monkeypatch.setattr(read, "open_table", no_memory)
    monkeypatch.setattr(sys, "argv", ["nptad", "detect", str(path)])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("nptad: This needs more memory than there is; ")


def test_a_parquet_file_that_does_not_fit_is_not_called_damaged(tmp_path, monkeypatch):
    write_table(pa.table({"a": [1, 2]}), tmp_path / "t.parquet")

    def full(*_):
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    monkeypatch.setattr(read, "_validated", full)
    with pytest.raises(MemoryError):
        read.read_table(tmp_path / "t.parquet")


def test_a_fit_that_cannot_fit_is_refused_before_it_begins(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1e4)
    with pytest.raises(MemoryShortage, match=r"^The table needs at least 0\.00 GB"):
        NPTAD().fit(np.zeros((1000, 3)))


def test_what_is_available_is_less_than_a_limit(monkeypatch):
    assert 1e6 < available_memory() < float("inf")
    limits = {resource.RLIMIT_DATA: 10**11, resource.RLIMIT_AS: resource.RLIM_INFINITY}
    monkeypatch.setattr(memory, "_facts", lambda _: {"MemAvailable": 10**12, "VmData": 10**10})
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limits[which], limits[which]))
    assert available_memory() == 9 * 10**10
