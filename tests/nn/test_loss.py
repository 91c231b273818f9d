"""Cell losses: squared error, cross-entropy, missing and unseen cells."""

from __future__ import annotations

from math import log

import pytest
import torch

from nptad.nn.loss import Prediction, cell_losses, masked_mean
from nptad.tables.layout import CellLayout

LAYOUT = CellLayout(1, (2, 3))
NAN = float("nan")


def prediction(number, first, second):
    padded = torch.tensor([[*first, 0.0], second]).log()
    return Prediction(torch.tensor([[[number]]]), padded[None, None])


def test_losses_are_squared_error_and_cross_entropy():
    losses = cell_losses(prediction(1.5, (0.25, 0.75), (0.5, 0.4, 0.1)), torch.tensor([[[2.0, 1.0, 2.0]]]), LAYOUT, 100)
    assert losses.flatten().tolist() == pytest.approx([0.25, -log(0.75), -log(0.1)], rel=1e-5)


def test_missing_cells_cost_nothing_and_have_no_gradient():
    guess = prediction(1.5, (0.25, 0.75), (0.5, 0.4, 0.1))
    number = guess.numeric.requires_grad_()
    losses = cell_losses(guess, torch.tensor([[[NAN, NAN, 1.0]]]), LAYOUT, 100)
    losses.sum().backward()
    assert losses.flatten().tolist()[:2] == [0, 0]
    assert number.grad.item() == 0


@pytest.mark.parametrize(("least", "expected"), [(0.1, 2 * log(101)), (1e-9, -log(1e-9))])
def test_unseen_category_is_never_cheaper_than_a_seen_one(least, expected):
    losses = cell_losses(
        prediction(0.0, (0.5, 0.5), (0.5, 0.5 - least, least)), torch.tensor([[[0.0, 0.0, -1.0]]]), LAYOUT, 100
    )
    assert losses[0, 0, 2].item() == pytest.approx(expected, rel=1e-5)


def test_mean_is_over_target_cells_of_each_member():
    losses = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    targets = torch.tensor([[[True, False], [False, True]], [[False, False], [False, False]]])
    assert masked_mean(losses, targets).tolist() == [2.5, 0.0]
