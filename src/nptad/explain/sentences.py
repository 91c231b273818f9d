"""The reasons of a row in one line."""

from __future__ import annotations

from nptad.explain.result import CellReason, RowExplanation

_REASONS = 3
"""Reasons that a result names for a row, at most."""


_LEAST_OF_FIRST = 0.1
"""Share of the first reason's contribution that another must have to be named."""


def reasons_text(why: RowExplanation) -> str:
    """The cells that gave a row away, in one line: the first and what comes near it."""
    parts: list[str] = []
    for reason in why.reasons[:_REASONS]:
        if parts and reason.contribution < _LEAST_OF_FIRST * why.reasons[0].contribution:
            break
        parts.append(f"{_short(reason.column)} is {_short(reason.seen)}{_expectation(reason)}")
    return "; ".join(parts)


def _expectation(reason: CellReason) -> str:
    if reason.nearest is not None:
        return f", {_short(reason.nearest)} in the row nearest otherwise"
    if reason.expected is None:
        return ""
    if reason.probability is not None and reason.expected == reason.seen:  # the likeliest category, but not likely
        return f", {reason.probability:.1%} likely"
    return f", expected {_short(reason.expected)}"


def _short(value: object, letters: int = 30) -> str:
    if value is None:
        return "missing"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= letters else text[: letters - 1] + "…"
