"""What training computes between products, beside the same in NumPy, for every instruction set and any sizes."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from native.tests.models import INSTRUCTION_SETS, cpu

Floats = NDArray[np.float32]
Learning = cpu.Learning
CORES = [Learning(name) for name in INSTRUCTION_SETS]
SIZES = st.sampled_from([1, 2, 3, 5, 7, 13, 16, 17, 31, 32, 37, 48, 64, 67, 131])
SEEDS = st.integers(0, 2**32 - 1)
FINISHER = -4658895280553007687
every_core = pytest.mark.parametrize("core", CORES, ids=INSTRUCTION_SETS)


def drawn(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def halves(x: Floats) -> NDArray[np.uint16]:
    """To the nearest bfloat16, ties to even: the upper half of the bits."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def wide(x: NDArray[np.uint16]) -> Floats:
    return (x.astype(np.uint32) << 16).view(np.float32)


def logits_drawn(seed: int, rows: int, words: int, *, small: bool) -> NDArray[Any]:
    """In either format that logits may have."""
    logits = 3 * drawn(seed, rows, words)
    return halves(logits) if small else logits


def numbers(logits: NDArray[Any]) -> Floats:
    return wide(logits) if logits.dtype == np.uint16 else logits


@every_core
@given(rows=SIZES, more=st.integers(0, 3), columns=SIZES, seed=SEEDS)
def test_rows_are_rounded_and_added_up(core: Learning, rows: int, more: int, columns: int, seed: int) -> None:
    x, before = drawn(seed, rows, columns), drawn(seed + 1, columns)
    for sums in (None, before.copy()):
        y = np.full((rows + more, columns), 7, dtype=np.uint16)
        core.narrow(x, y, sums)
        np.testing.assert_array_equal(y[:rows], halves(x))
        assert not y[rows:].any()
    assert sums is not None
    np.testing.assert_allclose(sums, before + x.sum(axis=0, dtype=np.float64), atol=1e-4)


@every_core
@given(rows=SIZES, more=st.integers(0, 3), columns=SIZES, seed=SEEDS)
def test_halves_are_widened_exactly(core: Learning, rows: int, more: int, columns: int, seed: int) -> None:
    x, bias = halves(drawn(seed, rows + more, columns)), drawn(seed + 1, columns)
    for added in (None, bias):
        y = np.full((rows, columns), np.nan, dtype=np.float32)
        core.widen(x, added, y)
        np.testing.assert_array_equal(y, wide(x[:rows]) if added is None else wide(x[:rows]) + added)


@every_core
@given(texts=st.integers(1, 3), places=SIZES, heads=st.integers(1, 3), half=SIZES, alike=st.booleans(), seed=SEEDS)
def test_halves_of_a_head_turn(
    core: Learning, texts: int, places: int, heads: int, half: int, alike: bool, seed: int
) -> None:
    x, angles = drawn(seed, texts, places, heads, 2 * half), drawn(seed + 1, 1 if alike else texts, places, half)
    y = np.empty_like(x)
    core.turn(x, np.cos(angles), np.sin(angles), heads, y)
    left, right = x[..., :half], x[..., half:]
    cosine, sine = np.cos(angles)[:, :, None], np.sin(angles)[:, :, None]
    turned = np.concatenate([left * cosine - right * sine, right * cosine + left * sine], axis=-1)
    np.testing.assert_allclose(y, turned, atol=1e-5)


