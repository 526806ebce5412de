"""Sliding windows: equivalent mask, blocks and cost."""

import doctest

import pytest
import torch

import dragoman.nn.sparse.sliding_window
from dragoman.nn.attention_functions import VisibleKeys
from dragoman.nn.masks import left_padding_mask
from dragoman.nn.sparse.sliding_window import (
    MIN_BLOCK_SIZE,
    SlidingWindow,
    diagonal_blocks,
    overlapping_blocks,
    sliding_window_mask,
)
from tests.attention_probes import CountingAttention, dense_attention, inputs
from tests.peak_tensor import PeakTensor

CAUSAL = pytest.mark.parametrize("causal", [True, False])


def test_docstring_examples():
    assert doctest.testmod(dragoman.nn.sparse.sliding_window).attempted > 0
    assert doctest.testmod(dragoman.nn.sparse.sliding_window).failed == 0


@CAUSAL
@pytest.mark.parametrize(("queries", "keys", "before"), [(1, 1, 0), (5, 5, 0), (3, 7, 4), (1, 7, 6), (5, 11, 2)])
@pytest.mark.parametrize("reach", [1, 2, 3, 13])
def test_mask_equals_definition(queries, keys, before, reach, causal):
    furthest = 0 if causal else reach
    expected = [[-reach <= key - query - before <= furthest for key in range(keys)] for query in range(queries)]
    mask = sliding_window_mask(queries, keys, past_length=before, window=reach, causal=causal)
    assert mask.shape == (1, 1, queries, keys)
    assert mask[0, 0].tolist() == expected


def test_overlapping_blocks():
    x = torch.arange(2 * 7.0).view(2, 1, 7, 1)
    expected = [[0, 1, 2], [2, 3, 4], [4, 5, 6], [7, 8, 9], [9, 10, 11], [11, 12, 13]]
    assert overlapping_blocks(x, size=3, step=2)[:, 0, :, 0].tolist() == expected


def test_diagonal_blocks():
    mask = torch.tensor([[[[1, 0, 0, 1, 0], [0, 1, 0, 0, 1], [1, 1, 0, 1, 0], [0, 0, 1, 1, 1]]]]).bool()
    expected = [[[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [1, 1, 1]]]
    assert diagonal_blocks(mask, block=2, span=3)[0].int().tolist() == expected
    flat = torch.tensor([[[[1, 0, 0, 1, 0]]]]).bool()
    expected = [[[1, 0, 0], [1, 0, 0]], [[0, 1, 0], [0, 1, 0]]]
    assert diagonal_blocks(flat, block=2, span=3)[0].int().tolist() == expected


@CAUSAL
@pytest.mark.parametrize("reach", [10, 97])
def test_wide_window_equals_full_attention(causal, reach):
    query, key, value = inputs(queries=11)
    look = CountingAttention()
    SlidingWindow(window=reach, causal=causal)(look, query, key, value, None)
    assert look.calls == [(2, 11, 11)]
    windowed = SlidingWindow(window=reach, causal=causal)(dense_attention, query, key, value, None)
    torch.testing.assert_close(windowed, dense_attention(query, key, value, VisibleKeys(causal=causal, past_length=0)))


def test_cached_step_reads_window_only():
    query, key, value = inputs(queries=1, keys=1009)
    look = CountingAttention()
    attended = SlidingWindow(window=7, causal=True)(
        look, query, key, value, left_padding_mask(torch.tensor([3, 1009]), 1009)
    )
    assert look.calls == [(2, 1, 8)]
    alone = dense_attention(query[:1], key[:1, :, -3:], value[:1, :, -3:], VisibleKeys())
    torch.testing.assert_close(attended[:1], alone)


@CAUSAL
def test_cost_is_linear(causal):
    pairs = []
    for length in (640, 1280):
        look = CountingAttention()
        SlidingWindow(window=64, causal=causal)(look, *inputs(rows=1, heads=1, queries=length), None)
        pairs.append(look.pairs)
    assert pairs[1] == 2 * pairs[0]
    assert pairs[0] == 640 * 64 * (2 if causal else 3)


def test_small_window_uses_minimum_block():
    look = CountingAttention()
    SlidingWindow(window=3, causal=True)(look, *inputs(rows=1, heads=1, queries=5 * MIN_BLOCK_SIZE), None)
    assert look.calls == [(5, MIN_BLOCK_SIZE, MIN_BLOCK_SIZE + 3)]


@CAUSAL
def test_no_quadratic_tensor(causal):
    length, reach = 2048, 32
    query, key, value = inputs(rows=1, heads=1, queries=length)
    with PeakTensor() as largest:
        SlidingWindow(window=reach, causal=causal)(dense_attention, query, key, value, None).square().sum().backward()
    assert largest.bytes <= 8 * length * 4 * reach


def test_long_cache_is_refused():
    with pytest.raises(AssertionError, match="align with the last keys"):
        SlidingWindow(window=3, causal=True)(dense_attention, *inputs(queries=7, keys=5), None)
