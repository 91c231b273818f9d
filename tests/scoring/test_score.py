"""Fast scores against the naive oracle, and the promise that a score depends on the row and the model alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nptad.scoring.score
from nptad.nn.masks import mask_bank
from nptad.scoring.score import (
    counted_masks,
    expected_cells,
    mask_losses,
    mean_losses,
    pair_losses,
    prepare_member,
    score_rows,
)
from reference import ReferenceNPT
from table_samples import CATEGORICAL, LAYOUTS, MIXED, NUMERIC, random_model, random_rows

N_TRAIN = 11


def bank(layout, sizes):
    return mask_bank(layout.n_features, sizes, max_masks=1000, seed=0)


def member_of(model, k, context, n_masks, nearest_scale=1.0):
    return prepare_member(model.member(k), context, N_TRAIN, torch.ones(n_masks), nearest_scale=nearest_scale)


@pytest.mark.parametrize("row_attention", ["full", "low_rank", "none"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("sizes", "n_heads", "aggregation"), [((1,), 4, "mean"), ((1, 2), 2, "max"), ((1, 3), 1, "nearest")]
)
def test_scores_agree_with_the_oracle(layout, row_attention, sizes, n_heads, aggregation):
    model = random_model(layout, [1, 2], row_attention=row_attention, n_heads=n_heads)
    context, rows = random_rows(layout, 5, seed=0), random_rows(layout, 4, seed=1)
    if layout.cardinalities:
        rows[0, -1] = -1  # a category training did not see
    masks = bank(layout, sizes)
    for k in range(2):
        fast = score_rows(member_of(model, k, context, len(masks), 1.5), rows, masks, aggregation)
        reference = ReferenceNPT(model, k)
        slow = [reference.score(context.numpy(), row, sizes, N_TRAIN, None, aggregation, 1.5) for row in rows.numpy()]
        np.testing.assert_allclose(fast, slow, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize(("row_attention", "aggregation"), [("full", "nearest"), ("low_rank", "mean")])
def test_leave_one_out_agrees_with_the_oracle(row_attention, aggregation):
    model = random_model(MIXED, [3], row_attention=row_attention)
    context = random_rows(MIXED, 6, seed=2)
    masks = bank(MIXED, (1, 2))
    member = member_of(model, 0, context, len(masks))
    self_index = torch.tensor([4, -1, 0])
    fast = score_rows(member, context[[4, 2, 0]], masks, aggregation, self_index)
    reference = ReferenceNPT(model, 0)
    slow = [
        reference.score(context.numpy(), context[i].numpy(), (1, 2), N_TRAIN, out, aggregation)
        for i, out in ((4, 4), (2, None), (0, 0))
    ]
    np.testing.assert_allclose(fast, slow, rtol=2e-4, atol=1e-5)
    assert not np.allclose(fast[0], score_rows(member, context[[4]], masks, aggregation)[0], rtol=1e-3)


def test_cached_context_equals_one_masked_forward_of_everything():
    """The oracle of design.md: [context; query] in one pass, with the attention mask that says who sees whom."""
    model = random_model(NUMERIC, [5])
    context, rows = random_rows(NUMERIC, 40, seed=3), random_rows(NUMERIC, 3, seed=4)
    hidden = torch.zeros(3, 3, dtype=torch.bool)
    hidden[:, 1] = True
    wanted = torch.tensor([0, 1, 2]).expand(1, 3, 3)
    cached = model.query(rows[None], hidden[None], model.context(context[None]), wanted)
    reference = ReferenceNPT(model, 0)
    for row, mask, fast in zip(rows.numpy(), hidden.numpy(), cached.numeric[0], strict=True):
        allowed = np.tri(41, 41, dtype=bool)
        allowed[:40, :40] = True
        together = reference.forward(np.vstack([context, row]), np.vstack([np.zeros((40, 3), bool), mask]), allowed)
        np.testing.assert_allclose(fast.detach(), together[-1], rtol=1e-3, atol=1e-5)


@settings(max_examples=15)
@given(n_rows=st.integers(1, 40), chunk=st.sampled_from([1, 2**16, 2**20]), seed=st.integers(0, 5), data=st.data())
def test_a_score_is_equal_to_rounding_in_any_batch(n_rows, chunk, seed, data):
    model = random_model(MIXED, [7], n_heads=4)
    masks = bank(MIXED, (1, 2))
    member = member_of(model, 0, random_rows(MIXED, 30, seed=5), len(masks))
    rows = random_rows(MIXED, n_rows, seed=seed)
    scores = score_rows(member, rows, masks)
    order = np.array(data.draw(st.permutations(range(n_rows))))[: data.draw(st.integers(1, n_rows))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nptad.scoring.score, "CACHE_FRIENDLY", chunk)
        patch.setattr(nptad.scoring.score, "_LOSSES_AT_ONCE", 3 * len(masks))
        again = score_rows(member, rows[order], masks)
    np.testing.assert_allclose(again, scores[order], rtol=1e-5)


@pytest.mark.parametrize(
    ("row_attention", "n_numeric", "embedding_dim"),
    [("full", 1, 4), ("full", 7, 12), ("full", 30, 16), ("low_rank", 3, 8), ("low_rank", 65, 16)],
)
def test_a_score_is_equal_to_rounding_alone_and_in_a_batch(row_attention, n_numeric, embedding_dim):
    layout = type(MIXED)(n_numeric=n_numeric, cardinalities=(5, 9))
    model = random_model(layout, [1], embedding_dim=embedding_dim, n_heads=4, row_attention=row_attention)
    masks = bank(layout, (1,))
    member = member_of(model, 0, random_rows(layout, 300, seed=1), len(masks))
    rows = random_rows(layout, 20, seed=2)
    alone = [score_rows(member, rows[[i]], masks)[0] for i in range(len(rows))]
    scores = score_rows(member, rows, masks)
    np.testing.assert_allclose(scores, alone, rtol=1e-5)
    np.testing.assert_array_equal(score_rows(member, rows, masks), scores)  # the same call, the same bits


def test_thread_count_changes_scores_by_rounding_at_most():
    model = random_model(MIXED, [7])
    masks = bank(MIXED, (1, 2))
    context, rows = random_rows(MIXED, 200, seed=5), random_rows(MIXED, 100, seed=6)
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(score_rows(member_of(model, 0, context, len(masks)), rows, masks))
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)


def test_small_memory_budget_gives_the_same_scores(monkeypatch):
    model = random_model(MIXED, [7])
    masks = bank(MIXED, (1, 2))
    member = member_of(model, 0, random_rows(MIXED, 30, seed=5), len(masks))
    rows = random_rows(MIXED, 60, seed=6)
    scores = score_rows(member, rows, masks)
    monkeypatch.setattr(nptad.scoring.score, "MEMORY_BUDGET", 1)
    np.testing.assert_allclose(score_rows(member, rows, masks), scores, rtol=1e-5)


def test_losses_of_pairs_agree_with_the_oracle():
    model = random_model(MIXED, [7])
    context, rows = random_rows(MIXED, 6, seed=5), random_rows(MIXED, 4, seed=6, missing=0.3)
    assert rows.isnan().any()
    cells = torch.tensor([[0, 2, 3], [1, 2, 0], [3, 1, 2], [2, 3, 0]])
    self_index = torch.tensor([-1, 4, -1, 0])
    fast = pair_losses(member_of(model, 0, context, 1), rows, cells, self_index)
    reference = ReferenceNPT(model, 0)
    for i, row in enumerate(rows.numpy()):
        allowed = np.tri(7, 7, dtype=bool)
        allowed[:6, :6] = True
        allowed[6, self_index[i]] = self_index[i] < 0
        for a, ignored in enumerate(cells[i].tolist()):
            for b, cell in enumerate(cells[i].tolist()):
                hidden = np.zeros((7, 4), bool)
                hidden[6, [ignored, cell]] = True
                predicted = reference.forward(np.vstack([context, row]), hidden, allowed)[6][cell]
                slow = 0.0 if np.isnan(row[cell]) else reference.cell_loss(predicted, row[cell], N_TRAIN)
                np.testing.assert_allclose(fast[i, a, b], slow, rtol=1e-3, atol=1e-5)


def test_a_row_without_values_scores_zero():
    model = random_model(MIXED, [7])
    masks = bank(MIXED, (1,))
    member = member_of(model, 0, random_rows(MIXED, 30, seed=5), len(masks))
    empty = torch.full((1, 4), float("nan"))
    assert score_rows(member, empty, masks).tolist() == [0.0]
    assert score_rows(member, empty, masks, "max").tolist() == [0.0]
    assert score_rows(member, empty, masks, "nearest").tolist() == [0.0]


def test_an_unseen_category_costs_more_than_any_seen_one():
    model = random_model(CATEGORICAL, [7])
    masks = bank(CATEGORICAL, (1,))
    member = member_of(model, 0, random_rows(CATEGORICAL, 30, seed=5), len(masks))
    rows = torch.zeros(5, 3)
    rows[:, 1] = torch.tensor([-1.0, 0, 1, 2, 3])
    losses = mask_losses(member, rows, masks)[:, 1]
    assert (losses[0] > losses[1:]).all()


def test_scaled_masks_have_a_mean_of_one_on_the_rows_that_set_the_scale():
    model = random_model(NUMERIC, [7])
    masks = bank(NUMERIC, (1, 2))
    context, rows = random_rows(NUMERIC, 30, seed=5), random_rows(NUMERIC, 50, seed=6, missing=0)
    losses = mask_losses(member_of(model, 0, context, len(masks)), rows, masks)
    scale = mean_losses(losses, counted_masks(rows, masks))
    scaled = mask_losses(prepare_member(model.member(0), context, N_TRAIN, scale), rows, masks)
    torch.testing.assert_close(scaled.mean(0), torch.ones(len(masks)), rtol=1e-4, atol=0)


def test_expected_cells_are_the_predictions_with_one_cell_hidden():
    model = random_model(MIXED, [7])
    context, rows = random_rows(MIXED, 6, seed=5), random_rows(MIXED, 3, seed=6)
    expected = expected_cells(member_of(model, 0, context, 1), rows)
    reference = ReferenceNPT(model, 0)
    allowed = np.tri(7, 7, dtype=bool)
    allowed[:6, :6] = True
    for i, row in enumerate(rows.numpy()):
        for j in range(4):
            hidden = np.zeros((7, 4), bool)
            hidden[6, j] = True
            predicted = reference.forward(np.vstack([context, row]), hidden, allowed)[6][j]
            fast = expected.numeric[i, j] if j < 2 else expected.log_probabilities[i, j - 2].exp()[: len(predicted)]
            np.testing.assert_allclose(fast, predicted, rtol=1e-3, atol=1e-5)
