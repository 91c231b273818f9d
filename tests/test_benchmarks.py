"""The benchmark scripts work: accuracy on real data where it is at hand, speed as a ratio to the literal pipeline."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import accuracy
import context
import speed
import synthetic
from nptad.bench.datasets import Table
from nptad.bench.protocol import Split
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


def test_the_context_benchmark_varies_only_the_context(tmp_path, monkeypatch):
    """A set of our own size in place of the real one; a second run finds everything done."""
    random = np.random.default_rng(0)
    x = random.normal(size=(100, 1)) * np.linspace(-1, 2, 3) + 0.1 * random.normal(size=(100, 3))
    table = Table("shuttle", x, (np.arange(100) >= 90).astype(int), ())
    monkeypatch.setattr(context, "load", lambda dataset, folder: table)
    monkeypatch.setattr(context, "RESULTS", tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _ in range(2):
        context.run_dataset("shuttle", [10, 20], draws=2, steps=3)
    rows = context.read_results()
    assert [(r["context"], r["draw"]) for r in rows] == [("10", "0"), ("10", "1"), ("20", "0"), ("20", "1")]
    assert "| shuttle | 20 |" in context.table(rows)
    assert len(context.draw_figure(rows).axes) == 3


def test_anomalies_made_from_training_rows_are_what_they_are_called():
    random = np.random.default_rng(0)
    train = np.column_stack([random.normal(size=(80, 3)), random.integers(0, 3, 80)])
    held_out = np.column_stack([random.normal(size=(10, 3)), random.integers(0, 3, 10)])
    made = synthetic.make_anomalies(held_out, train, Split(train, held_out, np.zeros(10, dtype=bool), (3,)))
    rows = np.tile(held_out, (synthetic.N_MADE // 10, 1))
    assert tuple(made) == synthetic.KINDS
    assert {len(anomalies) for anomalies in made.values()} == {len(rows)}
    assert ((made["one"] != rows).sum(axis=1) <= 1).all()
    assert 0.3 < (made["half"] != rows)[:, :3].mean() < 0.7
    for j in range(4):
        assert np.isin(made["shuffled"][:, j], train[:, j]).all()
    for kind in synthetic.KINDS:
        assert np.isin(made[kind][:, 3], [0, 1, 2]).all(), kind
    mean, spread = train.mean(axis=0), train.std(axis=0)
    farther = np.abs((made["shift"] - mean) / spread) - np.abs((rows - mean) / spread)
    np.testing.assert_allclose(farther[:, :3], 0.7)
    np.testing.assert_allclose((made["spread"] - mean)[:, :3], 1.6 * (rows - mean)[:, :3])
