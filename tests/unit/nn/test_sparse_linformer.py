"""Linformer: equation, length limit and cost."""

import math

import pytest
import torch

from dragoman.errors import DataError
from dragoman.nn.masks import padding_mask
from dragoman.nn.sparse.linformer import Linformer
from tests.attention_probes import CountingAttention, dense_attention, inputs
from tests.peak_tensor import PeakTensor


def linformer(*, width=3, length=13, seed=1):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Linformer(projected_length=width, max_length=length).double()


def by_equation(pattern, query, key, value, lengths):
    """softmax(q (E K)^T / sqrt(d)) F V for one row, head and query after another."""
    groups = query.shape[1] // key.shape[1]
    output = torch.zeros(*query.shape[:3], value.shape[3], dtype=query.dtype)
    for row, length in enumerate(lengths):
        for head in range(query.shape[1]):
            E, F = pattern.key_projection.detach(), pattern.value_projection.detach()
            keys = [sum(E[mixture, n] * key[row, head // groups, n] for n in range(length)) for mixture in range(3)]
            values = [sum(F[mixture, n] * value[row, head // groups, n] for n in range(length)) for mixture in range(3)]
            for place in range(query.shape[2]):
                scores = [math.exp(float(query[row, head, place] @ one) / math.sqrt(query.shape[3])) for one in keys]
                for score, one in zip(scores, values, strict=True):
                    output[row, head, place] += score / sum(scores) * one
    return output


@pytest.mark.parametrize("key_heads", [1, 3])
@pytest.mark.parametrize("places", [1, 2, 7, 13])
def test_linformer_equals_equation(places, key_heads):
    query, key, value = (x.detach() for x in inputs(queries=places, key_heads=key_heads))
    pattern = linformer()
    expected = by_equation(pattern, query, key, value, [places, places])
    torch.testing.assert_close(pattern(dense_attention, query, key, value, None), expected)
    lengths = [max(1, places // 2), places]
    expected = by_equation(pattern, query, key, value, lengths)
    padded = pattern(dense_attention, query, key, value, padding_mask(torch.tensor(lengths), places))
    torch.testing.assert_close(padded, expected)


def test_number_of_keys_is_fixed():
    look = CountingAttention()
    linformer(length=101)(look, *inputs(queries=101), None)
    assert look.calls == [(2, 101, 3)]


def test_both_projections_get_gradients():
    pattern = linformer()
    query, key, value = inputs(queries=7)
    pattern(dense_attention, query, key, value, None).square().sum().backward()
    for mixture in (pattern.key_projection, pattern.value_projection):
        assert (mixture.grad[:, :7] != 0).all()
        assert (mixture.grad[:, 7:] == 0).all()
    assert [tuple(parameter.shape) for parameter in pattern.parameters()] == [(3, 13), (3, 13)]


def test_long_sequence_is_refused():
    with pytest.raises(DataError, match=r"14 tokens, but the pattern linformer supports 13.*pattern\.max_length"):
        linformer()(dense_attention, *inputs(queries=14), None)


def test_padding_row_gets_zeros():
    query, key, value = inputs(queries=7)
    attended = linformer()(dense_attention, query, key, value, padding_mask(torch.tensor([0, 7]), 7))
    assert (attended[0] == 0).all()


def test_no_quadratic_tensor():
    query, key, value = inputs(rows=1, heads=1, queries=2048)
    with PeakTensor() as largest:
        linformer(width=8, length=2048)(dense_attention, query, key, value, None).square().sum().backward()
    assert largest.bytes <= 8 * 2048 * 8


def test_cache_and_pair_mask_are_refused():
    with pytest.raises(AssertionError, match="without a cache"):
        linformer()(dense_attention, *inputs(queries=1, keys=11), None)
    with pytest.raises(AssertionError, match="padding only"):
        linformer()(dense_attention, *inputs(queries=11), torch.ones(1, 1, 11, 11, dtype=torch.bool))
