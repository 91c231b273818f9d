"""The page in a real browser: opened from disk, by keyboard, on a phone, without scripts, on paper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chromium import ARGUMENTS, CHROMIUM
from nptad.report import write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}")

CONTRAST = """() => {
  const channel = (value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll("main *, header *, footer *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest(".unseen")) continue;
    const style = getComputedStyle(element);
    const ink = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
    const [a, b] = [luminance(parse(ink)), luminance(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(`${element.tagName}.${element.getAttribute("class")} ${ratio.toFixed(2)}`);
  }
  return [...new Set(low)];
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def addresses(summary: dict, large_summary: dict, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("report")
    for name, one in (("small", summary), ("large", large_summary)):
        write_report(one, folder / f"{name}.html")
    return {name: (folder / f"{name}.html").as_uri() for name in ("small", "large")}


@pytest.fixture
def open_page(browser: Any, addresses: dict[str, str]) -> Iterator[Any]:
    """Opens a report; at the end nothing may have been requested, refused, printed to the console or popped up."""
    contexts, trouble = [], []

    def open_one(name: str = "small", **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        allowed = ("file:", "data:", "blob:")
        page.on("request", lambda request: request.url.startswith(allowed) or trouble.append(request.url))
        page.goto(addresses[name])
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert trouble == []


def _column(page: Any, name: str) -> list[float]:
    return page.eval_on_selector_all(
        "#anomaly-table > tbody > tr:not([hidden])", f"rows => rows.map(row => Number(row.dataset.{name}))"
    )


def test_sorts_by_keyboard(open_page: Any) -> None:
    page = open_page()
    scores = _column(page, "score")
    assert scores == sorted(scores, reverse=True)
    header = page.locator("#anomaly-table").get_by_role("columnheader", name="Row", exact=True)
    assert header.get_attribute("aria-sort") is None
    header.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert _column(page, "row") == sorted(_column(page, "row"))
    page.keyboard.press("Space")
    assert header.get_attribute("aria-sort") == "descending"
    assert _column(page, "row") == sorted(_column(page, "row"), reverse=True)
    assert page.locator("[aria-sort]").count() == 1
    assert "sorted by row, descending" in page.get_by_role("status").inner_text()


def test_a_time_stays_in_its_cell_whatever_the_font(open_page: Any) -> None:
    page = open_page()
    page.locator("details > summary").first.click()
    overflow = page.evaluate("""() => {
      document.body.style.fontFamily = "monospace";
      const cells = [...document.querySelectorAll("details[open] .reasons td .whole")];
      cells.forEach((cell) => cell.textContent = "2026-06-15T17:35:00.25");
      const boxes = cells.map((cell) => [cell.getBoundingClientRect(), cell.closest("td").getBoundingClientRect()]);
      return boxes.map(([inner, outer]) => inner.right - outer.right);
    }""")
    assert overflow
    assert max(overflow) <= 0


def test_sorts_by_key(open_page: Any) -> None:
    """Numbers inside a text count as numbers: order 41 comes before order 100."""
    page = open_page()
    page.locator("#anomaly-table").get_by_role("button", name="order").click()
    rows = _column(page, "row")
    assert rows == sorted(rows, reverse=True)


def test_filters_by_keyboard(open_page: Any, large_summary: dict) -> None:
    page = open_page("large")
    page.get_by_label("Filter").focus()
    page.keyboard.type("measurement 7 שלום")
    left = len(_column(page, "row"))
    assert 0 < left < 200
    assert page.get_by_role("status").inner_text() == f"{left} of 200 rows"
    page.keyboard.type(" no such thing")
    assert _column(page, "row") == []
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    assert len(_column(page, "row")) == 200


def test_details_and_links_by_keyboard(open_page: Any, summary: dict) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the result"
    details = page.locator("details").first
    details.locator("summary").focus()
    page.keyboard.press("Enter")
    assert details.get_attribute("open") is not None
    third = page.locator(".heat a").nth(2)
    assert third.inner_text() == str(summary["anomalies"][2]["row"])
    third.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#row-3 details[open]")


@pytest.mark.parametrize("name", ["small", "large"])
def test_phone_does_not_scroll_sideways(open_page: Any, name: str) -> None:
    page = open_page(name, viewport={"width": 390, "height": 844})
    page.eval_on_selector_all("details", "all => all.slice(0, 30).forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(open_page: Any, scheme: str) -> None:
    page = open_page("large", color_scheme=scheme)
    page.eval_on_selector_all("details", "all => all.slice(0, 2).forEach(one => { one.open = true; })")
    assert page.evaluate(CONTRAST) == []


def test_without_scripts_it_is_a_plain_page(open_page: Any, summary: dict) -> None:
    page = open_page(java_script_enabled=False)
    assert page.locator("#anomaly-table > tbody > tr").count() == len(summary["anomalies"])
    assert not page.locator("#filter").is_visible()
    assert page.locator("th button").count() == 0
    page.locator("summary").first.click()
    assert page.locator(".reasons").first.is_visible()


def test_details_are_open_on_paper(open_page: Any) -> None:
    page = open_page(java_script_enabled=False)
    shown = page.locator(".reasons").first
    assert not shown.is_visible()
    page.emulate_media(media="print")
    assert shown.is_visible()


def test_a_long_text_that_tells_rows_apart_has_room(
    open_page: Any, addresses: dict[str, str], summary: dict, tmp_path: Path
) -> None:
    anomalies = [
        anomaly | {"key": ["the child was late on the web"] * len(anomaly["key"])} for anomaly in summary["anomalies"]
    ]
    write_report(summary | {"anomalies": anomalies}, tmp_path / "long.html")
    addresses["long"] = (tmp_path / "long.html").as_uri()
    assert summary["key_columns"]
    widths = open_page("long").eval_on_selector_all("tr > .long", "cells => cells.map(cell => cell.offsetWidth)")
    assert widths
    assert min(widths) > 150


def test_paper_has_the_details_of_ten_rows(open_page: Any) -> None:
    page = open_page("large", java_script_enabled=False)
    page.locator("summary").nth(11).click()
    page.emulate_media(media="print")
    shown = [details.locator(".reasons").is_visible() for details in page.locator(".why > details").all()[:14]]
    assert shown == [True] * 10 + [False, True, False, False]


def test_a_report_without_rows(open_page: Any, addresses: dict[str, str], quiet_summary: dict, tmp_path: Path) -> None:
    none = {name: [0] * len(counts) for name, counts in quiet_summary["scores"].items() if isinstance(counts, list)}
    none["edges"] = quiet_summary["scores"]["edges"]
    table = quiet_summary["table"] | {"n_rows": 0, "n_missing": 0}
    schema = [column | {"missing": 0} for column in quiet_summary["schema"]]
    more = {"table": table, "anomalies": [], "schema": schema, "scores": quiet_summary["scores"] | none}
    summary = quiet_summary | more
    write_report(summary, tmp_path / "none.html")
    addresses["none"] = (tmp_path / "none.html").as_uri()
    page = open_page("none")
    assert page.locator("#anomaly-table, #scores, #cells").count() == 0
    assert page.get_by_role("button", name="Save this report's data as JSON").is_visible()


def test_data_can_be_saved(open_page: Any, summary: dict, tmp_path: Path) -> None:
    page = open_page()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save this report's data as JSON").click()
    download.value.save_as(tmp_path / "data.json")
    assert json.loads((tmp_path / "data.json").read_text(encoding="utf-8")) == summary
