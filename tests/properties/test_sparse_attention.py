"""Properties of every pattern: dense attention under its mask, with every score and position.

Steps equal the parallel pass, batch equals alone, and padding has no effect.
"""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import dragoman.nn.sparse.sliding_window
from dragoman.nn.attention import AttentionPattern, FullAttention, Heads, MultiHeadAttention, PositionBias
from dragoman.nn.attention_functions import VisibleKeys, fused_attention
from dragoman.nn.attention_score_functions import (
    AdditiveConfig,
    CosineConfig,
    DotConfig,
    MultiplicativeConfig,
    ReducedRankConfig,
    ScaledDotConfig,
    build_score,
)
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.masks import document_mask, left_padding_mask, padding_mask
from dragoman.nn.positions.alibi import AlibiBias
from dragoman.nn.positions.shaw import ShawPositions
from dragoman.nn.positions.t5_bias import T5Bias
from dragoman.nn.sparse.bigbird import BigBird, bigbird_mask, sample_random_blocks
from dragoman.nn.sparse.linformer import Linformer
from dragoman.nn.sparse.sliding_window import SlidingWindow, sliding_window_mask
from tests.attention_probes import dense_attention, inputs
from tests.property_settings import examples

CLOSE = {"atol": 1e-10, "rtol": 1e-10}
seeds = st.integers(0, 2**32)
reaches = st.sampled_from([1, 2, 3, 5, 7, 13, 31])
many = st.sampled_from([1, 2, 3, 5, 11, 17, 41, 67])
heads = st.sampled_from([(1, 1), (3, 3), (3, 1), (6, 2)])
bigbirds = st.tuples(st.sampled_from([1, 2, 3, 5]), st.sampled_from([0, 1, 2, 3]), st.integers(0, 10))


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small blocks, so that short sequences have several; the larger default serves speed alone."""
    monkeypatch.setattr(dragoman.nn.sparse.sliding_window, "MIN_BLOCK_SIZE", 2)


def tensors(shape: tuple[int, int], queries: int, keys: int, seed: int, *, rows: int = 2) -> list[Tensor]:
    return inputs(rows=rows, heads=shape[0], key_heads=shape[1], queries=queries, keys=keys, seed=seed)


def assert_same_values_and_gradients(first: Tensor, second: Tensor, parts: list[Tensor]) -> None:
    torch.testing.assert_close(first, second, **CLOSE)
    towards = torch.randn(first.shape, generator=torch.Generator().manual_seed(1), dtype=first.dtype)
    gradients = [torch.autograd.grad(one, parts, towards, retain_graph=True) for one in (first, second)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, **CLOSE)


def bigbird(block: int, random: int, seed: int) -> BigBird:
    return BigBird(
        block_size=block,
        num_random_blocks=random,
        sampler=partial(sample_random_blocks, num_random_blocks=random, seed=seed),
    )


@examples(60)
@given(heads, many, st.sampled_from([0, 1, 2, 7, 23, 53]), reaches, st.booleans(), seeds)
def test_window_equals_dense_masked_attention(shape, queries, past, reach, causal, seed) -> None:
    """With any number of earlier keys, correct distances, and gradients."""
    query, key, value = tensors(shape, queries, past + queries, seed)
    windowed = SlidingWindow(window=reach, causal=causal)(dense_attention, query, key, value, None)
    mask = sliding_window_mask(queries, past + queries, past_length=past, window=reach, causal=causal)
    dense = dense_attention(query, key, value, VisibleKeys(mask, past_length=past))
    assert_same_values_and_gradients(windowed, dense, [query, key, value])


@examples(60)
@given(heads, many, st.sampled_from([0, 2, 23]), reaches, st.booleans(), st.data(), seeds)
def test_window_obeys_the_caller_mask(shape, queries, past, reach, causal, data, seed) -> None:
    """Padding on either side, packed documents, random masks; some queries may attend to nothing."""
    keys = past + queries
    query, key, value = tensors(shape, queries, keys, seed)
    lengths = torch.tensor(data.draw(st.lists(st.integers(0, keys), min_size=2, max_size=2)))
    generator = torch.Generator().manual_seed(seed)
    documents = torch.randint(0, 3, (2, keys), generator=generator).sort(dim=1).values
    masks = {
        "behind": padding_mask(lengths, keys),
        "before": left_padding_mask(lengths, keys),
        "one for all rows": padding_mask(lengths[:1], keys),
        "documents": document_mask(documents)[:, :, past:],
        "chance": torch.rand(2, 1, queries, keys, generator=generator) < 0.5,
        "the same chance for all rows": torch.rand(1, 1, queries, keys, generator=generator) < 0.5,
    }
    mask = masks[data.draw(st.sampled_from(sorted(masks)))]
    windowed = SlidingWindow(window=reach, causal=causal)(dense_attention, query, key, value, mask)
    mask = sliding_window_mask(queries, keys, past_length=past, window=reach, causal=causal) & mask
    dense = dense_attention(query, key, value, VisibleKeys(mask, past_length=past))
    assert_same_values_and_gradients(windowed, dense, [query, key, value])


@examples(60)
@given(heads, many, reaches, st.lists(st.integers(1, 9), min_size=1, max_size=9), seeds)
@torch.no_grad()
def test_window_steps_equal_parallel(shape, places, reach, steps, seed) -> None:
    """Steps of one position and of several, each with all earlier keys."""
    query, key, value = tensors(shape, places, places, seed)
    pattern = SlidingWindow(window=reach, causal=True)
    at_once = pattern(dense_attention, query, key, value, None)
    done = 0
    while done < places:
        until = min(places, done + steps[done % len(steps)])
        step = pattern(dense_attention, query[:, :, done:until], key[:, :, :until], value[:, :, :until], None)
        torch.testing.assert_close(step, at_once[:, :, done:until], **CLOSE)
        done = until


@examples(60)
@given(heads, st.lists(many, min_size=1, max_size=3), bigbirds, st.integers(0, 7), seeds)
def test_bigbird_equals_dense_masked_attention(shape, lengths, settings, padding, seed) -> None:
    """For any lengths of the other rows, gradients included."""
    block, random, chance = settings
    places = max(lengths) + padding
    query, key, value = tensors(shape, places, places, seed, rows=len(lengths))
    mask = padding_mask(torch.tensor(lengths), places)
    sparse = bigbird(*settings)(dense_attention, query, key, value, mask)
    for row, length in enumerate(lengths):
        plan = sample_random_blocks(-(-length // block), shape[1], num_random_blocks=random, seed=chance)
        mask = bigbird_mask(length, block_size=block, random_blocks=plan).repeat_interleave(shape[0] // shape[1], dim=0)
        alone = [x[row : row + 1, :, :length] for x in (query, key, value)]
        dense = dense_attention(*alone, VisibleKeys(mask[None]))
        assert_same_values_and_gradients(sparse[row : row + 1, :, :length], dense, [query, key, value])


@examples(60)
@given(heads, many, bigbirds, seeds)
def test_bigbird_without_mask_equals_a_full_mask(shape, places, settings, seed) -> None:
    query, key, value = tensors(shape, places, places, seed)
    plain = bigbird(*settings)(dense_attention, query, key, value, None)
    for rows in (1, 2):
        masked = bigbird(*settings)(
            dense_attention, query, key, value, torch.ones(rows, 1, 1, places, dtype=torch.bool)
        )
        assert_same_values_and_gradients(plain, masked, [query, key, value])


def a_pattern(name: str) -> AttentionPattern:
    match name:
        case "sliding_window":
            return SlidingWindow(window=3, causal=False)
        case "causal window":
            return SlidingWindow(window=3, causal=True)
        case "bigbird":
            return bigbird(3, 1, 0)
        case _:
            return Linformer(projected_length=5, max_length=97).double()


patterns = st.sampled_from(["sliding_window", "causal window", "bigbird", "linformer"])


@examples(60)
@given(patterns, heads, st.lists(many, min_size=2, max_size=5), st.integers(0, 29), seeds)
@torch.no_grad()
def test_batch_equals_alone_and_padding_has_no_effect(name, shape, lengths, padding, seed) -> None:
    places = max(lengths) + padding
    pattern = a_pattern(name)
    query, key, value = tensors(shape, places, places, seed, rows=len(lengths))
    mask = padding_mask(torch.tensor(lengths), places)
    together = pattern(dense_attention, query, key, value, mask)
    real = mask.transpose(2, 3)
    scribbled = pattern(dense_attention, *(x.where(real, 7.0 * x.flip(2)) for x in (query, key, value)), mask)
    for row, length in enumerate(lengths):
        alone = pattern(dense_attention, *(x[row : row + 1, :, :length] for x in (query, key, value)), None)
        torch.testing.assert_close(together[row : row + 1, :, :length], alone, **CLOSE)
        torch.testing.assert_close(scribbled[row, :, :length], together[row, :, :length], **CLOSE)


@examples(60)
@given(patterns, heads, many, st.integers(0, 29), seeds)
def test_fused_kernels_equal_the_equation(name, shape, places, padding, seed) -> None:
    """In single precision with gradients, and finite for rows of padding only."""

    def fused_look(query, key, value, visible):
        return fused_attention(query, key, value, mask=visible.dense_mask(query, key))

    def plain_look(query, key, value, visible):
        return dense_attention(query, key, value, VisibleKeys(visible.dense_mask(query, key)))

    parts = [x.detach().float().requires_grad_() for x in tensors(shape, places + padding, places + padding, seed)]
    pattern = a_pattern(name)
    pattern = pattern.float() if isinstance(pattern, Linformer) else pattern
    mask = padding_mask(torch.tensor([places, 0]), places + padding)
    fused, plain = (pattern(look, *parts, mask) for look in (fused_look, plain_look))
    torch.testing.assert_close(fused[0, :, :places], plain[0, :, :places], atol=1e-4, rtol=1e-4)
    assert (fused[1] == 0).all()
    gradients = torch.autograd.grad(fused[0, :, :places].square().sum(), parts, retain_graph=True)
    expected = torch.autograd.grad(plain[0, :, :places].square().sum(), parts)
    torch.testing.assert_close(gradients, expected, atol=1e-3, rtol=1e-3)
    whole = torch.autograd.grad(fused.square().sum(), parts)
    assert all(gradient.isfinite().all() for gradient in whole)


SCORES = [
    DotConfig(),
    ScaledDotConfig(),
    MultiplicativeConfig(),
    ReducedRankConfig(rank=2),
    AdditiveConfig(),
    CosineConfig(),
]


def a_text(places: int) -> Tensor:
    return torch.randn(2, places, 30, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def attention(config, pattern: AttentionPattern, distances: PositionBias | None = None) -> MultiHeadAttention:
    """Return a layer with the same weights every time."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        score = build_score(config, query_size=5, key_size=5, heads=6, key_heads=2)
        layer = MultiHeadAttention(
            d_model=30,
            heads=Heads(6, group=3),
            bias=True,
            dropout=0.0,
            score=score,
            pattern=pattern,
            positions=distances,
        )
        return layer.double().eval()


