"""Clients that are slow, silent, too many or gone: the page answers the others, and the terminal stays quiet."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from web_client import open_browser

from nptad.http import connections
from nptad.web import security

resource = pytest.importorskip("resource", reason="this system has no limits of a process")

SERVE = "import sys; from pathlib import Path; from nptad.web.command import serve\n"
SERVE += "serve(port=0, directory=Path(sys.argv[1]), browser=False)"
UPLOAD = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"


@pytest.fixture
def hurried(monkeypatch, tmp_path):
    """A server with little patience."""
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.3)
    with open_browser(tmp_path / "home") as browser:
        yield browser


def connected(browser):
    client = socket.create_connection(("127.0.0.1", int(browser.origin.rsplit(":", 1)[1])))
    client.settimeout(10)
    return client


def session_of(browser):
    browser.get("/")
    return "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_closed(client):
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def all_sent(client, data):
    try:
        for byte in data:
            client.sendall(bytes([byte]))
            time.sleep(0.02)
    except OSError:
        return False
    return True


def bytes_until_closed(client):
    got = 0
    with suppress(ConnectionResetError):
        while piece := client.recv(1 << 20):
            got += len(piece)
    return got


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_a_head_that_does_not_come_ends_the_connection(hurried, sent):
    with connected(hurried) as client:
        client.sendall(sent)
        assert is_closed(client)


def test_a_head_that_comes_in_drops_ends_it_too(hurried):
    with connected(hurried) as client:
        assert not all_sent(client, b"GET / HTTP/1.1\r\n" + b"X-Slow: 1\r\n" * 20)


def test_a_body_that_does_not_come_ends_the_connection_without_a_traceback(hurried, capfd, files_left):
    head = UPLOAD.replace(b"\r\n\r\n", f"\r\nOrigin: http://localhost\r\nCookie: {session_of(hurried)}".encode())
    with connected(hurried) as client:
        client.sendall(head + b"\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n")
        assert is_closed(client)
    assert hurried.get("/").status_code == 200
    assert not files_left()
    assert "Traceback" not in capfd.readouterr().err


def test_a_client_that_works_or_waits_for_us_has_all_the_time(hurried):
    job = hurried.start_job("endless.csv")
    hurried.wait_for_progress(job)
    body = b"\r\n".join([b"--x", b'Content-Disposition: form-data; name="form_token"', b"", b"0", b"--x--", b""])
    head = UPLOAD.replace(b"100000", str(len(body) + 200_000).encode())
    head = head.replace(b"\r\n\r\n", f"\r\nOrigin: http://localhost\r\nCookie: {session_of(hurried)}".encode())
    with connected(hurried) as client:
        client.sendall(head + b"\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n" + body)
        for _ in range(10):  # more than half a second, and always going on
            client.sendall(bytes(20_000))
            time.sleep(0.06)
        assert client.recv(12) == b"HTTP/1.1 403"


def test_a_client_that_takes_no_answer_is_cut_off(hurried, tmp_path):
    job = hurried.start_job()
    hurried.wait_for(job, "done")
    large = tmp_path / "home" / "jobs" / job.id / "result" / "scores.csv"
    large.write_bytes(bytes(50_000_000))
    request = f"GET /jobs/{job.id}/download/scores.csv HTTP/1.1\r\nHost: localhost\r\nCookie: {session_of(hurried)}\r\n"
    with connected(hurried) as client:
        client.sendall(request.encode() + b"\r\n")
        time.sleep(1.5)
        assert bytes_until_closed(client) < 50_000_000


def test_the_one_that_waits_longest_makes_room(monkeypatch, tmp_path):
    monkeypatch.setattr(connections, "most_connections", lambda: 5)
    with open_browser(tmp_path / "home") as browser, ExitStack() as stack:
        silent = [stack.enter_context(connected(browser)) for _ in range(12)]
        assert is_closed(silent[0])
        assert httpx.get(browser.origin).status_code == 200
        silent[-1].sendall(b"GET /static/icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert silent[-1].recv(12) == b"HTTP/1.1 200"


def test_too_many_uploads_at_once_are_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(security, "_UPLOADS", 0)
    with open_browser(tmp_path / "home") as browser:
        answer = browser.upload()
        assert answer.status_code == 503
        assert "repeat this in a minute" in answer.text
        assert answer.headers["connection"] == "close"


def test_a_client_that_leaves_while_it_uploads_leaves_nothing(browser, capfd, files_left):
    head = UPLOAD.replace(b"\r\n\r\n", f"\r\nOrigin: http://localhost\r\nCookie: {session_of(browser)}".encode())
    for how in ("mid-body", "garbage"):
        with connected(browser) as client:
            if how == "garbage":
                head = head.replace(b"Content-Length: 100000", b"Transfer-Encoding: chunked")
            client.sendall(head + b"\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\nConte")
            time.sleep(0.1)
    assert browser.get("/").status_code == 200
    assert not files_left()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processor time is read from /proc")
def test_at_the_limit_of_open_files_the_page_answers_and_is_quiet(tmp_path):
    errors = tmp_path / "errors"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(tmp_path / "home")],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)),
        )
    try:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        address = ("127.0.0.1", int(re.search(r":(\d+)/", url)[1]))
        with ExitStack() as stack:
            for _ in range(300):
                client = stack.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(address)
            assert httpx.get(url, timeout=30).status_code == 200
            before = processor_seconds(process.pid)
            time.sleep(0.5)
            assert processor_seconds(process.pid) - before < 0.2
    finally:
        process.terminate()
        process.stdout.close()
        process.wait(30)
    assert errors.stat().st_size < 2000
