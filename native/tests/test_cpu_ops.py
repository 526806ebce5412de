"""Fused training operations against NumPy, for every instruction set and many sizes."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from native.tests.models import INSTRUCTION_SETS, cpu

Floats = NDArray[np.float32]
CpuOps = cpu.CpuOps
ALL_OPS = [CpuOps(name) for name in INSTRUCTION_SETS]
SIZES = st.sampled_from([1, 2, 3, 5, 7, 13, 16, 17, 31, 32, 37, 48, 64, 67, 131])
SEEDS = st.integers(0, 2**32 - 1)
HASH_MULTIPLIER = -4658895280553007687
every_instruction_set = pytest.mark.parametrize("ops", ALL_OPS, ids=INSTRUCTION_SETS)


def random(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def to_bfloat16(x: Floats) -> NDArray[np.uint16]:
    """Round to the nearest bfloat16, ties to even: the upper half of the bits."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def to_float32(x: NDArray[Any]) -> Floats:
    return (x.astype(np.uint32) << 16).view(np.float32) if x.dtype == np.uint16 else x


def random_logits(seed: int, rows: int, vocabulary: int, *, bfloat16: bool) -> NDArray[Any]:
    logits = 3 * random(seed, rows, vocabulary)
    return to_bfloat16(logits) if bfloat16 else logits


def log_softmax(logits: NDArray[Any]) -> NDArray[Any]:
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


@every_instruction_set
@given(rows=SIZES, extra_rows=st.integers(0, 3), columns=SIZES, seed=SEEDS)
def test_to_bfloat16_rounds_and_sums_columns(ops: CpuOps, rows: int, extra_rows: int, columns: int, seed: int) -> None:
    x, before = random(seed, rows, columns), random(seed + 1, columns)
    for column_sums in (None, before.copy()):
        y = np.full((rows + extra_rows, columns), 7, dtype=np.uint16)
        ops.to_bfloat16(x, y, column_sums)
        np.testing.assert_array_equal(y[:rows], to_bfloat16(x))
        assert not y[rows:].any()
    assert column_sums is not None
    np.testing.assert_allclose(column_sums, before + x.sum(axis=0, dtype=np.float64), atol=1e-4)


@every_instruction_set
@given(rows=SIZES, extra_rows=st.integers(0, 3), columns=SIZES, seed=SEEDS)
def test_to_float32_is_exact_and_adds_bias(ops: CpuOps, rows: int, extra_rows: int, columns: int, seed: int) -> None:
    x, some_bias = to_bfloat16(random(seed, rows + extra_rows, columns)), random(seed + 1, columns)
    for bias in (None, some_bias):
        y = np.full((rows, columns), np.nan, dtype=np.float32)
        ops.to_float32(x, bias, y)
        np.testing.assert_array_equal(y, to_float32(x[:rows]) if bias is None else to_float32(x[:rows]) + bias)


@every_instruction_set
@given(batch=st.integers(1, 3), length=SIZES, heads=st.integers(1, 3), half=SIZES, shared=st.booleans(), seed=SEEDS)
def test_rope_rotates_halves_of_heads(
    ops: CpuOps, batch: int, length: int, heads: int, half: int, shared: bool, seed: int
) -> None:
    x, angles = random(seed, batch, length, heads, 2 * half), random(seed + 1, 1 if shared else batch, length, half)
    y = np.empty_like(x)
    ops.rope(x, np.cos(angles), np.sin(angles), heads, y)
    left, right = x[..., :half], x[..., half:]
    cos, sin = np.cos(angles)[:, :, None], np.sin(angles)[:, :, None]
    np.testing.assert_allclose(
        y, np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1), atol=1e-5
    )


