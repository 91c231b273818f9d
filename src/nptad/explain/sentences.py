"""The reasons for one row in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nptad.wording import FEW_LETTERS, cell, estimate, percent, shorten, similar_rows

if TYPE_CHECKING:
    from nptad.explain.result import CellReason, RowExplanation, SimilarValues

_REASONS = 3
"""Largest number of reasons named for a row without suspicious cells."""

_LEAST_OF_FIRST = 0.1
"""A reason is named if its contribution is at least this share of the first one's."""

_ODD_TIMES = "hour and weekday"  # OddTimes.name, whose package imports torch; the page shows reasons without it


def reasons_text(why: RowExplanation) -> str:
    """The suspicious cells of a row, or those that contribute most to its score, in one line.

    Suspicious cells with equal values are named together, and so are several empty cells where empty cells are rare.

    Examples
    --------
    >>> from nptad.explain.result import CellReason, RowExplanation
    >>> seen = {"x": (0.0, 5.8), "y": (0.0, 5.9), "z": (0.0, 3.6), "depth": (61.5, 61.9)}
    >>> reasons = [CellReason(name, *cells, 1.0, suspicious=name != "depth") for name, cells in seen.items()]
    >>> reasons_text(RowExplanation(0, 4.0, tuple(reasons), (), 0.0, None))
    'x, y and z are 0, expected 5.8, 5.9 and 3.6'
    """
    suspicious = [reason for reason in why.reasons if reason.suspicious]
    like = [] if why.known_anomaly is None else [f"like a known anomaly (record {why.known_anomaly})"]
    if not suspicious:
        least = _LEAST_OF_FIRST * why.reasons[0].contribution if why.reasons else 0.0
        rest = [reason for reason in why.reasons[1:_REASONS] if reason.contribution >= least]
        return "; ".join([*like, *map(_of_cell, [*why.reasons[:1], *rest])])
    gaps = gaps_text(why)
    if gaps:
        suspicious = [reason for reason in suspicious if reason.seen is not None]
    return "; ".join([*like, *([gaps] if gaps else []), *map(_of_cells, _equal_values(suspicious))])


def gaps_text(why: RowExplanation) -> str | None:
    """How many cells are empty, if that is a reason and more than one is."""
    n_empty = sum(reason.seen is None for reason in why.reasons)
    if n_empty < 2 or why.usual_gaps is None:
        return None
    return f"{n_empty} of {len(why.reasons)} cells are empty, usual is {why.usual_gaps}"


def _equal_values(reasons: list[CellReason]) -> list[list[CellReason]]:
    """Groups of cells with the same value that are compared with as many rows, in the order of their first cells."""
    groups: dict[tuple[str, bool, str], list[CellReason]] = {}
    for reason in reasons:
        groups.setdefault((_seen(reason), _is_unlike(reason), _who(reason)), []).append(reason)
    return list(groups.values())


def _of_cells(reasons: list[CellReason]) -> str:
    if len(reasons) == 1 or not _is_unlike(reasons[0]):
        return "; ".join(map(_of_cell, reasons))
    names = _listed([shorten(str(reason.column), FEW_LETTERS) for reason in reasons])
    values = _listed(
        [estimate(r.expected, FEW_LETTERS) if r.similar is None else interval_text(r.similar) for r in reasons]
    )
    return f"{names} are {_seen(reasons[0])}, {_who(reasons[0])} {values}"


def _is_unlike(reason: CellReason) -> bool:
    """Whether the value seen differs from what was expected."""
    if reason.similar is not None:
        return not reason.similar.has_seen
    return reason.expected not in (None, reason.seen)


def _listed(texts: list[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _of_cell(reason: CellReason) -> str:
    return f"{shorten(str(reason.column), FEW_LETTERS)} is {_seen(reason)}{_expectation(reason)}"


def _seen(reason: CellReason) -> str:
    return cell(reason.seen, FEW_LETTERS)


def _who(reason: CellReason) -> str:
    return "expected" if reason.similar is None else similar_rows(reason.similar.n_inside, reason.similar.n_rows)


def similar_text(values: SimilarValues) -> str:
    """What similar rows have, in a few words.

    Examples
    --------
    >>> from nptad.explain.result import SimilarValues
    >>> similar_text(SimilarValues(5.5, 6.1, 10, 10, has_seen=False))
    'the 10 most similar rows have 5.5 to 6.1'
    """
    return f"{similar_rows(values.n_inside, values.n_rows)} {interval_text(values)}"


def interval_text(values: SimilarValues) -> str:
    """The values alone."""
    low, high = (estimate(end, FEW_LETTERS) for end in (values.low, values.high))
    return low if low == high else f"{low} to {high}"


def odd_time(reason_view: str | None) -> str | None:
    """What is odd about a time, if it is its hour or weekday."""
    return "an hour or a weekday that hardly any row has" if reason_view == _ODD_TIMES else None


def _expectation(reason: CellReason) -> str:
    if said := odd_time(reason.view):
        return f", {said}"
    if reason.similar is not None:
        return "" if reason.similar.has_seen else f", {similar_text(reason.similar)}"
    if reason.nearest is not None:
        return f", a similar row has {cell(reason.nearest, FEW_LETTERS)}"
    if reason.expected is None:
        return ""
    if reason.probability is not None and reason.expected == reason.seen:  # the likeliest category, but not likely
        return f", {percent(reason.probability)} likely"
    if reason.expected == reason.seen:  # unusual in itself, and so are the similar rows
        return ""
    return f", expected {estimate(reason.expected, FEW_LETTERS)}"
