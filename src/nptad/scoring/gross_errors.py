"""Rows of one table with a gross error: a cell that alone gives the row away.

In a score that adds up many views, the evidence of a single cell is lost: there it is one view among many, and no view
can be more surprised than by one row in as many as there are. So single cells have a decision of their own, in seven
kinds: numbers far beyond the tail of their column, numbers far from what the others of their row determine, categories
that are rare where all others are frequent, times at such hours or on such weekdays, categories that contradict another
one, rows with many gaps where gaps are rare, and cells that cannot be read.

Each kind asks how many such rows the rest of the table lets expect by chance, times the columns that were looked at
(Bonferroni). Rows of which there are far more have a gross error, at a false discovery rate of 5 % for each kind. Only
few rows can have one: what many rows have is a group, for the views to judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, permutations

import numpy as np
from jaxtyping import Bool, Float, Int

from nptad.scoring.equations import left_over
from nptad.scoring.surprise import fit_tail
from nptad.scoring.views.times import DAY, FEWEST_PERIODS, hour_of_day, since_1970, weekday
from nptad.tables.layout import CellLayout

_RATE = 0.05
"""The false discovery rate of each kind."""

_MOST = 0.02
"""Share of the rows that can have the same kind of error in one column."""

_MOST_IN_ALL = 0.05
"""Share of the rows that can have a gross error at all: in wide tables, many have a rare value by nature."""

_MOST_RARE = 0.005
"""Share of the rows that can have rare categories of a column, or break a rule: what more rows do is no slip."""

_MOST_UNLIKE = 0.01
"""Share of the rows that can have many gaps, and of the cells of a column that can be unreadable: if there are more,
that is how the table is written."""

_MOST_GAPS = 0.1
"""Share of the cells of a column that can be missing if gaps are rare."""

_FEWEST = 20
"""Numbers that a column needs."""

_FEWEST_TOGETHER = 5
"""Rows that a category needs to say which category of another column goes with it."""

_GLANCE, _MOST_AT_A_GLANCE = 2000, 0.05
"""Rows that are looked at first, and the share of them that can contradict a rule that is looked at further."""

_TAIL, _FEWEST_BEYOND = 0.1, 10
"""Share of the numbers that a tail is fitted to, and how many they are at least."""

_STANDARD_ERRORS = 1.5
"""How many standard errors heavier than estimated tails are taken to be."""

_UNLIKELY = 0.4
"""Numbers of another sign expected for each one that there is, at most."""

_LEAST_STEPS = 10
"""How many times the smallest difference between two numbers all but a few are at least, if logs are looked at."""

_CANDIDATES, _LEAST_GAP = 3, 1.5
"""The widest gaps between neighbouring numbers of the tail that are looked at. Beyond one of them, numbers are at least
this many times as far from where the tail starts."""

_BROKEN = 20.0
"""How many times as much as in all other rows an equation leaves over in the rows that break it."""

_EQUAL = 0.001
"""The share of a column's spread that an equation leaves over at least in the other rows."""

_STEPS_OF_ROUNDING = 3
"""How many times the smallest difference between two numbers is no more than rounding."""


_Found = Iterator[tuple[Int[np.ndarray, " n"], int, float]]
"""Rows, the column of the cell that gives them away, -1 for several, and the evidence."""


