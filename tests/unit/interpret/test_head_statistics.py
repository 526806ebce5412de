"""Statistics of heads against numbers that can be said without computing, and rollout against its definition."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.interpret.head_statistics import distance, entropy, head_statistics, is_punctuation, rollout, share_on


def maps(*, layers=2, heads=3, queries=5, keys=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(layers, heads, queries, keys, generator=generator).softmax(dim=-1)


def test_looking_at_one_key_is_certain_and_at_all_alike_is_as_wide_as_can_be():
    one = torch.eye(7).expand(2, 3, -1, -1)
    torch.testing.assert_close(entropy(one), torch.zeros(2, 3))
    torch.testing.assert_close(entropy(torch.full((2, 3, 5, 7), 1 / 7)), torch.full((2, 3), math.log(7)))


@pytest.mark.parametrize("away", [0, 1, 3])
def test_a_head_that_always_looks_so_far_back_has_that_distance(away):
    weights = torch.zeros(1, 1, 5, 11)
    weights[..., torch.arange(5), torch.arange(5) + away] = 1.0
    assert distance(weights).item() == away


def test_queries_that_see_nothing_count_for_nothing():
    weights = maps(layers=1, heads=1, queries=3)
    beside = torch.cat([weights, torch.zeros(1, 1, 4, 7)], dim=2)
    torch.testing.assert_close(entropy(beside), entropy(weights))
    assert entropy(torch.zeros(1, 1, 4, 7)).item() == 0.0


@given(st.integers(0, 999))
def test_shares_of_parts_are_the_whole(seed):
    weights = maps(seed=seed)
    some = torch.tensor([True, False, False, True, True, False, False])
    torch.testing.assert_close(share_on(weights, some) + share_on(weights, ~some), torch.ones(2, 3))


def test_the_table_names_every_head():
    keys = torch.arange(7)
    rows = head_statistics("cross", maps(), punctuation=keys == 5, end=keys == 6)
    assert [(row.layer, row.head) for row in rows] == [(layer, head) for layer in range(2) for head in range(3)]
    assert all(row.distance is None for row in rows)
    assert rows[4].on_end == pytest.approx(maps()[1, 1, :, 6].mean().item(), abs=1e-6)
    (alone,) = head_statistics("encoder", torch.eye(7)[None, None], punctuation=keys == 5, end=keys == 6)
    assert (alone.distance, alone.entropy) == (0.0, 0.0)
    assert alone.on_punctuation == pytest.approx(1 / 7)


@given(st.integers(0, 999))
def test_rollout_shares_out_every_place_whole(seed):
    rolled = rollout(maps(queries=7, seed=seed))
    torch.testing.assert_close(rolled.sum(dim=-1), torch.ones(2, 7))
    assert (rolled >= 0).all()


def test_rollout_by_hand():
    """Two places: the first layer swaps them, the second leaves them; half of each goes by the residual."""
    swap, stay = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.eye(2)
    rolled = rollout(torch.stack([swap, stay])[:, None])
    torch.testing.assert_close(rolled[0], torch.full((2, 2), 0.5))
    torch.testing.assert_close(rolled[1], torch.full((2, 2), 0.5))
    torch.testing.assert_close(rollout(torch.stack([stay, stay])[:, None])[1], torch.eye(2))


def test_punctuation_is_what_holds_no_letter_and_no_digit():
    tokens = ["▁dog", ".", "▁,", "<eos>", "▁7", "—", "▁", "s"]
    assert is_punctuation(tokens).tolist() == [False, True, True, False, False, True, True, False]
