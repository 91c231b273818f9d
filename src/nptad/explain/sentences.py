"""The reasons for one row in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nptad.wording import FEW_LETTERS, cell, estimate, percent, shorten, similar_rows

if TYPE_CHECKING:
    from nptad.explain.result import CellReason, RowExplanation, SimilarValues
    from nptad.tables.schema import Category

Piece = tuple[str, str]
"""A part of a sentence: what it is ("column", "cell", or "" for words of ours), and its text."""

Sentence = list[Piece]
"""A sentence without its full stop."""

UNLIKE: Piece = ("", "unlike any training row: ")
"""What a row begins with that would be odd without its suspicious cells too."""

_REASONS = 3
"""Largest number of reasons named for a row without suspicious cells."""

_NAMED_GAPS = 3
"""Empty cells that are named, if there are not just one more."""

_LEAST_OF_FIRST = 0.1
"""A reason is named if its contribution is at least this share of the first one's."""

# Of modules that import torch; the page shows reasons without it.
_ODD_TIMES = "hour and weekday"  # OddTimes.name
_UNSEEN = "values never seen"  # UnseenValues.name
UNREADABLE = "cannot be read"  # nptad.explain.suspicious.UNREADABLE
_MISFIT = "does not fit the other cells"  # nptad.explain.suspicious.MISFIT


def reasons_text(why: RowExplanation) -> str:
    """The suspicious cells of a row, or those that contribute most to its score, in one line.

    Suspicious cells with equal values are named together, and so are several empty cells where empty cells are rare.

    Examples
    --------
    >>> from nptad.explain.result import CellReason, RowExplanation, SimilarValues
    >>> similar = {"x": SimilarValues(5.6, 6.0, 10, 10, False), "y": SimilarValues(5.7, 6.1, 10, 10, False)}
    >>> usual = {"x": (5.8, (3.7, 9.6)), "y": (5.9, (3.7, 9.5))}
    >>> reasons = [
    ...     CellReason(name, 0.0, expected, 2.0, suspicious=True, similar=similar[name], normal=normal)
    ...     for name, (expected, normal) in usual.items()
    ... ]
    >>> reasons_text(RowExplanation(0, 4.0, tuple(reasons), (), 0.0, None))
    'x and y are 0; similar rows have about 5.8 and 5.9; normal ranges 3.7 to 9.6 and 3.7 to 9.5'
    """
    return ". ".join("".join(text for _, text in sentence) for sentence in sentences(why))


def sentences(why: RowExplanation) -> list[Sentence]:
    """The same, as sentences without full stops, in pieces that a page can mark."""
    suspicious = [reason for reason in why.reasons if reason.suspicious]
    known = f"like a known anomaly (record {why.known_anomaly})"
    like: list[Sentence] = [] if why.known_anomaly is None else [[("", known)]]
    if not suspicious:
        least = _LEAST_OF_FIRST * why.reasons[0].contribution if why.reasons else 0.0
        rest = [reason for reason in why.reasons[1:_REASONS] if reason.contribution >= least]
        return like + [_sentence([reason]) for reason in (*why.reasons[:1], *rest)]
    found: list[Sentence] = list(like)
    n_empty = sum(reason.seen is None for reason in why.reasons)
    if n_empty > 1 and why.usual_gaps is not None:
        found.append(_gaps(why, n_empty))
        suspicious = [reason for reason in suspicious if reason.seen is not None]
    found += [_sentence(reasons) for reasons in _equal_values(suspicious)]
    if why.unlike:
        found[0].insert(0, UNLIKE)
    return found


def _gaps(why: RowExplanation, n_empty: int) -> Sentence:
    """How many cells are empty and which, those first that hardly ever are."""
    empty: list[Sentence] = [[("column", shorten(str(r.column), FEW_LETTERS))] for r in why.reasons if r.seen is None]
    if n_empty > _NAMED_GAPS + 1:
        empty[_NAMED_GAPS:] = [[("", f"{n_empty - _NAMED_GAPS} more")]]
    return [("", f"{n_empty} of {len(why.reasons)} cells are empty, usual is {why.usual_gaps}: "), *_listed(empty)]


