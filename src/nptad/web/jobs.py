"""Jobs on disk: a directory for each, named by this server, which nobody else may read.

* ``secret``: key of sessions and forms; ``lock``: held while a server uses the directory
* ``jobs/<id>/job.json``: what is known about the job
* ``jobs/<id>/upload``: the file as it came, until it has been read; ``table.arrow``: the table in it
* ``jobs/<id>/result/``: report, scores and model; called ``result.tmp`` until it is complete
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from nptad.errors import InputError
from nptad.io.atomic import replacing
from nptad.io.locks import open_locked
from nptad.web.choices import Choices

State = Literal["draft", "queued", "running", "done", "failed", "cancelled", "interrupted"]
"""Drafts wait for the user; interrupted jobs ran when the server ended."""

JOB, UPLOAD, TABLE, RESULT, UNFINISHED = "job.json", "upload", "table.arrow", "result", "result.tmp"
REPORT, SCORES_CSV, SCORES_PARQUET = "report.html", "scores.csv", "scores.parquet"
MODEL, DIGEST = "model.zip", "digest.json"

EXAMPLE = "parcels (example)"  # the name of the example
DRAFT_SECONDS = 24 * 3600.0  # drafts older than this are removed when the server starts

_SECRET_BYTES = 32
_ID = re.compile(r"[0-9a-f]{16}")


@dataclass
class Job:
    """One table and what is to be done, is being done or was done with it."""

    id: str
    name: str  # what the user calls the table; only ever shown
    n_rows: int
    columns: list[dict[str, Any]]  # from nptad.web.columns.describe_columns
    choices: Choices
    state: State = "draft"
    created: float = field(default_factory=time.time)  # in seconds since 1970, as all times here
    queued: float = 0.0  # when it was put into the queue
    started: float = 0.0
    finished: float = 0.0
    message: str = ""  # why it failed
    headline: str = ""  # the result in a few words
    notes: list[str] = field(default_factory=list)  # what the user should know about the run

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return self.finished - self.started

    def to_json(self) -> str:
        """The job as its file has it."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job behind such a file."""
        values = json.loads(text)
        known = {field.name: values[field.name] for field in fields(cls)}
        return cls(**{**known, "choices": Choices.from_dict(values["choices"])})


class Store:
    """All jobs of a directory, which only one server may use at a time; made if it does not exist."""

    def __init__(self, directory: Path) -> None:
        self._jobs_directory = directory / "jobs"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._jobs_directory.mkdir(mode=0o700, exist_ok=True)
            busy = f"Another `nptad serve` uses {directory}; use its page, or name another --directory."
            self._lock = open_locked(directory / "lock", busy=busy)
            try:
                self.secret = _secret(directory / "secret")
            except BaseException:
                self.close()
                raise
        except OSError as error:
            raise InputError(f"{directory} cannot be used ({error.strerror}); name another --directory.") from error
        self.jobs: dict[str, Job] = {}
        self._load()

    def close(self) -> None:
        """Let another server use the directory."""
        self._lock.close()

    def new_directory(self) -> tuple[str, Path]:
        """A name for a job and an empty directory for it."""
        name = secrets.token_hex(8)
        path = self._jobs_directory / name
        path.mkdir(mode=0o700)
        return name, path

    def path(self, job: Job) -> Path:
        """The directory of a job."""
        return self._jobs_directory / job.id

    def save(self, job: Job, **changes: Any) -> None:
        """Remember a job with some changes, on disk first: if there is no room, nothing has changed."""
        with replacing(self.path(job) / JOB) as temporary:
            temporary.write_text(replace(job, **changes).to_json(), encoding="utf-8")
        for name, value in changes.items():
            setattr(job, name, value)
        self.jobs[job.id] = job

    def delete(self, job: Job) -> None:
        """Forget a job and remove all its files."""
        self.jobs.pop(job.id, None)
        shutil.rmtree(self.path(job), ignore_errors=True)

    def drop_unfinished(self, job: Job, keep_result: bool) -> None:
        """Remove what a run has left that did not come to its end, or whose end the server did not see."""
        for name in (UNFINISHED,) if keep_result else (UNFINISHED, RESULT):
            shutil.rmtree(self.path(job) / name, ignore_errors=True)

    def copy(self, job: Job) -> Job:
        """A draft with the same table and choices."""
        name, path = self.new_directory()
        draft = Job(name, job.name, job.n_rows, job.columns, job.choices)
        try:
            shutil.copyfile(self.path(job) / TABLE, path / TABLE)
            self.save(draft)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return draft

    def queue(self) -> list[Job]:
        """The jobs that wait for their turn, the next one first."""
        return sorted((job for job in self.jobs.values() if job.state == "queued"), key=lambda job: job.queued)

    def newest_first(self) -> list[Job]:
        """All jobs for the list on the page."""
        return sorted(self.jobs.values(), key=lambda job: -job.created)

    def _load(self) -> None:
        for path in self._jobs_directory.iterdir():
            if not _ID.fullmatch(path.name):
                continue
            if not (path / JOB).exists():  # an upload that the end of the server cut short
                shutil.rmtree(path, ignore_errors=True)
                continue
            try:
                job = Job.from_json((path / JOB).read_text(encoding="utf-8"))
            except (OSError, ValueError, KeyError, TypeError):
                continue  # written by another version, or damaged: not ours to remove
            if job.id != path.name:
                continue
            if job.state == "draft" and job.created < time.time() - DRAFT_SECONDS:
                self.delete(job)
                continue
            (path / UPLOAD).unlink(missing_ok=True)
            self.drop_unfinished(job, keep_result=job.state == "done")
            if job.state == "running":
                job.state = "interrupted"
            self.jobs[job.id] = job
            with suppress(OSError):  # on a full disk the jobs can be seen and deleted
                self.save(job)


def _secret(path: Path) -> bytes:
    """32 random bytes, the same at every start: pages that are open in a browser survive a restart."""
    if not path.exists():
        with replacing(path) as temporary:  # whole or not at all: half a key would be one that others can guess
            temporary.touch()
            temporary.chmod(0o600)
            temporary.write_bytes(secrets.token_bytes(_SECRET_BYTES))
    key = path.read_bytes()
    if len(key) != _SECRET_BYTES:
        raise InputError(f"{path} is damaged; delete it, which ends the sessions of open pages.")
    return key
