"""Views of a row: oracles, mixed columns and gaps, out-of-fold scores that new rows' scores can be compared with."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from nptad.scoring.folds import left_out_rows
from nptad.scoring.surprise import CombinedSurprise, Surprise
from nptad.scoring.views import (
    VIEWS,
    MixtureDensity,
    NearestInParts,
    NearestInQuantiles,
    NearestInRanges,
    OutsideRange,
    RareGaps,
    UnseenValues,
)
from nptad.scoring.views.nearest import draw_parts
from nptad.scoring.views.neighbours import Cells, Neighbours
from nptad.scoring.views.tree import different_rows
from nptad.tables.layout import CellLayout

LAYOUT = CellLayout(3, (4, 2))


def make_rows(n, seed=0, gaps=0.1):
    """Three dependent numbers and two categories, some cells missing."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(n, 1)) + 0.5 * random.normal(size=(n, 3))
    codes = np.column_stack([random.integers(0, 4, n), numbers[:, 0] > 0])
    x = np.column_stack([numbers, codes]).astype(np.float32)
    x[random.random(x.shape) < gaps] = np.nan
    return x


def fit(view, x, layout=LAYOUT):
    return view.fit(x, layout, left_out_rows(len(x), 5, seed=0))


def slow_distance(row, other, rows, n_numeric):
    """The distance of a row from a neighbour as the docstring of the module has it."""
    total, observed = 0.0, 0
    for j in range(len(row)):
        if np.isnan(row[j]):
            continue
        known = rows[~np.isnan(rows[:, j]), j]
        differences = (row[j] - known) ** 2 if j < n_numeric else (row[j] != known).astype(float)
        if np.isnan(other[j]):
            total += differences.mean()
        else:
            total += (row[j] - other[j]) ** 2 if j < n_numeric else float(row[j] != other[j])
        observed += 1
    return np.sqrt(total / max(observed, 1))


@pytest.mark.parametrize(("gaps", "n_numeric"), [(0.0, 3), (0.2, 3), (0.0, 0), (0.2, 5)])
def test_neighbours_are_the_nearest_rows(gaps, n_numeric):
    rows, new = make_rows(40, 1, gaps).astype(float), make_rows(30, 2, gaps).astype(float)
    rows[5] = rows[6]
    new[0] = rows[3]
    new[1, 4] = -1
    if n_numeric == 0:
        rows[:, :3], new[:, :3] = np.abs(rows[:, :3]).round(), np.abs(new[:, :3]).round()
    cells, queries = (Cells(x[:, :n_numeric], x[:, n_numeric:]) for x in (rows, new))
    neighbours = Neighbours(cells)
    distances, place = neighbours.nearest(queries)
    slow = np.array([[slow_distance(a, b, rows, n_numeric) for b in rows] for a in new])
    np.testing.assert_allclose(distances, slow.min(axis=1), atol=1e-6)
    np.testing.assert_allclose(slow[np.arange(30), place], slow.min(axis=1), atol=1e-6)
    distances, place = neighbours.nearest(cells, np.arange(40))
    slow = np.array([[slow_distance(a, b, rows, n_numeric) for b in rows] for a in rows])
    np.fill_diagonal(slow, np.inf)
    np.testing.assert_allclose(distances, slow.min(axis=1), atol=1e-6)
    assert (place != np.arange(40)).all()


@pytest.mark.parametrize("gaps", [0, 0.1])
def test_a_tree_and_all_pairs_find_the_same(monkeypatch, gaps):
    """Among rows with copies, categories and gaps; new rows with unseen categories and gaps."""
    random = np.random.default_rng(0)

    def draw(n_rows):
        cells = np.column_stack([random.normal(size=(n_rows, 2)).round(1), random.integers(0, 3, (n_rows, 2))])
        return np.where(random.random(cells.shape) < gaps, np.nan, cells)

    rows, new = (Cells(part[:, :2], part[:, 2:]) for part in (draw(600), draw(520)))
    new.codes[:9, 0] = -1
    monkeypatch.setattr("nptad.scoring.views.neighbours._PAIRS_AT_ONCE", 10_000)
    found = []
    for many_rows in (0, 600):
        monkeypatch.setattr("nptad.scoring.views.neighbours.MANY_ROWS", many_rows)
        neighbours = Neighbours(rows)
        distances, place = neighbours.nearest(rows, np.arange(600))
        assert (place != np.arange(600)).all()
        assert ("_tree" in vars(neighbours)) == (many_rows == 0)
        found.append((distances, neighbours.nearest(new)[0], Neighbours(rows).nearest(new[:5])[0]))
    for by_tree, by_product in zip(*found, strict=True):
        np.testing.assert_array_equal(by_tree, by_product)


