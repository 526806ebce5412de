"""Attention weights of extreme scores: masked keys get exactly zero, and no query gets NaN, on every path."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.nn.attention_functions import (
    VisibleKeys,
    fused_attention,
    map_query_chunks,
    masked_softmax,
    reference_attention,
)
from dragoman.nn.attention_score_functions import DotConfig, build_score
from dragoman.nn.cpu_training_ops import without_cpu_ops
from dragoman.nn.masks import padding_mask
from dragoman.nn.recurrent.global_attention import AttentionMemory, SourceAttention
from dragoman.nn.sparse.sliding_window import SlidingWindow, sliding_window_mask
from tests.property_settings import examples

LOWEST = torch.finfo(torch.float32).min
SCORES = [-math.inf, LOWEST, LOWEST / 2, 0.0, 1.5, 80.0]


def expected_weights(scores: list[float], allowed: list[bool]) -> list[float]:
    """Return the weights by definition, with Python's floats."""
    peak = max((score for score, may in zip(scores, allowed, strict=True) if may), default=-math.inf)
    if peak == -math.inf:
        return [0.0] * len(scores)
    shares = [math.exp(score - peak) if may else 0.0 for score, may in zip(scores, allowed, strict=True)]
    return [share / sum(shares) for share in shares]


def query_and_keys(scores: list[float], *, queries: int) -> tuple[Tensor, Tensor]:
    """Return finite queries and keys whose products are these scores."""
    keys = torch.zeros(1, 1, len(scores), len(scores))
    keys[0, 0, :, 0] = torch.tensor([-3e38 if score == -math.inf else 0.0 for score in scores])
    keys[0, 0, :, 1] = torch.tensor([0.0 if score == -math.inf else score for score in scores])
    query = torch.zeros(1, 1, queries, len(scores))
    query[..., 0], query[..., 1] = 3.0, 1.0
    return query, keys


def product(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.mT


def by_reference(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return reference_attention(query, key, value, mask=mask, compare=product)


def by_chunks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    def compute(chunk: Tensor, visible: VisibleKeys) -> Tensor:
        return by_reference(chunk, key, value, visible.mask)

    return map_query_chunks(compute, query, VisibleKeys(mask), chunk=1)


def by_fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return fused_attention(query, key, value, mask=mask, scale=1.0)


def by_pytorch_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    with without_cpu_ops():
        return by_fused(query, key, value, mask)


def by_fused_with_bias(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    bias = torch.zeros(1, 1, query.shape[2], key.shape[2])
    return fused_attention(query, key, value, mask=mask, bias=bias, scale=1.0)


PATHS = [by_reference, by_chunks, by_fused, by_pytorch_kernel, by_fused_with_bias]


@st.composite
def scores_and_masks(draw):
    size = draw(st.integers(2, 7))
    scores = draw(st.lists(st.sampled_from(SCORES), min_size=size, max_size=size))
    rows = draw(st.lists(st.lists(st.booleans(), min_size=size, max_size=size), min_size=1, max_size=3))
    return scores, rows


@pytest.mark.parametrize("attend", PATHS)
@given(case=scores_and_masks())
@examples(100)
def test_weights_equal_definition(attend: Callable[..., Tensor], case):
    scores, rows = case
    query, key = (tensor.requires_grad_() for tensor in query_and_keys(scores, queries=len(rows)))
    value = torch.eye(len(scores))[None, None].requires_grad_()
    weights = attend(query, key, value, torch.tensor(rows)[None, None])
    for found, allowed in zip(weights[0, 0].tolist(), rows, strict=True):
        assert found == pytest.approx(expected_weights(scores, allowed), rel=1e-6, abs=1e-30)
        assert all(weight == 0 for weight, may in zip(found, allowed, strict=True) if not may)
    weights.square().sum().backward()
    assert value.grad.isfinite().all()
    if -math.inf not in scores:
        assert query.grad.isfinite().all()
        assert key.grad.isfinite().all()


@pytest.mark.parametrize("number_format", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("lowest", ["minus infinity", "finfo.min"])
def test_allowed_lowest_score_takes_no_masked_key(number_format, lowest):
    low = -math.inf if lowest == "minus infinity" else torch.finfo(number_format).min
    logits = torch.tensor([[[[low, 0.0, low]]]], dtype=number_format)
    mask = torch.tensor([[[[True, False, False]]]])
    expected = 0.0 if low == -math.inf else 1.0
    assert masked_softmax(logits, mask).flatten().tolist() == [expected, 0.0, 0.0]


def test_unmasked_query_of_infinite_scores_gets_zeros():
    logits = torch.full((1, 1, 2, 3), -math.inf)
    logits[0, 0, 1] = 1.0
    logits.requires_grad_()
    weights = masked_softmax(logits, None)
    assert weights[0, 0, 0].tolist() == [0.0] * 3
    assert weights[0, 0, 1].tolist() == pytest.approx([1 / 3] * 3)
    weights.square().sum().backward()
    assert logits.grad.isfinite().all()


def test_sliding_window_of_lowest_scores():
    """Blocks of a sliding window hold keys outside of the window, which are masked."""
    length, window = 97, 5
    value = torch.eye(length)[None, None]
    query, key = query_and_keys([LOWEST] * length, queries=length)

    def attend(query: Tensor, key: Tensor, value: Tensor, visible: VisibleKeys) -> Tensor:
        return by_reference(query, key, value, visible.dense_mask(query, key))

    weights = SlidingWindow(window=window, causal=True)(attend, query, key, value, None)
    mask = sliding_window_mask(length, length, past_length=0, window=window, causal=True)
    torch.testing.assert_close(weights, mask / mask.sum(dim=-1, keepdim=True))
    assert (weights[~mask] == 0).all()


def test_global_attention_of_lowest_scores():
    score = build_score(DotConfig(), query_size=2, key_size=2, heads=1, key_heads=1)
    layer = SourceAttention(score=score, size=2, value_size=2)
    states = torch.tensor([[[LOWEST, 1.0], [0.0, 2.0]], [[-3e38, 1.0], [5.0, 3.0]]])
    query = torch.tensor([[[1.0, 0.0]], [[3.0, 0.0]]])
    memory = AttentionMemory(layer.keys_values(states), padding_mask(torch.tensor([1, 1]), 2))
    assert layer.weights(query, memory).tolist() == [[[1.0, 0.0]], [[0.0, 0.0]]]
    assert layer.context(query, memory)[:, 0].tolist() == [[LOWEST, 1.0], [0.0, 0.0]]
