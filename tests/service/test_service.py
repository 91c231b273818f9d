"""The service with real processes on the loopback interface: what clients see, bad ones too, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import psutil
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import ignored_auth
from service_process import served

from nptad import NPTAD
from nptad.http.addresses import listen
from nptad.service.messages import FORMATS

NUMBERS = ("score", "p_value")
ROOT = Path(__file__).parents[2]
TOKEN = "a-token-of-the-tests-0123456789"
AUTHORISED = {"authorization": f"Bearer {TOKEN}"}


def made(n_rows, seed):
    random = np.random.default_rng(seed)
    size = random.normal(size=n_rows).round(4)
    weight = (3 * size + 0.1 * random.normal(size=n_rows)).round(4)
    return pd.DataFrame({"size": size, "weight": weight, "colour": np.where(size > 0, "red", "blue")})


def rows_of(table):
    return table.to_dict(orient="records")


@pytest.fixture(scope="module")
def detector():
    return NPTAD(random_state=0).fit(made(200, 0))


@pytest.fixture(scope="module")
def service(detector, tmp_path_factory):
    model = tmp_path_factory.mktemp("service") / "model"
    detector.save(model)
    with served(model, "--max-requests", "6", "--max-megabytes", "1", NPTAD_TOKEN=TOKEN) as service:
        service.client.headers.update(AUTHORISED)
        service.model = model
        yield service
        service.process.terminate()
        assert service.end() == 0
        text = "".join(service.lines)
        assert TOKEN not in text
        assert "Traceback" not in text
        assert service.events("ended")


def connected(service, head=b"", n_bytes=100):
    client = socket.create_connection(("127.0.0.1", service.port))
    client.settimeout(30)
    authorised = f"Authorization: {AUTHORISED['authorization']}".encode()
    lines = [b"POST /score HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", authorised]
    client.sendall(b"\r\n".join([*lines, head or b"Content-Length: %d" % n_bytes, b"", b""]))
    return client


def test_an_answer_is_sent_at_once():
    """Head and body are sent one after the other; by default the body would wait for the head to be acknowledged."""
    with listen("127.0.0.1", 0) as server, socket.create_connection(server.getsockname()):
        connection, _ = server.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_clients_at_the_same_time_get_the_scores_of_detect(service, detector):
    tables = [made(n_rows, seed) for seed, n_rows in enumerate([1, 1, 20, 1, 5, 1], 1)]
    with ThreadPoolExecutor(len(tables)) as clients:
        answers = list(clients.map(lambda table: service.client.post("/score", json=rows_of(table)), tables))
    for table, answer in zip(tables, answers, strict=True):
        assert answer.status_code == 200
        found = detector.detect(table)
        np.testing.assert_allclose([row["score"] for row in answer.json()["rows"]], found.score, rtol=1e-5)
    csv = service.client.post("/score", content=tables[2].to_csv(index=False), headers={"content-type": "text/csv"})
    assert csv.json()["rows"] == answers[2].json()["rows"]
    explained = service.client.post("/explain", json=[{"size": 1.0, "weight": -9.0, "colour": "red"}, 3]).json()
    assert explained["rows"][0]["reasons_text"].startswith("weight is -9")
    assert explained["rows"][1]["error"].startswith("The row is not an object")


def test_without_the_token_there_is_nothing_but_the_state_of_health(service):
    with httpx.Client(base_url=service.client.base_url) as stranger:
        assert stranger.get("/health").json() == {"status": "ok"}
        for path in ("/model", "/metrics", "/docs", "/openapi.json", "/nothing"):
            assert stranger.get(path).status_code == 401
        for shown in ("", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer \xe4"):
            answer = stranger.post("/score", json=[{}], headers={"authorization": shown.encode("latin-1")})
            assert answer.status_code == 401
            assert answer.json()["error"].startswith("This service needs its token;")
            assert answer.headers.get_list("www-authenticate") == ["Bearer", 'Basic realm="nptad"']
        assert stranger.get("/model", auth=("anybody", TOKEN)).status_code == 200  # as a browser asks for it
    environment = [process.environ() for process in service.workers()]
    assert environment
    assert all("NPTAD_TOKEN" not in variables for variables in environment)


def test_bad_requests_are_one_sentence(service):
    post = service.client.post
    answers = {
        404: service.client.get("/nothing"),
        405: service.client.get("/score"),
        415: post("/score", content=b"[]", headers={"content-type": "text/plain"}),
        400: post("/score", content=b"[", headers={"content-type": "application/json"}),
        422: post("/score", json={"columns": []}),
        413: post("/score", content=bytes(1_000_001), headers={"content-type": "application/json"}),
    }
    for status, answer in answers.items():
        assert answer.status_code == status
        assert re.fullmatch(r"[^.].*\.", answer.json()["error"])
    packed = post("/score", content=b"[]", headers={"content-type": "application/json", "content-encoding": "gzip"})
    assert packed.status_code == 415


def test_a_body_that_never_ends_is_cut_off(service):
    with connected(service, b"Transfer-Encoding: chunked") as client:
        with suppress(ConnectionError):
            for _ in range(500):
                client.sendall(b"10000\r\n" + bytes(0x10000) + b"\r\n")
        assert client.recv(12) == b"HTTP/1.1 413"


def test_more_requests_than_there_is_room_for_are_asked_to_come_again(service):
    waiting = []

    def is_full():
        waiting.append(connected(service))
        return service.client.post("/score", json=[]).status_code == 429

    try:
        service.wait_until(is_full)
        answer = service.client.post("/score", json=[])
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert service.client.get("/health").status_code == 200
    finally:
        for client in waiting:
            client.close()  # these leave in the middle of their bodies
    service.wait_until(lambda: service.client.post("/score", json=[]).status_code == 200)


def test_a_client_that_leaves_takes_nothing_with_it(service):
    body = json.dumps(rows_of(made(900, 1))).encode()
    with connected(service, n_bytes=len(body)) as client:
        client.sendall(body)
    assert service.client.post("/score", json=rows_of(made(1, 1))).status_code == 200
    service.wait_until(lambda: any(entry["status"] == 499 for entry in service.events("request")))


def test_metrics_count_what_has_happened(service):
    def counted(name):
        return float(re.search(rf"^nptad_{re.escape(name)} (\S+)$", service.client.get("/metrics").text, re.M)[1])

    before = counted("rows_total"), counted("refused_rows_total"), counted('request_seconds_count{path="/score"}')
    service.client.post("/score", json=[*rows_of(made(10, 1)), "bad"])
    after = counted("rows_total"), counted("refused_rows_total"), counted('request_seconds_count{path="/score"}')
    assert np.subtract(after, before).tolist() == [10, 1, 1]
    assert counted('column_drift{column="size"}') in (0, 1)
    assert counted("workers") == 1


def test_the_page_of_the_service_loads_nothing_from_elsewhere(service):
    page, style = service.client.get("/docs"), service.client.get("/docs.css")
    assert page.status_code == style.status_code == 200
    assert set(re.findall(r'(?:src|href)="([^"]*)"', page.text)) == {"docs.css", "openapi.json"}
    assert "url(" not in style.text
    assert "<script" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert all(name in page.text for name in made(1, 0).columns)


def test_answers_are_as_the_openapi_document_says(service):
    """Property test: what fits the document gets a result that fits it."""
    document = service.client.get("/openapi.json").json()
    paths = document["paths"].items()
    for path in ("/score", "/explain"):  # of the other formats the document cannot say what fits
        body = document["paths"][path]["post"]["requestBody"]
        body["content"] = {"application/json": body["content"]["application/json"]}
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=str(service.client.base_url))
    operations = [schema[path][method.upper()] for path, methods in paths for method in methods]

    @given(case=st.one_of(*(operation.as_strategy() for operation in operations)))
    @settings(max_examples=20, suppress_health_check=list(HealthCheck), database=None)
    def ask(case):
        case.call_and_validate(headers=AUTHORISED, excluded_checks=[ignored_auth])  # which has a test of its own

    ask()


@settings(max_examples=30)
@given(
    path=st.sampled_from(["/score", "/explain"]),
    name=st.sampled_from(list(FORMATS)),
    body=st.one_of(st.binary(max_size=60), st.text(alphabet='size,weight"{}[]:\n0.1', max_size=60).map(str.encode)),
)
def test_any_body_gets_one_of_the_documented_answers(service, path, name, body):
    answer = service.client.post(path, content=body, headers={"content-type": name})
    assert answer.status_code in (200, 400, 422)
    assert set(answer.json()) == ({"error"} if answer.status_code != 200 else {"model", "rows", "flagged", "notes"})


def test_the_examples_of_the_openapi_document_are_scored(service):
    for path in ("/score", "/explain"):
        content = service.client.get("/openapi.json").json()["paths"][path]["post"]["requestBody"]["content"]
        examples = {name: body["example"] for name, body in content.items() if "example" in body}
        assert set(examples) == {"application/json", "text/csv"}
        for name, example in examples.items():
            body = example if isinstance(example, str) else json.dumps(example)
            answer = service.client.post(path, content=body, headers={"content-type": name})
            assert [row["anomaly"] for row in answer.json()["rows"]] == [False]


def documented(language):
    for name in ("README.md", "docs/service.md"):
        text = (ROOT / name).read_text(encoding="utf-8").replace("localhost:8766", "localhost:PORT")
        yield from (code for code in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) if ":PORT/" in code)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_documented_requests_work_with_curl(service, tmp_path):
    made(5, 1).to_csv(tmp_path / "new.csv", index=False)
    commands = [code for code in documented("bash") if code.startswith("curl")]
    assert len(commands) == 3
    for code in commands:
        code = code.replace("PORT", str(service.port)).replace("curl", f"curl -sS -H 'Authorization: Bearer {TOKEN}'")
        said = subprocess.run(["bash", "-c", code], cwd=tmp_path, check=True, capture_output=True).stdout
        rows = json.loads(said)["rows"]
        assert len(rows) in (1, 2, 5)
        assert all("error" not in row for row in rows)
        assert rows[0]["anomaly"] == (len(rows) < 5)


def test_the_documented_answer_is_what_comes(service):
    text = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    (shown,) = map(json.loads, re.findall(r"```json\n(.*?)```", text, re.DOTALL))
    rows = [{"size": 1.0, "weight": -9.0, "colour": "red"}, {"size": 1.0, "weight": "oops"}]
    found = service.client.post("/score", json=rows).json()
    assert found.keys() == shown.keys()
    for row, documented_row in zip(found["rows"], shown["rows"], strict=True):
        assert row == {**documented_row, **{name: pytest.approx(documented_row[name], rel=1e-3) for name in NUMBERS}}


def test_the_documented_python_works(service, capsys):
    (code,) = documented("python")
    code = code.replace("PORT", str(service.port))
    exec(code.replace("headers={", f'headers={{"Authorization": "Bearer {TOKEN}", '), {})
    assert capsys.readouterr().out.startswith("weight is -9")


def test_a_killed_worker_and_another_model_and_the_end_with_requests_under_way(service, detector):
    """In this order, in one service: to load a model takes seconds."""
    (worker,) = service.workers()
    worker.send_signal(signal.SIGKILL)
    # Tried again with a new worker; on a busy machine there may be no time left for that.
    service.wait_until(lambda: service.client.post("/score", json=rows_of(made(1, 1))).status_code == 200)
    assert worker not in service.workers()

    other = NPTAD(random_state=1).fit(made(150, 5).rename(columns={"weight": "mass"}))
    other.save(service.model)
    service.process.send_signal(signal.SIGHUP)
    service.wait_until(lambda: len(service.events("model_loaded")) == 2)
    table = made(3, 2).rename(columns={"weight": "mass"})
    found = service.client.post("/score", json=rows_of(table)).json()
    np.testing.assert_allclose([row["score"] for row in found["rows"]], other.detect(table).score, rtol=1e-5)
    names = [column["name"] for column in service.client.get("/model").json()["columns"]]
    assert names == list(table)

    body = json.dumps(rows_of(made(500, 3).rename(columns={"weight": "mass"}))).encode()
    before, children = len(service.events("request")), service.workers()
    with connected(service, n_bytes=len(body)) as client:
        client.sendall(body[:100])
        httpx.get(f"{service.client.base_url}/health")  # on a connection that is accepted after this one
        service.process.terminate()
        time.sleep(0.2)
        client.sendall(body[100:])
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["rows"]) == 500
    assert service.end() == 0
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    assert len(service.events("request")) == before + 1
