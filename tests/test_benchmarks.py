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
import growth
import networks
import paper_step
import retrieval_growth
import speed
import synthetic
from nptad.bench.datasets import Table
from nptad.bench.methods.retrieval import RetrievalNetwork
from nptad.bench.protocol import Split
from nptad.settings import Settings
from nptad.tables.encode import encode


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


def test_errors_made_of_rows_are_what_they_are_called():
    random = np.random.default_rng(0)
    train = np.column_stack([random.normal(size=(80, 3)), random.integers(0, 3, 80)])
    normal = np.column_stack([random.normal(size=(10, 3)), random.integers(0, 3, 10)])
    made = synthetic.make_errors(normal, train, (3,), random)
    rows = np.tile(normal, (synthetic.N_MADE // 10, 1))
    assert tuple(made) == synthetic.ERRORS
    assert {len(anomalies) for anomalies in made.values()} == {len(rows)}
    assert ((made["one"] != rows).sum(axis=1) <= 1).all()
    assert 0.3 < (made["half"] != rows)[:, :3].mean() < 0.7
    for j in range(4):
        assert np.isin(made["shuffled"][:, j], train[:, j]).all()
    for kind in synthetic.ERRORS:
        assert np.isin(made[kind][:, 3], [0, 1, 2]).all(), kind
    mean, spread = train.mean(axis=0), train.std(axis=0)
    farther = np.abs((made["shift"] - mean) / spread) - np.abs((rows - mean) / spread)
    np.testing.assert_allclose(farther[:, :3], 0.7)
    np.testing.assert_allclose((made["spread"] - mean)[:, :3], 1.6 * (rows - mean)[:, :3])


def test_regions_are_some_rows_that_lie_together():
    x = np.vstack([np.random.default_rng(0).normal(size=(90, 3)), np.random.default_rng(1).normal(8, 1, size=(10, 3))])
    inside = list(synthetic.regions(x, np.random.default_rng(0)))
    assert len(inside) == len(synthetic.REGIONS)
    for rows in inside:
        assert 0.02 <= rows.mean() <= 0.4
        assert np.linalg.norm(x[rows].mean(axis=0) - x[~rows].mean(axis=0)) > 0.5
    assert inside[-1][90:].all()  # the rim


def test_scores_on_made_anomalies_are_the_librarys():
    """The default score of the study is what a detector with the same settings gives, but for what is usual."""
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 1)) * np.linspace(-1, 2, 3) + 0.1 * random.normal(size=(60, 3))
    scores = synthetic.scores_of({"new": x[50:]}, x[:40], x[40:50], Split(x, x, np.zeros(60, dtype=bool), ()))
    assert tuple(scores) == synthetic.SCORES
    for name, losses in (("nearest", "tempered"), ("nearest, not tempered", "scaled_mean")):
        together = np.hypot(scores[losses]["new"], scores["distance"]["new"] ** 2)
        np.testing.assert_allclose(scores[name]["new"], together)
    scaled = x / np.ptp(x[:40], axis=0)
    slow = np.array([np.abs(row - scaled[:40]).mean(axis=1).min() for row in scaled[40:]])
    np.testing.assert_allclose(scores["distance"]["new"], slow[10:] / np.sqrt(np.mean(slow[:10] ** 2)), rtol=1e-4)


def test_the_laws_of_growth_are_those_of_the_operations():
    """Twice the rows: four times the attention between rows and twice the rest; scoring is linear in the context."""
    steps = [growth.step_operations(n, 8) for n in (10**6, 2 * 10**6)]
    assert steps[1] / steps[0] == pytest.approx(4, rel=0.01)
    scores = [growth.score_operations(8, context, 1) for context in (10**6, 2 * 10**6)]
    assert scores[1] / scores[0] == pytest.approx(2, rel=0.01)
    assert growth.score_operations(6, 10**6, 3) / growth.score_operations(6, 10**6, 1) == pytest.approx(
        41 / 6, rel=0.01
    )


def test_growth_is_measured_and_described(monkeypatch):
    monkeypatch.setattr(growth, "TRAINING", {"n": (10, 20), "d": (2, 3)})
    monkeypatch.setattr(growth, "SCORING", {"context": (10, 20), "d": (2, 3), "r": (1, 2)})
    monkeypatch.setattr(growth, "BASE", {"n": 10, "d": 3, "context": 10, "r": 1})
    monkeypatch.setattr(paper_step, "SHORTEST", 0.001)
    found = growth.measure()
    page = growth.page(found)
    assert "| scoring a row | cells per mask | 1, 2 |" in page
    assert "a billion rows of 10 columns" in page
    assert len(growth.draw(found).axes) == 5


def test_attended_rows_are_counted_by_entropy():
    weights = np.array([[0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]])
    assert networks.effective(weights) == pytest.approx((4 + 1) / 2)
    assert networks.effective(weights / 2) == pytest.approx((4 + 1) / 2)  # what is left went to the row itself


def test_the_prediction_of_the_retrieving_network_is_the_mean_of_its_mixture():
    """Of columns that depend on one another it is close to the value that is hidden."""
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 1)) * [1, -2, 3] + 0.05 * random.normal(size=(200, 3))
    method = RetrievalNetwork().fit(x[:150])
    encoded = encode(method.schema_, x[150:])
    error, attended = networks.of_retrieval(method, encoded)
    assert error < 0.1
    assert 1 < attended < 150


def test_the_page_of_networks_compares_what_is_there():
    row = {"dataset": "wine", "rows": "59", "columns": "13", "score_seconds": "0.1", "f1": "60.0", "auroc": "95.0"}
    rows = [
        {**row, "method": "default", "fit_seconds": "0.05"},
        {**row, "method": "retrieval", "fit_seconds": "0.50", "error": "0.5", "attended": "17"},
        {**row, "dataset": "wbc", "method": "default", "fit_seconds": "0.05"},
    ]
    text = networks.page(rows, {"wine": {"fit_seconds": "5.0*", "f1": "70.0", "auroc": "96.0"}})
    assert "| wine | 59 | 13 | 5.0* | 0.05 | 0.50 | 100 | 10 | 70.0 | 60.0 | 60.0 |" in text
    assert "wbc" not in text


def test_exponents_of_growth_are_those_of_the_two_largest_sizes():
    assert (
        retrieval_growth.line("rows", (10, 100, 1000), [1.0, 1.0, 10.0], 1)
        == "| rows | 10, 100, 1,000 | 1, 1, 10 | 1.0 |"
    )
