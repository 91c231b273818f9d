"""No model or checkpoint makes a foreign error or a score that is not finite: a small sample of mutants.py."""

from __future__ import annotations

import pytest
from mutants import Originals


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    return Originals(tmp_path_factory.mktemp("originals"))


@pytest.mark.parametrize("kind", ["views", "network", "checkpoint", "living"])
def test_a_mutant_is_refused_or_gives_finite_scores(originals, kind):
    outcomes = {originals.try_one(kind, seed) for seed in range(25)}
    assert outcomes == {"refused", "scored"}
