"""What holds for both forests."""

import time

import numpy as np
import pytest
from literal_forests import literal_pidforest, literal_rrcf

from nptad.bench.methods.pidforest import PIDForest
from nptad.bench.methods.rrcf import RRCF

FORESTS = pytest.mark.parametrize("forest", [RRCF, PIDForest])


@FORESTS
def test_any_batch_gives_the_same_bits(forest):
    generator = np.random.default_rng(0)
    x, new = generator.normal(size=(300, 5)), 2 * generator.normal(size=(200, 5))
    detector = forest(random_state=0).fit(x)
    parts = [detector.score(part) for part in np.split(new, [1, 3, 20, 101])]
    np.testing.assert_array_equal(np.concatenate(parts), detector.score(new))


@FORESTS
def test_blocks_do_not_change_the_scores(forest, monkeypatch):
    x = np.random.default_rng(0).normal(size=(120, 4))
    expected = forest(n_trees=10, random_state=0).fit(x).score(x)
    monkeypatch.setattr(f"{forest.__module__}.CELLS", 50)
    monkeypatch.setattr("nptad.bench.methods.forests.ROWS", 7)
    np.testing.assert_array_equal(forest(n_trees=10, random_state=0).fit(x).score(x), expected)


@pytest.mark.parametrize(
    ("forest", "literal", "n_columns"), [(RRCF, literal_rrcf, 6), (PIDForest, literal_pidforest, 3)]
)
def test_is_ten_times_faster_than_the_literal_version(forest, literal, n_columns):
    generator = np.random.default_rng(0)
    x, new = generator.normal(size=(1000, n_columns)), generator.normal(size=(200, n_columns))
    detector = forest(n_trees=50, random_state=0)
    fast = min(seconds(lambda: detector.fit(x).score(new)) for _ in range(5))
    slow = seconds(lambda: literal(detector, x, new))
    assert slow > 10 * fast


def seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start
