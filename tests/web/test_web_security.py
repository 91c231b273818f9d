"""What must not work: foreign hosts and sites, forged forms, too much data, names that are paths."""

from __future__ import annotations

import os
import re
import socket
import stat
from contextlib import suppress

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from web_client import open_browser, serving

from nptad.http.addresses import hosts_for
from nptad.web import app as web_app
from nptad.web.app import Config, create_app
from nptad.web.jobs import Store
from nptad.web.security import HEADERS, PAGE_POLICY, Sessions

OF_A_JOB = ("run", "judge", "again", "copy", "cancel", "delete")
ACTIONS = ("/jobs", "/example", *(f"/jobs/{{}}/{what}" for what in OF_A_JOB))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("web") / "home"


@pytest.fixture(scope="module")
def server(home):
    """One server for all tests here; it takes files of 1 kB (and 1 MB for the rest of a form)."""
    with open_browser(home, max_bytes=1000) as browser:
        yield browser


@pytest.fixture
def browser(server):
    """A browser without cookies, at a server without jobs."""
    for job in list(server.site.store.jobs.values()):
        server.post(f"/jobs/{job.id}/delete")
    server.client.cookies.clear()
    return server


@pytest.fixture
def files_left(home):
    return lambda: list((home / "jobs").iterdir())


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory):
    home = tmp_path_factory.mktemp("guarded")
    with open_browser(home, token="the token", hosts=hosts_for("0.0.0.0")) as browser:
        yield browser


@pytest.fixture
def guarded(guarded_server):
    """A browser without cookies, at a server that asks for a token."""
    guarded_server.client.cookies.clear()
    return guarded_server


def test_the_actions_tested_here_are_all_there_are():
    routes = [route for route in web_app.actions.routes if isinstance(route, APIRoute)]
    assert {route.path.replace("{job_id}", "{}") for route in routes} == set(ACTIONS)
    assert all(route.methods == {"GET"} for route in web_app.views.routes)


def test_every_answer_has_the_headers(browser):
    answers = [
        browser.get("/"),
        browser.get("/nowhere"),
        browser.get("/static/style.css"),
        browser.get("/", headers={"host": "evil.example"}),
        browser.client.post("/jobs"),
        browser.client.delete("/jobs"),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 200, 400, 403, 403]
    for answer in answers:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "server" not in answer.headers or answer.headers["server"] == "uvicorn"
    assert answers[0].headers["content-security-policy"] == PAGE_POLICY
    assert browser.get(f"/jobs/{browser.new_job().id}/status").headers["cache-control"] == "no-store"


def test_an_error_of_ours_says_nothing_about_itself(browser, monkeypatch):
    monkeypatch.setattr(Store, "newest_first", lambda _: 1 / 0)
    answer = browser.get("/")
    assert answer.status_code == 500
    assert "no fault of yours" in answer.text
    assert "ZeroDivision" not in answer.text
    assert answer.headers["content-security-policy"] == PAGE_POLICY


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "192.168.1.5", "[", "a b"]
)
def test_a_foreign_host_is_refused(browser, host):
    assert browser.get("/", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost:8765", "LOCALHOST", "127.0.0.1", "[::1]:8765"])
def test_this_machine_is_not(browser, host):
    assert browser.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "forgery",
    ["no form token", "another token", "no origin", "another origin", "another scheme", "null origin", "no session"],
)
def test_a_forged_request_changes_nothing(browser, forgery):
    job = browser.new_job()
    before = job.to_json()
    data, headers = {"form_token": browser.form_token}, {"origin": browser.origin}
    cookies = dict(browser.client.cookies)
    match forgery:
        case "no form token":
            data = {}
        case "another token":
            data["form_token"] = "0" * 64
        case "no origin":
            headers = {}
        case "another origin":
            headers["origin"] = "http://127.0.0.1:1"
        case "another scheme":
            headers["origin"] = browser.origin.replace("http:", "https:")
        case "null origin":
            headers["origin"] = "null"
        case "no session":
            cookies = {}
    with httpx.Client(base_url=browser.origin, cookies=cookies, verify=False) as client:
        for path in ACTIONS:
            files = {"file": ("new.csv", b"x\n1\n")} if path == "/jobs" else None
            answer = client.post(path.format(job.id), data=data, headers=headers, files=files)
            assert answer.status_code == 403, path
    assert list(browser.site.store.jobs) == [job.id]
    assert job.to_json() == before


def test_a_form_of_another_session_does_not_fit(browser):
    foreign = browser.form_token
    browser.client.cookies.clear()
    assert browser.form_token != foreign
    assert browser.post("/example", {"form_token": foreign}).status_code == 403


def test_the_cookie_is_for_the_server_only(browser):
    cookie = browser.get("/").headers["set-cookie"]
    assert re.fullmatch(r"nptad_[0-9a-f]{12}=[0-9a-f]{32}\.[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict", cookie)
    assert "set-cookie" not in browser.get("/").headers


