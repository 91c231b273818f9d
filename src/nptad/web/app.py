"""The page: routes of the FastAPI application, all of them server-rendered."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from nptad.errors import InputError
from nptad.http.addresses import LOOPBACK_HOSTS
from nptad.io.formats import ARCHIVE_SUFFIX, SUFFIXES, format_of
from nptad.report.html import base_style
from nptad.web import jobs
from nptad.web.choices import Choices, form_values, parse_choices
from nptad.web.jobs import Job, Store
from nptad.web.pages import download_name, render, shown_name, status_of
from nptad.web.runner import WORKER, Runner
from nptad.web.security import FORM_BYTES, Guard, Sessions

DOWNLOADS = {
    jobs.SCORES_CSV: "text/csv; charset=utf-8",
    jobs.SCORES_PARQUET: "application/vnd.apache.parquet",
    jobs.MODEL: "application/zip",
    jobs.REPORT: "text/html; charset=utf-8",
}
_STATIC = {"style.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"}
_MAX_FIELDS = 1100


@dataclass(frozen=True)
class Config:
    """How a server is set up."""

    directory: Path  # where jobs are kept
    max_bytes: int = 200_000_000
    max_rows: int = 1_000_000
    token: str | None = None  # asked of every browser; None only if nobody but this machine can reach the server
    hosts: frozenset[str] = LOOPBACK_HOSTS  # names the server answers to
    worker: str = WORKER  # what runs in the processes of jobs


@dataclass(frozen=True)
class Site:
    """What the routes share."""

    config: Config
    store: Store
    runner: Runner
    sessions: Sessions


def create_app(config: Config) -> FastAPI:
    """The application; jobs are run from its start to its end."""
    store = Store(config.directory)
    runner = Runner(store, config.max_bytes, config.max_rows, config.worker)
    site = Site(config, store, runner, Sessions(store.secret, config.token))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await runner.start()
        try:
            yield
        finally:
            await runner.stop()
            store.close()

    app = FastAPI(title="nptad", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.site = site
    app.include_router(views)
    app.include_router(actions)
    app.add_exception_handler(HTTPException, _show_error)
    app.add_exception_handler(RequestValidationError, _show_error)
    app.add_exception_handler(OSError, _show_error)
    app.add_middleware(
        Guard,
        sessions=site.sessions,
        hosts=config.hosts,
        upload_path="/jobs",
        upload_bytes=config.max_bytes + FORM_BYTES,
        refuse=lambda status, sentence: render("error", status, sentence=sentence),
        bounce=lambda path: render("bounce", path=path),
    )
    return app


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def _job(request: Request, job_id: str) -> Job:
    """A job by its name; what a client sends is looked up and never becomes part of a path."""
    job = _site(request).store.jobs.get(job_id)
    if job is None:
        raise HTTPException(404, "There is no such job; perhaps it was deleted.")
    return job


async def _checked_form(request: Request) -> AsyncIterator[FormData]:
    """The form of a request that comes from a page of this session."""
    async with request.form(max_files=1, max_fields=_MAX_FIELDS) as form:
        if not _site(request).sessions.fits(request.state.session, form.get("form_token")):
            raise HTTPException(403, "This page is out of date; load it again and repeat.")
        yield form


TheSite = Annotated[Site, Depends(_site)]
TheJob = Annotated[Job, Depends(_job)]
TheForm = Annotated[FormData, Depends(_checked_form)]

views = APIRouter()
actions = APIRouter(dependencies=[Depends(_checked_form)])  # everything that changes something


def _page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    site = _site(request)
    form_token = site.sessions.form_token(request.state.session)
    return render(template, status, form_token=form_token, config=site.config, **context)


def _start_page(request: Request, status: int = 200, error: str = "") -> HTMLResponse:
    site = _site(request)
    listed = [(job, status_of(job, site.store, site.runner)) for job in site.store.newest_first()]
    return _page(request, "start", status, jobs=listed, suffixes=[*SUFFIXES, ARCHIVE_SUFFIX], error=error)


def _to(job: Job | None = None) -> RedirectResponse:
    return RedirectResponse("/" if job is None else f"/jobs/{job.id}", 303)


async def _show_error(request: Request, error: Exception) -> Response:
    status, sentence = 404, "There is no such page."
    if isinstance(error, HTTPException) and error.detail != "Not Found":
        status, sentence = error.status_code, error.detail
    elif isinstance(error, OSError):
        status, sentence = 507, f"This cannot be kept on disk: {error.strerror}. Nothing has changed."
    if request.method == "POST" and request.url.path == "/jobs":
        return _start_page(request, status, sentence)
    return render("error", status, sentence=sentence)


@views.get("/")
async def start(request: Request) -> Response:
    """The first page: drop a file, and all jobs."""
    return _start_page(request)


@views.get("/static/{name}")
async def static(name: Literal["style.css", "script.js", "icon.svg"]) -> Response:
    """Our style, script and icon."""
    text = files("nptad.web").joinpath("static", name).read_text(encoding="utf-8")
    return Response((base_style() if name == "style.css" else "") + text, media_type=_STATIC[name])


@views.get("/jobs/{job_id}")
async def job_page(request: Request, site: TheSite, job: TheJob) -> Response:
    """A job: its columns, its progress or its result."""
    if job.state == "draft":
        return await job_columns(request, job)
    if job.state == "done":
        digest = json.loads((site.store.path(job) / jobs.RESULT / jobs.DIGEST).read_text(encoding="utf-8"))
        return _page(request, "result", job=job, digest=digest)
    if job.state in ("queued", "running"):
        before = [other for other in (site.runner.running, *site.store.queue()) if other is not None]
        return _page(request, "progress", job=job, standing=status_of(job, site.store, site.runner), line=before)
    return _page(request, "ended", job=job)


@views.get("/jobs/{job_id}/status")
async def job_status(site: TheSite, job: TheJob) -> Response:
    """How a job stands, as JSON for the script."""
    return JSONResponse(status_of(job, site.store, site.runner))


@views.get("/jobs/{job_id}/columns")
async def job_columns(request: Request, job: TheJob) -> Response:
    """The columns of a job that did not come to its end, to change them."""
    if job.state in ("queued", "running", "done"):
        return _to(job)
    return _page(request, "columns", job=job, entered=form_values(job.choices), error="")


@views.get("/jobs/{job_id}/report")
async def job_report(site: TheSite, job: TheJob) -> Response:
    """The report as a page of its own: in a sandbox, and with no more rights than it claims itself."""
    page = _result_file(site, job, jobs.REPORT).read_text(encoding="utf-8")
    claimed = re.search('<meta http-equiv="Content-Security-Policy" content="([^"<>]*)">', page[:4096])
    policy = unescape(claimed[1]) if claimed else "default-src 'none'"
    headers = {
        "content-security-policy": f"{policy}; frame-ancestors 'none'; sandbox allow-scripts allow-downloads",
        "cross-origin-opener-policy": "unsafe-none",  # a browser may refuse to open a sandboxed page otherwise
    }
    return HTMLResponse(page, headers=headers)


@views.get("/jobs/{job_id}/download/{kind}")
async def download(
    site: TheSite, job: TheJob, kind: Literal["scores.csv", "scores.parquet", "model.zip", "report.html"]
) -> Response:
    """A file of the result."""
    path = _result_file(site, job, kind)
    return FileResponse(path, media_type=DOWNLOADS[kind], filename=download_name(job.name, kind))


def _result_file(site: Site, job: Job, name: str) -> Path:
    if job.state != "done":
        raise HTTPException(404, "This job has no result.")
    return site.store.path(job) / jobs.RESULT / name


@actions.post("/jobs")
async def upload(request: Request, site: TheSite, form: TheForm) -> Response:
    """Take a file and read it."""
    file = form.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        return _start_page(request, 400, "Choose a file first.")
    name = shown_name(file.filename)
    try:
        format = format_of(name)
    except InputError as error:
        return _start_page(request, 415, str(error))
    return await _new_job(request, site, name, file.file, format)


@actions.post("/example")
async def use_example(request: Request, site: TheSite) -> Response:
    """Take the example."""
    return await _new_job(request, site, jobs.EXAMPLE, None, None)


async def _new_job(request: Request, site: Site, name: str, data: BinaryIO | None, format: str | None) -> Response:
    job_id, directory = site.store.new_directory()
    try:
        if data is not None:
            with (directory / jobs.UPLOAD).open("wb") as file:
                await asyncio.to_thread(shutil.copyfileobj, data, file, 1 << 20)
        found = await site.runner.inspect(directory, name, format)
        job = Job(job_id, name, found["n_rows"], found["columns"], Choices.from_dict(found["choices"]))
        site.store.save(job)
    except BaseException as error:
        shutil.rmtree(directory, ignore_errors=True)
        if not isinstance(error, InputError | OSError):
            raise
        sentence = str(error) if isinstance(error, InputError) else f"{name} cannot be kept: {error.strerror}."
        return _start_page(request, 400, sentence)
    return _to(job)


@actions.post("/jobs/{job_id}/run")
async def run(request: Request, site: TheSite, job: TheJob, form: TheForm) -> Response:
    """Start a job as its columns page says."""
    if job.state in ("queued", "running", "done"):
        return _to(job)  # pressed twice, or in another tab
    try:
        choices = parse_choices(form, job.columns, job.n_rows)
    except InputError as error:
        return _page(request, "columns", 400, job=job, entered=form, error=str(error))
    site.runner.submit(job, choices)
    return _to(job)


@actions.post("/jobs/{job_id}/again")
async def again(site: TheSite, job: TheJob) -> Response:
    """Start a job that did not come to its end, as it was."""
    if job.state in ("failed", "cancelled", "interrupted"):
        site.runner.submit(job, job.choices)
    return _to(job)


@actions.post("/jobs/{job_id}/judge")
async def judge(site: TheSite, job: TheJob, form: TheForm) -> Response:
    """Tell the model of a finished job that a row is fine or an anomaly, or take that back."""
    row, verdict = form.get("row"), form.get("verdict")
    known = isinstance(row, str) and row.isdecimal() and len(row) < 10
    if job.state != "done" or not known or verdict not in ("fine", "anomaly", "undo"):
        raise HTTPException(400, "This page is out of date; load it again and repeat.")
    try:
        await site.runner.judge(job, int(str(row)), str(verdict))
    except InputError as error:
        raise HTTPException(400, str(error)) from error
    return RedirectResponse(f"/jobs/{job.id}#rows", 303)


@actions.post("/jobs/{job_id}/copy")
async def copy(site: TheSite, job: TheJob) -> Response:
    """A new job with the same table."""
    return _to(await asyncio.to_thread(site.store.copy, job))


@actions.post("/jobs/{job_id}/cancel")
async def cancel(site: TheSite, job: TheJob) -> Response:
    """End a job."""
    await site.runner.cancel(job)
    return _to(job)


@actions.post("/jobs/{job_id}/delete")
async def delete(site: TheSite, job: TheJob) -> Response:
    """Forget a job."""
    await site.runner.cancel(job)
    site.store.delete(job)
    return _to()
