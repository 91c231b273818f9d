"""A small network that retrieves: cells are predicted by the values that the most similar training rows have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from nptad.scoring.surprise import Surprise
from nptad.scoring.view_score import far_off
from nptad.scoring.views.retrieval import Retrieval
from nptad.tables.encode import encode
from nptad.tables.frames import read_columns
from nptad.tables.layout import without_unreadable
from nptad.tables.schema import Use, learn_schema


@dataclass(kw_only=True, eq=False)
class RetrievalNetwork:
    """How badly a row agrees with the training rows that it retrieves.

    A row's weights for the training rows fall with the squared distance of learnt projections. Each cell is hidden in
    turn, and a mixture of kernels on the values of the retrieved rows, by their weights, says how probable its value
    is. The score combines the most surprising cells, all cells together, and the distance from the nearest row
    (:mod:`nptad.scoring.views.retrieval`). Training takes seconds and draws its random numbers from a fixed seed: the
    same rows give the same network. At most 1,000 training rows are retrieved from and at most 40 columns are judged,
    drawn at random; all columns say which rows are similar.

    Takes frames and arrays with numbers, text and gaps, as :class:`~nptad.NPTAD` does.

    Examples
    --------
    Two columns that go together, but not in the second row that is scored:

    >>> x = np.random.default_rng(0).normal(size=(200, 1))
    >>> network = RetrievalNetwork().fit(np.hstack([x, 2 * x]))
    >>> network.score([[1.0, 2.0], [1.0, -2.0]]).round().tolist()
    [1.0, 8.0]
    """

    columns: Mapping[str | int, Use] | None = None  # how columns are used, as in NPTAD

    def fit(self, x: Any) -> Self:
        """Train the network on the rows ``x``."""
        raw = read_columns(x)
        self.schema_ = learn_schema(raw, self.columns)
        rows = without_unreadable(encode(self.schema_, raw))
        alone = np.zeros((1, len(rows)), dtype=bool)  # rows leave out themselves
        self.view_, training_scores = Retrieval.fit(rows, self.schema_.layout, alone)
        self.surprise_ = Surprise.fit(training_scores)
        return self

    def score(self, x: Any) -> np.ndarray:
        """Return minus the logarithm of the share of normal rows that are at least as odd as each row."""
        found = self._view.score(self._encode(x))
        return self.surprise_.apply(found)[:, 0]

    def retrieved(self, x: Any, n_rows: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Return the training rows that each row attends to most, (m, n_rows), and their weights, the largest first.

        Training rows are numbered from 0. A row's weights for all training rows sum to 1.
        """
        return self._view.retrieved(self._encode(x), n_rows)

    def explain(self, x: Any) -> np.ndarray:
        """Return how much less odd each row would be without each of its cells, (m, d), at least 0.

        The cells are in the order of the table; those of columns that are set aside have 0.
        """
        found = self._view.explain(self._encode(x))
        place = {column.name: j for j, column in enumerate(self.schema_.columns)}
        cells = np.zeros((len(found), len(place)))
        cells[:, [place[column.name] for column in self.schema_.used]] = found
        return cells

    @property
    def _view(self) -> Retrieval:
        if not hasattr(self, "view_"):
            raise NotFittedError("This RetrievalNetwork is not fitted; call fit(x) with the training rows first.")
        return self.view_

    def _encode(self, x: Any) -> np.ndarray:
        view = self._view
        return far_off(encode(self.schema_, x), view.rows)
