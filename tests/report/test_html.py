"""The page: well-formed, self-contained, bounded, and deaf to whatever the cells say."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from nptad import InputError
from nptad.report import html, render, write_report

VOID = {"meta", "link", "input", "br", "wbr"}
SELF_CLOSING = {"rect", "line", "path", "polyline", "use"}


class Page(HTMLParser):
    """Tags, attributes, visible text and raw elements of a page; fails where tags do not match."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(page)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"attribute twice in {tag}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)
        if tag in self.raw:
            self.raw[tag].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SELF_CLOSING
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] in self.raw:
            self.raw[self.stack[-1]][-1] += data
        else:
            self.texts.append((self.stack[-1] if self.stack else "", data))

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.texts)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page(summary: dict) -> Page:
    return Page(render(summary))


def test_structure(page: Page, quiet_summary: dict, large_summary: dict) -> None:
    assert page.all("html") == [{"lang": "en"}]
    for one in (page, Page(render(quiet_summary)), Page(render(large_summary))):
        assert len(one.all("h1")) == len(one.all("main")) == 1
        levels = [int(tag[1]) for tag, _ in one.tags if re.fullmatch("h[1-6]", tag)]
        assert all(after - before <= 1 for before, after in pairwise(levels))
        assert len(one.all("caption")) == len(one.all("table"))
        assert all(cell.get("scope") in ("row", "col") for cell in one.all("th"))
        ids = [attributes["id"] for _, attributes in one.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        targets = {link["href"][1:] for link in one.all("a")}
        assert targets <= set(ids)
        assert {attributes["aria-labelledby"] for attributes in one.all("section")} <= set(ids)


def test_hostile_contents_are_only_text(page: Page, summary: dict) -> None:
    assert not {tag for tag, _ in page.tags} & {"img", "iframe", "object", "embed", "form"}
    assert len(page.all("script")) == 2
    assert len(page.all("style")) == 1
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    text = page.text
    assert "<script>alert('cell')</script>" in text
    assert "<script>alert('name')</script>" in text
    assert "{{ 7 * 7 }}{% raw %}" in text
    assert "👩‍👩‍👧‍👦 😀" in text
    assert "שלום עולם" in text
    assert "[U+202E]turned around[U+202C]" in text
    assert "(10,000 characters)" in text
    assert "x" * 61 not in text
    assert page.raw["script"][1] == html.resource("script.js")
    assert json.loads(page.raw["script"][0]) == summary


def test_texts_of_the_table_are_isolated(page: Page) -> None:
    for word in ("שלום עולם", "مرحبا 123", "<script>alert('name')</script>"):
        parents = [parent for parent, text in page.texts if word in text]
        assert "bdi" in parents
        assert set(parents) <= {"bdi", "title", "pre"}


def test_nothing_is_fetched(summary: dict, page: Page) -> None:
    for tag, attributes in page.tags:
        for name in ("src", "srcset", "action", "data", "poster", "xlink:href"):
            assert name not in attributes
        href = attributes.get("href")
        assert href is None or href.startswith("#") or (tag == "link" and href == "data:,")
    assert not re.search(r"url\(|@import", page.raw["style"][0])
    assert not re.search(r"fetch|XMLHttpRequest|import\(|eval|innerHTML", page.raw["script"][1])


def test_policy_allows_just_this_style_and_script(page: Page) -> None:
    (policy,) = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for text in (page.raw["style"][0], page.raw["script"][1]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_json_in_the_page_cannot_end_its_element(summary: dict) -> None:
    hostile = summary | {"source": "</script><!--<script>\u2028\u2029"}
    page = render(hostile)
    block = page.partition('<script type="application/json" id="data">')[2].partition("</script>")[0]
    assert "<" not in block
    assert "\u2028" not in block
    assert json.loads(block) == hostile


def test_size_is_bounded(large_summary: dict) -> None:
    size = len(render(large_summary).encode())
    assert size < 3_500_000, f"{size / 1e6:.2f} MB"


def test_same_summary_same_page(summary: dict) -> None:
    assert render(summary) == render(json.loads(json.dumps(summary)))


def test_labels_give_curves(page: Page, quiet_summary: dict) -> None:
    text = page.text
    assert "ROC curve" in text
    assert "Precision and recall" in text
    without = Page(render(quiet_summary))
    assert "ROC curve" not in without.text
    assert len(page.all("figure")) == len(without.all("figure")) + 2


def test_labels_all_the_same(summary: dict) -> None:
    same = summary["labels"] | {"n_anomalies": 0, "auroc": None, "average_precision": None, "roc": [], "recall": None}
    text = Page(render(summary | {"labels": same})).text
    assert "no curve to draw" in text
    assert "undefined" in text


def test_no_anomalies_is_said_clearly(quiet_summary: dict) -> None:
    text = Page(render(quiet_summary)).text
    assert "None of 100 rows looks anomalous at a false discovery rate of 2%" in text
    assert "None of these rows is flagged." in text


def test_no_seed_is_said_clearly(summary: dict) -> None:
    assert "No seed was set" in Page(render(summary | {"seed": None, "command": None})).text


def test_a_summary_that_lacks_something_is_not_rendered_silently(summary: dict) -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        render({name: value for name, value in summary.items() if name != "heat_map"})


def test_file_is_replaced_whole(summary: dict, tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write_report(summary, path)
    assert path.read_text(encoding="utf-8") == render(summary)
    with pytest.raises(KeyError):
        write_report({}, path)
    assert path.read_text(encoding="utf-8") == render(summary)
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_a_link_is_followed_and_a_pipe_is_written_into(summary: dict, tmp_path: Path) -> None:
    (tmp_path / "old.html").write_text("old")
    (tmp_path / "link.html").symlink_to(tmp_path / "old.html")
    write_report(summary, tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "old.html").read_text(encoding="utf-8") == render(summary)
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit((tmp_path / "pipe").read_text, encoding="utf-8")
        write_report(summary, tmp_path / "pipe")
        assert read.result(60) == render(summary)
    assert (tmp_path / "pipe").is_fifo()
    write_report(summary, os.devnull)
    assert Path(os.devnull).is_char_device()


def test_standard_output_in_a_file_is_written_on(summary: dict, tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    code = (
        "import json, sys; from nptad.report import write_report; print('before');"
        "write_report(json.load(open(sys.argv[1], encoding='utf-8')), '/dev/stdout'); print('after')"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code, tmp_path / "summary.json"], stdout=out, check=True, timeout=120)
    assert (tmp_path / "out").read_text(encoding="utf-8") == f"before\n{render(summary)}after\n"


def test_a_report_that_cannot_be_written_is_one_sentence(summary: dict, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be written"):
        write_report(summary, tmp_path)


def test_without_jinja2(summary: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    html._template.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(InputError, match=r"pip install 'nptad\[report\]'"):
        render(summary)
