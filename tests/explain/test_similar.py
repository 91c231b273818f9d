"""What similar rows have: the words, the rows they count, and the same in terminal, page and notebook."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nptad import NPTAD
from nptad.cli.terminal import print_explanation
from nptad.explain.result import CellReason, RowExplanation, SimilarValues
from nptad.explain.sentences import reasons_text
from nptad.explain.similar import _similar_values
from nptad.report.html import make_environment
from nptad.tables.schema import Column

SIZE = Column("size", "numeric", "number")
KIND = Column("kind", "categorical", "text", categories=("p", "q"))


@pytest.mark.parametrize(
    ("known", "seen", "words"),
    [
        ([5.5, 5.6, 5.7, 6.1], 0.0, "the 4 most similar rows have 5.5 to 6.1"),
        ([5.5, 5.6, 5.7, 6.1], np.nan, "the 4 most similar rows have 5.5 to 6.1"),
        ([3.0] * 10, 0.0, "the 10 most similar rows have 3"),
        ([0.0, *([6.0] * 8), 7.0], 0.0, "8 of the 10 most similar rows have 6"),  # one has the same error
        ([2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 90, 99], 90, "8 of the 10 most similar rows have 2 to 2.7"),
        ([5.5], 0.0, "the most similar row has 5.5"),
    ],
)
def test_numbers(known, seen, words):
    values = _similar_values(SIZE, np.array(known), known[0], seen, is_number=True)
    assert not values.has_seen
    assert reasons_text(row_of(CellReason("size", 0.0, 5.6, 1.0, similar=values))) == f"size is 0, {words}"


def test_a_value_that_similar_rows_have_too_is_named_alone():
    values = _similar_values(SIZE, np.array([1.0, 2.0, 3.0]), 2.0, 2.5, is_number=True)
    assert values == SimilarValues(1.0, 3.0, 3, 3, has_seen=True)
    assert reasons_text(row_of(CellReason("size", 2.5, 2.0, 1.0, similar=values))) == "size is 2.5"


def test_categories():
    values = _similar_values(KIND, np.array([0.0, 1.0, 1.0]), 1.0, 0.0, is_number=False)
    assert values == SimilarValues("q", "q", 2, 3, has_seen=False)
    reason = CellReason("kind", "p", "q", 1.0, 1 / 3, similar=values)
    assert reasons_text(row_of(reason)) == "kind is p, 2 of the 3 most similar rows have q"
    assert _similar_values(KIND, np.array([]), np.nan, 0.0, is_number=False) is None


def test_the_same_words_everywhere(capsys):
    random = np.random.default_rng(0)
    km = random.gamma(2, 6, 300)
    table = pd.DataFrame({"km": km, "hours": km / 28, "kind": np.where(km > 12, "truck", "van")})
    why = NPTAD(random_state=0).fit(table).explain(pd.DataFrame({"km": [28.0], "hours": [9.0], "kind": ["truck"]}))
    text = reasons_text(why[0])
    low, high = map(float, text.removeprefix("hours is 9, the 10 most similar rows have ").split(" to "))
    assert 0.8 < low < 1 < high < 1.2
    values = text.removeprefix("hours is 9, ")
    assert f"9, {values}<" in why.html()
    print_explanation(why)
    assert f"{low} to {high}" in capsys.readouterr().out
    page = make_environment().from_string("{{ r|reason }} {{ r.similar|interval }}")
    similar = {"low": low, "high": high, "n_inside": 10, "n_rows": 10, "has_seen": False}
    seen = {"column": "hours", "seen": 9.0, "expected": low, "nearest": None, "probability": None, "similar": similar}
    assert page.render(r=seen).endswith(f'9, <span class="muted">{values}</span> {low} to {high}')


def row_of(*reasons: CellReason) -> RowExplanation:
    return RowExplanation(0, 1.0, reasons, (), 0.0, None)
