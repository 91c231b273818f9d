"""Anomalies that are alike: rows with the same suspicious cells, so that two hundred rows become a few groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from nptad.explain.result import CellReason, RowExplanation
from nptad.explain.sentences import UNLIKE, UNREADABLE, Sentence, sentences
from nptad.wording import FEW_LETTERS, shorten

_MOST = 8
"""Groups listed."""
_FIRST_CELLS = 3
"""Cells that count for a row without suspicious cells."""
_LEAST_OF_LARGEST = 0.05
"""A cell counts if its contribution is at least this share of the largest one."""
_OFTEN = 0.5
"""Another cell is named for a group if at least this share of its rows has it."""

Sign = tuple[str, str]
"""A column, and how its cell differs from those of similar rows."""


def group_rows(explanation: Sequence[RowExplanation]) -> list[dict[str, Any]]:
    """The largest groups of rows that are odd in the same cell and direction, largest first.

    A row belongs to one group at most, that of its most common cell. Each group has ``n`` ``rows``, ``column``, ``how``
    and ``others``, the further cells that at least half of its rows have in common, as ``column`` and ``how``. Its
    ``example`` is what is said about this cell of its first row: the pieces of a sentence, none if nothing is.

    Examples
    --------
    >>> cells = [("price", 99.0), ("price", 98.0), ("size", 7.0), ("price", 97.0)]
    >>> reasons = [(CellReason(name, value, 3.0, 1.0, suspicious=True),) for name, value in cells]
    >>> rows = [RowExplanation(i, 5.0, why, (), 0.0, None) for i, why in enumerate(reasons)]
    >>> group_rows(rows)  # doctest: +ELLIPSIS
    [{'n': 3, 'rows': [0, 1, 3], 'column': 'price', 'how': 'higher', 'others': [], 'example': [...]}]
    """
    by_row = {why.row: why for why in explanation}
    left = {row: _signs(why) for row, why in by_row.items()}
    groups: list[dict[str, Any]] = []
    while left and len(groups) < _MOST:
        (sign, count), *_ = Counter(sign for signs in left.values() for sign in signs).most_common(1)
        if count < 2:
            break
        rows = [row for row, signs in left.items() if sign in signs]
        common = Counter(other for row in rows for other in left[row] if other != sign)
        often = [other for other, n in common.most_common() if n >= _OFTEN * len(rows)]
        others = [_named(other) for other in often]
        groups.append(
            {"n": len(rows), "rows": rows, **_named(sign), "others": others, "example": _said(by_row[rows[0]], sign)}
        )
        left = {row: signs for row, signs in left.items() if sign not in signs}
    return sorted(groups, key=lambda group: -group["n"])


def _signs(why: RowExplanation) -> list[Sign]:
    """What is odd about a row."""
    suspicious = [reason for reason in why.reasons if reason.suspicious] or why.reasons[:_FIRST_CELLS]
    least = _LEAST_OF_LARGEST * max((reason.contribution for reason in suspicious), default=0.0)
    suspicious = [reason for reason in suspicious if reason.contribution >= least]
    return [(str(reason.column), _difference(reason)) for reason in suspicious]


def _said(why: RowExplanation, sign: Sign) -> Sentence:
    """The sentence about a cell of a row."""
    name = ("column", shorten(sign[0], FEW_LETTERS))
    sentence = next((sentence for sentence in sentences(why) if name in sentence), [])
    return [piece for piece in sentence if piece != UNLIKE]


def _named(sign: Sign) -> dict[str, str]:
    return {"column": shorten(sign[0]), "how": sign[1]}


def _difference(reason: CellReason) -> str:
    seen, expected = reason.seen, reason.expected
    if seen is None:
        return "missing"
    if reason.oddity == UNREADABLE:
        return "unreadable"
    above = reason.above
    numbers = isinstance(seen, int | float) and isinstance(expected, int | float)
    if above is None and numbers and not isinstance(seen, bool) and seen != expected:  # categories, such as 0 and 1
        above = seen > expected  # type: ignore[operator]
    if above is None:
        return "unusual"
    if isinstance(expected, str) and "-" in expected[1:]:  # a date, not a duration
        return "later" if above else "earlier"
    return "higher" if above else "lower"