@pytest.mark.parametrize("value", ["", "x", "0" * 32 + "." + "0" * 64, "é.é", "a;b", '"'])
def test_a_made_up_cookie_is_no_session(browser, value):
    headers = {"cookie": f"{browser.site.sessions.cookie}={value}".encode()}
    with httpx.Client(base_url=browser.origin, verify=False) as client:
        assert "set-cookie" in client.get("/", headers=headers).headers


def test_a_link_from_another_site_does_not_replace_the_session(browser):
    answer = browser.get("/", headers={"sec-fetch-site": "cross-site"})
    assert "set-cookie" not in answer.headers
    assert '<meta http-equiv="refresh" content="0;url=/">' in answer.text


def test_with_a_token_nothing_is_shown_without_it(guarded):
    for path in ("/", "/jobs/0123456789abcdef", "/?token=", "/?token=another", "/jobs/0123456789abcdef/status"):
        answer = guarded.get(path)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert "Drop a table" not in answer.text
    assert guarded.get("/static/style.css").status_code == 200


def test_the_token_is_shown_once_and_then_a_cookie_does(guarded):
    answer = guarded.get("/?token=the%20token")
    assert "SameSite=Strict" in answer.headers["set-cookie"]
    assert "the token" not in answer.text
    assert 'content="0;url=/"' in answer.text
    assert "Drop a table" in guarded.get("/").text
    assert guarded.upload().status_code == 200


def test_a_session_of_an_open_server_is_no_good_for_a_guarded_one():
    secret = bytes(32)
    session = Sessions(secret).new()
    for token in ("one", "another"):
        guarded = Sessions(secret, token)
        assert guarded.find(cookie_header(f"{guarded.cookie}={session}")) is None
        assert guarded.find(cookie_header(f"{guarded.cookie}={guarded.new()}")) is not None


def cookie_header(cookie):
    return Headers({"cookie": cookie})


def test_with_a_token_addresses_are_hosts_but_foreign_names_are_not(guarded):
    assert guarded.get("/", headers={"host": "192.168.1.5:8765"}).status_code == 401
    assert guarded.get("/", headers={"host": "evil.example"}).status_code == 400


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(browser, files_left):
    host = browser.origin.removeprefix("http://")
    browser.get("/")
    cookie = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    request = (
        f"POST /jobs HTTP/1.1\r\nhost: {host}\r\norigin: {browser.origin}\r\ncookie: {cookie}\r\n"
        "content-type: multipart/form-data; boundary=x\r\ncontent-length: 5000000\r\n\r\n"
    )
    with socket.create_connection(tuple(host.split(":"))) as connection:
        connection.sendall(request.encode())
        answer = connection.makefile("rb").read().decode()
    assert answer.startswith("HTTP/1.1 413")
    assert "more than the 1 MB" in answer
    assert not files_left()


def test_a_body_that_hides_its_length_is_refused_when_it_exceeds_the_limit(browser, files_left):
    token, sent = browser.form_token, 0

    def endless():
        nonlocal sent
        yield f'--x\r\ncontent-disposition: form-data; name="form_token"\r\n\r\n{token}\r\n'.encode()
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
        while sent < 500_000_000:
            sent += 100_000
            yield b"1" * 100_000

    headers = {"origin": browser.origin, "content-type": "multipart/form-data; boundary=x"}
    with suppress(httpx.HTTPError):  # the server hangs up, perhaps before its answer was read
        assert browser.client.post("/jobs", headers=headers, content=endless()).status_code == 413
    assert sent < 100_000_000
    assert not files_left()


def test_other_forms_are_small(browser):
    job = browser.new_job()
    answer = browser.post(f"/jobs/{job.id}/run", {"seed": "1" * 2_000_000})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "data",
    [b"", b"--x--\r\n", b"no form at all", b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.csv"\r\n'],
)
def test_a_body_that_is_no_form_is_refused(browser, data, files_left):
    headers = {"origin": browser.origin, "content-type": "multipart/form-data; boundary=x"}
    browser.get("/")
    assert browser.client.post("/jobs", headers=headers, content=data).status_code in (400, 403)
    assert not files_left()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("table.xls", "is a workbook of another kind by its suffix; save it as .xlsx or CSV")]
    + [
        (name, "has no suffix that says its format")
        for name in ("table", "table.csv.exe", "table.parquet.gz", ".gz", "csv", "table.pkl")
    ],
)
def test_other_formats_are_refused(browser, name, reason, files_left):
    answer = browser.upload(name)
    assert answer.status_code == 415
    assert reason in answer.text
    assert not files_left()