def gross_errors(
    x: Float[np.ndarray, "N D"], layout: CellLayout, zeros: Float[np.ndarray, " D1"] | None = None
) -> tuple[Float[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """The evidence that each encoded row has a gross error, 0 for none, and the column of its wrong cell.

    Evidence is minus the log of how many such rows are expected by chance for each one that there is, at least 3. The
    column is -1 if there is no error, or if the row has too many gaps.

    Parameters
    ----------
    x : ndarray
        Encoded rows.
    layout : CellLayout
        Which cells are numbers.
    zeros : ndarray, optional
        What 0 is encoded as in each number column. In columns without negative numbers, it is then also asked how many
        times smaller than the others a number is.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    >>> x[7, 1] = 100
    >>> evidence, wrong_cell = gross_errors(x, CellLayout(2, ()))
    >>> np.flatnonzero(evidence).tolist(), int(wrong_cell[7])
    ([7], 1)
    """
    numbers, codes = x[:, : layout.n_numeric].astype(np.float64), x[:, layout.n_numeric :]
    evidence, wrong_cell = np.zeros(len(x)), np.full(len(x), -1)
    kinds = (
        _far_numbers(numbers, zeros),
        _broken_equations(numbers, zeros),
        _rare_categories(codes, layout.n_numeric),
        _odd_times(numbers, layout),
        _contradictions(codes, layout.n_numeric),
        _many_gaps(x),
        _unreadable(x),
    )
    for rows, column, value in chain(*kinds):
        stronger = rows[evidence[rows] < value]
        evidence[stronger], wrong_cell[stronger] = value, column
    most = max(1, int(_MOST_IN_ALL * len(x)))
    if (evidence > 0).sum() > most:
        few = evidence > np.sort(evidence)[-most - 1]
        evidence, wrong_cell = np.where(few, evidence, 0.0), np.where(few, wrong_cell, -1)
    return evidence, wrong_cell


def _far_numbers(numbers: Float[np.ndarray, "N D1"], zeros: Float[np.ndarray, " D1"] | None) -> _Found:
    """Numbers far beyond either end of their column, far nearer to 0 than all others, or of another sign."""
    tails = []
    for j, column in enumerate(numbers.T):
        rows = np.flatnonzero(np.isfinite(column))
        rows = rows[np.argsort(column[rows], kind="stable")]
        if len(rows) >= _FEWEST:
            zero = np.nan if zeros is None else zeros[j]
            tails += [_Tail(j, rows, column[rows], zero), _Tail(j, rows[::-1], -column[rows[::-1]], -zero)]
            step = np.diff(np.unique(column[rows])).min(initial=np.inf)
            from_0 = column[rows] - zero
            # Logs mean something if all but a few numbers are many steps from 0.
            if from_0[0] >= 0 and from_0[int(_MOST * len(rows))] >= _LEAST_STEPS * step:
                logs = np.log(np.maximum(from_0, step / 2))
                tails.append(_Tail(j, rows[::-1], -logs[::-1], -np.log(0.6 * step), of_logs=True))
    for tail in tails:
        for n_far, expected in (tail.far_beyond(len(tails)), tail.of_another_sign(len(tails))):
            if n_far:
                yield tail.rows[-n_far:], tail.column, -np.log(expected / n_far)


def _broken_equations(numbers: Float[np.ndarray, "N D1"], zeros: Float[np.ndarray, " D1"] | None) -> _Found:
    """Numbers that are not the sum, or the product, that they are in nearly all rows.

    The last column of an equation is named first: it is most often the result. Each column of it is looked at, so that
    the count of columns is no less than that of the equations.
    """
    found = [(j, left, left * spread) for j, left, spread in left_over(numbers)]
    if zeros is not None:
        from_0 = numbers - zeros
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            logs = np.where(from_0 > 0, np.log(from_0), np.nan)
            for j, left, spread in left_over(logs):
                found.append((j, left, from_0[:, j] * -np.expm1(-left * spread)))
    for j, left, difference in reversed(found):
        step = np.diff(np.unique(numbers[np.isfinite(numbers[:, j]), j])).min(initial=np.inf)
        rows = np.flatnonzero(np.isfinite(left))
        off = np.where(np.abs(difference[rows]) <= _STEPS_OF_ROUNDING * step, 0.0, np.abs(left[rows])).clip(min=_EQUAL)
        order = np.argsort(off, kind="stable")
        most = max(1, int(_MOST_RARE * len(rows)))
        broken = np.flatnonzero(off[order[-most:]] >= _BROKEN * off[order[-most - 1 : -1]])
        if len(broken):
            n_broken = most - int(broken[0])
            ratio = n_broken / (len(rows) - n_broken) * len(found)
            if ratio <= _RATE:
                yield rows[order[-n_broken:]], j, -np.log(ratio)


@dataclass(frozen=True)
class _Tail:
    """One end of a column."""

    column: int
    rows: Int[np.ndarray, " n"]
    """The rows with a number."""
    ordered: Float[np.ndarray, " n"]
    """Their numbers, ascending towards the end."""
    zero: float
    """Few numbers are expected beyond this one if the others are not: 0, or the log of half a step; NaN for none."""
    of_logs: bool = False
    """Whether the numbers are minus the logs of those of the column."""

    def far_beyond(self, n_tails: int) -> tuple[int, float]:
        """How many of the last numbers are far beyond the others, and how many such are expected by chance."""
        ordered, n = self.ordered, len(self.ordered)
        most = max(1, int(_MOST * n))
        excess = ordered[-most - 1 :] - ordered[int((1 - _TAIL) * n) - 1]
        if excess[-1] <= 0:
            return 0, np.inf
        gaps = excess[1:] / np.maximum(excess[:-1], 1e-12 * excess[-1])
        for place in sorted(np.argsort(-gaps, kind="stable")[:_CANDIDATES]):  # the most rows first
            n_far = most - int(place)
            if gaps[place] >= _LEAST_GAP:
                expected = n_tails * self._expected(n_far, heavy=True)
                if expected <= _RATE * n_far:
                    return n_far, expected
        return 0, np.inf

    def of_another_sign(self, n_tails: int) -> tuple[int, float]:
        """The same for numbers that are negative, or 0, where the others are positive, or the other way round.

        The chance that few have this sign is judged as for a rare category. The tail of the others must not let expect
        them, unless it ends like a scale; that of logs is no heavier than an exponential one, or the numbers themselves
        would fall off as no power.
        """
        n_far = int((self.ordered > self.zero).sum())
        if not 0 < n_far <= _MOST * len(self.ordered):
            return 0, np.inf
        expected = n_tails * n_far**2 / (len(self.ordered) - n_far)
        if expected > _RATE * n_far:
            return 0, np.inf
        unlikely = self._expected(n_far, heavy=not self.of_logs) <= _UNLIKELY * n_far or self._is_scale(n_far)
        return (n_far, expected) if unlikely else (0, np.inf)

    def _is_scale(self, n_far: int) -> bool:
        """Whether the others are steps of one size of which the last is about as frequent as the one before."""
        values, counts = np.unique(self.ordered[:-n_far], return_counts=True)
        steps = np.diff(values)
        return len(steps) > 0 and steps.max() < 1.5 * steps.min() and counts[-1] >= max(_FEWEST, counts[-2] / 2)

    def _expected(self, n_far: int, heavy: bool) -> float:
        """How many numbers as far out as the last ``n_far`` the others let expect.

        Their tail is exponential, or if it can be ``heavy``, a generalised Pareto distribution with a shape larger than
        the estimate by its error.
        """
        others, far = self.ordered[:-n_far], self.ordered[-n_far]
        if others[0] == others[-1]:  # as for a rare category
            return n_far**2 / len(others)
        values, counts = np.unique(others, return_counts=True)
        start = others[-1 - max(int(_TAIL * len(others)), _FEWEST_BEYOND)]
        in_steps = values[-1] - values[-2] < 1.5 * np.diff(values).min()
        if start == values[-1] or (in_steps and counts[-1] >= _FEWEST_BEYOND):  # a sharp end
            start = values[-2]
        beyond = others[others > start] - start
        if len(beyond) < _FEWEST_BEYOND:
            return np.inf
        n_copies = 1 if in_steps else int(counts[values > start].min())  # what comes in copies counts once
        scale, shape = fit_tail(beyond[::n_copies], _STANDARD_ERRORS)
        if shape == 0 or not heavy:
            scale, shape = beyond.mean() * (1 + _STANDARD_ERRORS / np.sqrt(len(beyond) / n_copies)), 0.0
        excess = (far - start) / scale
        return float(len(beyond) * np.exp(-min(np.log1p(shape * excess) / shape if shape > 0 else excess, 600.0)))


def _rare_categories(codes: Float[np.ndarray, "N D2"], first_column: int) -> _Found:
    """Categories that few rows have in columns whose other categories are all frequent.

    If nothing is known of how frequent a category is, not even the order of magnitude, the chance that it is this much
    rarer than the next one is about the ratio of both.
    """
    for j, column in enumerate(codes.T):
        known = np.flatnonzero(~np.isnan(column))
        _, which, counts = np.unique(column[known], return_inverse=True, return_counts=True)
        yield from _rare(known, which, counts, first_column + j, codes.shape[1])


def _odd_times(numbers: Float[np.ndarray, "N D1"], layout: CellLayout) -> _Found:
    """Times at an hour, or on a weekday, that few rows have where all others are frequent.

    An hour counts with half of its neighbours, so that a minute after the usual hours is not odd.
    """
    for column, origin, unit in layout.times:
        known = np.flatnonzero(np.isfinite(numbers[:, column]))
        seconds = since_1970(numbers[known, column], origin, unit)
        days = np.unique(seconds // DAY)
        if len(days) >= FEWEST_PERIODS:
            hours = hour_of_day(seconds)
            counts = np.bincount(hours, minlength=24)
            beside = (np.roll(counts, 1) + np.roll(counts, -1)) / 2
            used, which = np.unique(hours, return_inverse=True)
            yield from _rare(known, which, (counts + beside)[used], column, 2 * len(layout.times))
        if len(np.unique(days // 7)) >= FEWEST_PERIODS:
            _, which, counts = np.unique(weekday(seconds), return_inverse=True, return_counts=True)
            yield from _rare(known, which, counts, column, 2 * len(layout.times))


def _rare(
    rows: Int[np.ndarray, " n"],
    which: Int[np.ndarray, " n"],
    counts: Float[np.ndarray, " C"],
    column: int,
    n_looks: int,
) -> _Found:
    """The rows of the categories that are rare where all others are frequent; ``which`` is the category of each row."""
    ordered = np.sort(counts)
    rare = np.flatnonzero(np.cumsum(ordered) <= max(1, _MOST_RARE * len(rows)))
    rare = rare[rare + 1 < len(ordered)]
    ratios = ordered[rare] / ordered[rare + 1] * n_looks
    few = np.flatnonzero(ratios <= _RATE)
    if len(few):
        yield rows[counts[which] <= ordered[rare[few[-1]]]], column, -np.log(ratios[few[-1]])


def _contradictions(codes: Float[np.ndarray, "N D2"], first_column: int) -> _Found:
    """Categories that differ from the one that goes with another column's category in all but a few rows.

    Such as the country of a city. How many rows differ is compared with how many would if the most frequent category
    went with all, as a rare category is with the next one.
    """
    n_columns = codes.shape[1]
    if n_columns * (n_columns - 1) > _RATE * len(codes):  # no rule could be sure enough
        return
    for a, b in permutations(range(n_columns), 2):
        known = np.flatnonzero(~np.isnan(codes[:, a]) & ~np.isnan(codes[:, b]))
        pair = codes[known, a].astype(np.int64), codes[known, b].astype(np.int64)
        glance, _ = _differing(pair[0][:_GLANCE], pair[1][:_GLANCE])
        if glance.sum() > _MOST_AT_A_GLANCE * len(glance):
            continue
        differs, n_without = _differing(*pair)
        n_differing = int(differs.sum())
        if 0 < n_differing <= max(1, _MOST_RARE * len(known)):
            ratio = n_differing / max(1, n_without) * n_columns * (n_columns - 1)
            if ratio <= _RATE:
                yield known[differs], first_column + b, -np.log(ratio)


def _differing(a: Int[np.ndarray, " n"], b: Int[np.ndarray, " n"]) -> tuple[Bool[np.ndarray, " n"], int]:
    """Which rows' ``b`` is not the most frequent one with their ``a``, and how many differ from the one with all."""
    _, a = np.unique(a, return_inverse=True)
    _, b = np.unique(b, return_inverse=True)
    n_b = int(b.max(initial=0)) + 1
    together, counts = np.unique(a * n_b + b, return_counts=True)
    order = np.argsort(counts, kind="stable")
    usual = np.zeros(int(a.max(initial=0)) + 1, dtype=np.int64)
    usual[together[order] // n_b] = together[order] % n_b  # the most frequent is written last
    enough = np.bincount(a)[a] >= _FEWEST_TOGETHER if len(a) else np.zeros(0, dtype=bool)
    n_without = int(enough.sum() - np.bincount(b[enough], minlength=1).max())
    return enough & (b != usual[a]), n_without


def _many_gaps(x: Float[np.ndarray, "N D"]) -> _Found:
    """Rows with gaps in many columns that rarely have any.

    If some rows have more gaps than others by nature, but not a certain number of them, the number of gaps falls off
    geometrically.
    """
    missing = np.isnan(x)
    missing = missing[:, missing.mean(axis=0) <= _MOST_GAPS]
    counts, n = missing.sum(axis=1), len(x)
    for count in range(2, int(counts.max(initial=0)) + 1):
        rows = counts >= count
        mean = (counts[~rows].sum() + 1) / n
        expected = n * (mean / (1 + mean)) ** count
        if 0 < rows.sum() <= max(1, _MOST_UNLIKE * n) and expected <= _RATE * rows.sum():
            yield np.flatnonzero(rows), -1, -np.log(expected / rows.sum())
            return


def _unreadable(x: Float[np.ndarray, "N D"]) -> _Found:
    """Cells that cannot be read in columns where nearly all can."""
    for j in np.flatnonzero(np.isinf(x).any(axis=0)):
        unreadable = np.isinf(x[:, j])
        share = unreadable.sum() / (~np.isnan(x[:, j])).sum()
        if share <= _MOST_UNLIKE:
            yield np.flatnonzero(unreadable), int(j), -np.log(share)
