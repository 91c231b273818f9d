"""The score of a table that contains the anomalies: views learn from its core, the rows that look ordinary.

Views that learn from the whole table learn its anomalies too: of a group of equal anomalies, each has a near neighbour
in the group. So a first pass that such a group cannot fool (:mod:`nptad.scoring.first_pass`) ranks the rows, and the
views are fitted on the lower part of them. Rows of this core are scored as if they had been left out, all others as new
rows.

How large should the core be? A small one leaves out large groups of anomalies; a large one shows better what is odd
among normal rows of many kinds. No signal that needs no labels has told which of both a table has, so the surprises on
a small and a large core are averaged, and their mean is added to that of the first pass. New rows are compared with the
small core alone: few anomalies are left in it.

How many rows stand out is read off the sum of this and the mean that gives the largest surprise the most weight. By the
latter alone, too many rows of clean tables stand out; without it, anomalies that few views see do not.

A category whose rows all differ from the others may be a group of anomalies, or just another kind. In the ranking it is
the former, unless a tenth of the rows have it: that finds more anomalies in real tables. To stand out, or to be odd as
a new row, a row of it must differ from the others of its category, unless hardly any row has it. As many of the highest
rows stand out as do so nearly all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Int

from nptad.scoring.first_pass import MEASURES, first_pass
from nptad.scoring.folds import row_keys
from nptad.scoring.gross_errors import gross_errors
from nptad.scoring.standing_out import FALSE_DISCOVERY_RATE, standing_out
from nptad.scoring.surprise import CombinedSurprise, Surprise, combine, surprise_among_others
from nptad.scoring.view_score import Core, ViewScore, as_seen, far_off, fit_views, rows_to_keep
from nptad.scoring.views import View
from nptad.scoring.views.cells import CellView
from nptad.tables.layout import CellLayout, without_unreadable
from nptad.training.parallel import single_thread

CORES = (0.6, 0.9)
"""Shares of the table that the small and the large core are."""

_FEWEST = 10
"""Rows of a core at least, if the table has as many."""

_FREQUENT = 0.1
"""A category that this share of the rows has is ordinary, however different its rows are."""

_SEEN = 0.02
"""A value that this share of the rows has was seen, also if no row of the core has it. Otherwise the end of a short
scale would be called a value that no ordinary row has: its rows are far from the others, so that a small core lacks
them."""

_KIND, _FEWEST_OF_KIND = 0.005, 20
"""A category that this share of the rows has, and so many or 2 %, is a kind of rows: it does not stand out as a whole,
and new rows may have it. One that fewer have may be a slip (:mod:`nptad.scoring.gross_errors`)."""

_COMPARED = (0.5, 0.9)
"""The quantiles by which the surprises of a category are compared with those of the table."""

_TOP = 10
"""Rows that the agreement of the cores is measured on, if fewer stand out."""

_ROWS_AT_ONCE = 2048


@single_thread("blas")
def fit_core(
    x: Float[np.ndarray, "N D"],
    layout: CellLayout,
    seed: int,
    advance: Callable[[float], None] = lambda _: None,
    zeros: Float[np.ndarray, " D1"] | None = None,
) -> ViewScore:
    """Score encoded rows of one table that contains anomalies; ``advance`` is told the rows that were scored.

    Rows with gross errors (:mod:`nptad.scoring.gross_errors`, which says what ``zeros`` are) stand out and have the
    highest scores. They are set aside first: in a column with one huge number, all others would be alike.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    >>> x[:20] = 6 + 0.1 * x[:20]  # a group that is far away
    >>> score = fit_core(x, CellLayout(2, ()), seed=0)
    >>> np.flatnonzero(score.core.stands_out).tolist() == list(range(20)), len(score.kept)
    (True, 180)
    """
    evidence, wrong_cell = gross_errors(x, layout, zeros)
    ordinary = np.flatnonzero(evidence == 0)
    advance(len(x) - len(ordinary))
    score = _fit_ordinary(x[ordinary], layout, seed, advance)
    assert score.core is not None
    scores, stands_out = evidence + max(np.log(len(x) + 1), score.training_scores.max()), evidence > 0
    scores[ordinary], stands_out[ordinary] = score.training_scores, score.core.stands_out
    reason = np.full(len(x), len(MEASURES) - 1)
    reason[ordinary] = score.core.reason
    return replace(
        score,
        kept=ordinary[score.kept],
        training_scores=scores,
        row_keys=row_keys(x),
        core=replace(score.core, stands_out=stands_out, reason=reason, wrong_cell=wrong_cell),
    )


def _fit_ordinary(
    x: Float[np.ndarray, "N D"], layout: CellLayout, seed: int, advance: Callable[[float], None]
) -> ViewScore:
    """Score the rows of a table without gross errors."""
    known = rows_to_keep(x, layout, seed)
    measures = first_pass(far_off(x, without_unreadable(x)), layout, seed)
    order = known[np.argsort(_mean_surprise(measures, known)[known], kind="stable")]
    codes = x[:, layout.n_numeric :]
    cores = [_core(order, codes, share, _FREQUENT * len(order)) for share in CORES]
    kept = _core(order, codes, CORES[0], _fewest_of_kind(len(order)))

    first = _mean_surprise(measures, cores[-1])
    fitted = [_fit_views(x, layout, rows, seed, lambda n: advance(n / len(CORES))) for rows in cores]
    means = [by_view.mean(axis=0) for _, _, by_view in fitted]
    surprises = first + np.mean(means, axis=0)
    weighted = surprises + np.mean([combine(by_view) for _, _, by_view in fitted], axis=0)
    stands_out = _stand_out(surprises, weighted, codes)

    n_top = min(len(x), max(_TOP, int(stands_out.sum())))
    top = _highest(surprises, n_top)
    agreement = min(np.isin(_highest(first + mean, n_top), top).mean() for mean in means)
    if np.array_equal(kept, cores[0]):
        views, combined, by_view = fitted[0]
    else:
        views, combined, by_view = _fit_views(x, layout, kept, seed)
    measure = (measures.argsort(axis=1).argsort(axis=1)).argmax(axis=0)
    return ViewScore(
        views,
        replace(combined, whole=Surprise.fit(combine(by_view)[~stands_out])),
        layout,
        kept,
        _as_logs(surprises, stands_out),
        row_keys(x),
        Core(
            stands_out,
            np.where(np.isin(np.arange(len(x)), kept), -1, measure),
            np.full(len(x), -1),
            n_top,
            float(agreement),
        ),
        seed,
    )


def _core(
    order: Int[np.ndarray, " known"], codes: Float[np.ndarray, "N D2"], share: float, fewest: float
) -> Int[np.ndarray, " core"]:
    """The first rows up to a share, and up to half of it the first of each category with so many rows; ascending.

    Otherwise a category of which all rows differ from the others, such as the suites of a hotel, would stand out.
    """
    rows = order[: max(min(_FEWEST, len(order)), int(share * len(order)))]
    for column in codes[order].T:
        categories, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        for category in categories[counts >= fewest]:
            those = order[column == category]
            rows = np.union1d(rows, those[: int(share / 2 * len(those))])
    return np.sort(rows)


def _mean_surprise(measures: Float[np.ndarray, "V N"], rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, " N"]:
    """The mean over measures of each row's surprise among some of the rows."""
    return np.mean([Surprise.fit(values[rows]).apply(values) for values in measures], axis=0)


