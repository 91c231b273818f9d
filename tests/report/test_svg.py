"""The figures: well-formed, inside their frame, and sensible at the extremes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nptad.report import svg


def _parse(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{picture}</div>")


def _check_inside(picture: str) -> None:
    for element in _parse(picture).iter():
        for name in ("x", "x1", "x2", "width"):
            value = element.get(name, "0")
            if value.endswith("%"):
                assert -0.01 <= float(value[:-1]) <= 100.01
    assert "nan" not in picture
    assert "inf" not in picture


@pytest.mark.parametrize("log", [False, True])
def test_histogram(log: bool) -> None:
    scores = {"edges": [1.0, 10.0, 100.0], "counts": [5, 2], "flagged": [0, 1], "training": [9, 0], "log": log}
    picture = svg.histogram(scores, 40.0, [40.0, 500.0])
    _check_inside(picture)
    assert picture.count('class="hits"') == 1
    assert picture.count('class="rug"') == 2
    assert "flagged from 40.0" in picture
    assert "flagged from" not in svg.histogram(scores, None, [])


def test_curves() -> None:
    _check_inside(svg.curve([[0, 0], [0, 1], [1, 1]], [(0, 0), (1, 1)]))
    _check_inside(svg.training_curve([[1, 2.0, 1.0, 3.0]]))
    _check_inside(svg.training_curve([[1, 0.0, 0.0, 0.0], [500, 0.0, 0.0, 0.0]]))


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_linear_ticks_are_few_and_inside(low: float, size: float) -> None:
    high = low + size
    if high - low < abs(low) * 1e-9 or high == low:
        return
    ticks = svg.linear_ticks(low, high)
    slack = (high - low) * 1e-6
    assert len(ticks) <= 7
    assert all(low - slack <= tick <= high + slack for tick in ticks)


@given(st.floats(1e-9, 1e9), st.floats(1.5, 1e15))
def test_log_ticks_are_few_and_inside(low: float, ratio: float) -> None:
    ticks = svg.log_ticks(low, low * ratio)
    assert len(ticks) <= 6
    assert all(low * 0.999 <= tick <= low * ratio * 1.001 for tick in ticks)
