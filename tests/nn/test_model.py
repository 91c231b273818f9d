"""The training forward against the oracle and against the literal version of the paper; members never mix."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from nptad.nn.attention import attention, attention_between_cells
from nptad.nn.recomputed import AttentionDropout
from nptad.nn.rng import MemberRandom
from nptad.tables.layout import CellLayout
from reference import ReferenceNPT
from table_samples import LAYOUTS, NUMERIC, random_model, random_rows

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from literal import LiteralNPT


@pytest.mark.parametrize("row_attention", ["full", "low_rank", "none"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_training_forward_agrees_with_the_oracle(layout, row_attention):
    model = random_model(layout, [1, 2], row_attention=row_attention)
    x = torch.stack([random_rows(layout, 6, seed) for seed in (0, 1)])
    hidden = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.3
    prediction = model(x, hidden)
    for k in range(2):
        expected = ReferenceNPT(model, k).forward(x[k].numpy(), hidden[k].numpy(), np.ones((6, 6), bool))
        for i, cells in enumerate(expected):
            np.testing.assert_allclose(
                prediction.numeric[k, i].detach(), cells[: layout.n_numeric], rtol=1e-3, atol=1e-5
            )
            for c, probabilities in enumerate(cells[layout.n_numeric :]):
                fast = prediction.log_probabilities[k, i, c].exp().detach()
                np.testing.assert_allclose(fast[: len(probabilities)], probabilities, rtol=1e-3, atol=1e-6)
                assert (fast[len(probabilities) :] == 0).all()


def test_the_model_is_the_literal_paper_model():
    """Same weights, same reconstruction as the plain modules of benchmarks/literal.py."""
    torch.manual_seed(0)
    literal = LiteralNPT(3, 8).eval()
    model = random_model(NUMERIC, [0])
    names = {
        "norm_in_gain": "norm_in.weight",
        "norm_in_bias": "norm_in.bias",
        "norm_out_gain": "norm_out.weight",
        "norm_out_bias": "norm_out.bias",
        "w_q": "query.weight",
        "w_k": "key.weight",
        "w_v": "value.weight",
        "w_o": "out.weight",
        "w_res": "residual.weight",
        "w_up": "feed_forward.0.weight",
        "b_up": "feed_forward.0.bias",
        "w_down": "feed_forward.3.weight",
        "b_down": "feed_forward.3.bias",
    }
    with torch.no_grad():
        for layer, block in enumerate(literal.blocks):
            theirs = dict(block.named_parameters())
            for ours, name in names.items():
                getattr(model.blocks[layer], ours)[0].copy_(theirs[name].t())
        for j, linear in enumerate(literal.in_embedding):
            model.in_numeric[0, j], model.in_mask[0, j] = linear.weight[:, 0], linear.weight[:, 1]
            model.in_bias[0, j] = linear.bias
        for j, linear in enumerate(literal.out_embedding):
            model.out_numeric[0, j], model.out_numeric_bias[0, j] = linear.weight[0], linear.bias[0]
        model.index_embedding[0] = literal.index_embedding.weight
        model.type_embedding[0, 0] = literal.type_embedding.weight[0]
        x = random_rows(NUMERIC, 20, seed=0, missing=0)
        hidden = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.3
        torch.testing.assert_close(
            model(x[None], hidden[None]).numeric[0], literal(x, hidden.float()), rtol=1e-4, atol=1e-5
        )


def test_a_hidden_cell_does_not_reach_the_prediction():
    model = random_model(NUMERIC, [0])
    x = random_rows(NUMERIC, 5, seed=0, missing=0)[None]
    hidden = torch.zeros_like(x, dtype=torch.bool)
    hidden[0, 2, 1] = True
    changed = x.clone()
    changed[0, 2, 1] = 1e6
    assert torch.equal(model(x, hidden).numeric, model(changed, hidden).numeric)


@pytest.mark.parametrize("row_attention", ["full", "low_rank"])
def test_weight_counts(row_attention):
    """13 H^2 weights in a full row block, 2 H rank + 11 E^2 in a low-rank one (design.md, section 4)."""
    layout = CellLayout(10, ())
    model = random_model(layout, [0], row_attention=row_attention, embedding_dim=8, rank=16)
    matrices = sum(p.numel() for name, p in model.blocks[0].named_parameters() if name.startswith("w_"))
    assert matrices == (13 * 80**2 if row_attention == "full" else 2 * 80 * 16 + 11 * 8**2)


def test_members_do_not_mix():
    """A member's reconstruction is the same alone and beside any neighbours."""
    for row_attention in ("full", "low_rank"):
        stack = random_model(NUMERIC, [4, 5, 6], row_attention=row_attention)
        x = torch.stack([random_rows(NUMERIC, 16, seed) for seed in range(3)])
        hidden = torch.zeros_like(x, dtype=torch.bool)
        together = stack(x, hidden).numeric
        for k in range(3):
            alone = random_model(NUMERIC, [4 + k], row_attention=row_attention)
            torch.testing.assert_close(
                alone(x[k : k + 1], hidden[k : k + 1]).numeric[0], together[k], rtol=1e-5, atol=1e-6
            )


def test_gradient_of_a_member_stays_its_own():
    stack = random_model(NUMERIC, [4, 5])
    x = torch.stack([random_rows(NUMERIC, 8, seed) for seed in range(2)])
    stack(x, x.isnan()).numeric[0].sum().backward()
    assert all((p.grad[1] == 0).all() for p in stack.parameters() if p.grad is not None and p.numel())


