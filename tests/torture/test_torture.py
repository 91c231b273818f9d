"""A small sample of every kind of hostile case; `make torture` runs many."""

from __future__ import annotations

import importlib
import sys

import pytest

from torture.run import KINDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and memory are read as on Linux")

CASES = [(kind, seed) for kind in KINDS for seed in importlib.import_module(f"torture.{kind}").SAMPLE]


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_a_hostile_case_has_an_allowed_outcome(kind, seed, tmp_path):
    importlib.import_module(f"torture.{kind}").case(seed, tmp_path)
