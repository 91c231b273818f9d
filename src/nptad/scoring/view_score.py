"""The calibrated score: views of a row, each turned into surprise, combined into one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from jaxtyping import Bool, Float

from nptad.scoring.surprise import CombinedSurprise, Surprise
from nptad.scoring.views import VIEWS, View
from nptad.tables.layout import CellLayout


@dataclass(frozen=True)
class ViewScore:
    """Fitted views and how surprising their scores are.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 1)).astype(np.float32)
    >>> folds = np.arange(300) % 3 == np.arange(3)[:, None]
    >>> score, _ = ViewScore.fit(np.hstack([x, -x]), CellLayout(2, ()), folds)
    >>> score.p_values(np.array([[1.0, -1.0], [2.0, 2.0]], dtype=np.float32)).round(3).tolist()
    [0.678, 0.0]
    """

    views: tuple[View, ...]
    surprise: CombinedSurprise
    """From the scores of the views to one."""

    @classmethod
    def fit(
        cls,
        x: Float[np.ndarray, "N D"],
        layout: CellLayout,
        left_out: Bool[np.ndarray, "K N"],
        kinds: tuple[type[View], ...] = VIEWS,
    ) -> tuple[Self, Float[np.ndarray, " N"]]:
        """Learn from encoded training rows; also returns their out-of-fold scores."""
        fitted = [kind.fit(x, layout, left_out) for kind in kinds]
        surprise, scores = CombinedSurprise.fit([out_of_fold for _, out_of_fold in fitted])
        return cls(tuple(view for view, _ in fitted), surprise), scores

    def score(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, " n"]:
        """The score of new rows: a combination of surprises, in natural logarithms."""
        return self.surprise.score(self._scores(x))

    def p_values(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, " n"]:
        """The share of normal rows that are at least as odd."""
        return self.surprise.p_values(self._scores(x))

    def by_view(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "V n"]:
        """The surprise of each view, the mean over its members."""
        return self.surprise.by_view(self._scores(x)).mean(axis=2)

    def explain(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n V D"]:
        """What each cell adds to the score in each view; the sum over views and cells is the score.

        Each view's share of the score is proportional to the exponential of half its surprise, as in the combination.
        Within a view, a cell's share is proportional to how much less odd the row would be without it; if no cell makes
        a difference, all shares are equal.
        """
        surprises = self.by_view(x)
        parts = np.exp((surprises - surprises.max(axis=0)) / 2) * surprises
        falls = np.stack([view.explain(x) for view in self.views], axis=1)
        cells = np.where(falls.sum(axis=2, keepdims=True) > 0, falls, 1.0)
        shares = cells / cells.sum(axis=2, keepdims=True) * parts.T[:, :, None]
        total = shares.sum(axis=(1, 2), keepdims=True)
        shares = np.where(total > 0, shares / np.where(total > 0, total, 1.0), 0.0)
        return shares * self.score(x)[:, None, None]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays by name, for a file; :meth:`from_arrays` gives the score back."""
        arrays = {"whole.scores": self.surprise.whole.scores, "whole.tail": self.surprise.whole.tail}
        for place, (view, surprise) in enumerate(zip(self.views, self.surprise.views, strict=True)):
            arrays |= {f"{place}.{field.name}": getattr(view, field.name) for field in fields(view)}
            arrays |= {f"{place}.surprise.scores": surprise.scores, f"{place}.surprise.tail": surprise.tail}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], kinds: tuple[type[View], ...] = VIEWS) -> Self:
        """Rebuild a score from :meth:`to_arrays`; ``kinds`` are the view classes that it was fitted with."""

        def surprise(name: str) -> Surprise:
            return Surprise(arrays[f"{name}.scores"], arrays[f"{name}.tail"])

        views = tuple(
            kind(**{field.name: arrays[f"{place}.{field.name}"] for field in fields(kind)})
            for place, kind in enumerate(kinds)
        )
        calibrated = tuple(surprise(f"{place}.surprise") for place in range(len(kinds)))
        return cls(views, CombinedSurprise(calibrated, surprise("whole")))

    def _scores(self, x: np.ndarray) -> list[np.ndarray]:
        return [view.score(x) for view in self.views]
