"""The calibrated score: views of a row, each turned into surprise, combined into one.

The score of a row is minus the log of the share of normal rows that are at least as odd: 4.6 is one row in 100, 9.2 one
in 10,000. So the p-value of a row is the exponential of minus its score.

A row is compared with the training rows as a new row, whether or not an equal row was among them. Only the training
table as a whole is recognised: its rows have out-of-fold scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from nptad.scoring.arrays import require_array, require_rows
from nptad.scoring.calibrate import RowScores
from nptad.scoring.feedback import Feedback, Likeness
from nptad.scoring.first_pass import MEASURES
from nptad.scoring.folds import left_out_rows, row_keys
from nptad.scoring.surprise import CombinedSurprise, Surprise
from nptad.scoring.views import VIEWS, NearestInQuantiles, NearestInRanges, View, views_for
from nptad.scoring.views.cells import CellView
from nptad.scoring.views.neighbours import MANY_ROWS
from nptad.tables.layout import CellLayout, without_unreadable
from nptad.training.parallel import single_thread

N_FOLDS = 5
"""Members of views that cannot leave out single rows."""

MOST_ROWS = 500_000
"""Training rows that the views keep and are calibrated with, if a tree searches them fast (see :func:`_keep`)."""

_ROWS_AT_ONCE = 2048
"""Rows scored between two reports of progress."""


_SECONDS_PER_CELL = 2e-9
"""Seconds that the fit takes on one core for each cell that a row is compared with; a rough measurement."""


def expected_seconds(n_rows: int, n_features: int) -> float:
    """About how long a fit on normal rows takes on one core: each row is compared with at most ``MANY_ROWS``."""
    return _SECONDS_PER_CELL * n_rows * min(n_rows, MANY_ROWS) * n_features


@dataclass(frozen=True)
class Core:
    """What is known of a training table that contains anomalies (:mod:`nptad.scoring.core`)."""

    stands_out: Bool[np.ndarray, " N"]
    """The rows that stand out from the others."""
    reason: Int[np.ndarray, " N"]
    """Why each row was kept out of the core: the place of the measure of the first pass by which it is oddest; -1 for
    a row of the core."""
    wrong_cell: Int[np.ndarray, " N"]
    """The column of the cell that gives a row with a gross error away; -1 for other rows."""
    n_top: int
    """Rows with the highest scores that were compared."""
    agreement: float
    """The share of them that are also among the highest on the core of the other size, or this one if that is less."""

    def reason_of(self, row: int) -> str | None:
        """Why a row was kept out of the core, in words; None for a row of the core."""
        return MEASURES[self.reason[row]] if self.reason[row] >= 0 else None

    def reasons(self) -> dict[str, int]:
        """How many rows were kept out for each reason."""
        counts = np.bincount(self.reason[self.reason >= 0], minlength=len(MEASURES)).tolist()
        return {name: count for name, count in zip(MEASURES, counts, strict=True) if count}

    def require_sound(self, n_rows: int, n_columns: int) -> None:
        """Raise a ValueError unless all of it can be shown; ``n_rows`` is that of the training table."""
        require_array("stands_out", self.stands_out, "b1", (n_rows,))
        require_array("wrong_cell", self.wrong_cell, "i8", (n_rows,), least=-1, most=n_columns - 1)
        require_array("reason", self.reason, "i8", (n_rows,), least=-1, most=len(MEASURES) - 1)
        require_array("n_top", np.array(self.n_top), "i8", (), least=1, most=n_rows)
        require_array("agreement", np.array(self.agreement), "f8", (), least=0, most=1)


@dataclass(frozen=True)
class ViewScore:
    """Fitted views and how surprising their scores are.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 1)).astype(np.float32)
    >>> score = ViewScore.fit(np.hstack([x, -x]), CellLayout(2, ()), seed=0)
    >>> np.exp(-score.score(np.array([[1.0, -1.0], [2.0, 2.0]], dtype=np.float32))).round(3).tolist()
    [0.651, 0.0]
    """

    views: tuple[View, ...]
    surprise: CombinedSurprise
    """From the scores of the views to one."""
    layout: CellLayout
    kept: Int[np.ndarray, " kept"]
    """The training rows that the views know, ascending."""
    training_scores: Float[np.ndarray, " N"]
    """The score of each training row; out-of-fold for the rows that the views know."""
    row_keys: UInt64[np.ndarray, " N"]
    """Keys of the training rows, by which the training table is recognised."""
    core: Core | None = None
    """If the table was taken to contain anomalies: which rows the views learnt from, and what stands out."""
    seed: int = 0
    """What the folds were drawn with."""
    likeness: Likeness | None = None
    """The rows that a user has judged, if there are any."""

    @classmethod
    @single_thread("blas")
    def fit(
        cls,
        x: Float[np.ndarray, "N D"],
        layout: CellLayout,
        seed: int,
        kinds: tuple[type[View], ...] | None = None,
        advance: Callable[[float], None] = lambda _: None,
    ) -> ViewScore:
        """Learn from encoded training rows; ``advance`` is told the rows that were scored."""
        kept = rows_to_keep(x, layout, seed)
        known = x[kept]
        views, by_view = fit_views(known, layout, seed, kinds, advance)
        surprise, out_of_fold = CombinedSurprise.fit(by_view)
        result = cls(views, surprise, layout, kept, np.empty(len(x)), row_keys(x), seed=seed)
        result.training_scores[kept] = out_of_fold
        rest = np.setdiff1d(np.arange(len(x)), kept)
        result.training_scores[rest] = result.score(x[rest], advance)
        return result

    @property
    def n_calibration(self) -> int:
        """Training rows that scores are compared with; smaller shares than one of them come from the fitted tail."""
        return len(self.surprise.whole.scores)

    @property
    def rows(self) -> Float[np.ndarray, "kept D"]:
        """The encoded training rows that the views know, with gaps for cells that could not be read."""
        return self.nearest.rows

    @property
    def nearest(self) -> NearestInRanges:
        """The view that finds similar rows."""
        return next(view for view in self.views if isinstance(view, NearestInRanges))

    def require_sound(self, n_rows: int) -> None:
        """Raise a ValueError unless all rows can be scored; ``n_rows`` is that of the training table."""
        require_rows(self.rows, self.layout)
        require_array("kept", self.kept, "i8", (len(self.rows),), least=0, most=n_rows - 1, ascending=True)
        require_array("training_scores", self.training_scores, "f8", (n_rows,), least=0)
        require_array("row_keys", self.row_keys, "u8", (n_rows,), most=np.inf)
        for view in self.views:
            view.require_sound(self.layout)
        for surprise in (*self.surprise.views, self.surprise.whole):
            surprise.require_sound()
        if self.core is not None:
            self.core.require_sound(n_rows, self.layout.n_features)

    @single_thread("blas")
    def score(
        self, x: Float[np.ndarray, "n D"], advance: Callable[[float], None] = lambda _: None
    ) -> Float[np.ndarray, " n"]:
        """The score of new rows."""
        scores = np.empty(len(x))
        for start in range(0, len(x), _ROWS_AT_ONCE):
            block = x[start : start + _ROWS_AT_ONCE]
            found = self.surprise.score(self._scores(block))
            scores[start : start + _ROWS_AT_ONCE] = self._judged(block, found)
            advance(len(block))
        return scores

    def score_training_rows(self, x: Float[np.ndarray, "n D"], rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The score of rows that are training rows with these numbers."""
        place = np.searchsorted(self.kept, rows).clip(max=len(self.kept) - 1)
        return self._judged(x, self.training_scores[rows], np.where(self.kept[place] == rows, place, -1))

    def score_rows(self, x: Float[np.ndarray, "n D"], advance: Callable[[float], None]) -> RowScores:
        """The scores of new rows, or of the training table."""
        if self.is_training_table(x):
            scores = self.score_training_rows(x, np.arange(len(x)))
            advance(len(x))
            return RowScores(scores[:, None], scores, np.arange(len(x)))
        scores = self.score(x, advance)
        return RowScores(scores[:, None], scores, np.full(len(x), -1))

    def p_values(self, scored: RowScores) -> Float[np.ndarray, " n"]:
        """The share of normal rows that are at least as odd."""
        return np.exp(-scored.score)

    def is_training_table(self, x: Float[np.ndarray, "n D"]) -> bool:
        """True if these are all training rows in their order."""
        return len(x) == len(self.row_keys) and bool((row_keys(x) == self.row_keys).all())

    def find(self, x: Float[np.ndarray, "n D"]) -> Int[np.ndarray, " n"]:
        """The first training row that equals each row; -1 for none."""
        order = np.argsort(self.row_keys, kind="stable")
        keys = row_keys(x)
        place = np.searchsorted(self.row_keys, keys, sorter=order).clip(max=len(order) - 1)
        return np.where(self.row_keys[order[place]] == keys, order[place], -1)

    @single_thread("blas")
    def by_view(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "V n"]:
        """The surprise of each view, the mean over its members."""
        return self.surprise.by_view(self._scores(x)).mean(axis=2)

    @single_thread("blas")
    def explain(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n V D"]:
        """The share of each cell in the score in each view; the sum over views and cells is 1, or 0 without surprise.

        Each view's share of the score is proportional to the exponential of half its surprise, as in the combination.
        Within a view, a cell's share is proportional to how much less odd the row would be without it; if no cell makes
        a difference, all shares are equal.
        """
        surprises = self.by_view(x)
        parts = np.exp((surprises - surprises.max(axis=0)) / 2) * surprises
        falls = np.stack([view.explain(as_seen(view, x, self.rows)) for view in self.views], axis=1)
        cells = np.where(falls.sum(axis=2, keepdims=True) > 0, falls, 1.0)
        shares = cells / cells.sum(axis=2, keepdims=True) * parts.T[:, :, None]
        total = shares.sum(axis=(1, 2), keepdims=True)
        return np.where(total > 0, shares / np.where(total > 0, total, 1.0), 0.0)

    def without(self, training_rows: Int[np.ndarray, " n"]) -> ViewScore:
        """The score as if its views had not seen some of the training rows, for explaining these rows."""
        rest = ~np.isin(self.kept, training_rows)
        rows = self.rows[rest]
        score = replace(self, views=tuple(view.of_rows(rows, self.layout) for view in self.views), kept=self.kept[rest])
        return (
            score if self.likeness is None else replace(score, likeness=replace(self.likeness, nearest=score.nearest))
        )

    def judged_by(self, feedback: Feedback) -> ViewScore:
        """The score after a user's judgements: rejected training rows have left the views."""
        keys = row_keys(feedback.rows)
        latest = dict(zip(keys.tolist(), feedback.is_anomaly.tolist(), strict=True))
        rejected = [key for key, is_anomaly in latest.items() if is_anomaly]
        score = self
        if rejected:
            is_rejected = np.isin(row_keys(self.rows), np.array(rejected, dtype=np.uint64))
            score = self.without(self.kept[is_rejected]) if is_rejected.any() else self
        rows = far_off(feedback.rows, without_unreadable(self.rows))
        distances = score.surprise.views[next(place for place, v in enumerate(score.views) if v is score.nearest)]
        return replace(score, likeness=Likeness(replace(feedback, rows=rows), score.nearest, distances))

    def known_anomalies(self, x: Float[np.ndarray, "n D"]) -> Int[np.ndarray, " n"]:
        """The record of the rejected row that each new row is like, 0 for none."""
        if self.likeness is None:
            return np.zeros(len(x), dtype=np.int64)
        like = self.likeness.find(as_seen(self.nearest, x, self.rows))[0]
        feedback = self.likeness.feedback
        return np.where((like >= 0) & feedback.is_anomaly[like], feedback.record[like], 0)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays by name, for a file, without :attr:`rows`; :meth:`from_arrays` gives the score back.

        What a user has judged is not among them.
        """
        arrays = {"whole.scores": self.surprise.whole.scores, "whole.tail": self.surprise.whole.tail}
        arrays |= {"kept": self.kept, "training_scores": self.training_scores, "row_keys": self.row_keys}
        arrays |= {"seed": np.array(self.seed), "cardinalities": np.array(self.layout.cardinalities, dtype=np.int64)}
        for place, (view, surprise) in enumerate(zip(self.views, self.surprise.views, strict=True)):
            names = [field.name for field in fields(view) if field.name != "rows"]
            arrays |= {f"{place}.{name}": getattr(view, name) for name in names}
            arrays |= {f"{place}.surprise.scores": surprise.scores, f"{place}.surprise.tail": surprise.tail}
        if self.core is not None:
            arrays |= {"core.stands_out": self.core.stands_out, "core.reason": self.core.reason}
            arrays |= {"core.wrong_cell": self.core.wrong_cell}
            arrays |= {"core.agreement": np.array([self.core.n_top, self.core.agreement])}
        return arrays

    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, np.ndarray],
        rows: Float[np.ndarray, "kept D"],
        layout: CellLayout,
        kinds: tuple[type[View], ...] | None = None,
    ) -> ViewScore:
        """Rebuild a score from :meth:`to_arrays`; ``kinds`` are the view classes that it was fitted with."""
        if kinds is None:
            kinds = views_for(layout)
            if f"{len(VIEWS)}.columns" not in arrays:  # fitted before there was a view of times
                kinds = VIEWS

        def surprise(name: str) -> Surprise:
            return Surprise(arrays[f"{name}.scores"], arrays[f"{name}.tail"])

        def view(place: int, kind: type[View]) -> View:
            names = [field.name for field in fields(kind)]
            return kind(**{name: rows if name == "rows" else arrays[f"{place}.{name}"] for name in names})

        core = None
        if "core.reason" in arrays:
            n_top, agreement = arrays["core.agreement"].tolist()
            stands_out, reason = arrays["core.stands_out"], arrays["core.reason"]
            wrong_cell = arrays.get("core.wrong_cell", np.full(len(reason), -1))  # format 8 has none
            core = Core(stands_out, reason, wrong_cell, int(n_top), agreement)
        if "cardinalities" in arrays:  # judged rows may have more categories than the views know
            known = arrays["cardinalities"]
            require_array("cardinalities", known, "i8", (len(layout.cardinalities),), least=0)
            if (known > np.array(layout.cardinalities)).any():
                raise ValueError("cardinalities are those of other columns")
            layout = replace(layout, cardinalities=tuple(known.tolist()))
        seed = arrays.get("seed", np.array(0))
        require_array("seed", seed, "i8", (), least=0, most=2.0**63)
        return cls(
            tuple(view(place, kind) for place, kind in enumerate(kinds)),
            CombinedSurprise(tuple(surprise(f"{place}.surprise") for place in range(len(kinds))), surprise("whole")),
            layout,
            arrays["kept"],
            arrays["training_scores"],
            arrays["row_keys"],
            core,
            int(seed),
        )

    def _judged(self, x: np.ndarray, scores: np.ndarray, self_index: np.ndarray | None = None) -> np.ndarray:
        if self.likeness is None:
            return scores
        return self.likeness.judge(as_seen(self.nearest, x, self.rows), scores, self_index)

    def _scores(self, x: np.ndarray) -> list[np.ndarray]:
        return [view.score(as_seen(view, x, self.rows)) for view in self.views]


def rows_to_keep(x: Float[np.ndarray, "N D"], layout: CellLayout, seed: int) -> Int[np.ndarray, " kept"]:
    """The training rows that the views compare with, ascending: all, or a random sample of them.

    Comparing all pairs of many rows takes long. A tree finds the nearest of many rows fast if the columns depend on one
    another, and that is where more rows help: the distance from the nearest of n rows that spread in d directions falls
    as the d-th root of n rises.
    """
    sample = np.random.default_rng(seed).permutation(len(x))
    if len(x) > MANY_ROWS:
        rows = without_unreadable(x[sample[:MANY_ROWS]])
        views = (kind(rows, np.array(layout.n_numeric)) for kind in (NearestInRanges, NearestInQuantiles))
        sample = sample[: MOST_ROWS if all(view.tree_pays() for view in views) else MANY_ROWS]
    return np.sort(sample)


def fit_views(
    x: Float[np.ndarray, "N D"],
    layout: CellLayout,
    seed: int,
    kinds: tuple[type[View], ...] | None = None,
    advance: Callable[[float], None] = lambda _: None,
) -> tuple[tuple[View, ...], list[Float[np.ndarray, " N"]]]:
    """Views fitted on encoded rows, and the out-of-fold scores of these rows under each of them."""
    kinds = views_for(layout) if kinds is None else kinds
    left_out = left_out_rows(len(x), min(N_FOLDS, len(x)), seed)
    fitted = []
    for place, kind in enumerate(kinds):
        fitted.append(_fit_view(kind, x, layout, left_out))
        advance(len(x) * (place + 1) // len(kinds) - len(x) * place // len(kinds))
    return tuple(view for view, _ in fitted), [scores for _, scores in fitted]


def _fit_view(kind: type[View], x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[View, np.ndarray]:
    """Fit a view to encoded training rows; to all but views of single cells, their unreadable cells are gaps.

    The rows with such cells are scored like new rows, so that they are as odd as these.
    """
    if issubclass(kind, CellView):
        return kind.fit(x, layout, left_out)
    known = without_unreadable(x)
    view, scores = kind.fit(known, layout, left_out)
    odd = np.isinf(x).any(axis=1)
    if odd.any():
        scores[odd] = view.score(as_seen(view, x[odd], known)).mean(axis=1)
    return view, scores


def as_seen(view: View, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """New rows as a view sees them: only views of single cells know what to make of an unreadable one."""
    return x if isinstance(view, CellView) else far_off(x, rows)


def far_off(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows with numbers for unreadable cells, further from all training ``rows`` than these are from one another."""
    if not np.isinf(x).any():
        return x
    highest, lowest = np.fmax.reduce(rows, axis=0), np.fmin.reduce(rows, axis=0)
    return np.where(np.isinf(x), np.nan_to_num(2 * highest - lowest), x).astype(np.float32)
