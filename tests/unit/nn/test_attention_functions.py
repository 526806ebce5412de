"""Reference and fused attention compared with the equation, key by key."""

import math

import pytest
import torch

from dragoman.nn.attention_functions import fused_attention, masked_softmax, reference_attention
from dragoman.nn.attention_score_functions import scaled_dot
from dragoman.nn.masks import causal_mask, left_padding_mask
from tests.reference_layers import attend_heads

IMPLEMENTATIONS = pytest.mark.parametrize("attend", [reference_attention, fused_attention])
FORMATS = pytest.mark.parametrize("number_format", [torch.float32, torch.bfloat16])


def tensors(*, num_kv_heads=3, queries=5, keys=7, head_size=2, value_size=2, number_format=torch.float32):
    generator = torch.Generator().manual_seed(1)
    shapes = [(3, queries, head_size), (num_kv_heads, keys, head_size), (num_kv_heads, keys, value_size)]
    return [torch.randn(2, *shape, generator=generator).to(number_format) for shape in shapes]


def random_mask(*shape):
    """Return a random mask with at least one key per query."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(2)) < 0.5
    mask[..., 0] = True
    return mask


# The lecture's example: three words, each looking at itself and those before it.
QUERIES = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
KEYS = [[1.0, 1.0], [0.0, 2.0], [-1.0, 1.0]]
VALUES = [[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]]


def test_masked_attention_by_hand():
    query, key = (torch.tensor(rows)[None, None] for rows in (QUERIES, KEYS))
    weights = masked_softmax(scaled_dot(query, key), causal_mask(3, 3))[0, 0]
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(3))
    assert (weights.triu(diagonal=1) == 0).all()
    assert (weights.tril()[torch.ones(3, 3).tril().bool()] > 0).all()
    # q_2 k_1 = 1, q_2 k_2 = 2; q_3 k_1 = 2, q_3 k_2 = 2, q_3 k_3 = 0; all over the root of two
    second = [math.exp(1 / math.sqrt(2)), math.exp(2 / math.sqrt(2))]
    third = [math.exp(2 / math.sqrt(2)), math.exp(2 / math.sqrt(2)), 1.0]
    assert weights[0].tolist() == [1.0, 0.0, 0.0]
    assert weights[1].tolist() == pytest.approx([share / sum(second) for share in [*second, 0.0]])
    assert weights[2].tolist() == pytest.approx([share / sum(third) for share in third])


@IMPLEMENTATIONS
def test_first_causal_query_returns_its_own_value(attend):
    query, key, value = (torch.tensor(rows)[None, None] for rows in (QUERIES, KEYS, VALUES))
    output = attend(query, key, value, mask=causal_mask(3, 3))[0, 0]
    assert output[0].tolist() == VALUES[0]
    first = math.exp(1 / math.sqrt(2)) / (math.exp(1 / math.sqrt(2)) + math.exp(2 / math.sqrt(2)))
    expected = [first * one + (1 - first) * two for one, two in zip(VALUES[0], VALUES[1], strict=True)]
    assert output[1].tolist() == pytest.approx(expected)


@IMPLEMENTATIONS
@pytest.mark.parametrize("num_kv_heads", [1, 3])
@pytest.mark.parametrize("value_size", [2, 11])
@pytest.mark.parametrize("mask_shape", [(1, 1, 5, 7), (2, 1, 1, 7), (2, 3, 5, 7)])
def test_attention_equals_equation(attend, num_kv_heads, value_size, mask_shape):
    query, key, value = tensors(num_kv_heads=num_kv_heads, value_size=value_size)
    mask = random_mask(*mask_shape)
    expected = attend_heads(query, key, value, mask)
    torch.testing.assert_close(attend(query, key, value, mask=mask), expected)


@IMPLEMENTATIONS
def test_no_mask_equals_full_mask(attend):
    query, key, value = tensors()
    expected = attend_heads(query, key, value, torch.ones(1, 1, 1, 7, dtype=torch.bool))
    torch.testing.assert_close(attend(query, key, value), expected)


@IMPLEMENTATIONS
@FORMATS
def test_fully_masked_query_gets_zeros(attend, number_format):
    inputs = [tensor.requires_grad_() for tensor in tensors(number_format=number_format)]
    mask = random_mask(2, 3, 5, 7)
    mask[0, 1, 2] = False
    mask[1, 2] = False
    output = attend(*inputs, mask=mask)
    assert output.dtype == number_format
    assert (output[0, 1, 2] == 0).all()
    assert (output[1, 2] == 0).all()
    expected = attend_heads(*(tensor.detach().float() for tensor in inputs), mask)
    close = {"atol": 1e-6, "rtol": 1e-5} if number_format == torch.float32 else {"atol": 0.05, "rtol": 0.05}
    torch.testing.assert_close(output.detach().float(), expected, **close)
    output.float().square().sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in inputs)
    assert (inputs[0].grad[1, 2] == 0).all()


@IMPLEMENTATIONS
@FORMATS
def test_long_left_padding_is_ignored(attend, number_format):
    """Fused kernels process keys in blocks; here whole blocks are masked."""
    ages = torch.tensor([3, 1201])
    query, key, value = tensors(queries=1, keys=1201, number_format=number_format)
    output = attend(query, key, value, mask=left_padding_mask(ages, 1201))
    alone = attend(query[:1], key[:1, :, -3:], value[:1, :, -3:])
    close = {} if number_format == torch.float32 else {"atol": 0.02, "rtol": 0.02}
    torch.testing.assert_close(output[:1], alone, **close)
    assert output.isfinite().all()


@FORMATS
def test_masked_weights_are_exactly_zero(number_format):
    logits = torch.tensor([[[[1e4, -1e4, 3e4, 0.0]]]], dtype=number_format)
    mask = torch.tensor([[[[False, True, False, True]]]])
    assert masked_softmax(logits, mask).flatten().tolist() == [0.0, 0.0, 0.0, 1.0]
    assert masked_softmax(logits, torch.zeros_like(mask)).flatten().tolist() == [0.0] * 4


def test_query_without_keys_leaves_the_others_alone():
    """A batch with a query without visible keys takes the long path: its other queries get the same bits."""
    logits = torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(1), requires_grad=True)
    mask = torch.ones(2, 1, 5, 7, dtype=torch.bool)
    mask[0, 0, :, 4:] = False
    emptied = mask.clone()
    emptied[1] = False
    found = []
    for visible in (mask, emptied):
        weights = masked_softmax(logits, visible)[0]
        found.append((weights.detach(), *torch.autograd.grad(weights.square().sum(), logits)))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_dropout_preserves_expected_weights():
    query, key, _ = tensors(head_size=7)
    identity = torch.eye(7).expand(2, 3, 7, 7)
    weights = masked_softmax(scaled_dot(query, key), None)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        dropped = reference_attention(query, key, identity, dropout_p=0.25)
    kept = dropped != 0
    assert 0.5 < kept.float().mean() < 0.95
    torch.testing.assert_close(dropped[kept], weights[kept] / 0.75)