def test_fused_and_plain_attention_agree():
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, 30, width, generator=random) for width in (6, 6, 10))
    torch.testing.assert_close(
        attention(q, k, v, None), attention(q, k, v, lambda weights: weights), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("n_wanted", [5, 2])
def test_attention_between_few_cells_agrees_with_plain_attention(monkeypatch, dropped, n_wanted):
    """Values and gradients, with and without dropout on the weights."""
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, 3, n, 7, generator=random, requires_grad=True) for n in (n_wanted, 5, 5))
    keep = (torch.rand(2, 4, n_wanted, 5, 7, generator=random) < 0.8).float() / 0.8
    grad = torch.randn(2, 4, 3, n_wanted, 7, generator=random)
    fast = attention_between_cells(q, k, v, (lambda weights: weights * keep) if dropped else None)
    fast_grads = torch.autograd.grad(fast, (q, k, v), grad)
    monkeypatch.setattr("nptad.nn.attention._FEW_CELLS", 0)
    rows_first = keep.permute(0, 4, 1, 2, 3)
    plain = attention_between_cells(q, k, v, (lambda weights: weights * rows_first) if dropped else None)
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)
    for a, b in zip(fast_grads, torch.autograd.grad(plain, (q, k, v), grad), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pairs_at_a_time", [1, 3 * 40 * 40, 2**18])
@pytest.mark.parametrize("n_wanted", [40, 2])
def test_attention_between_many_cells_agrees_with_plain_attention(monkeypatch, n_wanted, pairs_at_a_time):
    """Values and gradients, with one row, three rows or all of them at a time."""
    monkeypatch.setattr("nptad.nn.recomputed._PAIRS_AT_A_TIME", pairs_at_a_time)
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, 3, n, 7, generator=random, requires_grad=True) for n in (n_wanted, 40, 40))
    grad = torch.randn(2, 4, 3, n_wanted, 7, generator=random)
    fast = attention_between_cells(q, k, v, None)
    plain = attention_between_cells(q, k, v, lambda weights: weights)
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)
    fast_grads, plain_grads = (torch.autograd.grad(result, (q, k, v), grad) for result in (fast, plain))
    for a, b in zip(fast_grads, plain_grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pairs_at_a_time", [1, 7 * 9, 2 * 11 * 9, 2**18])
def test_dropout_in_parts_is_dropout_at_once(monkeypatch, pairs_at_a_time):
    """Values, gradients and the streams afterwards: some rows of a matrix at a time, some matrices, or all."""
    monkeypatch.setattr("nptad.nn.attention._FEW_PAIRS", 0)
    monkeypatch.setattr("nptad.nn.recomputed._PAIRS_AT_A_TIME", pairs_at_a_time)
    random = torch.Generator().manual_seed(0)
    shapes = (2, 3, 11, 6), (2, 3, 9, 6), (2, 3, 9, 5)
    q, k, v = (torch.randn(shape, generator=random, requires_grad=True) for shape in shapes)
    grad = torch.randn(2, 3, 11, 5, generator=random)
    streams = [MemberRandom([8, 9]) for _ in range(2)]
    in_parts = attention(q, k, v, AttentionDropout(streams[0], 0.3))
    plain = attention(q, k, v, lambda weights: AttentionDropout(streams[1], 0.3)(weights))
    assert torch.equal(streams[0].state(), streams[1].state())
    torch.testing.assert_close(in_parts, plain, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(in_parts, attention(q, k, v, None), atol=0.1)
    grads, plain_grads = (torch.autograd.grad(result, (q, k, v), grad) for result in (in_parts, plain))
    for a, b in zip(grads, plain_grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_cells", [5, 40])
def test_attention_between_cells_in_parts_agrees_with_plain_attention(monkeypatch, n_cells):
    """Scoring takes some of the querying cells, or rows, at a time; how many does not matter."""
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, 3, n_cells, 7, generator=random) for _ in range(3))
    plain = attention(*(t.permute(0, 4, 1, 3, 2) for t in (q, k, v)), lambda weights: weights).permute(0, 2, 4, 3, 1)
    with torch.inference_mode():
        at_once = attention_between_cells(q, k, v, None)
        for module in ("attention", "recomputed"):
            monkeypatch.setattr(f"nptad.nn.{module}._PAIRS_AT_A_TIME", 3 * k[:, :, 0].numel())
        in_parts = attention_between_cells(q, k, v, None)
    torch.testing.assert_close(at_once, plain, rtol=1e-4, atol=1e-5)
    assert torch.equal(in_parts, at_once)


def test_dropout_only_while_training():
    model = random_model(NUMERIC, [4], attention_dropout=0.1)
    x = random_rows(NUMERIC, 8, seed=0)[None]
    assert torch.equal(model(x, x.isnan()).numeric, model(x, x.isnan()).numeric)
    model.train()
    assert not torch.equal(model(x, x.isnan()).numeric, model(x, x.isnan()).numeric)


def test_padded_classes_do_not_count_in_the_norms_of_lamb():
    model = random_model(CellLayout(0, (2, 5)), [0])
    assert model.out_category.shape[-1] == 8
    assert (model.out_category[:, 0, :, 2:] == 0).all()
    assert (model.out_category[:, 1, :, :5] != 0).all()
    assert (model.out_category_bias[:, 1, 5:] == 0).all()
