"""The retrieving network as a method: tables with text and gaps, what it retrieves, and how the benchmark runs it."""

import numpy as np
import pandas as pd
import pytest

from nptad.bench.methods.retrieval import RetrievalNetwork
from nptad.bench.protocol import Split
from nptad.bench.registry import METHODS
from nptad.metrics import ranking_metrics


def make_table(n, seed=0):
    """A number that the kind decides, two others that go with it, and some gaps."""
    random = np.random.default_rng(seed)
    kind = random.choice(["low", "high"], n)
    size = np.where(kind == "low", 0.0, 10.0) + random.normal(size=n)
    weight, price = (3 * size + random.normal(size=n) for _ in range(2))
    table = pd.DataFrame({"kind": kind, "size": size, "weight": weight, "price": price})
    table.loc[random.random(n) < 0.1, "price"] = None
    return table


def test_a_cell_that_similar_rows_do_not_have_is_odd_and_named():
    train, new = make_table(300), make_table(40, 1)
    network = RetrievalNetwork().fit(train)
    odd = new.copy()
    odd["price"] = np.where(new["kind"] == "low", 30.0, 0.0)
    usual, found = network.score(new), network.score(odd)
    assert (found > 4.6).all()
    assert np.median(usual) < 1.5
    assert (network.explain(odd).argmax(axis=1) == 3).mean() > 0.9


def test_rows_of_the_same_kind_are_retrieved_by_weight():
    train, new = make_table(300), make_table(40, 1)
    rows, weights = RetrievalNetwork().fit(train).retrieved(new, 5)
    assert rows.shape == weights.shape == (40, 5)
    assert (np.diff(weights, axis=1) <= 0).all()
    assert ((weights.sum(axis=1) > 5 / 300) & (weights.sum(axis=1) <= 1 + 1e-6)).all()
    kinds = train["kind"].to_numpy()[rows]
    assert (kinds == new["kind"].to_numpy()[:, None]).mean() > 0.95


def test_cells_that_cannot_be_read_are_odd_and_gaps_are_not():
    train = np.random.default_rng(0).normal(size=(200, 3))
    network = RetrievalNetwork().fit(train)
    gap, infinite = network.score([[np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0]])
    assert gap < 2 < 4 < infinite


def test_how_columns_are_used():
    codes = np.random.default_rng(0).integers(0, 5, size=(100, 2)).astype(float)
    network = RetrievalNetwork(columns={0: "category", 1: "category"}).fit(codes)
    assert network.view_.cardinalities.tolist() == [5, 5]


@pytest.mark.parametrize("categorical", [(), (2,)])
def test_the_benchmark_runs_it_on_each_split(categorical):
    splits = []
    for seed in (0, 1):
        random = np.random.default_rng(seed)
        train, test = (random.normal(size=(n, 3)).round(1) for n in (150, 60))
        train[:, 2], test[:, 2] = random.integers(0, 4, 150), random.integers(0, 4, 60)
        test[50:, :2] += 6
        splits.append(Split(train, test, np.arange(60) >= 50, categorical))
    scored = list(METHODS["retrieval"].run(splits, [0, 1], {}))
    for split, found in zip(splits, scored, strict=True):
        expected = RetrievalNetwork(columns=split.uses if categorical else None).fit(split.train).score(split.test)
        np.testing.assert_array_equal(found.scores, expected)
        assert ranking_metrics(split.truth, found.scores)["auroc"] > 0.99
        assert set(found.clock.cpu_seconds) == {"fit", "score"}
