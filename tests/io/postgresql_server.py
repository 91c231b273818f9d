"""A PostgreSQL server from the system's packages, for tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def programs() -> Path | None:
    """The directory of initdb and pg_ctl; None where no server is installed."""
    found = [Path(shutil.which("initdb") or "/none"), *sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
    return next((path.parent for path in found if path.exists()), None)


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """The address of an empty data base on loopback, whose only user is ``ann`` with the password ``secret``."""
    # It refuses to run as root, and another user may not enter pytest's directories.
    as_user: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    with TemporaryDirectory(prefix="nptad-postgresql-") as home:
        if as_user:
            shutil.chown(home, as_user["user"], as_user["group"])
        password = Path(home) / "password"
        password.write_text("secret")
        password.chmod(0o644)

        def run(program: str, *arguments: str) -> None:
            command = [str(directory / program), "-D", f"{home}/data", *arguments]
            subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL, cwd=home, **as_user)

        run("initdb", "-U", "ann", "-A", "md5", f"--pwfile={password}", "--no-sync", "--no-locale", "-E", "UTF8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = f"-F -k {home} -c listen_addresses=127.0.0.1 -c port={port}"
        run("pg_ctl", "-w", "-l", f"{home}/log", "-o", options, "start")
        try:
            yield f"postgresql://ann:secret@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
