"""The view that retrieves: a slow oracle of its densities, gaps, categories, its own row, determinism."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from nptad.nn.retrieval import RetrievalNetwork, RetrievalSizes, cell_losses, nearest_retrieved, retrieval_weights
from nptad.scoring.surprise import Surprise
from nptad.scoring.views.retrieval import Retrieval
from nptad.tables.layout import CellLayout
from nptad.training.retrieval import RetrievalTraining, hidden_cell_loss, train_retrieval

LAYOUT = CellLayout(3, (4, 2))
SIZES = RetrievalSizes(LAYOUT, embedding=3, rank=2, heads=2)
SPEED = 5  # what the logits of widths and shares are multiplied by


def make_rows(n, seed=0, gaps=0.1):
    """Three dependent numbers, the last one with few values, and two categories, some cells missing."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(n, 1)) + 0.5 * random.normal(size=(n, 3))
    numbers[:, 2] = numbers[:, 2].round()
    codes = np.column_stack([random.integers(0, 4, n), numbers[:, 0] > 0])
    x = np.column_stack([numbers, codes]).astype(np.float32)
    x[random.random(x.shape) < gaps] = np.nan
    return x


def fit(x, layout=LAYOUT):
    return Retrieval.fit(x, layout, np.zeros((1, len(x)), dtype=bool))


def some_weights(sizes, members=1):
    start = RetrievalNetwork.start(sizes, make_rows(30), list(range(members)))
    return start + 0.1 * torch.randn(start.shape, generator=torch.Generator().manual_seed(7))


def named_parts(sizes, weights):
    parts, at = {}, 0
    for name, shape in sizes.parts.items():
        parts[name] = weights[at : at + math.prod(shape)].reshape(shape)
        at += math.prod(shape)
    return parts


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def gelu(z):
    return z * (1 + math.erf(z / math.sqrt(2))) / 2


def slow_projection(row, hidden, part, layout):
    """The numbers that a row is compared by."""
    total = [0.0] * part["project"].shape[2]
    for j, cell in enumerate(row):
        if hidden[j] or math.isnan(cell) or (j >= layout.n_numeric and cell < 0):
            embedded = list(part["hidden"][j])
        elif j < layout.n_numeric:
            slopes = zip(part["slope"][j], part["bend"][j], part["offset"][j], strict=True)
            embedded = [gelu(cell * a + math.tanh(cell) * b + c) for a, b, c in slopes]
        else:
            embedded = list(part["category"][sum(layout.cardinalities[: j - layout.n_numeric]) + int(cell)])
        for e, value in enumerate(embedded):
            for r in range(len(total)):
                total[r] += value * part["project"][j, e, r]
    return total


def slow_distances(row, hidden, others, part, sizes):
    """Distances of a row from the context rows, under each head."""
    mine = slow_projection(row, hidden, part, sizes.layout)
    result = []
    for h in range(sizes.heads):
        which = range(h * sizes.rank, (h + 1) * sizes.rank)
        heat = math.exp(SPEED * part["temperature"][h])
        theirs = [slow_projection(other, [False] * len(other), part, sizes.layout) for other in others]
        result.append([heat * sum((mine[r] - other[r]) ** 2 for r in which) for other in theirs])
    return result


def slow_weights(row, hidden, others, part, sizes):
    """Weights of the context rows under each head."""
    raw = [[math.exp(-d) for d in head] for head in slow_distances(row, hidden, others, part, sizes)]
    return [[value / sum(head) for value in head] for head in raw]


def slow_residual(row, j, hidden, part, n_numeric):
    """A number without what the hint expects of it."""
    result = row[j]
    for i in range(n_numeric):
        if i != j and not hidden[i] and not math.isnan(row[i]):
            result -= sigmoid(part["hint_used"][j]) * part["hint"][j, i] * row[i]
    return result


def slow_density(row, j, hidden, context, part, sizes):
    """The density of a hidden cell as the docstring of the module has it."""
    n_numeric = sizes.layout.n_numeric
    others = [other for other in context if not math.isnan(other[j])]
    kernels = []
    for other in others:
        equal = float(row[j] == other[j])
        if j >= n_numeric:
            kernels.append(equal)
            continue
        exact, width = sigmoid(SPEED * part["exact"][j]), math.exp(SPEED * part["width"][j])
        apart = slow_residual(row, j, hidden, part, n_numeric)
        apart -= slow_residual(other, j, [False] * len(row), part, n_numeric)
        kernels.append(exact * 1000 * equal + (1 - exact) * math.exp(-abs(apart) / width) / (2 * width))
    shares = [math.exp(SPEED * s) for s in part["head"][j]]
    shares = [s / sum(shares) for s in shares]
    mixed = 0.0
    if others:
        even = [[1 / len(others)] * len(others)]
        for share, weights in zip(shares, slow_weights(row, hidden, others, part, sizes) + even, strict=True):
            mixed += share * sum(w * kernel for w, kernel in zip(weights, kernels, strict=True))
    anything = sigmoid(SPEED * part["anything"][j])
    if j < n_numeric:
        anywhere = 1 / (math.pi * 3 * (1 + (row[j] / 3) ** 2))
    else:
        anywhere = 1 / (sizes.layout.cardinalities[j - n_numeric] + 1)
    return (1 - anything) * mixed + anything * anywhere


