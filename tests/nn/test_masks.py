"""The mask bank against the paper's counts; random masks against their probability."""

from __future__ import annotations

from math import comb

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nptad.errors import InputError, MaskBankWarning
from nptad.nn.masks import bank_size, mask_bank
from nptad.nn.rng import MemberRandom, spawn_seeds

# Table 5 of the paper: features, r, m. lympho's m means sizes 1 and 4; musk's means r = 1.
PAPER = [
    ("wine", 13, (1,), 13),
    ("lympho", 18, (1, 4), 3078),
    ("glass", 9, (1, 2, 3, 4), 255),
    ("vertebral", 6, (1,), 6),
    ("wbc", 30, (1, 2, 3), 4525),
    ("ecoli", 7, (1, 2, 3), 63),
    ("ionosphere", 33, (1, 2), 561),
    ("breastw", 9, (1, 2, 3), 129),
    ("pima", 8, (1, 2, 3, 4), 162),
    ("vowels", 12, (1, 2), 78),
    ("cardio", 21, (1, 2), 231),
    ("musk", 166, (1,), 166),
    ("thyroid", 6, (1, 2), 21),
    ("pendigits", 16, (1, 2), 136),
    ("mammography", 6, (1, 2, 3, 4), 56),
]


@pytest.mark.parametrize(("name", "n_features", "sizes", "m"), PAPER)
def test_bank_has_the_papers_number_of_masks(name, n_features, sizes, m):
    assert bank_size(n_features, sizes) == m
    bank = mask_bank(n_features, sizes, max_masks=10_000, seed=0)
    assert bank.shape == (m, n_features)
    assert len(set(map(tuple, bank.tolist()))) == m
    assert set(bank.sum(1).tolist()) == set(sizes)


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 3))
def test_a_sampled_bank_is_a_repeatable_subset_of_the_bank(n_features, r, seed):
    sizes = tuple(range(1, min(r + 1, n_features) + 1))
    full = set(map(tuple, mask_bank(n_features, sizes, 10_000, 0).tolist()))
    limit = max(1, len(full) // 2)
    with pytest.warns(MaskBankWarning, match="random sample"):
        sample = mask_bank(n_features, sizes, limit, seed)
    with pytest.warns(MaskBankWarning):
        again = mask_bank(n_features, sizes, limit, seed)
    assert torch.equal(sample, again)
    drawn = list(map(tuple, sample.tolist()))
    assert len(set(drawn)) == limit
    assert set(drawn) <= full


def test_a_sample_is_uniform_over_the_bank():
    """Sizes appear in proportion to their number of subsets."""
    with pytest.warns(MaskBankWarning):
        sample = mask_bank(30, (1, 2, 3), 2000, seed=0)
    triples = (sample.sum(1) == 3).float().mean().item()
    assert triples == pytest.approx(comb(30, 3) / 4525, abs=0.02)


@pytest.mark.filterwarnings("ignore:.*leave some of the")
@given(st.integers(2, 60), st.integers(1, 8), st.integers(1, 60), st.integers(0, 3))
def test_a_sample_of_one_size_hides_every_cell_equally_often(n_features, size, count, seed):
    size, count = min(size, n_features), min(count, comb(n_features, min(size, n_features)))
    bank = mask_bank(n_features, (size,), count, seed)
    assert torch.equal(bank, mask_bank(n_features, (size,), count, seed))
    assert len(set(map(tuple, bank.tolist()))) == len(bank) == count
    assert (bank.sum(1) == size).all()
    hidden = bank.sum(0)
    if count <= bank_size(n_features, (size,)) // 50:  # else masks come up twice, and are dropped
        assert hidden.max() - hidden.min() <= 2
    if size == 1:
        assert hidden.max() == 1


def test_sizes_beyond_the_table_are_dropped_and_none_left_is_an_error():
    assert len(mask_bank(2, (1, 2, 3), 100, 0)) == 3
    with pytest.raises(InputError, match="2 usable columns"):
        mask_bank(2, (3,), 100, 0)


@pytest.mark.parametrize("probability", [0.1, 0.15, 0.5, 0.9])
def test_random_masks_have_their_probability(probability):
    drawn = MemberRandom([0, 1]).bernoulli((1000, 100), probability).float()
    for member in drawn:
        assert member.mean().item() == pytest.approx(
            probability, abs=5 * (probability * (1 - probability) / 1e5) ** 0.5
        )
    assert (drawn[0] != drawn[1]).any()


def test_certain_and_impossible_events():
    random = MemberRandom([0])
    assert random.bernoulli((1000,), 1.0).all()
    assert not random.bernoulli((1000,), 0.0).any()


def test_a_member_draws_the_same_numbers_alone_and_in_a_stack():
    stack, alone = MemberRandom([3, 4, 5]), MemberRandom([4])
    for _ in range(3):
        assert torch.equal(stack.bernoulli((7, 3), 0.3)[1], alone.bernoulli((7, 3), 0.3)[0])
        assert torch.equal(stack.uniform((4,), -1, 1)[1], alone.uniform((4,), -1, 1)[0])
        assert torch.equal(stack.permutations(6)[1], alone.permutations(6)[0])


def test_streams_continue_from_a_saved_state():
    random = MemberRandom([3, 4])
    state = random.state()
    first = random.uniform((5,), 0, 1)
    other = MemberRandom([0, 0])
    other.restore(state)
    assert torch.equal(other.uniform((5,), 0, 1), first)


def test_first_seeds_do_not_depend_on_how_many_are_drawn():
    assert spawn_seeds(7, 5)[:2] == spawn_seeds(7, 2)
    assert spawn_seeds(7, 2) != spawn_seeds(8, 2)
    assert len(set(spawn_seeds(None, 50))) == 50


def test_too_few_masks_of_one_size_to_hide_every_cell_are_told():
    with pytest.warns(MaskBankWarning, match="leave some of the 40 columns out of the score; take at least 20"):
        mask_bank(40, (2,), max_masks=10, seed=0)
