"""LAMB, Lookahead, clipping and the schedule against loops over single numbers."""

from __future__ import annotations

from math import cos, pi, sqrt

import numpy as np
import pytest
import torch
from torch import nn

import nptad.training.optim
from nptad.training.optim import FlatParameters, Lamb, Lookahead, flat_then_anneal


def parameters(n_members=2):
    random = torch.Generator().manual_seed(0)
    shapes = ((3, 4), (5,), (2, 2, 2))
    made = [nn.Parameter(torch.randn(n_members, *shape, generator=random)) for shape in shapes]
    return [*made, nn.Parameter(torch.zeros(n_members, 3)), nn.Parameter(torch.zeros(n_members, 0))]


def gradients(step, like):
    random = torch.Generator().manual_seed(100 + step)
    return [torch.randn(p.shape, generator=random) * 3 for p in like]


class NaiveMember:
    """Clipping, LAMB (You et al. 2020, algorithm 2) and Lookahead for the parameters of one member, in float64."""

    def __init__(self, values):
        self.w = [v.astype(np.float64).ravel().tolist() for v in values]
        self.m = [[0.0] * len(w) for w in self.w]
        self.v = [[0.0] * len(w) for w in self.w]
        self.slow = [list(w) for w in self.w]
        self.t = 0

    def step(self, grads, lr):
        self.t += 1
        total = sqrt(sum(float(g) ** 2 for grad in grads for g in grad.ravel()))
        factor = min(1.0, 1.0 / (total + 1e-6))
        for p, grad in enumerate(grads):
            update = []
            for i, g in enumerate(grad.ravel()):
                g = float(g) * factor
                self.m[p][i] = 0.9 * self.m[p][i] + 0.1 * g
                self.v[p][i] = 0.999 * self.v[p][i] + 0.001 * g * g
                update.append((self.m[p][i] / (1 - 0.9**self.t)) / (sqrt(self.v[p][i] / (1 - 0.999**self.t)) + 1e-6))
            w_norm, u_norm = sqrt(sum(w * w for w in self.w[p])), sqrt(sum(u * u for u in update))
            trust = w_norm / u_norm if w_norm > 0 and u_norm > 0 else 1.0
            self.w[p] = [w - lr * trust * u for w, u in zip(self.w[p], update, strict=True)]
            if self.t % 6 == 0:
                self.slow[p] = [s + 0.5 * (w - s) for s, w in zip(self.slow[p], self.w[p], strict=True)]
                self.w[p] = list(self.slow[p])


def run(params, n_steps, lr=0.05):
    flat = FlatParameters(params)
    lamb, lookahead = Lamb(flat), Lookahead(flat)
    for step in range(n_steps):
        for p, g in zip(params, gradients(step, params), strict=True):
            if p.numel():
                p.grad.copy_(g)
        flat.clip_gradients(1.0)
        lamb.step(lr)
        lookahead.step()


@pytest.mark.parametrize("n_steps", [1, 6, 20])
def test_optimiser_agrees_with_naive_loops(n_steps, monkeypatch):
    monkeypatch.setattr(nptad.training.optim, "_BLOCK", 7)  # blocks that cut through parameters
    params = parameters()
    naive = [NaiveMember([p[k].detach().numpy() for p in params]) for k in range(2)]
    for step in range(n_steps):
        for k, member in enumerate(naive):
            member.step([g[k].numpy() for g in gradients(step, params)], 0.05)
    run(params, n_steps)
    for k, member in enumerate(naive):
        for p, expected in zip(params, member.w, strict=True):
            np.testing.assert_allclose(p[k].detach().ravel(), expected, rtol=1e-4, atol=1e-6)


def test_a_member_is_updated_as_if_it_were_alone():
    stack, alone = parameters(), [nn.Parameter(p[1:].detach().clone()) for p in parameters()]
    run(stack, 13)
    flat = FlatParameters(alone)
    lamb, lookahead = Lamb(flat), Lookahead(flat)
    for step in range(13):
        for p, g in zip(alone, gradients(step, parameters()), strict=True):
            if p.numel():
                p.grad.copy_(g[1:])
        flat.clip_gradients(1.0)
        lamb.step(0.05)
        lookahead.step()
    for p, q in zip(stack, alone, strict=True):
        assert torch.equal(p[1:], q)


def test_small_gradients_are_not_clipped():
    params = parameters()
    flat = FlatParameters(params)
    flat.grad.fill_(1e-3)
    flat.clip_gradients(1.0)
    assert (flat.grad == 1e-3).all()


def test_schedule_is_flat_for_70_percent_then_a_cosine_to_zero():
    n_steps = 200
    for step in range(n_steps):
        progress = step / n_steps
        expected = 1.0 if progress <= 0.7 else 0.5 * (1 + cos(pi * (progress - 0.7) / 0.3))
        assert flat_then_anneal(progress) == pytest.approx(expected, abs=1e-12)
    assert flat_then_anneal(1.0) == pytest.approx(0.0, abs=1e-12)
    assert flat_then_anneal(2.0) == pytest.approx(0.0, abs=1e-12)
