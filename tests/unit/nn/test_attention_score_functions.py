"""Attention scores compared with their equations, pair by pair."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dragoman.errors import ConfigError
from dragoman.nn.attention_functions import VisibleKeys, map_query_chunks, reference_attention
from dragoman.nn.attention_score_functions import Score, build_score
from tests.attention_variants import OF_ONE_SIZE, SCORES

HEADS, KEY_HEADS, SIZE, KEY_SIZE = 6, 2, 5, 7


def built(name: str, *, key_size: int = SIZE) -> Score:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        score = build_score(SCORES[name], query_size=SIZE, key_size=key_size, heads=HEADS, key_heads=KEY_HEADS)
        for parameter in score.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)
    return score


def inputs(key_size: int = SIZE) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    shapes = (3, HEADS, 11, SIZE), (3, KEY_HEADS, 13, key_size)
    return torch.randn(shapes[0], generator=generator), torch.randn(shapes[1], generator=generator)


def equation(name: str, score: Score, head: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Compute the score of one query and one key in one head."""
    shared = head // (HEADS // KEY_HEADS)
    match name:
        case "dot":
            return lambda q, k: (q * k).sum()
        case "scaled_dot":
            return lambda q, k: (q * k).sum() / math.sqrt(SIZE)
        case "multiplicative":
            return lambda q, k: torch.einsum("i,ij,j->", q, score.weight[head], k)
        case "reduced_rank":
            return lambda q, k: torch.einsum("i,ir,jr,j->", q, score.query_weight[head], score.key_weight[shared], k)
        case "additive":
            return lambda q, k: (
                score.vector[head] @ torch.tanh(score.key_weight[shared].t() @ k + score.query_weight[head].t() @ q)
            )
        case "cosine":
            return lambda q, k: score.log_scale[head].exp() * (q @ k) / (q.norm() * k.norm())
    raise AssertionError(name)


@pytest.mark.parametrize("name", SCORES)
@torch.no_grad()
def test_score_equals_equation(name: str) -> None:
    key_size = SIZE if name in OF_ONE_SIZE else KEY_SIZE
    score, (query, key) = built(name, key_size=key_size), inputs(key_size)
    found = score.compare(score.queries(query), score.keys(key))
    assert found.shape == (3, HEADS, 11, 13)
    for row, head, i, j in [(0, 0, 0, 0), (2, 5, 10, 12), (1, 3, 7, 4), (0, 2, 3, 9), (1, 4, 0, 12)]:
        one = equation(name, score, head)(query[row, head, i], key[row, head // (HEADS // KEY_HEADS), j])
        torch.testing.assert_close(found[row, head, i, j], one, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", OF_ONE_SIZE)
def test_different_sizes_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="they have 5 and 7; choose multiplicative, reduced_rank or additive"):
        built(name, key_size=KEY_SIZE)


@pytest.mark.parametrize("name", [name for name in SCORES if name != "additive"])
@torch.no_grad()
def test_scaled_scores_are_inner_products(name: str) -> None:
    score, (query, key) = built(name), inputs()
    mapped, keys = score.queries(query), score.keys(key).repeat_interleave(HEADS // KEY_HEADS, dim=1)
    assert score.scale is not None
    by_scale = score.scale * torch.einsum("rhid,rhjd->rhij", mapped, keys)
    torch.testing.assert_close(score.compare(mapped, score.keys(key)), by_scale, atol=1e-5, rtol=1e-5)


def test_additive_score_has_no_scale() -> None:
    assert built("additive").scale is None


@pytest.mark.parametrize("chunk", [1, 3, 11, 17])
@pytest.mark.parametrize("mask_kind", ["none", "keys", "pairs"])
def test_chunked_attention_equals_whole(chunk: int, mask_kind: str) -> None:
    """Values and all gradients agree, although the backward pass recomputes each chunk."""
    score, tensors = built("additive"), [tensor.requires_grad_() for tensor in inputs()]
    value = torch.randn(3, KEY_HEADS, 13, 4, generator=torch.Generator().manual_seed(4), requires_grad=True)
    shapes = {"keys": (3, 1, 1, 13), "pairs": (3, 1, 11, 13)}
    mask = None
    if mask_kind != "none":
        mask = torch.rand(shapes[mask_kind], generator=torch.Generator().manual_seed(5)) < 0.6

    def implementation(query: Tensor, visible: VisibleKeys) -> Tensor:
        return reference_attention(query, score.keys(tensors[1]), value, mask=visible.mask, compare=score.compare)

    def ran(size: int) -> tuple[Tensor, ...]:
        output = map_query_chunks(implementation, score.queries(tensors[0]), VisibleKeys(mask), chunk=size)
        leaves = [*tensors, value, *score.parameters()]
        return output.detach(), *torch.autograd.grad(output.square().sum(), leaves)

    torch.testing.assert_close(ran(chunk), ran(11), atol=1e-5, rtol=1e-5)
