"""What a notebook shows, and the report that a detector writes."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from nptad import NPTAD
from nptad.errors import InputError
from nptad.pipeline import score_table
from nptad.report import summarise

HOSTILE = "<script>alert('x')</script>"


def table(n_rows: int = 80, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.normal(size=n_rows)
    names = [f"{HOSTILE}{row}" for row in range(n_rows)]
    return pd.DataFrame({"id": names, HOSTILE: x, "y": 2 * x, "kind": np.where(x > 0, "a", HOSTILE)})


def odd(n_rows: int = 80) -> pd.DataFrame:
    new = table(n_rows, seed=1)
    new.loc[3, "y"] = 99.0
    return new


@pytest.fixture(scope="module")
def detector() -> NPTAD:
    with pytest.warns(UserWarning, match="identifiers"):
        return NPTAD(random_state=0).fit(table())


class _Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def require_harmless(page: str) -> None:
    """Well-formed, without scripts, links or texts of the table as tags."""
    tags = _Tags(page)
    assert not tags.open
    assert tags.seen <= {"div", "style", "h4", "p", "table", "thead", "tbody", "tr", "th", "td", "i"}
    assert "http" not in page
    assert "&lt;script&gt;" in page


def test_a_detection_shows_its_flagged_rows_with_their_keys(detector):
    page = detector.detect(odd())._repr_html_()
    require_harmless(page)
    assert "1 of 80 rows looks anomalous" in page or "of 80 rows look anomalous" in page
    first = re.search(r"<tbody><tr>(.*?)</tr>", page)[1]
    assert "<td>3</td>" in first
    assert "script&gt;3" in first
    assert "anomaly" in first


def test_a_detection_says_drift_first_and_stays_short(detector):
    new = table(400, seed=1)
    new["y"] = 1000 * new["y"] + 7
    found = detector.detect(new)
    page = found._repr_html_()
    require_harmless(page)
    assert page.index("class=note") < page.index("<table")
    assert page.count("<tr>") == 21
    assert f"... and {int(found.anomaly.sum()) - 20} more flagged rows" in page


def test_a_detection_of_no_rows_can_be_shown(detector):
    assert "None of 0 rows" in detector.detect(table().iloc[:0])._repr_html_()


def test_an_explanation_is_shown_in_the_same_style(detector):
    page = detector.explain(odd().iloc[[3]])._repr_html_()
    require_harmless(page)
    assert 'class="nptad"' in page


def test_a_detector_shows_what_it_learnt_above_its_parameters(detector):
    shown = detector._repr_mimebundle_()["text/html"]
    ours = shown[: shown.index("</table></div>") + len("</table></div>")]
    require_harmless(ours)
    assert "NPTAD, fitted on 80 rows" in ours
    assert "ignored (identifier)" in ours
    assert detector._repr_html_().startswith(ours)
    assert "random_state" in shown
    assert "fitted on" not in NPTAD()._repr_html_()


def test_the_report_of_a_detector_is_that_of_the_rows(detector, tmp_path):
    found = detector.report(odd(), tmp_path / "report.html", false_alarm_rate=0.05, source="today")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert found.anomaly[3]
    assert found.rate == 0.05
    assert "today" in page
    assert "looks anomalous" in page or "look anomalous" in page
    with pytest.raises(InputError, match="give one of them"):
        detector.report(odd(), tmp_path / "no.html", fdr=0.1, false_alarm_rate=0.1)
    assert not (tmp_path / "no.html").exists()


def test_the_report_of_an_array(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 2))
    found = NPTAD(random_state=0).fit(x).report(np.vstack([x[:5], [[0, 50.0]]]), tmp_path / "report.html")
    assert found.anomaly.tolist() == [False] * 5 + [True]
    assert "Rows are counted from 0." in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_first_paragraph_says_what_how_sure_and_what_next(detector):
    new = odd()
    new.loc[10:13, "y"] = 77.0
    result = summarise(score_table(detector, new))["result"]
    assert re.match(r"y is higher than in similar rows in \d flagged rows", result["meaning"])
    assert "About 1.2% of the normal rows are flagged as well." in result["meaning"]
    assert "Next, " in result["meaning"]
    quiet = summarise(score_table(detector, table(10, seed=1), fdr=1e-6))["result"]
    assert quiet["meaning"].startswith("No row is flagged.")
    assert "Nothing needs to be done" in quiet["meaning"]
