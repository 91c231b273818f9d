"""Small figures as inline SVG that fills the width it is given, with text of constant size and colours from the page.

Horizontal positions are percentages and vertical ones pixels, so that nothing but the data is stretched. Lines, which
SVG cannot position in percentages, live in a nested picture of their own. No function here is given texts of a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from nptad.wording import figure, number

Point = tuple[float, float]

_HEIGHT, _TOP, _BOTTOM = 248, 14, 36
_PLOT = _HEIGHT - _TOP - _BOTTOM
_BASE = _TOP + _PLOT
_MARGIN = 8  # room beside the bars of a small histogram, in percent
_WIDTH = 1000  # width of a nested picture in its own units


def bar(share: float) -> str:
    """A horizontal bar, ``share`` of the width long.

    >>> bar(0.25).partition("><")[2]
    'rect width="25" height="1"/></svg>'
    """
    length = number(100 * min(max(share, 0.0), 1.0), 3)
    return (
        '<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{length}" height="1"/></svg>'
    )


def small_histogram(name: str, counts: Sequence[int]) -> str:
    """A small histogram that :func:`marked` shows, drawn once under a name.

    >>> small_histogram("h0", [1, 2])
    '<symbol id="h0"><path d="M8 20v-10h42v10zM50 20v-20h42v20z"/></symbol>'
    """
    highest, width = max(counts, default=1), (100 - 2 * _MARGIN) / max(1, len(counts))
    path = ""
    for i, count in enumerate(counts):
        if count:
            height = number(max(0.8, 20 * count / highest), 3)
            path += f"M{number(_MARGIN + i * width, 4)} 20v-{height}h{number(width, 4)}v{height}z"
    return f'<symbol id="{name}"><path d="{path}"/></symbol>'


def marked(name: str, position: float | None) -> str:
    """A named small histogram with a mark: at 0 to 1 among the bars, at -1 left and at 2 right of all of them.

    >>> marked("h0", 0.5).partition("<use")[2]
    ' href="#h0"/><line x1="50" x2="50" y2="20"/></svg>'
    """
    mark = ""
    if position is not None:
        x = 2.0 if position < 0 else 98.0 if position > 1 else _MARGIN + position * (100 - 2 * _MARGIN)
        mark = '<line x1="{0}" x2="{0}" y2="20"/>'.format(number(x, 4))
    return (
        '<svg class="spread" viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">'
        f'<use href="#{name}"/>{mark}</svg>'
    )


def histogram(scores: dict[str, Any], threshold: float | None, flagged: Sequence[float]) -> str:
    """Bars of all rows and the flagged among them, the outline of the training rows, and the lowest flagged score.

    ``scores`` are those of a summary; the ``flagged`` ones are marked one by one below the axis.
    """
    edges, counts, log = scores["edges"], scores["counts"], scores["log"]
    n_training = sum(scores["training"]) or 1
    scaled = [count * sum(counts) / n_training for count in scores["training"]]  # as if there were as many as rows
    highest = max([*counts, *scaled, 1])
    ticks = [tick for tick in linear_ticks(0, highest) if tick == int(tick)]
    place = _axis(edges[0], edges[-1], log)
    parts = []
    step = 100 / len(counts)
    for i, (count, marked) in enumerate(zip(counts, scores["flagged"], strict=True)):
        for kind, part, below in (("rows", count - marked, marked), ("hits", marked, 0)):
            if part:
                height = max(2.0, part / highest * _PLOT)
                base = _BASE - (max(2.0, below / highest * _PLOT) if below else 0)
                parts.append(
                    f'<rect class="{kind}" x="{i * step:.2f}%" width="{step:.2f}%" y="{base - height:.1f}" '
                    f'height="{height:.1f}"/>'
                )
    outline = [(edge, value) for i, value in enumerate(scaled) for edge in (i * step, (i + 1) * step)]
    parts.append(_line([(x / 100, y / highest) for x, y in outline], "outline"))
    below = [
        f'<line class="rug" x1="{place(score):.2f}%" x2="{place(score):.2f}%" y1="{_BASE + 2}" y2="{_BASE + 9}"/>'
        for score in flagged
    ]
    x_ticks = log_ticks(edges[0], edges[-1]) if log else linear_ticks(edges[0], edges[-1])
    below += [_x_label(place(tick), _tick(tick), _BASE + 26) for tick in x_ticks]
    if threshold is not None:
        x = place(threshold)
        side, shift = ("end", -6) if x > 60 else ("start", 6)
        below.append(
            f'<line class="limit" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="{_BASE}"/>'
            f'<text class="limit" x="{x:.2f}%" dx="{shift}" y="{_TOP + 8}" text-anchor="{side}">'
            f"flagged from {figure(threshold)}</text>"
        )
    return _plot(ticks, highest, parts, below)


def curve(points: Sequence[Sequence[float]], reference: Sequence[Point]) -> str:
    """A curve of shares against shares, with a thin line to compare it with."""
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    area = [(points[0][0], 0.0), *((x, y) for x, y in points), (points[-1][0], 0.0)]
    parts = [_line(area, "under"), _line(reference, "outline"), _line([(x, y) for x, y in points], "line")]
    return _plot(ticks, 1.0, parts, [_x_label(100 * tick, _tick(tick), _BASE + 20) for tick in ticks])


def training_curve(points: Sequence[Sequence[float]]) -> str:
    """Mean loss against the step, in the band of the lowest and highest losses, from ``curve`` of a summary."""
    first, last = points[0][0], points[-1][0]
    highest = max(point[3] for point in points) or 1.0
    ticks = linear_ticks(0, highest)
    place = _axis(first, last, log=False)
    mean, lower, upper = ([(place(point[0]) / 100, point[k] / highest) for point in points] for k in (1, 2, 3))
    parts = [_line([*upper, *reversed(lower)], "under"), _line(mean, "line")]
    below = [_x_label(place(tick), _tick(tick), _BASE + 20) for tick in linear_ticks(first, last)]
    return _plot(ticks, highest, parts, below)


def series(
    values: Sequence[float],
    marked: Sequence[bool] = (),
    band: Sequence[Point] = (),
    level: float | None = None,
) -> str:
    """A point for each of several periods, counted from 1, some marked; in a band or beside a level to compare with."""
    n = len(values)
    highest = 1.05 * max([*values, *(high for _, high in band), level or 0.0]) or 1.0
    place = _axis(0.5, n + 0.5, log=False)
    parts = []
    if band:
        edges = [(place(i + side) / 100, ends) for i, ends in enumerate(band, 1) for side in (-0.5, 0.5)]
        parts += [_line([(x, ends[k] / highest) for x, ends in edges], "outline") for k in (0, 1)]
    elif level is not None:
        parts.append(_line([(0.0, level / highest), (1.0, level / highest)], "outline"))
    radius = 4 if n <= 60 else 2
    for i, value in enumerate(values, 1):
        kind = "hits" if i <= len(marked) and marked[i - 1] else "rows"
        y = _BASE - value / highest * _PLOT
        parts.append(f'<circle class="{kind}" cx="{place(i):.2f}%" cy="{y:.1f}" r="{radius}"/>')
    below = [_x_label(place(tick), _tick(tick), _BASE + 20) for tick in linear_ticks(1, max(n, 2)) if tick == int(tick)]
    return _plot(linear_ticks(0, highest), highest, parts, [label for label in below if label])


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two others.

    >>> linear_ticks(0, 47), linear_ticks(0.12, 0.31)
    ([0, 10, 20, 30, 40], [0.15, 0.2, 0.25, 0.3])
    """
    rough = (high - low) / (most - 1) or 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    values = [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]
    return [int(value) if value == int(value) else value for value in values]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Powers of ten between two numbers, with 2 and 5 times them if these are few.

    >>> log_ticks(0.3, 30), log_ticks(0.05, 2e9)
    ([0.5, 1, 2, 5, 10, 20], [0.1, 10, 1000, 100000, 10000000, 1000000000])
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if math.log10(high / low) < 2.5 else (1,)
    values = [factor * 10.0**decade for decade in decades for factor in factors]
    inside = [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    inside = inside[:: math.ceil(len(inside) / most) or 1]
    return [int(value) if value >= 1 else value for value in inside]


def _axis(low: float, high: float, log: bool) -> Callable[[float], float]:
    """From a value to a position in percent, at the edge for what lies beyond."""
    change = math.log10 if log else float
    start, end = change(low), change(high)

    def place(value: float) -> float:
        inside = min(max(value, low), high)
        return 100 * (change(inside) - start) / ((end - start) or 1.0)

    return place


def _line(points: Sequence[Point], kind: str) -> str:
    """A line through points given as shares of the plot's width and height, in a picture that may be stretched."""
    path = " ".join(f"{x * _WIDTH:.5g},{(1 - y) * _PLOT:.5g}" for x, y in points)
    return (
        f'<svg class="stretch" y="{_TOP}" width="100%" height="{_PLOT}" viewBox="0 0 {_WIDTH} {_PLOT}" '
        f'preserveAspectRatio="none"><polyline class="{kind}" vector-effect="non-scaling-stroke" points="{path}"/>'
        "</svg>"
    )


def _x_label(place: float, text: str, y: int) -> str:
    anchor = "start" if place < 2 else "end" if place > 98 else "middle"
    return f'<text x="{place:.2f}%" y="{y}" text-anchor="{anchor}">{text}</text>'


def _tick(value: float) -> str:
    """A tick label, short enough for a phone: 0.5, 2,000, 50k, 3M, 1e9."""
    size = abs(value)
    if 1e4 <= size < 1e9:
        return f"{value / 1e6:g}M" if size >= 1e6 else f"{value / 1e3:g}k"
    if 1e3 <= size < 1e4:
        return f"{value:,}"
    return f"{value:g}".replace("e+", "e").replace("e0", "e").replace("e-0", "e-")


def _plot(ticks: Sequence[float], highest: float, parts: Sequence[str], below: Sequence[str]) -> str:
    """The labels of the vertical axis, of fixed width, beside the picture that takes the rest.

    The picture is drawn in this order: a grid, the parts, the horizontal axis, what belongs ``below`` it.
    """
    labels, grid = "", ""
    for tick in ticks:
        y = _BASE - tick / highest * _PLOT
        labels += f'<text x="100%" dx="-8" y="{y + 4:.1f}" text-anchor="end">{_tick(tick)}</text>'
        grid += f'<line class="grid" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
    axis = f'<line class="base" x1="0" x2="100%" y1="{_BASE}" y2="{_BASE}"/>'
    return (
        f'<svg class="axis" height="{_HEIGHT}" aria-hidden="true">{labels}</svg>'
        f'<svg class="area" height="{_HEIGHT}" aria-hidden="true">{"".join([grid, *parts, axis, *below])}</svg>'
    )
