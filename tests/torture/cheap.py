"""Scores that cost little: what is tried is the input and the files, not the score."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from nptad.scoring import first_pass, view_score
from nptad.scoring.views import nearest

CHEAP_SCORES: list[tuple[Any, str, int]] = [
    (first_pass, "_TREES", 5),
    (view_score, "N_FOLDS", 2),
    (nearest, "_PARTS", 2),
]
"""A small isolation forest, few folds and few parts."""


@contextmanager
def cheap_scores() -> Iterator[None]:
    """Scores are cheap in this block."""
    with ExitStack() as stack:
        for module, name, value in CHEAP_SCORES:
            stack.enter_context(mock.patch.object(module, name, value))
        yield
