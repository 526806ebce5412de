"""Reordered, selected and concatenated states continue the hypotheses of their tokens."""

from typing import Any

import numpy as np
import pytest

from native.tests import models
from native.tests.models import COMPUTE_TYPES, KINDS


def replay(model: Any, ids: np.ndarray, lengths: np.ndarray, prefixes: np.ndarray) -> np.ndarray:
    """Return the logits after decoding prefixes `[batch, beam, length]` from the start."""
    memory = model.encode(ids, lengths)
    state = model.start(memory, prefixes.shape[1])
    for position in range(prefixes.shape[2]):
        logits, state = model.step(prefixes[:, :, position], memory, state)
    return logits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
def test_state_operations_equal_replay_of_tokens(kind: str, compute_type: str) -> None:
    """Change the beam size, drop and add sentences at every step, and compare each step with a replay."""
    model = models.model(kind, compute_type=compute_type)
    generator = np.random.default_rng(5)
    ids, lengths = models.sources(40)
    sentences = [0, 1, 2]
    memory = model.encode(ids[:3], lengths[:3])
    state = model.start(memory, 2)
    prefixes = [np.empty((2, 0), int) for _ in sentences]
    for step in range(12):
        tokens = models.tokens(len(sentences), state.beam_size, seed=step)
        logits, state = model.step(tokens, memory, state)
        prefixes = [np.column_stack([prefix, row]) for prefix, row in zip(prefixes, tokens, strict=True)]
        for row, sentence in enumerate(sentences):
            replayed = replay(model, ids[[sentence]], lengths[[sentence]], prefixes[row][None])
            np.testing.assert_array_equal(logits[row], replayed[0])
        parents = generator.integers(state.beam_size, size=(len(sentences), generator.integers(1, 5)))
        state = state.reorder(parents)
        prefixes = [prefix[selected] for prefix, selected in zip(prefixes, parents, strict=True)]
        rows = generator.permutation(len(sentences))[: max(1, len(sentences) - step % 2)]
        memory, state = memory.select(rows), state.select(rows)
        sentences, prefixes = [sentences[row] for row in rows], [prefixes[row] for row in rows]
        new = model.encode(ids[[step + 3]], lengths[[step + 3]])
        memory, state = memory.concat(new), state.concat(model.start(new, state.beam_size))
        sentences.append(step + 3)
        prefixes.append(np.empty((state.beam_size, 0), int))
    np.testing.assert_array_equal(memory.lengths, lengths[sentences])


def test_states_are_immutable() -> None:
    model = models.model()
    memory = model.encode(*models.sources(3))
    _, state = model.step(models.tokens(3, 2), memory, model.start(memory, 2))
    first, last = model.step(models.tokens(3, 2, seed=1), memory, state)
    for seed in range(2, 6):
        _, last = model.step(models.tokens(3, 2, seed=seed), memory, last)
    again, _ = model.step(models.tokens(3, 2, seed=1), memory, state)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(state.lengths, [1, 1, 1])
    np.testing.assert_array_equal(last.lengths, [6, 6, 6])


@pytest.mark.parametrize("kind", KINDS)
def test_unreferenced_cache_entries_are_freed(kind: str) -> None:
    model = models.model(kind)
    for seed in range(30):
        memory = model.encode(*models.sources(5, seed=seed))
        prompt_tokens = model.cached_tokens
        assert prompt_tokens == (int((memory.lengths - 1).sum()) if kind == "decoder_only" else 0)
        state = model.start(memory, 4)
        for step in range(20):
            _, _, state = model.top_k(models.tokens(5, 4, seed=step), memory, state, 2)
            state = state.reorder(np.zeros((5, 4), int))
        # The four hypotheses share one prefix; a recurrent layer keeps its last state only.
        assert model.cached_tokens - prompt_tokens == 5 * (1 if kind == "ssru" else 20)
        del memory, state
        assert model.cached_tokens == 0
    assert model.cache_bytes <= 3 * 2**20


def test_batch_may_be_empty() -> None:
    model = models.model()
    memory = model.encode(*models.sources(2)).select([])
    logits, state = model.step(np.empty((0, 3), int), memory, model.start(memory, 3))
    assert logits.shape == (0, 3, models.VOCABULARY)
    assert state.lengths.shape == (0,)