def distances_of(name: str) -> PositionBias | None:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        match name:
            case "alibi":
                return AlibiBias(num_heads=6)
            case "t5_bias":
                bucketed = T5Bias(num_buckets=8, max_distance=11, num_heads=6, causal=False)
                torch.nn.init.normal_(bucketed.table)
                return bucketed
            case "shaw":
                return ShawPositions(max_distance=4, head_size=5, scale=0.5, adds_values=True)
            case _:
                return None


def of_scores(test):
    return pytest.mark.parametrize("config", SCORES, ids=lambda config: config.kind)(test)


TOGETHER = [
    (score, positions)
    for score in SCORES
    for positions in ("none", "alibi", "t5_bias", "shaw")
    if positions != "shaw" or score.kind in ("dot", "scaled_dot", "multiplicative")  # the others are refused
]


@pytest.mark.parametrize(("config", "positions"), TOGETHER, ids=lambda one: getattr(one, "kind", one))
@pytest.mark.parametrize("causal", [True, False])
@torch.no_grad()
def test_window_supports_every_score_and_position(config, positions, causal) -> None:
    """The whole layer against the same layer with full attention under the window's mask."""
    places, reach = 37, 5
    distances = distances_of(positions)
    windowed = attention(config, SlidingWindow(window=reach, causal=causal), distances)
    full = attention(config, FullAttention(causal=causal), distances)
    x, mask = a_text(places), padding_mask(torch.tensor([places, 11]), places)
    mask = sliding_window_mask(places, places, past_length=0, window=reach, causal=causal) & mask
    outputs = (layer(x, layer.project_keys_values(x), seen) for layer, seen in ((windowed, mask), (full, mask)))
    torch.testing.assert_close(*outputs, **CLOSE)