@every_core
@given(rows=SIZES, columns=SIZES, least=st.integers(-(2**15), 2**15), seed=SEEDS)
def test_elements_are_lost_by_their_words(core: Learning, rows: int, columns: int, least: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    x, lines = drawn(seed, rows, columns), generator.integers(-(2**63), 2**63, rows)
    words = generator.integers(-(2**63), 2**63, -(-columns // 4))
    y = np.empty_like(x)
    core.drop(x, lines, words, FINISHER, least, 1.25, y)
    with np.errstate(over="ignore"):
        numbers = lines[:, None] * words
        numbers = (numbers ^ (numbers >> 32)) * np.int64(FINISHER)
    kept = numbers.view(np.int16)[:, :columns] >= least
    np.testing.assert_array_equal(y, x * np.where(kept, np.float32(1.25), np.float32(0)))


@every_core
@given(
    rows=st.integers(1, 5),
    words=SIZES,
    certainty=st.sampled_from([0.9, 0.2, 1.0]),
    share=st.sampled_from([None, 0.8, 1.0]),
    bias=st.booleans(),
    small=st.booleans(),
    seed=SEEDS,
)
def test_the_loss_of_a_row_and_its_gradient(
    core: Learning, rows: int, words: int, certainty: float, share: float | None, bias: bool, small: bool, seed: int
) -> None:
    logits = logits_drawn(seed, rows, words, small=small)
    expected = np.random.default_rng(seed).integers(0, words, rows)
    log_probs = log_softmax(numbers(logits).astype(np.float64))
    taught = None if share is None else np.exp(log_softmax(drawn(seed + 1, rows, words)))
    gradient = np.exp(log_probs)
    gradient[np.arange(rows), expected] -= certainty
    if taught is not None:
        gradient -= share * taught
    sums = np.zeros(words, dtype=np.float32) if bias else None
    nll, mean_log_prob, taught_log_prob = core.losses(logits, expected, certainty, taught, share or 0.0, sums)
    assert nll == pytest.approx(-log_probs[np.arange(rows), expected].sum(), rel=1e-4, abs=1e-4)
    assert mean_log_prob == pytest.approx(log_probs.mean(axis=1).sum(), rel=1e-4, abs=1e-4)
    if taught is not None:
        assert taught_log_prob == pytest.approx((taught * log_probs).sum(), rel=1e-4, abs=1e-4)
    np.testing.assert_allclose(numbers(logits), gradient, rtol=2**-8 if small else 1e-4, atol=1e-6)
    if sums is not None:
        np.testing.assert_allclose(sums, gradient.sum(axis=0), atol=1e-5)


def log_softmax(logits: NDArray[Any]) -> NDArray[Any]:
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


@every_core
@given(rows=st.integers(1, 5), words=SIZES, share=st.sampled_from([1.0, 0.25]), small=st.booleans(), seed=SEEDS)
def test_shares_of_probabilities_are_added_up(
    core: Learning, rows: int, words: int, share: float, small: bool, seed: int
) -> None:
    logits, before = logits_drawn(seed, rows, words, small=small), drawn(seed + 1, rows, words)
    sums = before.copy()
    core.add_probabilities(logits, share, sums)
    probabilities = np.exp(log_softmax(numbers(logits).astype(np.float64)))
    np.testing.assert_allclose(sums, before + share * probabilities, atol=1e-6)


def test_a_loss_of_what_is_not_finite_is_not_finite() -> None:
    for core, value, small in itertools.product(CORES, (np.nan, np.inf), (False, True)):
        logits = drawn(1, 2, 37)
        logits[1, 5] = value
        sums = np.zeros_like(logits)
        given_in = halves(logits) if small else logits
        core.add_probabilities(given_in, 0.5, sums)
        assert np.isfinite(sums[0]).all()
        assert not np.isfinite(sums[1]).all()
        losses = core.losses(given_in, np.array([3, 3]), 0.9, sums, 0.5)
        assert not np.isfinite(losses).any()


@every_core
@settings(max_examples=60)
@given(
    texts=st.integers(1, 3),
    heads=st.integers(1, 3),
    queries=SIZES,
    keys=SIZES,
    size=SIZES,
    sight=st.sampled_from(["all", "causal", "texts", "queries", "everything"]),
    seed=SEEDS,
)
def test_attention_and_its_gradients(
    core: Learning, texts: int, heads: int, queries: int, keys: int, size: int, sight: str, seed: int
) -> None:
    """By the equations in double precision; some queries may see nothing and take nothing."""
    keys = queries if sight == "causal" else keys
    query, gradient = drawn(seed, texts, queries, heads, size), drawn(seed + 1, texts, queries, heads, size)
    key, value = drawn(seed + 2, texts, keys, heads, size), drawn(seed + 3, texts, keys, heads, size)
    shapes = {
        "texts": (texts, 1, 1, keys),
        "queries": (1, 1, queries, keys),
        "everything": (texts, heads, queries, keys),
    }
    allowed = None
    if sight in shapes:
        allowed = np.random.default_rng(seed).integers(0, 2, shapes[sight]).astype(np.uint8)
    scale = size**-0.5
    attended = np.full_like(query, np.nan)
    found = [np.full_like(one, np.nan) for one in (query, key, value)]
    core.attend(query, key, value, allowed, sight == "causal", scale, attended)
    core.attend_back(query, key, value, allowed, sight == "causal", scale, gradient, *found)

    q, k, v, g = (one.astype(np.float64).transpose(0, 2, 1, 3) for one in (query, key, value, gradient))
    seen = np.tri(queries, keys, dtype=bool) if sight == "causal" else np.ones((queries, keys), dtype=bool)
    seen = np.broadcast_to(seen if allowed is None else allowed.astype(bool), (texts, heads, queries, keys))
    scores = np.where(seen, q @ k.swapaxes(2, 3) * scale, -np.inf)
    peak = np.where(seen.any(axis=-1, keepdims=True), scores.max(axis=-1, keepdims=True), 0)
    raised = np.exp(scores - peak)
    weights = raised / np.maximum(raised.sum(axis=-1, keepdims=True), 1e-300)
    errors = g @ v.swapaxes(2, 3)
    errors = weights * (errors - (weights * errors).sum(axis=-1, keepdims=True)) * scale
    expected = weights @ v, errors @ k, errors.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ g
    for one, other in zip((attended, *found), expected, strict=True):
        np.testing.assert_allclose(one, other.transpose(0, 2, 1, 3), rtol=1e-4, atol=2e-4)


@every_core
def test_what_is_seen_by_nobody_changes_no_bit(core: Learning) -> None:
    """Keys behind the last one, as padding has them, and texts beside this one."""
    query, key, value = drawn(1, 3, 5, 2, 13), drawn(2, 3, 7, 2, 13), drawn(3, 3, 7, 2, 13)
    allowed = np.ones((3, 1, 1, 7), dtype=np.uint8)
    allowed[:, ..., 6:] = 0
    padded, alone = np.empty_like(query), np.empty_like(query[:1])
    core.attend(query, key, value, allowed, False, 0.3, padded)
    core.attend(query[:1], key[:1, :6].copy(), value[:1, :6].copy(), None, False, 0.3, alone)
    np.testing.assert_array_equal(padded[:1], alone)


def test_what_does_not_fit_is_refused() -> None:
    core = CORES[0]
    x, y, words = drawn(1, 3, 8), np.zeros((3, 8), np.uint16), np.zeros(3, np.int64)
    four = drawn(1, 2, 3, 2, 8)
    narrow_head = drawn(1, 2, 3, 2, 7)
    calls = [
        lambda: core.narrow(x, y[:2].copy()),
        lambda: core.narrow(x, np.zeros((3, 7), np.uint16)),
        lambda: core.narrow(x, y, np.zeros(7, np.float32)),
        lambda: core.narrow(x, np.zeros((3, 8), np.int16)),
        lambda: core.narrow(np.float32(1), y),
        lambda: core.widen(y, None, drawn(1, 4, 8)),
        lambda: core.widen(y, drawn(1, 7), drawn(1, 3, 8)),
        lambda: core.turn(x, drawn(1, 3, 3), drawn(1, 3, 3), 1, drawn(1, 3, 8)),
        lambda: core.turn(x, drawn(1, 2, 4), drawn(1, 2, 4), 1, drawn(1, 3, 8)),
        lambda: core.turn(x, drawn(1, 3, 4), drawn(1, 3, 4), 0, drawn(1, 3, 8)),
        lambda: core.drop(x, words[:2].copy(), words, 1, 0, 1.0, drawn(1, 3, 8)),
        lambda: core.drop(x, words, words[:1].copy(), 1, 0, 1.0, drawn(1, 3, 8)),
        lambda: core.losses(y, np.array([0, 1, 8]), 0.9),
        lambda: core.losses(y, np.array([0, 1, -1]), 0.9),
        lambda: core.losses(y, np.array([0, 1]), 0.9),
        lambda: core.losses(x.astype(np.float64), words, 0.9),
        lambda: core.losses(y.astype(np.int16), words, 0.9),
        lambda: core.losses(y, words, 0.9, drawn(1, 2, 8), 0.5),
        lambda: core.losses(y, words, 0.9, drawn(1, 24), 0.5),
        lambda: core.add_probabilities(y, 0.5, drawn(1, 2, 8)),
        lambda: core.add_probabilities(x.astype(np.float64), 0.5, x.copy()),
        lambda: core.attend(four, four, narrow_head, None, False, 1.0, four.copy()),
        lambda: core.attend(four, narrow_head, narrow_head, None, False, 1.0, four.copy()),
        lambda: core.attend(four, four, four, np.ones((2, 1, 1, 2), np.uint8), False, 1.0, four.copy()),
        lambda: core.attend(four, four, four, np.ones((2, 3, 1, 3), np.uint8), False, 1.0, four.copy()),
        lambda: core.attend(four[:, :2].copy(), four, four, None, True, 1.0, four[:, :2].copy()),
        lambda: core.attend(four, four, four, None, False, 0.0, four.copy()),
        lambda: core.attend(four, four, four, None, False, 1.0, narrow_head.copy()),
        lambda: Learning("abacus"),
    ]
    for number, call in enumerate(calls):
        with pytest.raises((ValueError, TypeError)):
            pytest.fail(f"call {number} gave {call()}")