def test_a_tree_pays_where_columns_depend_on_one_another():
    random = np.random.default_rng(0)
    none = np.empty((4000, 0))
    hidden, noise = random.normal(size=(4000, 2)), random.normal(size=(4000, 20))
    dependent = hidden @ random.normal(size=(2, 20)) + 0.01 * noise
    assert Neighbours(Cells(dependent, none)).tree_pays()
    assert not Neighbours(Cells(noise, none)).tree_pays()
    gappy = np.where(random.random(dependent.shape) < 0.01, np.nan, dependent)  # one row in five has a gap
    assert not Neighbours(Cells(gappy, none)).tree_pays()


def test_different_rows_with_equal_sums_are_told_apart(monkeypatch):
    class Ones:
        def random(self, n):
            return np.ones(n)

    monkeypatch.setattr("numpy.random.default_rng", lambda seed: Ones())
    first, copy_of = different_rows(np.array([[2.0, 1.0], [1.0, 2.0], [2.0, 1.0]]))
    assert first[copy_of].tolist() == [0, 1, 0]


def test_a_row_among_equal_ones_is_at_no_distance():
    x = np.repeat(make_rows(1, gaps=0), 6, axis=0)
    x[:3, 0] += 1
    for view in (NearestInRanges, NearestInQuantiles):
        fitted, scores = fit(view, x)
        assert (scores == 0).all()
        assert (fitted.score(x) == 0).all()


def test_training_rows_are_scored_as_new_ones_would_be_without_them():
    """Where leaving out a row is exact (but for what gaps of others are on average): fit on the others and score it."""
    for view in (NearestInRanges, UnseenValues, OutsideRange, RareGaps):
        x = make_rows(40, gaps=0.0 if view is NearestInRanges else 0.05)
        x[:, 0] = x[:, 0].round()
        _, scores = fit(view, x)
        slow = [fit(view, np.delete(x, i, axis=0))[0].score(x[i : i + 1])[0, 0] for i in range(len(x))]
        np.testing.assert_allclose(scores, slow, atol=1e-6, err_msg=view.name)


def test_ranges_are_those_of_the_training_rows():
    x = np.array([[0, 0], [10, 1], [5, 0.5]], dtype=np.float32)
    fitted, _ = fit(NearestInRanges, x, CellLayout(2, ()))
    assert fitted.score(np.array([[20, 1]], dtype=np.float32)).item() == pytest.approx(np.sqrt(1 / 2))
    assert fitted.similar(np.array([[6, 0.5]], dtype=np.float32), 2).tolist() == [[2, 1]]


def test_quantiles_do_not_depend_on_the_scale_of_a_column():
    x, new = make_rows(60, 1), make_rows(20, 2)
    bent_x, bent_new = x.copy(), new.copy()
    for rows in (bent_x, bent_new):
        rows[:, 1] = np.exp(rows[:, 1])
    plain, bent = fit(NearestInQuantiles, x)[1], fit(NearestInQuantiles, bent_x)[1]
    np.testing.assert_allclose(plain, bent, atol=1e-5)


def test_an_odd_pair_of_cells_among_many_columns_is_seen_in_a_part():
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 12)).astype(np.float32)
    x[:, 1] = x[:, 0] + 0.01 * random.normal(size=300)
    new = random.normal(size=(2, 12)).astype(np.float32)
    new[:, 1] = new[:, 0]
    pair = next(part for part in draw_parts(12) if part.sum() == 2)
    first, second = np.flatnonzero(pair)
    x[:, second] = x[:, first] + 0.01 * random.normal(size=300)
    new[:, second] = new[:, first] * [1, -1] + [0, 0.5]
    fitted, scores = fit(NearestInParts, x, CellLayout(12, ()))
    ordinary, odd = Surprise.fit(scores).apply(fitted.score(new))[:, 0]
    assert odd > 4 > ordinary
    assert set(np.argsort(fitted.explain(new)[1])[-2:]) == {first, second}


