"""Functions that run in child processes of tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

from nptad.errors import InputError
from nptad.processes import Parent


def echo(parent: Parent) -> None:
    """Send everything back."""
    while True:
        message, payload = parent.receive()
        parent.send(message, bytes(payload))


def describe(parent: Parent) -> None:
    """Print here and there, then say how this process was started."""
    print("printed")
    os.write(1, b"written\n")
    subprocess.run(["echo", "by a grandchild"], check=True)
    program = "import json, os, sys; print(json.dumps(sys.path), file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    parent.send(
        {
            "path": sys.path,
            "path of a grandchild": json.loads(ran.stderr),
            "environment": dict(os.environ),
            "session": os.getsid(0) == os.getpid(),
            "interrupt": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
            "read": sys.stdin.read(),
            "modules": sorted(sys.modules),
        }
    )


def work_for_long(parent: Parent) -> None:
    """Start a grandchild and be busy."""
    grandchild = subprocess.Popen(["sleep", "600"])
    parent.send({"pid": os.getpid(), "grandchild": grandchild.pid})
    while True:
        time.sleep(0.001)


def refuse_to_end(parent: Parent) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent.send({})
    time.sleep(600)


def fall_silent(parent: Parent) -> None:
    os.close(parent._stdout.fileno())
    time.sleep(600)


def send_half_a_message(parent: Parent) -> None:
    parent._stdout.write((1000).to_bytes(8, "big"))
    sys.exit(3)


def kill_itself(parent: Parent) -> None:
    os.kill(os.getpid(), parent.receive()[0]["signal"])


def fail(parent: Parent) -> None:
    raise InputError("This is not caught.")
