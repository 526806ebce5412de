"""What holds for every pattern: it is dense attention under its own mask, with every score and position; one step after
another is all at once; alone is as in a batch; padding is nothing."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import dragoman.nn.sparse.sliding_window
from dragoman.nn.attention import Full, MultiHeadAttention, Pattern
from dragoman.nn.functional import attend_fused
from dragoman.nn.kv_cache import KeysValues
from dragoman.nn.masks import alike, latest, within
from dragoman.nn.positions.alibi import Alibi
from dragoman.nn.positions.distance_bias import DistanceBias
from dragoman.nn.positions.shaw import RelativePositions
from dragoman.nn.positions.t5_bias import BucketedPositions
from dragoman.nn.scores import (
    AdditiveConfig,
    CosineConfig,
    DotConfig,
    MultiplicativeConfig,
    ReducedRankConfig,
    ScaledDotConfig,
    build_score,
)
from dragoman.nn.sparse import BigBird, Linformer, Window, band, block_mask, random_plan
from tests.looks import dense_look, inputs

CLOSE = {"atol": 1e-10, "rtol": 1e-10}
seeds = st.integers(0, 2**32)
reaches = st.sampled_from([1, 2, 3, 5, 7, 13, 31])
many = st.sampled_from([1, 2, 3, 5, 11, 17, 41, 67])
heads = st.sampled_from([(1, 1), (3, 3), (3, 1), (6, 2)])
bigbirds = st.tuples(st.sampled_from([1, 2, 3, 5]), st.sampled_from([0, 1, 2, 3]), st.integers(0, 10))
law = settings(max_examples=60)


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short sequences of several blocks: a larger least block serves speed alone."""
    monkeypatch.setattr(dragoman.nn.sparse.sliding_window, "LEAST_BLOCK", 2)


def tensors(shape: tuple[int, int], queries: int, keys: int, seed: int, *, rows: int = 2) -> list[Tensor]:
    return inputs(rows=rows, heads=shape[0], key_heads=shape[1], queries=queries, keys=keys, seed=seed)


def same_values_and_gradients(first: Tensor, second: Tensor, parts: list[Tensor]) -> None:
    torch.testing.assert_close(first, second, **CLOSE)
    towards = torch.randn(first.shape, generator=torch.Generator().manual_seed(1), dtype=first.dtype)
    gradients = [torch.autograd.grad(one, parts, towards, retain_graph=True) for one in (first, second)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, **CLOSE)


def bigbird(block: int, random: int, seed: int) -> BigBird:
    return BigBird(block=block, random=random, draw=partial(random_plan, random=random, seed=seed))


@law
@given(heads, many, st.sampled_from([0, 1, 2, 7, 23, 53]), reaches, st.booleans(), seeds)
def test_a_window_is_dense_attention_under_its_mask(shape, queries, past, reach, causal, seed) -> None:
    """With whatever stands before the queries, distances told right, gradients too."""
    query, key, value = tensors(shape, queries, past + queries, seed)
    windowed = Window(reach=reach, causal=causal)(dense_look, query, key, value, None)
    mask = band(queries, past + queries, before=past, reach=reach, causal=causal)
    dense = dense_look(query, key, value, allowed=mask, causal=False, before=past)
    same_values_and_gradients(windowed, dense, [query, key, value])


@law
@given(heads, many, st.sampled_from([0, 2, 23]), reaches, st.booleans(), st.data(), seeds)
def test_a_window_under_any_mask_of_its_caller(shape, queries, past, reach, causal, data, seed) -> None:
    """Padding behind, padding before, documents side by side, chance; some queries may see nothing."""
    keys = past + queries
    query, key, value = tensors(shape, queries, keys, seed)
    lengths = torch.tensor(data.draw(st.lists(st.integers(0, keys), min_size=2, max_size=2)))
    generator = torch.Generator().manual_seed(seed)
    documents = torch.randint(0, 3, (2, keys), generator=generator).sort(dim=1).values
    masks = {
        "behind": within(lengths, keys),
        "before": latest(lengths, keys),
        "one for all rows": within(lengths[:1], keys),
        "documents": alike(documents)[:, :, past:],
        "chance": torch.rand(2, 1, queries, keys, generator=generator) < 0.5,
        "the same chance for all rows": torch.rand(1, 1, queries, keys, generator=generator) < 0.5,
    }
    allowed = masks[data.draw(st.sampled_from(sorted(masks)))]
    windowed = Window(reach=reach, causal=causal)(dense_look, query, key, value, allowed)
    mask = band(queries, keys, before=past, reach=reach, causal=causal) & allowed
    dense = dense_look(query, key, value, allowed=mask, causal=False, before=past)
    same_values_and_gradients(windowed, dense, [query, key, value])