@pytest.mark.parametrize("gaps", [0.0, 0.25])
def test_losses_are_those_of_the_mixture(gaps):
    """Numbers, repeated numbers, categories, an unseen one, gaps, a column without any value, rows of the context."""
    context, new = make_rows(9, 1, gaps), make_rows(6, 2, gaps)
    new[0, 3] = -1
    new[1] = context[4]
    if gaps:
        context[:, 1] = np.nan
    own = np.array([-1, 4, -1, -1, -1, -1])
    weights = some_weights(SIZES)
    network = RetrievalNetwork(SIZES, weights)
    fast = cell_losses(network, *map(torch.from_numpy, (new, context, own)), columns=[0, 1, 2, 3, 4]).numpy()
    part = named_parts(SIZES, weights[0].double().numpy())
    for i, row in enumerate(new.astype(float)):
        others = [other for c, other in enumerate(context.astype(float)) if c != own[i]]
        for j in range(5):
            if math.isnan(row[j]):
                assert math.isnan(fast[i, j])
                continue
            slow = slow_density(row, j, [i == j for i in range(5)], others, part, SIZES)
            assert fast[i, j] == pytest.approx(-math.log(slow), rel=1e-4, abs=1e-4), (i, j)
    if not gaps:
        found = retrieval_weights(network, *map(torch.from_numpy, (new, context, own))).numpy()
        slow = np.mean(slow_weights(new[2].astype(float), [False] * 5, context.astype(float), part, SIZES), axis=0)
        np.testing.assert_allclose(found[2], slow, rtol=1e-4)
        assert found[1, 4] == 0


def test_the_nearest_retrieved_row_is_the_one_of_least_distance():
    context, new = make_rows(9, 1), make_rows(6, 2, 0.3)
    new[1], own = context[4], np.array([-1, 4, -1, -1, -1, -1])
    weights = some_weights(SIZES)
    found = nearest_retrieved(RetrievalNetwork(SIZES, weights), *map(torch.from_numpy, (new, context, own))).numpy()
    part = named_parts(SIZES, weights[0].double().numpy())
    for i, row in enumerate(new.astype(float)):
        gaps = np.isnan(row)
        others = [np.where(gaps, np.nan, other) for c, other in enumerate(context.astype(float)) if c != own[i]]
        slow = slow_distances(row, [False] * 5, others, part, SIZES)
        np.testing.assert_allclose(found[i], np.min(slow, axis=1) * 5 / (~gaps).sum(), rtol=1e-4, atol=1e-5)
    assert np.isnan(new).any(axis=1).sum() > 1


def test_the_loss_in_training_is_that_of_the_mixture():
    """The cell of lowest lot is predicted, those below the share hidden too, the own row left out; also its members."""
    context = np.stack([make_rows(8, 1, 0.1), make_rows(8, 2, 0.1)])
    lottery = np.random.default_rng(0).random((2, 5, 5), dtype=np.float32)
    weights = some_weights(SIZES, 2)
    fast = hidden_cell_loss(RetrievalNetwork(SIZES, weights), *map(torch.from_numpy, (context, lottery)), 0.3)
    for k in range(2):
        part, losses = named_parts(SIZES, weights[k].double().numpy()), []
        for i, row in enumerate(context[k, :5].astype(float)):
            lots = [2.0 if math.isnan(cell) else lot for cell, lot in zip(row, lottery[k, i], strict=True)]
            j = int(np.argmin(lots))
            hidden = [c == j or lot < 0.3 for c, lot in enumerate(lots)]
            others = np.delete(context[k], i, axis=0).astype(float)
            losses.append(-math.log(slow_density(row, j, hidden, others, part, SIZES)))
        assert fast[k].item() == pytest.approx(np.mean(losses), rel=1e-4)


def test_training_lowers_the_loss_and_members_do_not_depend_on_one_another():
    x = make_rows(120)
    how = RetrievalTraining(steps=40)
    weights = train_retrieval(SIZES, x, [3, 4], how)
    alone = train_retrieval(SIZES, x, [4], how)
    torch.testing.assert_close(weights[1:], alone, rtol=1e-2, atol=1e-2)
    context = torch.from_numpy(make_rows(100, 5))[None]
    lottery = torch.from_numpy(np.random.default_rng(0).random((1, 100, 5), dtype=np.float32))
    start = RetrievalNetwork(SIZES, RetrievalNetwork.start(SIZES, x, [3]))
    before = hidden_cell_loss(start, context, lottery, 0.15)
    after = hidden_cell_loss(RetrievalNetwork(SIZES, weights[:1]), context, lottery, 0.15)
    assert after.item() < before.item() - 0.05


