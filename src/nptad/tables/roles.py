"""Columns that say nothing about what a row is like: identifiers, sequences, names, free text.

Such a column is set aside: a model that compared its values would find every new row odd. Numbers are set aside only if
they are whole and all different: measurements differ as well.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

import numpy as np

Role = Literal["", "empty", "chosen", "nested", "identifier", "sequence", "names", "free text"]
"""Why a column is ignored; empty if it is not. "chosen": the user said so."""

ROLE_NOTES: dict[Role, str] = {
    "empty": "have no value in training and are ignored",
    "nested": "hold lists or objects and are ignored; give each of their values a column of its own",
    "identifier": "are identifiers, with a different value in every row,",
    "sequence": "are sequences, which go up with the rows,",
    "names": "hold names, most of which occur once,",
    "free text": "hold free text",
}
"""What a note says about such columns."""

_FEWEST = 20  # in fewer rows, values may all differ by chance
_ONCE = 0.5  # share of the cells with a value that occurs once, from which on a text column holds names
_WORDS = 5  # words of an average cell of free text
_NEARLY = 0.95  # share of different numbers from which on a column called id holds identifiers
_DENSE = 1.1  # all-different whole numbers count the rows if their range is at most this many times their number
_BENT = 0.05  # a sequence departs from a straight line by at most this share of its range
_ID_NAME = re.compile(r"(?i:(?:^|[\W_])(?:id|uuid|guid|index))$|[a-z]I[dD]$|[A-Z]ID$")


def role_of_texts(cells: np.ndarray) -> Role:
    """The role of a text column with these cells, none of them missing.

    >>> role_of_texts(np.array([f"A{row}" for row in range(50)]))
    'identifier'
    """
    counts = Counter(cells.tolist())
    if len(cells) < _FEWEST or sum(count == 1 for count in counts.values()) < _ONCE * len(cells):
        return ""
    if np.mean([len(text.split()) for text in cells[:1000]]) >= _WORDS:
        return "free text"
    return "identifier" if len(counts) == len(cells) else "names"


def role_of_numbers(name: str | int, cells: np.ndarray) -> Role:
    """The role of a number column with these cells in the order of the rows, none of them missing.

    >>> rows = np.arange(50.0)
    >>> role_of_numbers("n", rows + 1), role_of_numbers("x", rows**2), role_of_numbers("order_id", rows**2 % 1009)
    ('sequence', '', 'identifier')
    """
    if len(cells) < _FEWEST or (cells != np.rint(cells)).any():
        return ""
    ordered = np.unique(cells)
    if len(ordered) >= _NEARLY * len(cells) and _ID_NAME.search(str(name)):
        return "identifier"
    if len(ordered) < len(cells):
        return ""
    if (np.diff(cells) > 0).all() and _is_straight(cells):
        return "sequence"
    return "identifier" if ordered[-1] - ordered[0] < _DENSE * len(cells) else ""


def role_of_times(cells: np.ndarray) -> Role:
    """The role of a column of times with these cells in the order of the rows, none of them missing.

    Times that go up with the rows are when a row was written. All rows that come later would be out of their range.

    >>> role_of_times(3600.0 * np.arange(50))
    'sequence'
    """
    is_sorted = len(cells) >= _FEWEST and cells[0] < cells[-1] and (np.diff(cells) >= 0).all()
    return "sequence" if is_sorted and len(np.unique(cells)) >= len(cells) / 2 else ""


def _is_straight(cells: np.ndarray) -> bool:
    line = np.linspace(cells[0], cells[-1], len(cells))
    return bool(np.abs(cells - line).max() <= _BENT * (cells[-1] - cells[0]))