def _equal_values(reasons: list[CellReason]) -> list[list[CellReason]]:
    """Groups of cells of which the same is to be said, in the order of their first cells."""
    groups: dict[tuple[object, ...], list[CellReason]] = {}
    for reason in reasons:
        same = (_seen(reason), _who(reason), _is_about(reason), reason.normal is None)
        groups.setdefault(same if _is_unlike(reason) else (reason.column,), []).append(reason)
    return list(groups.values())


def _sentence(reasons: list[CellReason]) -> Sentence:
    """What is to be said about a cell, or about several with the same value."""
    first, several = reasons[0], len(reasons) > 1
    pieces = [*_listed([[("column", shorten(str(reason.column), FEW_LETTERS))] for reason in reasons])]
    pieces += [("", " are " if several else " is "), ("cell", _seen(first))]
    if all(reason.oddity == _UNSEEN for reason in reasons):
        pieces.append(("", ", which no ordinary row has"))
    if first.oddity == UNREADABLE:
        pieces.append(("", ", which cannot be read"))
    if _ODD_TIMES in (first.view, first.oddity):
        pieces.append(("", ", an hour or a weekday that hardly any row has"))
    elif first.similar is None:
        pieces += _expectation(first)
    elif _is_unlike(first):
        values = _listed([[("cell", estimate(reason.expected, FEW_LETTERS))] for reason in reasons])
        pieces += [("", f"; {_who(first)} {'about ' * _is_about(first)}"), *values]
    if first.normal is not None:
        ranges = _listed([range_pieces(*reason.normal) for reason in reasons if reason.normal is not None])
        pieces += [("", f"; normal range{'s' * several} "), *ranges]
    if all(reason.oddity == _MISFIT for reason in reasons):
        pieces.append(("", f"; {_MISFIT.replace('does', 'do') if several else _MISFIT}"))
    return pieces


def range_pieces(low: Category, high: Category) -> Sentence:
    """A range in pieces; a single value if its ends look alike."""
    ends = [("cell", estimate(end, FEW_LETTERS)) for end in (low, high)]
    return ends[:1] if ends[0] == ends[1] else [ends[0], ("", " to "), ends[1]]


def interval_text(values: SimilarValues) -> str:
    """What most of the similar rows have."""
    return "".join(text for _, text in range_pieces(values.low, values.high))


def _is_unlike(reason: CellReason) -> bool:
    """Whether the value seen differs from what was expected."""
    if reason.similar is not None:
        return not reason.similar.has_seen
    return reason.expected not in (None, reason.seen)


def _is_about(reason: CellReason) -> bool:
    """Whether similar rows differ in the column, so that the value named only stands for theirs."""
    return reason.similar is not None and len(range_pieces(reason.similar.low, reason.similar.high)) > 1


def _listed(parts: list[Sentence]) -> Sentence:
    """Parts as "a, b and c"."""
    pieces = list(parts[0])
    for place, part in enumerate(parts[1:], 2):
        pieces += [("", " and " if place == len(parts) else ", "), *part]
    return pieces


def _seen(reason: CellReason) -> str:
    return cell(reason.seen, FEW_LETTERS)


def _who(reason: CellReason) -> str:
    return "" if reason.similar is None else similar_rows(reason.similar.n_inside, reason.similar.n_rows)


def _expectation(reason: CellReason) -> Sentence:
    """What a network, or a column without similar values, says beside the value seen."""
    if reason.nearest is not None:
        return [("", ", a similar row has "), ("cell", cell(reason.nearest, FEW_LETTERS))]
    if reason.expected is None:
        return []
    if reason.expected == reason.seen:  # the likeliest category, but not likely; or unusual, as the similar rows are
        return [] if reason.probability is None else [("", f", {percent(reason.probability)} likely")]
    return [("", ", expected "), ("cell", estimate(reason.expected, FEW_LETTERS))]