def test_the_contract():
    """Shapes, plain arrays, the same score alone and in company, finite whatever the cells, explained by column."""
    x, new = make_rows(80), make_rows(25, 1)
    new[0], new[1], new[2, 0], new[3, 3:] = np.nan, 0, 1e6, -1
    fitted, scores = fit(x)
    found = fitted.score(new)
    assert (scores.shape, found.shape) == ((80,), (25, 1))
    assert np.isfinite(found).all()
    assert np.isfinite(scores).all()
    arrays = {field.name: getattr(fitted, field.name) for field in dataclasses.fields(fitted)}
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in arrays.values())
    np.testing.assert_allclose(Retrieval(**arrays).score(new[5:6]), found[5:6], rtol=1e-4, atol=1e-5)
    shares = fitted.explain(new)
    assert shares.shape == new.shape
    assert (shares >= 0).all()
    assert shares[2].argmax() == 0
    assert (shares[0] == 0).all()


def test_the_same_rows_make_the_same_view():
    x = make_rows(60)
    state = torch.get_rng_state()
    (first, scores), (second, again) = fit(x), fit(x)
    assert np.array_equal(scores, again)
    assert np.array_equal(first.weights, second.weights)
    assert torch.equal(torch.get_rng_state(), state)  # the user's random numbers are left alone


def test_a_row_is_left_out_of_what_it_retrieves_from():
    """A value that occurs once is as new to its own row as to a new one."""
    x = make_rows(100, gaps=0)
    x[:, 2] = np.arange(100) % 4
    x[17, 2] = 40
    fitted, scores = fit(x)
    assert scores.argmax() == 17
    assert fitted.score(x[17:18])[0, 0] < scores[17]  # as a new row, it finds its own copy
    rest = np.delete(np.arange(100), 17)
    without = fitted.of_rows(x[rest], LAYOUT)
    np.testing.assert_array_equal(without.rows[without.context], x[fitted.context[fitted.context != 17]])
    assert without.score(x[17:18])[0, 0] > fitted.score(x[17:18])[0, 0] + 1


def test_rows_of_the_same_group_are_similar():
    random = np.random.default_rng(0)
    group = np.arange(120) % 3
    x = (random.normal(size=(120, 4)) * 0.1 + 3 * np.eye(3, 4)[group]).astype(np.float32)
    fitted, _ = fit(x[:90], CellLayout(4, ()))
    found = fitted.similar(x[90:], 5)
    assert found.shape == (30, 5)
    assert (group[found] == group[90:, None]).mean() > 0.95
    hidden = x[90:].copy()
    hidden[:, 3] = np.nan
    assert (group[fitted.similar(hidden, 5)] == group[90:, None]).mean() > 0.95


def test_an_odd_category_and_a_broken_dependence_are_seen():
    random = np.random.default_rng(0)
    first = random.normal(size=300)
    x = np.column_stack([first, -first + 0.05 * random.normal(size=300), first > 0]).astype(np.float32)
    fitted, scores = fit(x, CellLayout(2, (2,)))
    new = np.array([[1, -1, 1], [1, 1, 1], [1, -1, 0], [1, -1, -1]], dtype=np.float32)
    found = Surprise.fit(scores).apply(fitted.score(new)).mean(axis=1)
    assert found[0] < 2.5
    assert (found[1:] > 4).all()
    assert (fitted.explain(new)[2:].argmax(axis=1) == 2).all()  # without the category, the numbers agree


def test_a_gap_is_neither_near_nor_far():
    x, new = make_rows(300, 0, gaps=0), make_rows(300, 1, gaps=0)
    gappy = new.copy()
    gappy[np.random.default_rng(0).random(new.shape) < 0.1] = np.nan
    fitted, scores = fit(x)
    surprise = Surprise.fit(scores)
    full, with_gaps = (surprise.apply(fitted.score(rows)).mean() for rows in (new, gappy))
    assert abs(full - with_gaps) < 0.25


@pytest.mark.parametrize(
    ("n", "layout"), [(2, CellLayout(1, ())), (6, CellLayout(0, (3, 2))), (30, CellLayout(60, ()))]
)
def test_tiny_and_wide_tables(n, layout):
    random = np.random.default_rng(0)
    numbers, codes = random.normal(size=(n, layout.n_numeric)), random.integers(0, 2, (n, len(layout.cardinalities)))
    x = np.column_stack([numbers, codes]).astype(np.float32)
    fitted, scores = fit(x, layout)
    assert np.isfinite(scores).all()
    assert np.isfinite(fitted.score(x)).all()
    assert fitted.explain(x).shape == x.shape
