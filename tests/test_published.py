"""benchmarks/published.py: without a switch it is the library; each switch does what it says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from reference import ReferenceNPT, rest_of_block, self_attention

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import published
from nptad.bench.datasets import Table
from nptad.nn.masks import mask_bank
from nptad.nn.model import NPT
from nptad.nn.rng import MemberRandom
from nptad.scoring.score import mask_losses, prepare_member
from nptad.settings import Settings
from nptad.tables.layout import CellLayout
from nptad.training import loop

TINY = Settings(embedding_dim=4, n_layers=2, n_heads=2, n_steps=8, batch_size=16, mask_sizes=(1, 2), mask_rate=0.4)
ROWS = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(0))
MASKS = mask_bank(3, (1, 2), 10, seed=0)


def trained(*switches, settings=TINY):
    model = published.make_model(3, settings, [5, 6], switches)
    published.train(model, ROWS, switches)
    return model


def flat_weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("batch_size", [16, None])
def test_without_a_switch_it_is_the_library(batch_size):
    settings = replace(TINY, batch_size=batch_size)
    theirs = NPT(CellLayout(3, ()), settings, MemberRandom([5, 6]))
    loop.train(theirs, ROWS)
    ours = trained(settings=settings)
    assert torch.equal(flat_weights(ours), flat_weights(theirs))
    context, rows = ROWS[:, :30], ROWS[:, 30:]
    losses = published.losses_apart(ours, context, rows, MASKS)
    for k in range(2):
        member = prepare_member(theirs.member(k), context[k], 30, torch.ones(len(MASKS)))
        torch.testing.assert_close(losses[k], mask_losses(member, rows[k], MASKS, None), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("switch", published.TRAINING)
def test_every_switch_changes_the_training_and_nothing_breaks(switch):
    weights = flat_weights(trained(switch))
    assert weights.isfinite().all()
    assert not torch.equal(weights, flat_weights(trained()))


class PublishedReference(ReferenceNPT):
    """Keys and values of the input as it is, logits over the root of the whole width."""

    def multi_head(self, block, items, allowed):
        width, result = items.shape[1] // self.settings.n_heads, []
        for head in range(self.settings.n_heads):
            part = slice(head * width, (head + 1) * width)
            centred = [(item - item.mean()) / np.sqrt(item.var() + 1e-5) for item in items]
            q = [
                (c * block["norm_in_gain"] + block["norm_in_bias"]) @ block["w_q"][:, part] / np.sqrt(len(items[0]))
                for c in centred
            ]
            k, v = ([item @ block[name][:, part] for item in items] for name in ("w_k", "w_v"))
            result.append(self_attention([one * np.sqrt(width) for one in q], k, v, allowed))
        mixed = [np.concatenate([head[i] for head in result]) for i in range(len(items))]
        return [rest_of_block(block, item, one) for item, one in zip(items, mixed, strict=True)]


def test_keys_values_and_logits_are_those_of_the_published_code():
    model = published.make_model(3, TINY, [5, 6], ("raw_values", "wide_scale")).eval()
    context, rows = ROWS[:, :6], ROWS[:, 30:32]
    losses = published.losses_together(model, context, rows, MASKS[:3], batch_size=10)
    order = np.random.default_rng(0).permutation(2)
    together = np.vstack([rows[1][order], context[1]]).astype(float)
    for place, mask in enumerate(MASKS[:3]):
        hidden = np.zeros((8, 3), dtype=bool)
        hidden[:2] = mask
        predicted = PublishedReference(model, 1).forward(together, hidden, np.ones((8, 8), dtype=bool))
        j = int(mask.nonzero()[0])
        expected = [(predicted[i][j] - together[i, j]) ** 2 for i in range(2)]
        np.testing.assert_allclose(losses[1, order, place], expected, rtol=1e-3, atol=1e-5)


def test_rows_scored_together_depend_on_their_batch():
    model = trained()
    context, rows = ROWS[:, :30], ROWS[:, 30:]
    one_by_one = published.losses_together(model, context, rows, MASKS, batch_size=1)
    in_one = published.losses_together(model, context, rows, MASKS, batch_size=10)
    assert not torch.allclose(one_by_one, in_one, rtol=1e-3)


def test_z_scores_have_mean_0_and_deviation_1_under_each_mask():
    scores = published.standardised(torch.rand(2, 20, 4))
    torch.testing.assert_close(scores.mean(1), torch.zeros(2, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(scores.std(1), torch.ones(2, 4))


def test_the_script_resumes_and_says_what_moves(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    table = Table("wine", random.normal(size=(30, 3)), (np.arange(30) >= 26).astype(int), ())
    monkeypatch.setattr(published, "load", lambda dataset: table)
    monkeypatch.setattr(published, "RESULTS", tmp_path)
    monkeypatch.setattr(published, "settings_of", lambda dataset, n_train: replace(TINY, n_steps=2))
    published.keep_missing("wine", [0])
    rows = published.read_results()
    assert len(rows) == 2 + len(published.TRAINING) + len(published.SCORING)
    monkeypatch.setattr(published, "run", None)  # nothing is left to run
    published.keep_missing("wine", [0])
    made_up = [
        {**row, "split": split, "f1": "90" if row["variant"] == "clamp" else "50"} for row in rows for split in "01"
    ]
    page = published.page(made_up)
    assert "**+40.0 ± 0.0**" in page
    assert "* clamp: wine +40.0\n* raw_values: nowhere\n" in page
