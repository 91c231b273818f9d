"""The page in a real browser, with the real worker."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from web_client import open_browser

from chromium import ARGUMENTS, CHROMIUM
from nptad.http.addresses import hosts_for
from nptad.io.read import read_table

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no browser at {CHROMIUM}")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

PATIENCE = 120_000
SERVE = "import sys; from pathlib import Path; from nptad.web.command import serve\n"
SERVE += "serve(port=int(sys.argv[1]), directory=Path(sys.argv[2]), browser=False)"


class Server:
    """``nptad serve`` in a process of its own."""

    def __init__(self, directory):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.directory = directory

    def start(self):
        command = [sys.executable, "-c", SERVE, str(self.port), str(self.directory)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+", self.process.stdout.readline())[0]

    def end(self, how=signal.SIGINT):
        self.process.send_signal(how)
        self.process.stdout.close()
        return self.process.wait(60)

    def jobs(self):
        return [path.name for path in (self.directory / "jobs").iterdir()]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("web") / "home")
    server.start()
    yield server
    if server.process.poll() is None:
        assert server.end() == 0


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def window(chromium, **options):
    """A window with cookies of its own; anything the browser complains about is an error."""
    context = chromium.new_context(**options)
    context.set_default_timeout(PATIENCE)
    context.complaints = []
    context.on("console", lambda message: context.complaints.append(message.text))
    context.on("weberror", lambda error: context.complaints.append(str(error.error)))
    context.on("dialog", lambda dialog: dialog.accept())
    yield context
    complaints = [text for text in context.complaints if "Failed to load resource" not in text]
    context.close()
    assert not complaints


@pytest.fixture
def page(chromium, server):
    with window(chromium) as context:
        page = context.new_page()
        page.goto(server.url)
        yield page


def orders_csv(rows=60):
    """Categories, gaps, an identifier, a flag, and one row that does not fit."""
    random = np.random.default_rng(1)
    amount = random.integers(1, 30, rows)
    lines = ["order;region;<i>amount</i>;total;paid;state"]
    for i in range(rows):
        total = "" if i % 11 == 5 else f"{2.5 * amount[i]:.1f}".replace(".", ",")
        region = ("north", "south", "")[i % 3]
        lines.append(f"A{i:03};{region};{amount[i]};{total};{i % 2};{'odd' if i == 17 else 'fine'}")
    lines[18] = "A017;north;7;999,5;1;odd"
    return "\n".join(lines).encode()


def long_csv():
    """Rows enough for a job that lasts several times as long as what a test does beside it, on any machine."""
    rows = np.random.default_rng(2).normal(size=(20_000, 10)).round(3)
    return "\n".join([",".join("abcdefghij"), *(",".join(map(str, row)) for row in rows.tolist())]).encode()


def choose(page, name, content):
    page.wait_for_load_state()  # the script clears the field when the page is shown
    page.set_input_files("#file", {"name": name, "mimeType": "text/plain", "buffer": content})


def settings(page, **values):
    if not page.is_visible("#seed"):
        page.click("summary")
    for name, value in values.items():
        page.fill(f"#{name}", value)


def wait_for_progress(page):
    page.wait_for_selector("#percent:not(:text-is('0%'))")


def download(page, text, directory):
    with page.expect_download() as waiting:
        page.click(f"a:text-is('{text}')")
    path = directory / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def fits(page):
    """Nothing sticks out to the right."""
    page.wait_for_load_state()  # headings are there before the style sheet is
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_the_example_from_start_to_report(page, tmp_path):
    page.click("text=Try the example")
    page.wait_for_selector("h1:text-is('Check the columns')")
    assert page.locator("#label option:checked").inner_text() == "booking = wrong"
    page.click("text=Find anomalies")
    page.wait_for_selector("h1:has-text('of 96 rows')")
    assert page.locator(".found tbody tr").count() == 6
    scores = read_table(download(page, "Scores as CSV", tmp_path))
    assert scores.num_rows == 96
    assert {"row", "parcel", "booking", "score", "p_value", "anomaly", "reasons"} == set(scores.column_names)
    assert read_table(download(page, "Scores as Parquet", tmp_path)).num_rows == 96
    with zipfile.ZipFile(download(page, "Model", tmp_path)) as model:
        assert "model/config.json" in model.namelist()
    assert {path.name for path in tmp_path.iterdir()} == {
        f"parcels-example-{kind}" for kind in ("scores.csv", "scores.parquet", "model.zip")
    }

    page.click(".found tbody tr:first-child button:text-is('This is fine')")
    page.click(".found tbody tr:first-child button:text-is('Take back')")
    page.wait_for_selector(".found tbody tr:first-child button:text-is('An anomaly')")

    with page.expect_popup() as opened:
        page.click("text=Open the report")
    report = opened.value
    report.wait_for_selector("#tools:not([hidden])")  # its script runs
    assert report.evaluate("getComputedStyle(document.querySelector('h1')).fontWeight") == "650"  # its style counts
    assert report.evaluate("self.origin") == "null"  # and it is in a sandbox
    with report.expect_download() as saved:
        report.click("#save")
    assert saved.value.suggested_filename == "anomaly-report.json"


def test_a_csv_with_categories_and_gaps(page, tmp_path):
    choose(page, "orders & <b>more.csv", orders_csv())
    page.wait_for_selector("h1:text-is('Check the columns')")
    rows = [row.inner_text().replace("\n", " ") for row in page.locator(".columns tbody tr").all()]
    assert "row identifier" in rows[0]
    assert "2 categories" in rows[1]
    assert "32%" in rows[1]
    assert "<i>amount</i>" in rows[2]
    assert "8.3%" in rows[3]
    assert page.input_value("[name=use-0]") == "ignore"
    page.select_option("[name=use-1]", "ignore")
    page.select_option("[name=use-2]", "category")
    page.select_option("#label", label="state = odd")
    assert page.locator("tr.label th").inner_text() == "state"
    settings(page, share="1.7")
    page.click("text=Find anomalies")
    page.wait_for_selector("h1:has-text('1 of 60 rows')")
    found = page.inner_text(".found tbody")
    assert "A017" in found
    assert "total" in found
    assert "orders & <b>more.csv" in page.inner_text("header")
    scores = read_table(download(page, "Scores as CSV", tmp_path))
    assert scores.column_names[:4] == ["row", "order", "region", "state"]

    page.click("text=Change columns and run again")
    page.wait_for_selector("h1:text-is('Check the columns')")
    assert page.input_value("[name=use-2]") == "category"
    page.click("text=Delete")
    page.wait_for_selector("#drop")


def test_a_broken_file_is_explained_and_not_kept(page, server):
    before = server.jobs()
    for name, content, sentence in (
        ("torn.csv", b'a,b\n1,2\n"3,4\n', "torn.csv"),
        ("empty.parquet", b"", "empty.parquet is empty"),
        ("photo.png", b"\x89PNG", "photo.png has no suffix that says its format"),
    ):
        choose(page, name, content)
        page.wait_for_selector(f"[role=alert]:has-text('{sentence}')")
    assert server.jobs() == before


def test_dropping_a_file_is_enough(page):
    page.evaluate(
        """content => {
            const data = new DataTransfer();
            data.items.add(new File([content], "dropped.csv"));
            dispatchEvent(new DragEvent("dragover", { dataTransfer: data, bubbles: true, cancelable: true }));
            dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
        }""",
        orders_csv().decode(),
    )
    page.wait_for_selector("h1:text-is('Check the columns')")
    assert "dropped.csv" in page.inner_text("header")


def test_a_file_that_is_too_large_is_not_even_sent(page):
    page.evaluate("document.getElementById('drop').dataset.bytes = '10'")
    choose(page, "large.csv", orders_csv())
    page.wait_for_selector("#upload-status:has-text('large.csv has 1 MB; the limit of this server is 0 MB.')")


def test_two_tabs_a_queue_and_cancel(page, server):
    choose(page, "long.csv", long_csv())
    page.click("text=Find anomalies")
    page.wait_for_selector("[aria-current=step]:has-text('Learn what normal rows look like')")
    wait_for_progress(page)
    assert "left" in page.inner_text("#left")

    other = page.context.new_page()
    other.goto(server.url)
    other.wait_for_selector("td:has-text('running,')")
    choose(other, "second.csv", orders_csv())
    other.click("text=Find anomalies")
    other.wait_for_selector("h1:text-is('Waiting')")
    assert other.locator(".line li").all_inner_texts()[1] == "second.csv this table"

    third = page.context.new_page()
    third.goto(page.url)  # the same job in another tab
    third.wait_for_selector("progress")
    third.click("text=Cancel")
    third.wait_for_selector("h1:text-is('Cancelled')")
    page.wait_for_selector("h1:text-is('Cancelled')")  # the first tab notices by itself
    other.wait_for_selector("h1:has-text('of 60 rows')")  # and the next job has had its turn


def test_without_script_the_page_works_too(chromium, server):
    with window(chromium, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(server.url)
        choose(page, "plain.csv", orders_csv())
        page.click("text=Read the table")
        page.click("text=Find anomalies")
        page.wait_for_selector("h1:text-is('Finding anomalies')")
        page.wait_for_selector("h1:has-text('of 60 rows')")


def test_the_keyboard_is_enough_and_a_phone_is_wide_enough(chromium, server):
    with window(chromium, viewport={"width": 390, "height": 844}, color_scheme="dark") as context:
        page = context.new_page()
        page.goto(server.url)
        assert fits(page)
        choose(page, "a-rather-long-name-without-any-place-to-break-it-in-two-lines.csv", orders_csv())
        page.wait_for_selector("h1:text-is('Check the columns')")
        assert fits(page)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
        page.keyboard.press("Enter")
        for name in ("use-0", "use-1", "use-2", "use-3", "use-4", "use-5", "label"):
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.name") == name
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type("2")
        page.keyboard.press("Enter")
        page.wait_for_selector("progress")
        assert fits(page)
        page.wait_for_selector("h1:has-text('of 60 rows')")
        assert fits(page)


def test_every_control_has_a_name(page):
    unnamed = """[...document.querySelectorAll("button, a, input:not([type=hidden]), select")].filter((control) =>
        !(control.textContent.trim() && control.tagName !== "SELECT") &&
        !control.getAttribute("aria-label") && !control.labels?.length).map((control) => control.outerHTML)"""
    assert page.evaluate(unnamed) == []
    choose(page, "named.csv", orders_csv())
    page.wait_for_selector("h1:text-is('Check the columns')")
    assert page.evaluate(unnamed) == []


def test_a_restart_loses_nothing(page, server):
    choose(page, "kept.csv", orders_csv())
    page.click("text=Find anomalies")
    page.wait_for_selector("text=Open the report")
    page.goto(server.url)
    choose(page, "interrupted.csv", long_csv())
    page.click("text=Find anomalies")
    wait_for_progress(page)
    workers = processes_below(server.process.pid)
    assert workers
    server.end(signal.SIGKILL)
    page.wait_for_selector("#trouble:visible")
    deadline = time.monotonic() + 60
    while any(is_running(pid) for pid in workers):  # the worker ends with the server, even if that was killed
        assert time.monotonic() < deadline
        time.sleep(0.1)
    server.start()
    page.wait_for_selector("h1:text-is('Interrupted')")  # the open page comes back by itself
    page.click("text=Run again")
    page.wait_for_selector("progress")
    page.click("text=Cancel")
    page.wait_for_selector("h1:text-is('Cancelled')")
    page.goto(server.url)
    page.click("tr:has-text('flagged') a:has-text('kept.csv')")
    page.wait_for_selector("text=Open the report")


def processes_below(pid):
    """All processes that descend from one, on Linux."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found = {child for child, parent in parents.items() if parent == pid}
    return found | {grandchild for child in found for grandchild in processes_below(child)}


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


def test_a_server_for_others_asks_for_its_token(chromium, tmp_path):
    with (
        open_browser(tmp_path / "home", token="the-token", hosts=hosts_for("0.0.0.0")) as guarded,
        window(chromium) as context,
    ):
        page = context.new_page()
        page.goto(guarded.origin)
        page.wait_for_selector("[role=alert]:has-text('needs its token')")
        page.goto(f"{guarded.origin}?token=the-token")
        page.wait_for_selector("#drop")
        assert "token" not in page.url
        choose(page, "photo.png", b"\x89PNG")
        page.wait_for_selector("[role=alert]:has-text('photo.png')")
        # A link on another site brings no strict cookie along; the user is let in all the same.
        link = f'<a href="{guarded.origin}">link</a>'
        context.route("http://elsewhere.example/", lambda route: route.fulfill(body=link, content_type="text/html"))
        page.goto("http://elsewhere.example/")
        page.click("a")
        page.wait_for_selector("#drop")