@every_instruction_set
@given(rows=SIZES, columns=SIZES, threshold=st.integers(-(2**15), 2**15), seed=SEEDS)
def test_dropout_mask_is_hash_of_seeds(ops: CpuOps, rows: int, columns: int, threshold: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    x, row_seeds = random(seed, rows, columns), generator.integers(-(2**63), 2**63, rows)
    column_seeds = generator.integers(-(2**63), 2**63, -(-columns // 4))
    y = np.empty_like(x)
    ops.dropout(x, row_seeds, column_seeds, HASH_MULTIPLIER, threshold, 1.25, y)
    with np.errstate(over="ignore"):
        hashes = row_seeds[:, None] * column_seeds
        hashes = (hashes ^ (hashes >> 32)) * np.int64(HASH_MULTIPLIER)
    kept = hashes.view(np.int16)[:, :columns] >= threshold
    np.testing.assert_array_equal(y, x * np.where(kept, np.float32(1.25), np.float32(0)))


@every_instruction_set
@given(
    rows=st.integers(1, 5),
    vocabulary=SIZES,
    target_weight=st.sampled_from([0.9, 0.2, 1.0]),
    teacher_weight=st.sampled_from([None, 0.8, 1.0]),
    bias=st.booleans(),
    bfloat16=st.booleans(),
    seed=SEEDS,
)
def test_cross_entropy_returns_loss_and_gradient(
    ops: CpuOps,
    rows: int,
    vocabulary: int,
    target_weight: float,
    teacher_weight: float | None,
    bias: bool,
    bfloat16: bool,
    seed: int,
) -> None:
    logits = random_logits(seed, rows, vocabulary, bfloat16=bfloat16)
    targets = np.random.default_rng(seed).integers(0, vocabulary, rows)
    log_probs = log_softmax(to_float32(logits).astype(np.float64))
    teacher = None if teacher_weight is None else np.exp(log_softmax(random(seed + 1, rows, vocabulary)))
    gradient = np.exp(log_probs)
    gradient[np.arange(rows), targets] -= target_weight
    if teacher is not None:
        gradient -= teacher_weight * teacher
    bias_gradient = np.zeros(vocabulary, dtype=np.float32) if bias else None
    nll, mean_log_prob, teacher_log_prob = ops.cross_entropy(
        logits, targets, target_weight, teacher, teacher_weight or 0.0, bias_gradient
    )
    assert nll == pytest.approx(-log_probs[np.arange(rows), targets].sum(), rel=1e-4, abs=1e-4)
    assert mean_log_prob == pytest.approx(log_probs.mean(axis=1).sum(), rel=1e-4, abs=1e-4)
    if teacher is not None:
        assert teacher_log_prob == pytest.approx((teacher * log_probs).sum(), rel=1e-4, abs=1e-4)
    np.testing.assert_allclose(to_float32(logits), gradient, rtol=2**-8 if bfloat16 else 1e-4, atol=1e-6)
    if bias_gradient is not None:
        np.testing.assert_allclose(bias_gradient, gradient.sum(axis=0), atol=1e-5)


@every_instruction_set
@given(
    rows=st.integers(1, 5), vocabulary=SIZES, weight=st.sampled_from([1.0, 0.25]), bfloat16=st.booleans(), seed=SEEDS
)
def test_accumulate_softmax_adds_weighted_probabilities(
    ops: CpuOps, rows: int, vocabulary: int, weight: float, bfloat16: bool, seed: int
) -> None:
    logits = random_logits(seed, rows, vocabulary, bfloat16=bfloat16)
    before = random(seed + 1, rows, vocabulary)
    sums = before.copy()
    ops.accumulate_softmax(logits, weight, sums)
    probs = np.exp(log_softmax(to_float32(logits).astype(np.float64)))
    np.testing.assert_allclose(sums, before + weight * probs, atol=1e-6)


def test_non_finite_logits_give_non_finite_losses() -> None:
    for ops, value, bfloat16 in itertools.product(ALL_OPS, (np.nan, np.inf), (False, True)):
        logits = random(1, 2, 37)
        logits[1, 5] = value
        sums = np.zeros_like(logits)
        given_logits = to_bfloat16(logits) if bfloat16 else logits
        ops.accumulate_softmax(given_logits, 0.5, sums)
        assert np.isfinite(sums[0]).all()
        assert not np.isfinite(sums[1]).all()
        losses = ops.cross_entropy(given_logits, np.array([3, 3]), 0.9, sums, 0.5)
        assert not np.isfinite(losses).any()


@every_instruction_set
@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    queries=SIZES,
    keys=SIZES,
    head_dim=SIZES,
    mask_kind=st.sampled_from(["none", "causal", "padding", "queries", "full"]),
    seed=SEEDS,
)
def test_attention_and_gradients_equal_equations(
    ops: CpuOps, batch: int, heads: int, queries: int, keys: int, head_dim: int, mask_kind: str, seed: int
) -> None:
    """The reference uses double precision; a query without any allowed key gets a zero output."""
    causal = mask_kind == "causal"
    keys = queries if causal else keys
    query, output_gradient = (random(seed + i, batch, queries, heads, head_dim) for i in (0, 1))
    key, value = (random(seed + i, batch, keys, heads, head_dim) for i in (2, 3))
    shapes = {
        "padding": (batch, 1, 1, keys),
        "queries": (1, 1, queries, keys),
        "full": (batch, heads, queries, keys),
    }
    mask = None
    if mask_kind in shapes:
        mask = np.random.default_rng(seed).integers(0, 2, shapes[mask_kind]).astype(np.uint8)
    scale = head_dim**-0.5
    output = np.full_like(query, np.nan)
    gradients = [np.full_like(array, np.nan) for array in (query, key, value)]
    ops.attention(query, key, value, mask, causal, scale, output)
    ops.attention_backward(query, key, value, mask, causal, scale, output_gradient, *gradients)

    q, k, v, g = (array.astype(np.float64).transpose(0, 2, 1, 3) for array in (query, key, value, output_gradient))
    allowed = np.tri(queries, keys, dtype=bool) if causal else np.ones((queries, keys), dtype=bool)
    allowed = np.broadcast_to(allowed if mask is None else mask.astype(bool), (batch, heads, queries, keys))
    scores = np.where(allowed, q @ k.swapaxes(2, 3) * scale, -np.inf)
    peak = np.where(allowed.any(axis=-1, keepdims=True), scores.max(axis=-1, keepdims=True), 0)
    exponentials = np.exp(scores - peak)
    weights = exponentials / np.maximum(exponentials.sum(axis=-1, keepdims=True), 1e-300)
    score_gradient = g @ v.swapaxes(2, 3)
    score_gradient = weights * (score_gradient - (weights * score_gradient).sum(axis=-1, keepdims=True)) * scale
    expected = (
        weights @ v,
        score_gradient @ k,
        score_gradient.swapaxes(2, 3) @ q,
        weights.swapaxes(2, 3) @ g,
    )
    for result, reference in zip((output, *gradients), expected, strict=True):
        np.testing.assert_allclose(result, reference.transpose(0, 2, 1, 3), rtol=1e-4, atol=2e-4)


@every_instruction_set
def test_padding_and_batch_do_not_change_attention(ops: CpuOps) -> None:
    query, key, value = random(1, 3, 5, 2, 13), random(2, 3, 7, 2, 13), random(3, 3, 7, 2, 13)
    mask = np.ones((3, 1, 1, 7), dtype=np.uint8)
    mask[:, ..., 6:] = 0
    padded, alone = np.empty_like(query), np.empty_like(query[:1])
    ops.attention(query, key, value, mask, False, 0.3, padded)
    ops.attention(query[:1], key[:1, :6].copy(), value[:1, :6].copy(), None, False, 0.3, alone)
    np.testing.assert_array_equal(padded[:1], alone)


def test_mismatched_arrays_are_refused() -> None:
    ops = ALL_OPS[0]
    x, y, seeds = random(1, 3, 8), np.zeros((3, 8), np.uint16), np.zeros(3, np.int64)
    heads, narrow_heads = random(1, 2, 3, 2, 8), random(1, 2, 3, 2, 7)
    calls = [
        lambda: ops.to_bfloat16(x, y[:2].copy()),
        lambda: ops.to_bfloat16(x, np.zeros((3, 7), np.uint16)),
        lambda: ops.to_bfloat16(x, y, np.zeros(7, np.float32)),
        lambda: ops.to_bfloat16(x, np.zeros((3, 8), np.int16)),
        lambda: ops.to_bfloat16(np.float32(1), y),
        lambda: ops.to_float32(y, None, random(1, 4, 8)),
        lambda: ops.to_float32(y, random(1, 7), random(1, 3, 8)),
        lambda: ops.rope(x, random(1, 3, 3), random(1, 3, 3), 1, random(1, 3, 8)),
        lambda: ops.rope(x, random(1, 2, 4), random(1, 2, 4), 1, random(1, 3, 8)),
        lambda: ops.rope(x, random(1, 3, 4), random(1, 3, 4), 0, random(1, 3, 8)),
        lambda: ops.dropout(x, seeds[:2].copy(), seeds, 1, 0, 1.0, random(1, 3, 8)),
        lambda: ops.dropout(x, seeds, seeds[:1].copy(), 1, 0, 1.0, random(1, 3, 8)),
        lambda: ops.cross_entropy(y, np.array([0, 1, 8]), 0.9),
        lambda: ops.cross_entropy(y, np.array([0, 1, -1]), 0.9),
        lambda: ops.cross_entropy(y, np.array([0, 1]), 0.9),
        lambda: ops.cross_entropy(x.astype(np.float64), seeds, 0.9),
        lambda: ops.cross_entropy(y.astype(np.int16), seeds, 0.9),
        lambda: ops.cross_entropy(y, seeds, 0.9, random(1, 2, 8), 0.5),
        lambda: ops.cross_entropy(y, seeds, 0.9, random(1, 24), 0.5),
        lambda: ops.accumulate_softmax(y, 0.5, random(1, 2, 8)),
        lambda: ops.accumulate_softmax(x.astype(np.float64), 0.5, x.copy()),
        lambda: ops.attention(heads, heads, narrow_heads, None, False, 1.0, heads.copy()),
        lambda: ops.attention(heads, narrow_heads, narrow_heads, None, False, 1.0, heads.copy()),
        lambda: ops.attention(heads, heads, heads, np.ones((2, 1, 1, 2), np.uint8), False, 1.0, heads.copy()),
        lambda: ops.attention(heads, heads, heads, np.ones((2, 3, 1, 3), np.uint8), False, 1.0, heads.copy()),
        lambda: ops.attention(heads[:, :2].copy(), heads, heads, None, True, 1.0, heads[:, :2].copy()),
        lambda: ops.attention(heads, heads, heads, None, False, 0.0, heads.copy()),
        lambda: ops.attention(heads, heads, heads, None, False, 1.0, narrow_heads.copy()),
        lambda: CpuOps("abacus"),
    ]
    for number, call in enumerate(calls):
        with pytest.raises((ValueError, TypeError)):
            pytest.fail(f"call {number} returned {call()}")
