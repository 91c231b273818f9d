"""Surprise is the share it claims to be: exactly where rows can tell, within bounds where the tail tells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from nptad.scoring.calibrate import benjamini_hochberg
from nptad.scoring.surprise import CombinedSurprise, Surprise, combine, fit_tail, surprise_among_others

LIGHT = {"uniform": stats.uniform(), "normal": stats.norm()}
EXPONENTIAL = {"exponential": stats.expon(), "gamma": stats.gamma(3)}
HEAVY = {"t4": stats.t(4), "t2": stats.t(2), "pareto": stats.pareto(1), "lognormal": stats.lognorm(1)}


def realised(distribution, n, nominal, seeds=150):
    """How often a fresh score has a p-value of at most ``nominal``, a share of 1 / (n + 1): the mean over samples."""
    shares = []
    for seed in range(seeds):
        surprise = Surprise.fit(distribution.rvs(size=n, random_state=seed))
        low = high = surprise.scores[-1]
        step = surprise.scores[-1] - surprise.scores[0]
        while np.exp(-surprise.apply(np.array(high))) > nominal:
            low, high, step = high, high + step, 2 * step
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if np.exp(-surprise.apply(np.array(middle))) > nominal else (low, middle)
        shares.append(distribution.sf(high))
    return np.mean(shares)


def test_inside_the_range_the_share_is_the_conformal_p_value():
    random = np.random.default_rng(0)
    train, new = random.integers(0, 30, 80).astype(float), random.integers(-5, 30, 50).astype(float)
    new = new[new <= train.max()]
    slow = [(1 + sum(t >= s for t in train)) / 81 for s in new]
    np.testing.assert_allclose(np.exp(-Surprise.fit(train).apply(new)), slow)


@pytest.mark.parametrize("n", [2, 3, 5, 30, 400])
def test_surprise_never_falls_and_goes_on_growing_beyond_the_rows(n):
    train = np.random.default_rng(n).gamma(2, size=n)
    surprise = Surprise.fit(train)
    scores = np.sort(np.concatenate([train, np.linspace(-1, 5 * train.max() + 5, 999)]))
    values = surprise.apply(scores)
    assert (np.diff(values) >= 0).all()
    assert values[0] == 0
    beyond = surprise.extrapolates(scores)
    assert (values[beyond] >= np.log(n + 1)).all()
    assert values[-1] > values[beyond][0]
    assert np.isfinite(surprise.apply(np.array([1e300]))).all()


def test_any_shape_of_scores_is_kept():
    surprise = Surprise.fit(np.arange(50.0))
    assert surprise.apply(np.ones((4, 3))).shape == (4, 3)
    assert surprise.apply(np.array(7.0)).shape == ()


@pytest.mark.parametrize("shape", [0.3, 0.7, 1.2])
def test_the_tail_is_found(shape):
    sample = np.sort(stats.genpareto(shape, scale=2).rvs(size=20_000, random_state=0))
    np.testing.assert_allclose(fit_tail(sample), (2, shape), rtol=0.1)


def test_tails_of_few_or_no_scores():
    assert fit_tail(np.array([])) == (0, 0)
    for sample in ([1.0], [2.0, 2.0], [1e-300, 1.0], [0.5, 0.5, 0.5, 9.0]):
        scale, shape = fit_tail(np.array(sample))
        assert scale > 0
        assert 0 <= shape < 10


def test_light_tails_are_taken_for_heavier_ones():
    for name, distribution in LIGHT.items():
        for n in (100, 1000):
            assert realised(distribution, n, 0.1 / (n + 1)) <= 0.1 / (n + 1), (name, n)


def test_exponential_tails_are_met_within_a_factor_of_eight_and_on_the_safe_side():
    for name, distribution in EXPONENTIAL.items():
        for n in (100, 1000):
            assert 1 / 8 <= realised(distribution, n, 0.1 / (n + 1)) / (0.1 / (n + 1)) <= 1.2, (name, n)


def test_heavy_tails_raise_few_false_alarms_too_many():
    """A tenth of what the rows can tell: at most five times as often as said, at most 2.5 times with 1,000 rows."""
    for name, distribution in HEAVY.items():
        for n, factor in ((100, 5), (1000, 2.5)):
            assert realised(distribution, n, 0.1 / (n + 1)) <= factor * 0.1 / (n + 1), (name, n)


def many_zeros(random, shape):
    """Like the view of values never seen: most rows 0, some one or two new values."""
    return random.binomial(2, 0.03, shape) * 4.5


DISCRETE = {
    "zeros": many_zeros,
    "all zero": lambda random, shape: np.zeros(shape),
    "two values": lambda random, shape: random.integers(0, 2, shape).astype(float),
    "counts": lambda random, shape: random.poisson(3, shape).astype(float),
    "rounded": lambda random, shape: random.normal(size=shape).round(1),
    "continuous": lambda random, shape: random.normal(size=shape),
}


@pytest.mark.parametrize("kind", DISCRETE)
def test_p_values_hold_on_discrete_scores(kind):
    """One fresh score for each of many samples, so that false alarms are independent: exact binomial bounds."""
    n, samples = 100, 3000
    scores = DISCRETE[kind](np.random.default_rng(7), (samples, n + 1))
    p = np.array([np.exp(-Surprise.fit(row[:-1]).apply(row[-1:]))[0] for row in scores])
    for rate in (0.01, 0.05, 0.1, 0.5):
        assert stats.binomtest(int((p <= rate).sum()), samples, rate, "greater").pvalue > 1e-3, rate
    if kind == "continuous":
        for rate in (0.05, 0.1, 0.5):
            assert stats.binomtest(int((p <= rate).sum()), samples, rate, "less").pvalue > 1e-3, rate


@pytest.mark.parametrize("kind", DISCRETE)
def test_training_rows_are_as_surprising_to_the_others_as_new_ones(kind):
    scores = DISCRETE[kind](np.random.default_rng(1), 40)
    slow = [Surprise.fit(np.delete(scores, i)).apply(scores[i : i + 1])[0] for i in range(len(scores))]
    np.testing.assert_allclose(surprise_among_others(scores), slow, atol=1e-12)


def test_a_combination_lies_between_mean_and_maximum():
    surprises = np.random.default_rng(0).exponential(size=(5, 200)) ** 2
    combined = combine(surprises)
    assert (combined >= surprises.mean(axis=0) - 1e-9).all()
    assert (combined <= surprises.max(axis=0) + 1e-9).all()
    np.testing.assert_allclose(combined, combine(surprises[::-1]), atol=1e-9)
    np.testing.assert_allclose(combine(surprises[:1]), surprises[0], atol=1e-9)
    np.testing.assert_allclose(np.exp(-combined), np.mean(np.exp(-surprises) ** -0.5, axis=0) ** -2)


def test_a_view_without_anything_to_say_changes_no_order():
    random = np.random.default_rng(0)
    train, new = [random.normal(size=100) for _ in range(2)], [random.normal(size=(50, 1)) for _ in range(2)]
    plain, _ = CombinedSurprise.fit(train)
    more, _ = CombinedSurprise.fit([*train, np.zeros(100)])
    order = np.argsort(plain.score(new), kind="stable")
    assert (np.diff(more.score([*new, np.zeros((50, 1))])[order]) >= -1e-9).all()


def test_p_values_of_combined_views_hold():
    """Dependent views, one of them discrete; one fresh row for each of many samples."""
    random = np.random.default_rng(3)
    n, samples, p = 100, 1500, []
    for _ in range(samples):
        hidden = random.normal(size=n + 1)
        views = [np.abs(hidden), hidden**2 + random.exponential(size=n + 1), many_zeros(random, n + 1)]
        combined, _ = CombinedSurprise.fit([view[:-1] for view in views])
        p.append(np.exp(-combined.score([view[-1:, None] for view in views]))[0])
    for rate in (0.01, 0.05, 0.1):
        assert stats.binomtest(int((np.array(p) <= rate).sum()), samples, rate, "greater").pvalue > 1e-3, rate
        assert stats.binomtest(int((np.array(p) <= rate).sum()), samples, rate, "less").pvalue > 1e-3, rate


@pytest.mark.parametrize("kind", ["normal", "exponential", "t2"])
def test_p_values_of_combined_views_hold_beyond_the_training_rows(kind):
    """Below 1 / (n + 1), where only the fitted tails tell: dependent views of light and of heavy tails.

    A false discovery rate needs such p-values. In a batch of normal rows it is the chance that any is flagged.
    """
    distribution = {**LIGHT, **EXPONENTIAL, **HEAVY}[kind]
    n, fresh, samples, counts, alarms = 100, 2000, 200, np.zeros(3), 0
    rates = np.array([1, 0.3, 0.1]) / (n + 1)
    for seed in range(samples):
        hidden = distribution.rvs(size=(n + fresh, 3), random_state=seed)
        views = [np.abs(hidden).max(axis=1), np.abs(hidden[:, 0]), (hidden**2).sum(axis=1)]
        combined, _ = CombinedSurprise.fit([view[:n] for view in views])
        p = np.exp(-combined.score([view[n:, None] for view in views]))
        counts += [(p <= rate).sum() for rate in rates]
        alarms += benjamini_hochberg(p[:200], 0.1).any()
    assert alarms <= stats.binom.ppf(0.9995, samples, 0.1)
    assert (counts <= np.array([1.2, 1.5, 2.0]) * rates * samples * fresh).all()
    assert counts[-1] > 0


def test_members_are_averaged_and_views_of_one_member_hold_for_all():
    random = np.random.default_rng(0)
    combined, scores = CombinedSurprise.fit([random.normal(size=60), random.normal(size=60)])
    new = [random.normal(size=(7, 3)), random.normal(size=(7, 1))]
    assert scores.shape == (60,)
    assert combined.by_view(new).shape == (2, 7, 3)
    each = [combined.score([new[0][:, [k]], new[1]]) for k in range(3)]
    np.testing.assert_allclose(combined.score(new), np.mean(each, axis=0))


def test_the_combined_surprise_of_a_row_has_the_same_bits_in_any_company():
    surprises = np.random.default_rng(0).exponential(size=(30, 200))
    alone = [combine(surprises[:, [row]])[0] for row in range(200)]
    np.testing.assert_array_equal(combine(surprises), alone)


def test_scores_that_are_equal_but_for_rounding_make_no_tail():
    """Distances in tables of few different values: a row twice as far as all others is odd, but not infinitely."""
    distances = np.repeat([0.25, 0.5, np.nextafter(np.float32(0.5), np.float32(1))], [150, 45, 5])
    assert Surprise.fit(distances).apply(np.array([1.0]))[0] < 20


def test_scores_without_a_tail_have_a_finite_surprise_beyond_them():
    view = Surprise.fit(np.repeat([0.0, 1.0], [5, 95]))
    with np.errstate(all="raise"):
        beyond = view.tail_surprise(np.array([0.0, 1.0, 7.0]))
    assert (beyond == np.log(101)).all()
