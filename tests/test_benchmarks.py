"""The benchmark scripts work: accuracy on real data where it is at hand, speed as a ratio to the literal pipeline."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import accuracy
import speed
from nptad.settings import Settings


@pytest.mark.skipif(not (accuracy.DATA / "wine.npz").exists(), reason="needs wine.npz in NPTAD_DATA or ../shared/data")
def test_wine_anomalies_are_found_with_the_papers_recipe():
    settings = Settings(embedding_dim=8, n_steps=150, aggregation="max", attention_dropout=0.0)
    result = accuracy.run_split("wine", split=0, settings=settings)
    assert result["auroc"] > 85


def test_scoring_is_many_times_faster_than_literal():
    """On a table of breastw's shape; the margin to what benchmarks/speed.py prints is wide for busy machines."""
    random = torch.Generator().manual_seed(0)
    train, test = (torch.randn(n, 9, generator=random) for n in (222, 120))
    settings = dataclasses.replace(Settings(), mask_sizes=(1, 2))
    _, literal_score = speed.literal_times(train, test, settings.embedding_dim)
    _, score = speed.our_times(train, test, settings, members=1)
    assert literal_score / score > 8
