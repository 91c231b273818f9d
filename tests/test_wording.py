"""The wording of values: one text for one value, whatever shows it."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nptad.explain.display import rows_html
from nptad.explain.result import CellReason, RowExplanation
from nptad.explain.sentences import reasons_text
from nptad.report.html import make_environment
from nptad.tables.identity import Identity
from nptad.wording import cell, estimate, figure, moment, number, percent, shorten


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (15686, "15686"),
        (15686.0, "15686"),
        (np.float64(15686.25), "15686.2"),
        (-0.0, "0"),
        (np.float64("nan"), "missing"),
        (None, "missing"),
        (False, "false"),
        (np.True_, "true"),
        (1234567890123456789, "1234567890123456789"),
        (datetime(2025, 3, 6), "2025-03-06"),
        ("", "empty text"),
        ("  ", "␣␣"),
        ("a\x1b[31m", "a[U+001B][31m"),
    ],
)
def test_cells(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_a_cell_is_the_same_text_everywhere() -> None:
    for value, shown in ((15686.0, "15686"), (-0.0, "0"), (41.25, "41.25"), (True, "true")):
        reason = CellReason("price", value, 3.0, 1.0)
        row = RowExplanation(0, 2.0, (reason,), (), 0.0, None)
        assert reasons_text(row) == f"price is {shown}, expected 3"
        assert f">{shown}, expected 3<" in rows_html([row], Identity())
        template = make_environment().from_string("{{ value|cell }} {{ value|estimate }}")
        assert template.render(value=value) == f"{shown} {shown}"


def test_an_estimate_has_fewer_digits() -> None:
    assert (cell(2 / 3), estimate(2 / 3), estimate(15686.25)) == ("0.666667", "0.6667", "15686")


def test_moments_name_their_time_zone() -> None:
    assert moment(datetime(2025, 3, 6, 9, 5, tzinfo=UTC)) == "6 March 2025, 09:05 UTC"


@given(st.floats(-1e300, 1e300))
def test_numbers_keep_their_value(value: float) -> None:
    assert math.isclose(float(number(value, 6)), value, rel_tol=1e-5, abs_tol=1e-300)
    assert math.isclose(float(figure(value).replace(",", "")), value, rel_tol=1e-2, abs_tol=1e-300)


@given(st.floats(0, 1))
def test_percent_is_short(share: float) -> None:
    assert len(percent(share)) <= len("under 0.01%")


@given(st.text())
def test_texts_become_one_line_of_bounded_length(text: str) -> None:
    short = shorten(text)
    assert short.isprintable() or not text.isprintable()
    assert not set(short) & {"\n", "\r", "\0", "\u2028", "\u202e"}
    assert len(short) <= 60 * 8 + 30
    short.encode()