@of_scores
@torch.no_grad()
def test_bigbird_supports_every_score(config) -> None:
    def draw(blocks, heads):
        return sample_random_blocks(blocks, 1, num_random_blocks=1, seed=0)

    sparse, full = (
        attention(config, pattern)
        for pattern in (BigBird(block_size=3, num_random_blocks=1, sampler=draw), FullAttention(causal=False))
    )
    x, mask = a_text(37), bigbird_mask(37, block_size=3, random_blocks=draw(13, 1))[None]
    outputs = (layer(x, layer.project_keys_values(x), seen) for layer, seen in ((sparse, None), (full, mask)))
    torch.testing.assert_close(*outputs, **CLOSE)


@of_scores
@torch.no_grad()
def test_linformer_supports_every_score(config) -> None:
    """Against full attention to keys and values projected beforehand."""
    pattern = Linformer(projected_length=5, max_length=41)
    layer, full = attention(config, pattern), attention(config, FullAttention(causal=False))
    x = a_text(37)
    seen = layer.project_keys_values(x)
    mixed = (
        torch.einsum("mn,rhnw->rhmw", mixture[:, :37], part)
        for mixture, part in ((pattern.key_projection, seen.keys), (pattern.value_projection, seen.values))
    )
    torch.testing.assert_close(layer(x, seen, None), full(x, KVCache(*mixed), None), **CLOSE)
