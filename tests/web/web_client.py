"""The server with a stub in place of the worker, and a client that behaves like our page in a browser."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from nptad.http.connections import make_server
from nptad.web.app import Config, create_app
from nptad.web.jobs import Job


class Browser:
    """A client with a session, which fills in forms as a browser does."""

    def __init__(self, client: httpx.Client, app: FastAPI) -> None:
        self.client, self.app = client, app
        self.site = app.state.site
        self.origin = str(client.base_url)

    @property
    def form_token(self) -> str:
        (token,) = set(re.findall('name="form_token" value="([0-9a-f]+)"', self.get("/").text))
        return token

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.client.get(path, **more)

    def post(self, path: str, data: dict[str, Any] | None = None, **more: Any) -> httpx.Response:
        headers = {"origin": self.origin, **more.pop("headers", {})}
        return self.client.post(path, data={"form_token": self.form_token, **(data or {})}, headers=headers, **more)

    def upload(self, name: str = "table.csv", content: bytes = b"x,y\n1,2\n", **more: Any) -> httpx.Response:
        return self.post("/jobs", files={"file": (name, content)}, **more)

    def new_job(self, name: str = "table.csv") -> Job:
        answer = self.upload(name)
        assert answer.status_code == 200, answer.text
        return self.job(answer.url.path.rsplit("/", 1)[1])

    def start_job(self, name: str = "table.csv") -> Job:
        job = self.new_job(name)
        self.post(f"/jobs/{job.id}/run")
        return job

    def job(self, job_id: str) -> Job:
        return self.site.store.jobs[job_id]

    def wait_for(self, job: Job, *states: str) -> None:
        deadline = time.monotonic() + 60
        while job.state not in states:
            assert time.monotonic() < deadline, f"{job.state}, not {states}"
            time.sleep(0.02)

    def wait_for_progress(self, job: Job) -> None:
        deadline = time.monotonic() + 60
        while not self.get(f"/jobs/{job.id}/status").json()["share"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@contextmanager
def open_browser(directory: Path, **config: Any) -> Iterator[Browser]:
    app = create_app(Config(directory, **{"worker": "web_stubs:stub_work", **config}))
    with serving(app) as url, httpx.Client(base_url=url, follow_redirects=True, timeout=60, verify=False) as client:
        yield Browser(client, app)


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """The application behind a real socket, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = make_server(app)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