def test_parts_are_different_and_cover_small_tables():
    for n_columns in (1, 2, 3, 7, 50):
        parts = draw_parts(n_columns)
        assert len(np.unique(parts, axis=0)) == len(parts) <= 30
        assert set(parts.sum(axis=1)) <= {1, 2, max(2, -(-n_columns // 2))}
    assert draw_parts(3).any(axis=0).all()


def test_the_density_is_that_of_its_mixtures():
    x, new = make_rows(200, 0, gaps=0), make_rows(30, 1, gaps=0)
    x, new = x[:, :3], new[:, :3]
    fitted, scores = fit(MixtureDensity, x, CellLayout(3, ()))
    slow = []
    for m in range(2):
        of = np.flatnonzero(fitted.mixture == m)
        logs = [
            fitted.log_weights[c] + stats.multivariate_normal(fitted.means[c], fitted.covariances[c]).logpdf(new)
            for c in of
        ]
        slow.append(np.logaddexp.reduce(logs, axis=0))
    np.testing.assert_allclose(fitted.score(new)[:, 0], -np.mean(slow, axis=0), rtol=1e-6)
    assert fitted.score(new).shape == (30, 5)
    assert np.isfinite(scores).all()


def test_a_gap_counts_as_its_cell_does_on_average():
    """Under a single Gaussian: the mean over what the cell could be, given the others."""
    random = np.random.default_rng(0)
    x = (random.normal(size=(25, 1)) + 0.3 * random.normal(size=(25, 3))).astype(np.float32)
    fitted, _ = fit(MixtureDensity, x, CellLayout(3, ()))
    row = np.array([0.3, -0.2, np.nan], dtype=np.float32)
    c = int(np.flatnonzero(fitted.mixture == 0)[0])
    mean, covariance = fitted.means[c], fitted.covariances[c]
    slope = np.linalg.solve(covariance[:2, :2], covariance[:2, 2])
    centre = mean[2] + (row[:2] - mean[:2]) @ slope
    spread = np.sqrt(covariance[2, 2] - covariance[2, :2] @ slope)
    values = stats.norm(centre, spread).ppf((np.arange(20_000) + 0.5) / 20_000)
    filled = np.tile(row, (20_000, 1)).astype(float)
    filled[:, 2] = values
    assert fitted.score(row[None])[0, 0] == pytest.approx(fitted.score(filled)[:, 0].mean(), abs=1e-3)


def test_wide_and_tiny_tables_have_a_density():
    random = np.random.default_rng(0)
    for n, d in ((5, 3), (30, 310), (2, 1)):
        x = random.normal(size=(n, d)).astype(np.float32)
        fitted, scores = fit(MixtureDensity, x, CellLayout(d, ()))
        assert np.isfinite(scores).all()
        far = fitted.score(np.full((1, d), 1e6, dtype=np.float32)).mean()
        assert far > scores.max()


def test_new_values_cost_by_how_rare_new_ones_are():
    """One column of codes, one of measurements: only a new code is odd."""
    random = np.random.default_rng(0)
    x = np.column_stack([random.normal(size=99), np.arange(99) % 7, np.arange(99) % 3]).astype(np.float32)
    x[0, 1] = 50
    layout = CellLayout(2, (3,))
    fitted, scores = fit(UnseenValues, x, layout)
    new = np.array([[9, 3, 1], [9, 51, -1], [np.nan, np.nan, np.nan]], dtype=np.float32)
    np.testing.assert_allclose(fitted.explain(new), [[0, 0, 0], [0, np.log(50), np.log(100)], [0, 0, 0]], atol=1e-6)
    assert scores[0] == pytest.approx(np.log(99))
    assert (scores[1:] == 0).all()


def test_numbers_beyond_a_sharp_end_are_odder_than_beyond_a_long_tail():
    x = np.random.default_rng(0).exponential(size=(500, 1)).astype(np.float32)
    fitted, _ = fit(OutsideRange, x, CellLayout(1, ()))
    length = x.max() - x.min()
    below, above = fitted.score(np.array([[x.min() - 0.2 * length], [x.max() + 0.2 * length]], dtype=np.float32))[:, 0]
    assert below > above > 0
    assert fitted.score(np.array([[1.0], [np.nan]], dtype=np.float32)).tolist() == [[0], [0]]


def test_gaps_count_where_gaps_are_rare():
    x = make_rows(99, gaps=0)
    x[::2, 0] = np.nan
    fitted, scores = fit(RareGaps, x)
    new = make_rows(2, 1, gaps=0)
    new[0, 0] = new[1, 3] = np.nan
    np.testing.assert_allclose(fitted.score(new)[:, 0], [np.log(100 / 51), np.log(100)])
    assert np.unique(scores).tolist() == [0, pytest.approx(np.log(99 / 50))]


@pytest.mark.parametrize("view", VIEWS)
def test_the_contract(view):
    """Shapes, plain arrays, the same score alone and in company, finite whatever the cells, explained by column."""
    x, new = make_rows(80), make_rows(25, 1)
    new[0], new[1], new[2, 0], new[3, 3:] = np.nan, 0, 1e6, -1
    fitted, scores = fit(view, x)
    assert scores.shape == (80,)
    found = fitted.score(new)
    assert found.shape in ((25, 1), (25, 5))
    assert np.isfinite(found).all()
    assert np.isfinite(scores).all()
    arrays = {field.name: getattr(fitted, field.name) for field in dataclasses.fields(fitted)}
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in arrays.values())
    np.testing.assert_allclose(view(**arrays).score(new[5:6]), found[5:6], rtol=1e-6, atol=1e-9)
    shares = fitted.explain(new)
    assert shares.shape == new.shape
    assert (shares >= 0).all()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("empty", [[0], [3], [0, 1, 2]])
def test_a_column_without_a_value_among_the_known_rows_does_no_harm(view, empty):
    """Of a large table only a sample is known, in which a column may be empty that has values in training."""
    x, new = make_rows(60), make_rows(20, seed=1)
    x[:, empty] = np.nan
    fitted, scores = fit(view, x)
    assert np.isfinite(scores).all()
    assert np.isfinite(fitted.score(new)).all()
    fitted.require_sound(LAYOUT)


@pytest.mark.parametrize("view", [NearestInRanges, NearestInQuantiles, NearestInParts, MixtureDensity])
def test_a_gap_is_neither_near_nor_far(view):
    """Rows with a tenth of their cells missing are about as odd as the others, wherever the gaps are."""
    x, new = make_rows(400, 0, gaps=0), make_rows(400, 1, gaps=0)
    gappy = new.copy()
    gappy[np.random.default_rng(0).random(new.shape) < 0.1] = np.nan
    fitted, scores = fit(view, x)
    surprise = Surprise.fit(scores)
    full, with_gaps = (surprise.apply(fitted.score(rows)).mean() for rows in (new, gappy))
    assert abs(full - with_gaps) < 0.25


TABLES = {
    "gaussian": lambda random, n: random.normal(size=(n, 4)),
    "one column": lambda random, n: random.normal(size=(n, 1)),
    "heavy": lambda random, n: random.standard_t(2, size=(n, 6)),
    "discrete": lambda random, n: random.integers(0, 4, (n, 4)).astype(float),
    "duplicated": lambda random, n: random.normal(size=(40, 4))[random.integers(0, 40, n)],
    "mixed": lambda random, n: np.column_stack([random.normal(size=(n, 3)), random.integers(0, 3, n)]),
    "gaps": lambda random, n: np.where(random.random((n, 4)) < 0.1, np.nan, random.normal(size=(n, 4))),
}


def false_alarms(kind, views, samples, n=80, seed=0):
    """P-values of one fresh row for each of many tables: those of each view, and of all together."""
    found = []
    for sample in range(samples):
        random = np.random.default_rng([seed, sample])
        table = TABLES[kind](random, n + 1)
        layout = CellLayout(3, (3,)) if kind == "mixed" else CellLayout(table.shape[1], ())
        table[:, : layout.n_numeric] /= np.nanstd(table[:-1, : layout.n_numeric], axis=0)
        x = table.astype(np.float32)
        fitted, scores = zip(*(view.fit(x[:-1], layout, left_out_rows(n, 5, sample)) for view in views), strict=True)
        new = [view.score(x[-1:]) for view in fitted]
        single = [np.exp(-Surprise.fit(s).apply(values).mean()) for s, values in zip(scores, new, strict=True)]
        found.append([*single, np.exp(-CombinedSurprise.fit(scores)[0].score(new))[0]])
    return np.array(found)


CHEAP = (NearestInRanges, NearestInQuantiles, UnseenValues, OutsideRange, RareGaps)


@pytest.mark.parametrize("kind", TABLES)
def test_false_alarms_are_as_rare_as_promised(kind):
    """Independent tables, so that the bounds are exactly binomial."""
    samples = 1000
    p = false_alarms(kind, CHEAP, samples)
    for column, name in enumerate([*(view.name for view in CHEAP), "all"]):
        for rate in (0.05, 0.1):
            alarms = int((p[:, column] <= rate).sum())
            assert stats.binomtest(alarms, samples, rate, "greater").pvalue > 1e-3, (name, rate, alarms)


@pytest.mark.parametrize("kind", ["gaussian", "discrete", "duplicated", "heavy"])
def test_false_alarms_of_the_whole_score_are_as_rare_as_promised(kind):
    samples = 150
    p = false_alarms(kind, VIEWS, samples)
    for column in range(p.shape[1]):
        for rate in (0.05, 0.1):
            alarms = int((p[:, column] <= rate).sum())
            assert stats.binomtest(alarms, samples, rate, "greater").pvalue > 1e-3, (column, rate, alarms)
