"""What a view is.

A view scores how odd each encoded row is, (n, D), as :func:`nptad.tables.encode.encode` returns it. It learns from rows
that are taken to be normal. Each training row gets an out-of-fold score, as if it had not been among them, so that the
scores of training rows and new rows are comparable. :class:`~nptad.scoring.surprise.Surprise` makes the scores of all
views comparable.

A new view is a frozen dataclass whose fields are plain arrays, with a ``name``, ``fit``, ``score``, ``of_rows`` and
``require_sound``. The fields are saved with the model; a field called ``rows``, the training rows, is saved once for
all views. Two rules for cells: categories are either equal or different, and a gap is neither near nor far.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nptad.tables.layout import CellLayout


@dataclass(frozen=True)
class View(ABC):
    """How odd a row is, seen in one way."""

    name: ClassVar[str]
    """What the view looks at, in a few words."""

    @classmethod
    @abstractmethod
    def fit(cls, x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[View, np.ndarray]:
        """Learn from training rows.

        Parameters
        ----------
        x : ndarray of shape (n, D)
            Encoded training rows.
        layout : CellLayout
            Which cells are numbers.
        left_out : ndarray of shape (K, n)
            The fold of each of K members; every row is in at least one. A view that can leave out single rows at little
            cost does that instead and has a single member.

        Returns
        -------
        View, ndarray of shape (n,)
            The fitted view and the out-of-fold score of each training row, higher = more odd.
        """

    @abstractmethod
    def score(self, x: np.ndarray) -> np.ndarray:
        """Score new rows (m, D) under each member of the view, (m, K), higher = more odd."""

    @abstractmethod
    def of_rows(self, rows: np.ndarray, layout: CellLayout) -> View:
        """The view as if these were the training rows, most of those that it was fitted on."""

    @abstractmethod
    def require_sound(self, layout: CellLayout) -> None:
        """Raise a ValueError unless the fields, but for ``rows``, are such that all rows can be scored.

        A model may come from somebody who wants to do harm: see :func:`nptad.scoring.arrays.require_array`.
        """

    def explain(self, x: np.ndarray) -> np.ndarray:
        """How much less odd each row (m, D) would be without each of its cells, (m, D), at least 0."""
        scores = self.score(x).mean(axis=1)
        share = np.zeros(x.shape)
        for j in range(x.shape[1]):
            without = x.copy()
            without[:, j] = np.nan
            share[:, j] = scores - self.score(without).mean(axis=1)
        return share.clip(min=0)
