"""BigBird: random blocks, equivalent mask and cost."""

import doctest
from collections import Counter
from functools import partial

import pytest
import torch

import dragoman.nn.sparse.bigbird
from dragoman.nn.attention_functions import VisibleKeys
from dragoman.nn.masks import padding_mask
from dragoman.nn.sparse.bigbird import (
    NO_BLOCK,
    BigBird,
    bigbird_mask,
    gather_blocks,
    sample_random_blocks,
    split_into_blocks,
)
from tests.attention_probes import CountingAttention, dense_attention, inputs
from tests.peak_tensor import PeakTensor


def bigbird(*, block=3, random=2, seed=0):
    return BigBird(
        block_size=block,
        num_random_blocks=random,
        sampler=partial(sample_random_blocks, num_random_blocks=random, seed=seed),
    )


def test_docstring_examples():
    assert doctest.testmod(dragoman.nn.sparse.bigbird).attempted > 0
    assert doctest.testmod(dragoman.nn.sparse.bigbird).failed == 0


@pytest.mark.parametrize("blocks", [1, 2, 3, 5, 7, 11, 29])
@pytest.mark.parametrize("random", [0, 1, 2, 5])
def test_random_blocks_are_distinct_and_distant(blocks, random):
    plan = sample_random_blocks(blocks, 3, num_random_blocks=random, seed=1)
    assert plan.shape == (3, max(0, blocks - 2), random)
    for head in range(3):
        for place in range(1, blocks - 1):
            row = plan[head, place - 1].tolist()
            chosen = [block for block in row if block != NO_BLOCK]
            far = [block for block in range(1, blocks - 1) if abs(block - place) > 1]
            assert set(chosen) <= set(far)
            assert len(set(chosen)) == len(chosen) == min(random, len(far))
            assert row == [*chosen, *[NO_BLOCK] * (random - len(chosen))]


def test_random_blocks_depend_on_arguments_only():
    first = sample_random_blocks(29, 3, num_random_blocks=2, seed=1).clone()
    sample_random_blocks.cache_clear()
    assert torch.equal(sample_random_blocks(29, 3, num_random_blocks=2, seed=1), first)
    assert not torch.equal(sample_random_blocks(29, 3, num_random_blocks=2, seed=2), first)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(sample_random_blocks(31, 3, num_random_blocks=2, seed=1)[:, :27], first)


def test_random_blocks_never_change():
    assert sample_random_blocks(9, 2, num_random_blocks=2, seed=7).tolist() == [
        [[5, 6], [6, 7], [6, 7], [1, 2], [2, 7], [2, 4], [3, 5]],
        [[3, 7], [5, 7], [1, 5], [1, 7], [1, 7], [1, 2], [2, 4]],
    ]


def test_random_blocks_are_uniform():
    counts = Counter()
    for seed in range(600):
        counts.update(sample_random_blocks(9, 1, num_random_blocks=2, seed=seed)[0, 3].tolist())
    assert sorted(counts) == [1, 2, 6, 7]
    assert all(abs(count - 300) < 60 for count in counts.values())  # five standard deviations