@pytest.mark.parametrize(
    "name", ["a.csv", "TABLE.CSV", "a.b.tsv.gz", "a.ndjson", "a.feather", "a.json", "a.xlsx", "a.zip"]
)
def test_the_formats_of_the_library_are_taken(browser, name):
    assert browser.upload(name).status_code == 200


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../../etc/passwd.csv", "passwd.csv"),
        ("..\\..\\boot.csv", "boot.csv"),
        ("/etc/cron.d/x.csv", "x.csv"),
        ("job.json/../upload.csv", "upload.csv"),
        ("....csv", "....csv"),
    ],
)
def test_a_name_that_is_a_path_is_only_a_name(browser, name, shown, files_left, home):
    job = browser.new_job(name)
    assert job.name == shown
    assert [path.name for path in files_left()] == [job.id]
    assert {path.name for path in files_left()[0].iterdir()} == {"job.json", "table.arrow"}
    assert {path.name for path in home.parent.iterdir()} == {"home"}
    assert {path.name for path in home.iterdir()} == {"jobs", "lock", "secret"}


def test_two_uploads_of_one_name_are_two_jobs(browser):
    first, second = browser.new_job("same.csv"), browser.new_job("same.csv")
    assert first.id != second.id
    assert browser.get("/").text.count("same.csv") == 2


def test_names_are_text_never_markup(browser):
    job = browser.new_job("<script>alert(1)</script><img src=x onerror=alert(1)>'\"&.csv")
    for path in ("/", f"/jobs/{job.id}"):
        page = browser.get(path).text
        assert "alert(1)&gt;" in page
        assert "<img" not in page
        assert "<script>" not in page
    job = browser.start_job("{{ 7 * 7 }}.csv")
    assert "{{ 7 * 7 }}.csv" in browser.get("/").text


def test_the_name_of_a_download_is_harmless(browser):
    job = browser.start_job('a"\r\nset-cookie: x=y;é.csv')
    browser.wait_for(job, "done")
    header = browser.get(f"/jobs/{job.id}/download/scores.csv").headers["content-disposition"]
    assert re.fullmatch(r'attachment; filename="[A-Za-z0-9_.-]+"', header)


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/0123456789abcdef",
        "/jobs/..%2f..%2fsecret",
        "/jobs/../secret",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/secret",
        "/docs",
        "/redoc",
        "/openapi.json",
        "/secret",
    ],
)
def test_there_is_nothing_else(browser, path):
    assert browser.get(path).status_code == 404


@pytest.mark.parametrize("kind", ["job.json", "table.arrow", "..%2fjob.json", "digest.json", ""])
def test_only_results_can_be_downloaded(browser, kind):
    job = browser.start_job()
    browser.wait_for(job, "done")
    assert browser.get(f"/jobs/{job.id}/download/{kind}").status_code == 404


def test_there_is_no_result_before_the_end(browser):
    job = browser.new_job()
    assert browser.get(f"/jobs/{job.id}/report").status_code == 404
    assert browser.get(f"/jobs/{job.id}/download/scores.csv").status_code == 404


def test_the_report_has_the_rights_it_claims_and_a_sandbox(browser):
    job = browser.start_job()
    browser.wait_for(job, "done")
    report = browser.site.store.path(job) / "result" / "report.html"
    policy = browser.get(f"/jobs/{job.id}/report").headers["content-security-policy"]
    assert policy == "default-src 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"
    claimed = "default-src &#39;none&#39;; script-src &#39;sha256-x&#39;"
    report.write_text(f'<head><meta http-equiv="Content-Security-Policy" content="{claimed}"></head>')
    policy = browser.get(f"/jobs/{job.id}/report").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-x'; frame-ancestors 'none'; sandbox")


@pytest.mark.skipif(os.name == "nt", reason="permissions of files are another matter there")
def test_nobody_else_can_read_the_directory(browser, home):
    browser.new_job()
    assert stat.S_IMODE((home / "secret").stat().st_mode) == 0o600
    for directory in (home, home / "jobs", *(home / "jobs").iterdir()):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_broken_file_is_one_sentence_and_leaves_nothing(browser, files_left):
    answer = browser.upload("broken<b>.csv")
    assert answer.status_code == 400
    assert '<p class="note" role="alert">broken&lt;b&gt;.csv is broken; mend it.</p>' in answer.text
    assert not files_left()


def test_no_file_is_one_sentence_too(browser):
    assert "Choose a file first." in browser.post("/jobs", {"file": "text"}).text


def test_pages_load_nothing_from_elsewhere_and_hold_no_code(browser):
    draft, running, done = browser.new_job("a.csv"), browser.start_job("failing.csv"), browser.start_job("done.csv")
    browser.wait_for(done, "done")
    for path in ("/", *(f"/jobs/{job.id}" for job in (draft, running, done))):
        page = browser.get(path).text
        assert not re.search(r"https?://|style=|\son[a-z]+=|javascript:", page)
        assert re.findall(r"<script[^>]*>", page) == ['<script src="/static/script.js" defer>']


def test_two_servers_have_different_cookies(tmp_path):
    names = set()
    for name in ("one", "two"):
        app = create_app(Config(tmp_path / name))
        with serving(app) as url:
            names.add(httpx.get(url).headers["set-cookie"].partition("=")[0])
    assert len(names) == 2