def _fit_views(
    x: Float[np.ndarray, "N D"],
    layout: CellLayout,
    core: Int[np.ndarray, " core"],
    seed: int,
    advance: Callable[[float], None] = lambda _: None,
) -> tuple[tuple[View, ...], CombinedSurprise, Float[np.ndarray, "V N"]]:
    """Views fitted on a core, their surprise, and the surprise of every row of the table in each view."""
    views, out_of_fold = fit_views(x[core], layout, seed, advance=advance)
    values = [_frequent_values(column, _SEEN * len(x)) for column in x.T]
    views = tuple(view.knowing(values) if isinstance(view, CellView) else view for view in views)
    combined, _ = CombinedSurprise.fit(out_of_fold)
    surprises = np.empty((len(views), len(x)))
    surprises[:, core] = [surprise_among_others(scores) for scores in out_of_fold]
    rest = np.setdiff1d(np.arange(len(x)), core)
    for start in range(0, len(rest), _ROWS_AT_ONCE):
        block = rest[start : start + _ROWS_AT_ONCE]
        scores = [view.score(as_seen(view, x[block], without_unreadable(x[core]))) for view in views]
        surprises[:, block] = combined.by_view(scores).mean(axis=2)
        advance(len(block))
    return views, combined, surprises


def _frequent_values(column: Float[np.ndarray, " N"], fewest: float) -> Float[np.ndarray, " V"]:
    values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    return values[counts >= fewest]


def _fewest_of_kind(n_rows: int) -> float:
    return max(_KIND * n_rows, min(_FEWEST_OF_KIND, _SEEN * n_rows))


def _stand_out(
    surprises: Float[np.ndarray, " N"], weighted: Float[np.ndarray, " N"], codes: Float[np.ndarray, "N D2"]
) -> Bool[np.ndarray, " N"]:
    """The highest rows, as many as nearly all of them are odd among their kind too; ``weighted`` says how many are."""
    n_odd = int(standing_out(_within_categories(weighted, codes)).sum())
    highest = _highest(surprises, n_odd)
    among_kind = np.isin(highest, _highest(_within_categories(surprises, codes), n_odd))
    sure = np.flatnonzero(np.cumsum(among_kind) >= (1 - FALSE_DISCOVERY_RATE) * np.arange(1, n_odd + 1))
    found = np.zeros(len(surprises), dtype=bool)
    found[highest[: sure[-1] + 1 if len(sure) else 0]] = True
    return found


def _within_categories(surprises: Float[np.ndarray, " N"], codes: Float[np.ndarray, "N D2"]) -> Float[np.ndarray, " N"]:
    """Surprises as they would be if each kind of rows were as surprising as the table.

    The rows of a kind may all be far from the core. What is odd about one of them is how it differs from the others.
    """
    middle, upper = np.quantile(surprises, _COMPARED)
    within = surprises.copy()
    for column in codes.T:
        for category in _frequent_values(column, _fewest_of_kind(len(column))):
            rows = column == category
            its_middle, its_upper = np.quantile(surprises[rows], _COMPARED)
            if its_middle > middle:
                steepness = min(1.0, (upper - middle) / max(its_upper - its_middle, 1e-12))
                moved = middle + (surprises[rows] - its_middle) * steepness
                within[rows] = np.minimum(within[rows], moved)
    return within


def _highest(scores: Float[np.ndarray, " N"], n_rows: int) -> Int[np.ndarray, " n"]:
    return np.argsort(-scores, kind="stable")[:n_rows]


def _as_logs(surprises: Float[np.ndarray, " N"], stands_out: Bool[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Minus the log of the share of normal rows that are at least as odd; what stands out is judged by their tail."""
    normal = Surprise.fit(surprises[~stands_out])
    highest = surprises[~stands_out].max(keepdims=True)
    beyond = normal.smooth(highest) + normal.tail_surprise(surprises) - normal.tail_surprise(highest)
    return np.where(stands_out, beyond, normal.smooth(surprises))