def test_mask_of_seven_blocks():
    plan = torch.tensor([[[4], [5], [1], [2], [NO_BLOCK]]])
    expected = ["1111111", "1110101", "1111011", "1111101", "1011111", "1000111", "1111111"]
    mask = bigbird_mask(7, block_size=1, random_blocks=plan)
    assert ["".join(str(int(one)) for one in row) for row in mask[0].tolist()] == expected
    places = [place // 3 for place in range(20)]  # the last block holds two places
    wide = bigbird_mask(20, block_size=3, random_blocks=plan)[0]
    assert wide.tolist() == [[expected[row][column] == "1" for column in places] for row in places]


def test_mask_has_blocks_per_head():
    plan = torch.tensor([[[3], [NO_BLOCK], [1]], [[NO_BLOCK], [NO_BLOCK], [NO_BLOCK]]])
    mask = bigbird_mask(5, block_size=1, random_blocks=plan)
    assert mask[0].int().tolist() == [
        [1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1],
    ]
    assert mask[1].int().tolist() == [
        [1, 1, 1, 1, 1],
        [1, 1, 1, 0, 1],
        [1, 1, 1, 1, 1],
        [1, 0, 1, 1, 1],
        [1, 1, 1, 1, 1],
    ]


@pytest.mark.parametrize("random", [0, 2, 5])
@pytest.mark.parametrize("places", [1, 2, 3, 4, 11, 12])
def test_few_blocks_use_full_attention(places, random):
    blocks = -(-places // 3)
    assert bigbird_mask(
        places, block_size=3, random_blocks=sample_random_blocks(blocks, 1, num_random_blocks=random, seed=0)
    ).all()
    look = CountingAttention()
    bigbird(random=random)(look, *inputs(queries=places), None)
    assert look.calls == [(2, places, places)]


def test_one_more_block_is_sparse():
    assert not bigbird_mask(
        19, block_size=3, random_blocks=sample_random_blocks(7, 1, num_random_blocks=2, seed=0)
    ).all()
    look = CountingAttention()
    bigbird(random=2)(look, *inputs(queries=19), None)
    assert look.calls == [(2, 6, 19), (2 * 5, 3, 7 * 3)]


def test_gather_blocks():
    x = torch.arange(2 * 2 * 4.0).view(2, 2, 4, 1)
    chosen = torch.tensor([[[[0, 1], [1, NO_BLOCK]]], [[[1, 1], [0, 1]]]])  # one middle block a row
    picked = gather_blocks(split_into_blocks(x, 2), chosen)[..., 0]
    assert picked[0, 0].tolist() == [0, 1, 2, 3]
    assert picked[0, 1, :2].tolist() == [6, 7]
    assert picked[1, 0].tolist() == [10, 11, 10, 11]
    assert picked[1, 1].tolist() == [12, 13, 14, 15]


def test_last_block_is_padded_with_zeros():
    assert split_into_blocks(torch.ones(1, 1, 5, 1), 3)[0, 0, :, :, 0].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert split_into_blocks(torch.ones(1, 1, 5, 1, dtype=torch.bool), 3).dtype == torch.bool


def test_cost_is_linear():
    pairs = []
    for blocks in (17, 33):
        look = CountingAttention()
        bigbird(block=8)(look, *inputs(rows=1, heads=1, queries=8 * blocks), None)
        pairs.append(look.pairs)
    assert pairs[0] == 15 * 8 * 7 * 8 + 2 * 8 * 17 * 8
    assert pairs[1] == 31 * 8 * 7 * 8 + 2 * 8 * 33 * 8


def test_no_quadratic_tensor():
    length, block = 2048, 8
    query, key, value = inputs(rows=1, heads=1, queries=length)
    with PeakTensor() as largest:
        bigbird(block=block)(dense_attention, query, key, value, None).square().sum().backward()
    assert largest.bytes <= 8 * length * 7 * block * 2


def test_one_head_of_blocks_serves_all():
    query, key, value = inputs(queries=29)
    one = BigBird(
        block_size=3,
        num_random_blocks=2,
        sampler=lambda blocks, heads: sample_random_blocks(blocks, 1, num_random_blocks=2, seed=0),
    )
    same = BigBird(
        block_size=3, num_random_blocks=2, sampler=lambda blocks, heads: one.sampler(blocks, 1).expand(heads, -1, -1)
    )
    attended = one(dense_attention, query, key, value, None)
    assert torch.equal(attended, same(dense_attention, query, key, value, None))
    assert not torch.allclose(attended, bigbird()(dense_attention, query, key, value, None))


def test_blocks_per_head_and_any_padding():
    """Two key heads, each with three query heads, have blocks of their own."""
    query, key, value = inputs(rows=1, heads=6, key_heads=2, queries=31)
    plan = sample_random_blocks(11, 2, num_random_blocks=2, seed=0).clone()
    plan[0, 2], plan[1, 3, 1] = NO_BLOCK, NO_BLOCK
    holes = torch.rand(1, 1, 1, 31, generator=torch.Generator().manual_seed(1)) < 0.8
    holes[..., -1] = True
    pattern = BigBird(block_size=3, num_random_blocks=2, sampler=lambda blocks, heads: plan)
    mask = bigbird_mask(31, block_size=3, random_blocks=plan).repeat_interleave(3, dim=0)[None] & holes
    dense = dense_attention(query, key, value, VisibleKeys(mask))
    torch.testing.assert_close(pattern(dense_attention, query, key, value, holes), dense)


def test_repeated_block_counts_twice():
    query, key, value = inputs(rows=1, heads=1, queries=29)
    twice = BigBird(
        block_size=3,
        num_random_blocks=2,
        sampler=lambda blocks, heads: torch.zeros(heads, blocks - 2, 2, dtype=torch.long),
    )
    attended = twice(dense_attention, query, key, value, None)
    keys = [0, 1, 2] * 3 + [*range(9, 18), 27, 28]  # the first block three times, itself and its neighbours, the last
    expected = dense_attention(query[:, :, 12:15], key[:, :, keys], value[:, :, keys], VisibleKeys())
    torch.testing.assert_close(attended[:, :, 12:15], expected)


def test_padding_row_gets_zeros():
    query, key, value = inputs(queries=29)
    attended = bigbird()(dense_attention, query, key, value, padding_mask(torch.tensor([0, 29]), 29))
    assert (attended[0] == 0).all()
    attended.sum().backward()
    assert query.grad.isfinite().all()


def test_cache_and_pair_mask_are_refused():
    with pytest.raises(AssertionError, match="without a cache"):
        bigbird()(dense_attention, *inputs(queries=1, keys=29), None)
    with pytest.raises(AssertionError, match="padding only"):
        bigbird()(dense_attention, *inputs(queries=29), torch.ones(1, 1, 29, 29, dtype=torch.bool))