@law
@given(heads, many, reaches, st.lists(st.integers(1, 9), min_size=1, max_size=9), seeds)
@torch.no_grad()
def test_window_steps_are_the_window_at_once(shape, places, reach, steps, seed) -> None:
    """Steps of one place and of several, each with all keys so far before it."""
    query, key, value = tensors(shape, places, places, seed)
    pattern = Window(reach=reach, causal=True)
    at_once = pattern(dense_look, query, key, value, None)
    done = 0
    while done < places:
        until = min(places, done + steps[done % len(steps)])
        step = pattern(dense_look, query[:, :, done:until], key[:, :, :until], value[:, :, :until], None)
        torch.testing.assert_close(step, at_once[:, :, done:until], **CLOSE)
        done = until


@law
@given(heads, st.lists(many, min_size=1, max_size=3), bigbirds, st.integers(0, 7), seeds)
def test_bigbird_is_dense_attention_under_the_mask_of_each_row(shape, lengths, settings, padding, seed) -> None:
    """Whatever the lengths of its neighbours, gradients too."""
    block, random, chance = settings
    places = max(lengths) + padding
    query, key, value = tensors(shape, places, places, seed, rows=len(lengths))
    allowed = within(torch.tensor(lengths), places)
    sparse = bigbird(*settings)(dense_look, query, key, value, allowed)
    for row, length in enumerate(lengths):
        plan = random_plan(-(-length // block), shape[1], random=random, seed=chance)
        mask = block_mask(length, block=block, plan=plan).repeat_interleave(shape[0] // shape[1], dim=0)
        alone = [x[row : row + 1, :, :length] for x in (query, key, value)]
        dense = dense_look(*alone, allowed=mask[None], causal=False, before=None)
        same_values_and_gradients(sparse[row : row + 1, :, :length], dense, [query, key, value])


@law
@given(heads, many, bigbirds, seeds)
def test_bigbird_without_padding_is_as_with_a_mask_that_allows_all(shape, places, settings, seed) -> None:
    query, key, value = tensors(shape, places, places, seed)
    plain = bigbird(*settings)(dense_look, query, key, value, None)
    for rows in (1, 2):
        masked = bigbird(*settings)(dense_look, query, key, value, torch.ones(rows, 1, 1, places, dtype=torch.bool))
        same_values_and_gradients(plain, masked, [query, key, value])


def a_pattern(name: str) -> Pattern:
    match name:
        case "window":
            return Window(reach=3, causal=False)
        case "causal window":
            return Window(reach=3, causal=True)
        case "bigbird":
            return bigbird(3, 1, 0)
        case _:
            return Linformer(width=5, length=97).double()


patterns = st.sampled_from(["window", "causal window", "bigbird", "linformer"])


@law
@given(patterns, heads, st.lists(many, min_size=2, max_size=5), st.integers(0, 29), seeds)
@torch.no_grad()
def test_alone_is_as_in_a_batch_and_padding_is_nothing(name, shape, lengths, padding, seed) -> None:
    places = max(lengths) + padding
    pattern = a_pattern(name)
    query, key, value = tensors(shape, places, places, seed, rows=len(lengths))
    allowed = within(torch.tensor(lengths), places)
    together = pattern(dense_look, query, key, value, allowed)
    real = allowed.transpose(2, 3)
    scribbled = pattern(dense_look, *(x.where(real, 7.0 * x.flip(2)) for x in (query, key, value)), allowed)
    for row, length in enumerate(lengths):
        alone = pattern(dense_look, *(x[row : row + 1, :, :length] for x in (query, key, value)), None)
        torch.testing.assert_close(together[row : row + 1, :, :length], alone, **CLOSE)
        torch.testing.assert_close(scribbled[row, :, :length], together[row, :, :length], **CLOSE)


@law
@given(patterns, heads, many, st.integers(0, 29), seeds)
def test_the_fused_kernels_see_the_same(name, shape, places, padding, seed) -> None:
    """In single precision, gradients too, and finite where a row is nothing but padding."""

    def fused_look(query, key, value, *, allowed, causal, before):
        assert before is not None or not causal
        mask = band(query.shape[2], key.shape[2], before=before, reach=10**6, causal=True) if causal else None
        mask = allowed if mask is None else mask if allowed is None else mask & allowed
        return attend_fused(query, key, value, allowed=mask)

    def plain_look(query, key, value, *, allowed, causal, before):
        mask = band(query.shape[2], key.shape[2], before=before, reach=10**6, causal=True) if causal else None
        mask = allowed if mask is None else mask if allowed is None else mask & allowed
        return dense_look(query, key, value, allowed=mask, causal=False, before=None)

    parts = [x.detach().float().requires_grad_() for x in tensors(shape, places + padding, places + padding, seed)]
    pattern = a_pattern(name)
    pattern = pattern.float() if isinstance(pattern, Linformer) else pattern
    allowed = within(torch.tensor([places, 0]), places + padding)
    fused, plain = (pattern(look, *parts, allowed) for look in (fused_look, plain_look))
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


def attention(config, pattern: Pattern, distances: DistanceBias | None = None) -> MultiHeadAttention:
    """The same weights every time."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        score = build_score(config, query_size=5, key_size=5, heads=6, key_heads=2)
        layer = MultiHeadAttention(
            size=30,
            heads=6,
            key_value_heads=2,
            bias=True,
            dropout=0.0,
            score=score,
            pattern=pattern,
            distances=distances,
        )
        return layer.double().eval()


def distances_of(name: str) -> DistanceBias | None:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        match name:
            case "alibi":
                return Alibi(heads=6)
            case "bucketed":
                bucketed = BucketedPositions(buckets=8, furthest=11, heads=6, past_only=False)
                torch.nn.init.normal_(bucketed.table)
                return bucketed
            case "relative":
                return RelativePositions(reach=4, head_size=5, scale=0.5, adds_values=True)
            case _:
                return None


def of_scores(test):
    return pytest.mark.parametrize("config", SCORES, ids=lambda config: config.kind)(test)


TOGETHER = [
    (score, positions)
    for score in SCORES
    for positions in ("none", "alibi", "bucketed", "relative")
    if positions != "relative" or score.kind in ("dot", "scaled_dot", "multiplicative")  # the others are refused
]


@pytest.mark.parametrize(("config", "positions"), TOGETHER, ids=lambda one: getattr(one, "kind", one))
@pytest.mark.parametrize("causal", [True, False])
@torch.no_grad()
def test_every_score_and_position_works_in_a_window(config, positions, causal) -> None:
    """Through the whole layer, against the same layer with full attention under the window's mask."""
    places, reach = 37, 5
    distances = distances_of(positions)
    windowed = attention(config, Window(reach=reach, causal=causal), distances)
    full = attention(config, Full(causal=causal), distances)
    x, allowed = a_text(places), within(torch.tensor([places, 11]), places)
    mask = band(places, places, before=0, reach=reach, causal=causal) & allowed
    outputs = (layer(x, layer.keys_values(x), seen) for layer, seen in ((windowed, allowed), (full, mask)))
    torch.testing.assert_close(*outputs, **CLOSE)


@of_scores
@torch.no_grad()
def test_every_score_works_in_bigbird(config) -> None:
    def draw(blocks, heads):
        return random_plan(blocks, 1, random=1, seed=0)

    sparse, full = (
        attention(config, pattern) for pattern in (BigBird(block=3, random=1, draw=draw), Full(causal=False))
    )
    x, mask = a_text(37), block_mask(37, block=3, plan=draw(13, 1))[None]
    outputs = (layer(x, layer.keys_values(x), seen) for layer, seen in ((sparse, None), (full, mask)))
    torch.testing.assert_close(*outputs, **CLOSE)


@of_scores
@torch.no_grad()
def test_every_score_compares_with_the_mixtures_of_linformer(config) -> None:
    """Against full attention to keys and values that were mixed beforehand."""
    pattern = Linformer(width=5, length=41)
    layer, full = attention(config, pattern), attention(config, Full(causal=False))
    x = a_text(37)
    seen = layer.keys_values(x)
    mixed = (
        torch.einsum("mn,rhnw->rhmw", mixture[:, :37], part)
        for mixture, part in ((pattern.of_keys, seen.keys), (pattern.of_values, seen.values))
    )
    torch.testing.assert_close(layer(x, seen, None), full(x, KeysValues(*mixed), None), **CLOSE)
