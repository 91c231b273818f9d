"""How well the cells of a row agree with what similar rows have, by a network that learns which rows are similar.

Each cell is hidden in turn and predicted from the rows that the others retrieve (:mod:`nptad.nn.retrieval`). Minus the
log of the density of its value is its loss. A cell's surprise compares its loss with those of the same column. A row's
score combines four surprises: that of its most surprising cells together, that of the sum of its losses, and that of
its distance from the nearest row by each of the two heads. The first finds a single odd cell, the second many that are
a little odd, the others a row whose cells fit one another and that is like no training row.

One network is trained on all rows. A training row is left out of what it retrieves from, which is nearly all that the
network knows of it: the weights are few, and say which columns matter. The view is not part of the default score, to
which it adds nothing on tables that did not choose it (``results/retrieval.md``).

A gap has the median loss of its column, so that it is neither ordinary nor odd.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch

from nptad.nn.retrieval import RetrievalNetwork, RetrievalSizes, cell_losses, nearest_retrieved, retrieval_weights
from nptad.scoring.arrays import require_array, require_count
from nptad.scoring.folds import row_keys
from nptad.scoring.surprise import Surprise, combine, require_surprises, surprise_among_others
from nptad.scoring.views.base import View
from nptad.tables.layout import CellLayout
from nptad.training.retrieval import RetrievalTraining, train_retrieval

_CONTEXT = 1000
"""Most rows that are retrieved from, drawn at random."""
_COLUMNS = 40
"""Most columns that are judged, drawn at random: the cost of a row is proportional to them. All are looked at."""


@dataclass(frozen=True)
class Retrieval(View):
    """How odd the cells of a row are, given the rows that it retrieves."""

    rows: np.ndarray
    """Encoded training rows, (n, D)."""
    context: np.ndarray
    """The training rows that are retrieved from, (C,)."""
    n_numeric: np.ndarray
    """Number of numeric cells, ()."""
    cardinalities: np.ndarray
    """Number of categories of each category column, (D2,)."""
    columns: np.ndarray
    """The J columns that are judged, (J,)."""
    weights: np.ndarray
    """The weights of the network, (1, P)."""
    usual: np.ndarray
    """The median loss of each judged column, (J,)."""
    scores: np.ndarray
    """Scores of the training rows, ascending, (J + 2 + heads, n): losses of each column, surprise of the cells
    together, whole loss, distance by each head."""
    tails: np.ndarray
    """The tail of each of these scores, (J + 2 + heads, 4)."""
    name: ClassVar[str] = "retrieval"

    @classmethod
    def fit(cls, x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[Retrieval, np.ndarray]:
        """Train a network; each row leaves out itself."""
        random = np.random.default_rng(0)
        context = np.sort(random.permutation(len(x))[:_CONTEXT])
        columns = np.sort(random.permutation(x.shape[1])[:_COLUMNS])
        training = RetrievalTraining.of(x.shape[1])
        view = cls(
            rows=x,
            context=context,
            n_numeric=np.array(layout.n_numeric),
            cardinalities=np.array(layout.cardinalities, dtype=np.int64),
            columns=columns,
            weights=train_retrieval(RetrievalSizes(layout), x, [0], training).numpy(),
            usual=np.zeros(len(columns)),
            scores=np.empty((0, 0)),
            tails=np.empty((0, 4)),
        )
        own = np.full(len(x), -1)
        own[context] = np.arange(len(context))
        losses = view._losses(x, own)
        usual = np.array([np.median(c[~np.isnan(c)]) if not np.isnan(c).all() else 0.0 for c in losses.T])
        losses = np.where(np.isnan(losses), usual, losses)
        together = combine(np.stack([surprise_among_others(column) for column in losses.T]))
        whole = [together, losses.sum(axis=1), *view._distances(x, own).T]
        found = [*losses.T, *whole]
        fitted = [Surprise.fit(scores) for scores in found]
        view = replace(
            view,
            usual=usual,
            scores=np.stack([surprise.scores for surprise in fitted]),
            tails=np.stack([surprise.tail for surprise in fitted]),
        )
        return view, combine(np.stack([surprise_among_others(scores) for scores in whole]))

    def of_rows(self, rows: np.ndarray, layout: CellLayout) -> View:
        """Retrieve from these rows only, with the same network."""
        keys = row_keys(rows)
        order = np.argsort(keys, kind="stable")
        wanted = row_keys(self.rows[self.context])
        place = order[np.searchsorted(keys, wanted, sorter=order).clip(max=len(rows) - 1)]
        return replace(self, rows=rows, context=place[keys[place] == wanted])

    def require_sound(self, layout: CellLayout) -> None:
        """See :class:`View`."""
        n_weights = sum(math.prod(shape) for shape in RetrievalSizes(layout).parts.values())
        require_count("n_numeric", self.n_numeric, layout.n_numeric)
        require_array("cardinalities", self.cardinalities, "i8", (len(layout.cardinalities),))
        if self.cardinalities.tolist() != list(layout.cardinalities):
            raise ValueError("cardinalities are those of other columns")
        require_array("columns", self.columns, "i8", (None,), least=0, most=layout.n_features - 1, ascending=True)
        require_array("context", self.context, "i8", (None,), least=0, most=len(self.rows) - 1, ascending=True)
        require_array("weights", self.weights, "f4", (1, n_weights))
        require_array("usual", self.usual, "f8", (len(self.columns),))
        require_surprises("losses", self.scores, self.tails, len(self.columns) + 2 + RetrievalSizes(layout).heads)

    def score(self, x: np.ndarray) -> np.ndarray:
        """The surprise of the cells together, of the whole loss and of the distances, combined."""
        nobody = np.full(len(x), -1)
        losses = self._losses(x, nobody)
        losses = np.where(np.isnan(losses), self.usual, losses)
        of_columns, of_row = self._surprises[: len(self.columns)], self._surprises[len(self.columns) :]
        together = combine(np.stack([s.apply(cells) for s, cells in zip(of_columns, losses.T, strict=True)]))
        whole = [together, losses.sum(axis=1), *self._distances(x, nobody).T]
        return combine(np.stack([s.apply(scores) for s, scores in zip(of_row, whole, strict=True)]))[:, None]

    def similar(self, x: np.ndarray, n_similar: int) -> np.ndarray:
        """The training rows with the largest weights for each row, (m, n_similar) or fewer, the largest first."""
        return self.retrieved(x, n_similar)[0]

    def retrieved(self, x: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """The same rows and their weights, of which those for all rows of the context sum to 1."""
        weights = retrieval_weights(*self._tensors(x), torch.full((len(x),), -1)).numpy()
        places = np.argsort(-weights, axis=1, kind="stable")[:, :n_rows]
        return self.context[places], np.take_along_axis(weights, places, axis=1)

    @cached_property
    def _surprises(self) -> list[Surprise]:
        return [Surprise(*fitted) for fitted in zip(self.scores, self.tails, strict=True)]

    def _losses(self, x: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Losses of the cells, NaN for gaps, (m, J); ``own`` is a row's own place in the context, -1 for none."""
        found = cell_losses(*self._tensors(x), torch.from_numpy(own), columns=self.columns.tolist())
        return found.numpy().astype(np.float64)

    def _distances(self, x: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Distances from the nearest row that is retrieved by each head, (m, heads)."""
        return nearest_retrieved(*self._tensors(x), torch.from_numpy(own)).numpy().astype(np.float64)

    def _tensors(self, x: np.ndarray) -> tuple[RetrievalNetwork, torch.Tensor, torch.Tensor]:
        """The network, rows, and the context."""
        layout = CellLayout(int(self.n_numeric), tuple(int(c) for c in self.cardinalities))
        network = RetrievalNetwork(RetrievalSizes(layout), torch.from_numpy(self.weights))
        values, rows = (torch.from_numpy(np.asarray(part, dtype=np.float32)) for part in (x, self.rows[self.context]))
        return network, values, rows
