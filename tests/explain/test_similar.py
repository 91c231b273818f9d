"""What similar rows have: the words, the rows they count, and the same in terminal, page and notebook."""

from __future__ import annotations

import html
import re

import numpy as np
import pandas as pd
import pytest

from nptad import NPTAD
from nptad.cli.terminal import print_explanation
from nptad.explain.result import CellReason, RowExplanation, SimilarValues
from nptad.explain.sentences import interval_text, reasons_text, sentences
from nptad.explain.similar import _similar_values, _usual
from nptad.report.html import make_environment
from nptad.tables.schema import Column

SIZE = Column("size", "numeric", "number")
KIND = Column("kind", "categorical", "text", categories=("p", "q"))


@pytest.mark.parametrize(
    ("known", "seen", "words"),
    [
        ([5.5, 5.6, 5.7, 6.1], 0.0, "similar rows have about 5.6"),
        ([5.5, 5.6, 5.7, 6.1], np.nan, "similar rows have about 5.6"),
        ([3.0] * 10, 0.0, "similar rows have 3"),
        ([0.0, *([6.0] * 8), 7.0], 0.0, "8 of 10 similar rows have 6"),  # one has the same error
        ([2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 90, 99], 90, "8 of 10 similar rows have about 2.4"),
        ([5.5], 0.0, "a similar row has 5.5"),
    ],
)
def test_numbers(known, seen, words):
    usual, _ = _usual(np.array(known), seen, is_number=True)
    values = _similar_values(SIZE, np.array(known), usual, seen, is_number=True)
    assert not values.has_seen
    assert reasons_text(row_of(CellReason("size", 0.0, usual, 1.0, similar=values))) == f"size is 0; {words}"


def test_a_value_that_similar_rows_have_too_is_named_alone():
    values = _similar_values(SIZE, np.array([1.0, 2.0, 3.0]), 2.0, 2.5, is_number=True)
    assert values == SimilarValues(1.0, 3.0, 3, 3, has_seen=True)
    assert reasons_text(row_of(CellReason("size", 2.5, 2.0, 1.0, similar=values))) == "size is 2.5"


def test_categories():
    values = _similar_values(KIND, np.array([0.0, 1.0, 1.0]), 1.0, 0.0, is_number=False)
    assert values == SimilarValues("q", "q", 2, 3, has_seen=False)
    reason = CellReason("kind", "p", "q", 1.0, 1 / 3, similar=values)
    assert reasons_text(row_of(reason)) == "kind is p; 2 of 3 similar rows have q"
    assert _similar_values(KIND, np.array([]), np.nan, 0.0, is_number=False) is None


def test_the_same_words_everywhere(capsys):
    random = np.random.default_rng(0)
    km = random.gamma(2, 6, 300)
    table = pd.DataFrame({"km": km, "hours": km / 28, "kind": np.where(km > 12, "truck", "van")})
    detector = NPTAD(random_state=0).fit(table)
    why = detector.explain(pd.DataFrame({"km": [28.0], "hours": [2.5], "kind": ["truck"]}))
    text = reasons_text(why[0])
    words = r"hours is 2.5; similar rows have about (.+); normal range (.+) to (.+); does not fit the other cells"
    usual, low, high = map(float, re.fullmatch(words, text).groups())
    hours = np.sort(table["hours"])
    assert np.isclose(hours, usual, rtol=1e-3).any()  # a value that occurs
    assert 0.8 < usual < 1.2
    assert np.isclose([low, high], hours[[1, -2]], rtol=1e-3).all()
    interval = interval_text(why[0].reasons[0].similar)
    assert f"2.5; similar rows have {interval}<" in why.html()
    print_explanation(why)
    assert interval in capsys.readouterr().out
    page = make_environment().from_string("{% for s in sentences %}{{ s|pieces }}{% endfor %}")
    shown = page.render(sentences=sentences(why[0]))
    assert html.unescape(re.sub("<[^>]*>", "", shown)) == text


def test_the_page_isolates_what_the_table_says():
    page = make_environment().from_string("{{ sentence|pieces }}")
    shown = page.render(sentence=[("column", "<a> b"), ("", " is "), ("cell", "<i>")])
    assert shown == ('<b><bdi>&lt;a&gt; b</bdi></b><span class="muted"> is </span><bdi class="whole">&lt;i&gt;</bdi>')


def test_a_row_that_is_unlike_all_others_is_said_to_be():
    random = np.random.default_rng(0)
    x = np.concatenate([random.normal(0, 1, (300, 8)), random.normal(0, 1, (300, 8)) + 12])
    detector = NPTAD(random_state=0).fit(x)
    odd = np.tile([0.0, 12.0], 4)[None]
    near = random.normal(0, 1, (1, 8))
    unlike, ordinary = detector.explain(np.concatenate([odd, near]))
    assert unlike.unlike
    assert reasons_text(unlike).startswith("unlike any training row: ")
    assert not ordinary.unlike


def test_expected_values_are_possible_ones():
    """Whole numbers for whole numbers, hours on the hour, and all within the training range."""
    random = np.random.default_rng(0)
    when = pd.Timestamp("2024-03-01") + pd.to_timedelta(random.integers(0, 2000, 300), "h")
    load = random.integers(-3, 4, 300)
    table = pd.DataFrame({"when": when, "load": load, "twice": 2 * load, "price": (load + 5.25).round(2)})
    new = table.iloc[:3].copy()
    new["load"] = [900, -900, 2]
    new["when"] = pd.Timestamp("2031-01-01 00:30")
    for why in NPTAD(random_state=0).fit(table).explain(new):
        expected = {reason.column: reason.expected for reason in why.reasons}
        assert re.fullmatch(r"2024-0[3-5]-\d\d(T\d\d:00:00)?", expected["when"])
        assert expected["load"] in range(-3, 4)
        assert expected["price"] in np.unique(table["price"])
        assert "-0;" not in reasons_text(why)
        for reason in why.reasons:
            assert reason.normal[0] <= reason.expected <= reason.normal[1]


def row_of(*reasons: CellReason) -> RowExplanation:
    return RowExplanation(0, 1.0, reasons, (), 0.0, None)
