"""Child processes: what they see, how they talk, and that nothing of them is left."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

import nptad.processes
from nptad.processes import Child, threads_for_each

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _targets(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)


def wait_until_gone(*pids, seconds=30):
    deadline = time.monotonic() + seconds
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids):
        assert time.monotonic() < deadline, "still there"
        time.sleep(0.02)


@pytest.mark.parametrize("size", [0, 1, 10_000_000])
def test_messages_and_payloads_come_back_unchanged(size):
    message, payload = {"text": "ä \n", "number": 0.1, "nothing": None}, os.urandom(size)
    with Child("process_targets:echo") as child:
        for _ in range(2):
            # From another thread: the child starts to answer before it has read everything.
            threading.Thread(target=child.send, args=(message, payload)).start()
            assert child.receive() == (message, payload)


def test_the_child_is_kept_apart_from_the_folder_the_terminal_and_the_messages(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with Child("process_targets:describe", threads=3, environment={"MORE": "yes"}) as child:
        seen, _ = child.receive()
        with pytest.raises(EOFError):
            child.receive()
        assert child.ending() == "ended with exit code 0"
    for path in (seen["path"], seen["path of a grandchild"]):
        assert not {"", ".", str(tmp_path)} & set(path)
    expected = {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3", "OMP_WAIT_POLICY": "PASSIVE", "MORE": "yes"}
    assert expected.items() <= seen["environment"].items()
    assert seen["session"]
    assert seen["interrupt"]
    assert seen["read"] == ""
    assert not {"torch", "numpy", "pyarrow"} & set(seen["modules"])
    out, err = capfd.readouterr()
    assert out == ""
    assert sorted(err.split("\n")) == ["", "by a grandchild", "printed", "written"]


def test_the_users_environment_counts(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    with Child("process_targets:describe") as child:
        environment = child.receive()[0]["environment"]
    assert (environment["OMP_WAIT_POLICY"], environment["OMP_NUM_THREADS"]) == ("ACTIVE", "7")


def test_killing_a_child_kills_what_it_started():
    with Child("process_targets:work_for_long") as child:
        pids = child.receive()[0].values()
        assert all(map(psutil.pid_exists, pids))
    wait_until_gone(*pids)
    child.kill()  # again: nothing happens
    child.terminate()
    with pytest.raises(EOFError):
        child.receive()
    with pytest.raises(EOFError):
        child.send({})


_PARENT = """
import sys
from nptad.processes import Child

child = Child("process_targets:work_for_long")
print(*child.receive()[0].values(), flush=True)
if len(sys.argv) > 1:
    while True:
        child.send({}, bytes(10_000_000))
sys.stdin.read()
"""


@pytest.mark.parametrize("sending", [[], ["sending"]])
def test_a_child_dies_with_its_parent_in_the_middle_of_work(sending):
    command = [sys.executable, "-c", _PARENT, *sending]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        pids = list(map(int, parent.stdout.readline().split()))
        parent.kill()
    assert len(pids) == 2
    wait_until_gone(*pids)


@pytest.mark.parametrize(
    ("target", "ending"),
    [
        ("send_half_a_message", "ended with exit code 3"),
        ("fail", "ended with exit code 1"),
        ("fall_silent", "was killed by signal 9 (Killed), perhaps for lack of memory"),
        ("no_such_function", "ended with exit code 1"),
    ],
)
def test_an_ending_is_told(target, ending, monkeypatch, capfd):
    monkeypatch.setattr(nptad.processes, "_ENDING_SECONDS", 1.0 if target == "fall_silent" else 60.0)
    with Child(f"process_targets:{target}") as child:
        with pytest.raises(EOFError):
            child.receive()
        assert child.ending() == ending
    assert ("Traceback" in capfd.readouterr().err) == (ending == "ended with exit code 1")


@pytest.mark.parametrize(
    ("number", "ending"),
    [
        (signal.SIGKILL, "was killed by signal 9 (Killed), perhaps for lack of memory"),
        (signal.SIGSEGV, "was killed by signal 11 (Segmentation fault)"),
    ],
)
def test_a_signal_is_told(number, ending):
    with Child("process_targets:kill_itself") as child:
        child.send({"signal": number})
        with pytest.raises(EOFError):
            child.receive()
        assert child.ending() == ending


def test_listening_ends_with_none():
    messages = queue.Queue()
    with Child("process_targets:echo") as child:
        child.listen(messages.put)
        child.send({"number": 1})
        assert messages.get(timeout=30) == {"number": 1}
    assert messages.get(timeout=30) is None


def test_a_child_that_does_not_want_to_end_is_killed_after_a_while():
    with Child("process_targets:refuse_to_end") as child:
        child.receive()
        child.terminate()
        started = time.monotonic()
        child.kill(0.5)
        assert 0.4 < time.monotonic() - started < 20
    with Child("process_targets:echo") as child:
        child.terminate()
        child.kill(60)
        assert child.ending().startswith("was killed by signal 15")


def test_processes_share_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [threads_for_each(n) for n in (1, 2, 4, 9)] == [6, 3, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert [threads_for_each(n) for n in (1, 2, 4)] == [2, 2, 1]
