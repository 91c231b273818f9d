"""The command ``nptad serve``."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import threading
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from nptad.errors import InputError
from nptad.io.atomic import followed
from nptad.processes import Stopped

_NEEDED = ("fastapi", "uvicorn", "jinja2", "python_multipart")
Positive = Parameter(validator=Number(gt=0))


def serve(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lt=2**16))] = 8765,
    host: str = "127.0.0.1",
    directory: Path | None = None,
    browser: bool = True,
    max_megabytes: Annotated[int, Positive] = 200,
    max_rows: Annotated[int, Positive] = 1_000_000,
) -> None:
    """Open a page on this machine: drop a table, see its anomalies, download scores and model.

    Parameters
    ----------
    port : int
        Port to listen on; 0 for any that is free.
    host : str
        Address to listen on. By default only this machine can reach the page; on any other address, such as 0.0.0.0,
        browsers need the token in the printed URL.
    directory : Path
        Where tables and results are kept; NPTAD_WEB_DIR or the user's data directory otherwise.
    browser : bool
        Open the page in the browser.
    max_megabytes : int
        Largest file that is taken.
    max_rows : int
        Most rows that are taken.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(f"The page needs {', '.join(missing)}; install them with pip install 'nptad[web]'.")

    from nptad.http.addresses import hosts_for, is_loopback, listen, url_host
    from nptad.http.connections import make_server
    from nptad.web.app import Config, create_app

    home = followed((directory or data_directory()).expanduser())
    token = None if is_loopback(host) else secrets.token_urlsafe(32)
    with listen(host, port) as listener:
        app = create_app(Config(home, max_megabytes * 1_000_000, max_rows, token, hosts_for(host)))
        here = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, url_host(host))
        address = f"http://{{}}:{listener.getsockname()[1]}/{f'?token={token}' if token else ''}"
        print(f"The page is at {address.format(here)}")
        if here != url_host(host):
            print(f"From other machines: {address.format(socket.gethostname().lower())}")
        print(f"Tables and results are kept in {home}. Ctrl-C ends the server.", flush=True)
        if browser:
            threading.Thread(target=webbrowser.open, args=(address.format(here),), daemon=True).start()
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))  # uvicorn does not know it
        try:
            make_server(app).run([listener])
        except Stopped:
            raise
        except KeyboardInterrupt:
            pass
        print("The server has ended.", file=sys.stderr)


def data_directory() -> Path:
    """Where tables and results are kept if nothing else is said."""
    if os.environ.get("NPTAD_WEB_DIR"):
        return Path(os.environ["NPTAD_WEB_DIR"])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "nptad" / "web"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "nptad" / "web"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "nptad" / "web"
