"""The command ``nptad api``."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from nptad.errors import InputError
from nptad.processes import Stopped

_NEEDED = ("starlette", "uvicorn", "jinja2")
_TOKEN, _SHORTEST_TOKEN = "NPTAD_TOKEN", 16
_Share = Parameter(validator=Number(gt=0, lt=1))
_Positive = Parameter(validator=Number(gt=0))
_Count = Parameter(validator=Number(gte=1))


def api(
    model: Annotated[Path, Parameter(help="Directory that `nptad fit` wrote.")],
    /,
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lt=2**16))] = 8766,
    host: str = "127.0.0.1",
    workers: Annotated[int, _Count] = 1,
    token_file: Path | None = None,
    false_alarm_rate: Annotated[float | None, _Share] = None,
    max_megabytes: Annotated[float, _Positive] = 16,
    max_rows: Annotated[int, _Count] = 100_000,
    max_requests: Annotated[int, _Count] = 256,
    seconds: Annotated[float, _Positive] = 30,
) -> None:
    """Score rows over HTTP with a saved model.

    Parameters
    ----------
    port : int
        Port to listen on; 0 for any that is free.
    host : str
        Address to listen on; by default only this machine can reach the service.
    workers : int
        Processes that score, each with the whole model.
    token_file : Path
        File with the token.
    false_alarm_rate : float
        Share of the normal rows to flag; by default 0.01.
    max_megabytes : float
        Largest body of a request.
    max_rows : int
        Most rows of a request.
    max_requests : int
        Requests that are under way or wait at most; others are asked to come again.
    seconds : float
        Time for a request, from its first byte to its answer.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(f"The service needs {', '.join(missing)}; install them with pip install 'nptad[service]'.")

    from nptad.http.addresses import hosts_for, is_loopback, listen
    from nptad.models.folder import fingerprint
    from nptad.service.app import Limits
    from nptad.service.run import Service, serve
    from nptad.service.worker import WorkerOptions

    token = read_token(token_file)
    if token is None and not is_loopback(host):
        raise InputError(
            f"On {host} others can reach the service; set {_TOKEN} or --token-file to a token of your own."
        )
    fingerprint(model)  # a directory without a model shows now
    options = WorkerOptions(str(model.resolve()), false_alarm_rate, max_rows)
    limits = Limits(int(max_megabytes * 1e6), max_requests, seconds)
    service = Service(options, workers, limits, token, hosts_for(host))
    # A service that has been asked to end, and has answered all requests, ends well.
    with listen(host, port) as listener, suppress(Stopped, KeyboardInterrupt):
        asyncio.run(serve(service, listener))


def read_token(file: Path | None) -> str | None:
    """The token of the environment or of a file; None if there is none. No child process gets to know it."""
    token = os.environ.pop(_TOKEN, None)
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The token in {file} cannot be read: {getattr(error, 'strerror', error)}.") from error
    if token is None:
        return None
    token = token.strip()
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise InputError(
            f"The token must have at least {_SHORTEST_TOKEN} printable ASCII characters, such as those of "
            "`openssl rand -hex 32`."
        )
    return token
