"""Columns of a batch that differ from training beyond chance.

Each column has a few tests: its missing cells and unreadable cells (Fisher's exact test), its numbers (Kolmogorov and
Smirnov), its values never seen (as many are expected as values that occurred once in training: Good and Turing), and
the shares of its categories (chi-square). A change must be improbable, corrected for the number of tests, and concern
at least a twentieth of the cells: in many rows, a difference that explains no flag is beyond chance as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import chi2, fisher_exact, ks_2samp

from nptad.tables.layout import UNSEEN, CellLayout

FALSE_DRIFT = 0.001
"""Rate at which a batch like the training rows is said to differ in some column."""

FEWEST_ROWS = 20
"""Fewer rows show no distribution."""

MOST_ROWS = 20_000
"""Rows compared at most."""

_LEAST_SHARE = 0.05  # of missing, unreadable or unseen cells that must be more, or fewer, than in training
_LEAST_DISTANCE = 0.1  # between the distributions: the largest share of the cells that would have to change
_EXPECTED = 5  # of each category in both tables, for chi-square
_CLUSTER = 3  # copies that a new value may come in

Kind = Literal["unreadable", "unseen", "missing", "numbers", "categories"]


@dataclass(frozen=True)
class Change:
    """How a column of a batch differs from training."""

    column: int
    """Its place in an encoded row."""
    kind: Kind
    """What differs: the share of such cells, or the distribution."""
    p_value: float
    count: int
    """Cells of this kind in the batch; of categories, of the category that changed most."""
    of: int
    """The cells that they are counted among."""
    before: float
    """Their share in training."""
    category: int = UNSEEN
    """The category that changed most."""


@dataclass(frozen=True)
class TrainingCells:
    """What is known about the columns of the training table."""

    rows: Float[np.ndarray, "kept D"]
    """Training rows, unreadable numbers as gaps."""
    missing: Int[np.ndarray, " D"]
    """Missing cells of each column in the whole table."""
    unreadable: Int[np.ndarray, " D"]
    """Unreadable cells."""
    n_rows: int
    """Rows of the whole table."""
    layout: CellLayout
    lumped: Float[np.ndarray, " D"]
    """Code that rare categories share, NaN if there is none."""
    is_open: Bool[np.ndarray, " D"]
    """Whether new categories have it as well."""


def find_changes(x: Float[np.ndarray, "n D"], training: TrainingCells) -> list[Change]:
    """The changes of a batch of encoded rows, at most one of each column, the first columns first.

    >>> before = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    >>> none = np.zeros(2, dtype=int)
    >>> training = TrainingCells(before, none, none, 400, CellLayout(2, ()), np.full(2, np.nan), none > 0)
    >>> batch = before[:100] + np.array([0.0, 2.0])
    >>> [(change.column, change.kind) for change in find_changes(batch, training)]
    [(1, 'numbers')]
    """
    if len(x) < FEWEST_ROWS:
        return []
    most = min(MOST_ROWS, max(len(training.rows), FEWEST_ROWS))
    x = x[:: -(-len(x) // most)]
    found = [_tests(x, j, training) for j in range(x.shape[1])]
    enough = FALSE_DRIFT / max(1, sum(map(len, found)))
    changes = []
    for tests in found:
        real = [change for change, is_large in tests if is_large and change.p_value <= enough]
        changes += real[:1]
    return changes


def _tests(x: np.ndarray, j: int, training: TrainingCells) -> list[tuple[Change, bool]]:
    """The tests of a column, the plainest change first, and whether the change would be large enough."""
    column, n = x[:, j], training.n_rows
    observed = column[np.isfinite(column)]
    known = training.rows[:, j]
    known = known[~np.isnan(known)]
    n_missing, n_unreadable = int(training.missing[j]), int(training.unreadable[j])
    is_number = j < training.layout.n_numeric
    tests = []
    if is_number:
        tests.append(_count(j, "unreadable", int(np.isinf(column).sum()), len(column), n_unreadable, n))
    else:  # where unreadable cells are categories that training did not see
        tests.append(_unseen(j, observed, known, training.lumped[j], bool(training.is_open[j])))
    tests.append(_count(j, "missing", int(np.isnan(column).sum()), len(column), n_missing, n))
    if len(observed) and len(known):
        tests.append(_numbers(j, observed, known) if is_number else _shares(j, observed, known, training.lumped[j]))
    return tests


_Test = tuple[Change, bool]


def _count(j: int, kind: Kind, count: int, of: int, before: int, n: int) -> _Test:
    change = Change(j, kind, _fisher(count, of, before, n), count, of, before / n)
    return change, abs(count / of - before / n) >= _LEAST_SHARE


def _fisher(count: int, of: int, before: int, n: int) -> float:
    return float(fisher_exact([[count, of - count], [before, n - before]])[1]) if count or before else 1.0


def _unseen(j: int, observed: np.ndarray, known: np.ndarray, lumped: float, is_open: bool) -> _Test:
    """New categories against as many as are expected: those that occurred once in training, and unreadable cells.

    Where new ones share a code with rare ones, these are expected beside them: with each category that is as rare as
    the rarest with a code of its own. A new category may come in several copies, so that fewer values are counted than
    there are.
    """
    n, of = max(1, len(known)), len(observed)
    counts = np.unique(known[(known != lumped) & (known != UNSEEN)], return_counts=True)[1]
    count = int(((observed == UNSEEN) | (is_open & (observed == lumped))).sum())
    expected = counts[counts <= (counts.min(initial=n) + 1 if is_open else 1)].sum()
    expected += (known == lumped).sum() + (known == UNSEEN).sum()
    p_value = _fisher(count // _CLUSTER, of // _CLUSTER, int(expected), n)
    before = float(expected / n)
    return Change(j, "unseen", p_value, count, of, before), of > 0 and count / of - before >= _LEAST_SHARE


def _numbers(j: int, observed: np.ndarray, known: np.ndarray) -> _Test:
    test = ks_2samp(observed, known, method="asymp")
    higher = float(np.median(observed)) > float(np.median(known))
    change = Change(j, "numbers", float(test.pvalue), int(higher), len(observed), 0.0)
    return change, bool(test.statistic >= _LEAST_DISTANCE)


def _shares(j: int, observed: np.ndarray, known: np.ndarray, lumped: float) -> _Test:
    """Chi-square over the categories that are frequent in both tables, the others together.

    Where rare categories share a code, only those are frequent that occur twice as often as the rarest with a code of
    its own: training chose which have one, so that these are somewhat rarer elsewhere.
    """
    observed, known = observed[observed >= 0], known[known >= 0]
    n_codes = int(max(observed.max(initial=0), known.max(initial=0))) + 1
    here, before = (np.bincount(cells.astype(np.int64), minlength=n_codes) for cells in (observed, known))
    share = len(observed) / (len(observed) + len(known))
    both = here + before
    frequent = (both * share >= _EXPECTED) & (both * (1 - share) >= _EXPECTED)
    if lumped == lumped:
        own = np.arange(n_codes) != lumped
        frequent &= own & (before >= 2 * before[own & (before > 0)].min(initial=len(known)))
    rest = [[counts[~frequent].sum()] for counts in (here, before)]
    table = np.array([np.append(here[frequent], rest[0]), np.append(before[frequent], rest[1])], dtype=float)
    if table[:, -1].sum() * min(share, 1 - share) < _EXPECTED:
        table = table[:, :-1]
    if table.shape[1] < 2:
        return Change(j, "categories", 1.0, 0, len(observed), 0.0), False
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    p_value = float(chi2.sf(((table - expected) ** 2 / expected).sum(), table.shape[1] - 1))
    shares = table / table.sum(axis=1, keepdims=True)
    differs = shares[0] - shares[1]
    codes = np.flatnonzero(frequent)
    most = int(np.abs(differs[: len(codes)]).argmax()) if len(codes) else 0
    change = Change(j, "categories", p_value, 0, len(observed), 0.0)
    if len(codes):
        code = int(codes[most])
        share_before = float(before[code] / len(known))
        change = Change(j, "categories", p_value, int(here[code]), len(observed), share_before, code)
    return change, bool(np.abs(differs).sum() / 2 >= _LEAST_DISTANCE)
