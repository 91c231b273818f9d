"""How well the cells of a row agree with what similar rows have, by a network that learns which rows are similar.

Each cell is hidden in turn and predicted from the rows that the others retrieve (:mod:`nptad.nn.retrieval`). Minus the
log of the density of its value is its loss. A cell's surprise compares its loss with those of the same column. A row's
score combines two surprises: that of its most surprising cells together, and that of the sum of its losses. The former
finds a single odd cell, the latter many that are a little odd.

A gap has the median loss of its column, so that it is neither ordinary nor odd.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch

from nptad.nn.retrieval import RetrievalNetwork, RetrievalSizes, cell_losses, retrieval_weights
from nptad.scoring.arrays import require_array, require_count
from nptad.scoring.surprise import Surprise, combine, require_surprises, surprise_among_others
from nptad.scoring.views.base import View
from nptad.tables.layout import CellLayout
from nptad.training.retrieval import RetrievalTraining, train_retrieval

_CONTEXT = 1000
"""Most rows that a member retrieves from."""
_COLUMNS = 40
"""Most columns that are judged, drawn at random: the cost of a row is proportional to them. All are looked at."""
_ROWS_AT_ONCE = 500
"""Rows whose weights are in memory at a time."""


@dataclass(frozen=True)
class Retrieval(View):
    """How odd the cells of a row are, given the rows that it retrieves; one network for each fold."""

    rows: np.ndarray
    """Encoded training rows, (n, D)."""
    context: np.ndarray
    """The training rows that each member retrieves from, ascending, (K, C)."""
    n_numeric: np.ndarray
    """Number of numeric cells, ()."""
    cardinalities: np.ndarray
    """Number of categories of each category column, (D2,)."""
    columns: np.ndarray
    """The J columns that are judged, (J,)."""
    weights: np.ndarray
    """The weights of each member's network, (K, P)."""
    usual: np.ndarray
    """The median loss of each judged column, (J,)."""
    scores: np.ndarray
    """Out-of-fold scores, ascending, (J + 2, n): losses of each column, surprise of the cells together, whole loss."""
    tails: np.ndarray
    """The tail of each of these scores, (J + 2, 4)."""
    name: ClassVar[str] = "retrieval"

    @classmethod
    def fit(cls, x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[View, np.ndarray]:
        """Train a network on the rows that each member keeps; a row that no member leaves out leaves out itself."""
        random = np.random.default_rng(0)
        fewest = int((~left_out).sum(axis=1).min())
        kept = np.stack([random.permutation(np.flatnonzero(~fold))[:fewest] for fold in left_out])
        weights = train_retrieval(RetrievalSizes(layout), x, kept, list(range(len(kept))), RetrievalTraining())
        columns = np.sort(random.permutation(x.shape[1])[:_COLUMNS])
        view = cls(
            rows=x,
            context=np.sort(kept[:, :_CONTEXT], axis=1),
            n_numeric=np.array(layout.n_numeric),
            cardinalities=np.array(layout.cardinalities, dtype=np.int64),
            columns=columns,
            weights=weights.numpy(),
            usual=np.zeros(len(columns)),
            scores=np.empty((0, 0)),
            tails=np.empty((0, 4)),
        )
        losses = np.empty((len(x), len(columns)))
        member = left_out.argmax(axis=0)
        for k in range(len(left_out)):
            mine = np.flatnonzero(member == k)
            losses[mine] = view._losses(x[mine], k, mine)
        usual = np.array([np.median(c[~np.isnan(c)]) if not np.isnan(c).all() else 0.0 for c in losses.T])
        losses = np.where(np.isnan(losses), usual, losses)
        together = combine(np.stack([surprise_among_others(column) for column in losses.T]))
        found = [*losses.T, together, losses.sum(axis=1)]
        fitted = [Surprise.fit(scores) for scores in found]
        view = replace(
            view,
            usual=usual,
            scores=np.stack([surprise.scores for surprise in fitted]),
            tails=np.stack([surprise.tail for surprise in fitted]),
        )
        return view, combine(np.stack([surprise_among_others(scores) for scores in found[-2:]]))

    def of_rows(self, rows: np.ndarray, layout: CellLayout) -> View:
        """The view itself: its networks were trained with the rows that it knows."""
        return self

    def require_sound(self, layout: CellLayout) -> None:
        """See :class:`View`."""
        n_weights = sum(math.prod(shape) for shape in RetrievalSizes(layout).parts.values())
        require_count("n_numeric", self.n_numeric, layout.n_numeric)
        require_array("cardinalities", self.cardinalities, "i8", (len(layout.cardinalities),))
        if self.cardinalities.tolist() != list(layout.cardinalities):
            raise ValueError("cardinalities are those of other columns")
        require_array("columns", self.columns, "i8", (None,), least=0, most=layout.n_features - 1, ascending=True)
        require_array("context", self.context, "i8", (None, None), least=0, most=len(self.rows) - 1, ascending=True)
        require_array("weights", self.weights, "f4", (len(self.context), n_weights))
        require_array("usual", self.usual, "f8", (len(self.columns),))
        require_surprises("losses", self.scores, self.tails, len(self.columns) + 2)

    def score(self, x: np.ndarray) -> np.ndarray:
        """The surprise of the cells together and that of the whole loss, combined, under each member."""
        *_, of_cells, of_all = self._surprises
        scores = np.empty((len(x), len(self.weights)))
        for k, (losses, cells) in enumerate(self._by_member(x)):
            together = of_cells.apply(combine(cells))
            scores[:, k] = combine(np.stack([together, of_all.apply(losses.sum(axis=1))]))
        return scores

    def explain(self, x: np.ndarray) -> np.ndarray:
        """The surprise of each cell, (m, D), the mean over members; 0 for gaps and columns that are not judged."""
        share = np.zeros(x.shape)
        share[:, self.columns] = np.mean([cells.T for _, cells in self._by_member(x)], axis=0)
        return np.where(np.isnan(x), 0.0, share)

    def retrieved(self, x: np.ndarray, most: int = 10, own: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The training rows that each row attends to most, with nothing hidden.

        Parameters
        ----------
        x : ndarray of shape (m, D)
            Encoded rows.
        most : int
            How many.
        own : ndarray of shape (m,), optional
            The training row that each row is, which it does not attend to; -1 for none.

        Returns
        -------
        rows, weights : two ndarrays of shape (m, most)
            Training rows and their weights, the means over members and heads, the largest first.
        """
        own = np.full(len(x), -1) if own is None else own
        most = min(most, len(self.rows))
        rows, weights = np.empty((len(x), most), dtype=np.int64), np.empty((len(x), most))
        for start in range(0, len(x), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            attention = np.zeros((len(x[part]), len(self.rows)))
            for k, context in enumerate(self.context):
                attention[:, context] += retrieval_weights(*self._tensors(x[part], k, own[part])).numpy()
            rows[part] = np.argsort(-attention, axis=1, kind="stable")[:, :most]
            weights[part] = np.take_along_axis(attention, rows[part], axis=1) / len(self.weights)
        return rows, weights

    @cached_property
    def _surprises(self) -> list[Surprise]:
        return [Surprise(*fitted) for fitted in zip(self.scores, self.tails, strict=True)]

    def _by_member(self, x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Losses (m, J) and surprises (J, m) of the cells under each member."""
        nobody = np.full(len(x), -1)
        for k in range(len(self.weights)):
            losses = self._losses(x, k, nobody)
            losses = np.where(np.isnan(losses), self.usual, losses)
            # The last two surprises are those of whole rows.
            yield losses, np.stack([s.apply(c) for s, c in zip(self._surprises[:-2], losses.T, strict=True)])

    def _losses(self, x: np.ndarray, k: int, own: np.ndarray) -> np.ndarray:
        """Losses of the cells under one member, NaN for gaps, (m, J)."""
        found = cell_losses(*self._tensors(x, k, own), columns=self.columns.tolist())
        return found.numpy().astype(np.float64)

    def _tensors(
        self, x: np.ndarray, k: int, own: np.ndarray
    ) -> tuple[RetrievalNetwork, torch.Tensor, torch.Tensor, torch.Tensor]:
        """A member's network, rows, its context, and each row's own place there, -1 if it has none."""
        layout = CellLayout(int(self.n_numeric), tuple(int(c) for c in self.cardinalities))
        network = RetrievalNetwork(RetrievalSizes(layout), torch.from_numpy(self.weights[k : k + 1]))
        context = self.context[k]
        at = np.searchsorted(context, own).clip(max=len(context) - 1)
        place = np.where(context[at] == own, at, -1)
        x, rows = (np.asarray(values, dtype=np.float32) for values in (x, self.rows[context]))
        return network, torch.from_numpy(x), torch.from_numpy(rows), torch.from_numpy(place)
