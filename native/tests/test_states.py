"""States are handed over: whatever is selected, kept or joined, a hypothesis goes on from its own tokens."""

from typing import Any

import numpy as np
import pytest

from native.tests import models
from native.tests.models import COMPUTES


def replayed(core: Any, ids: np.ndarray, lengths: np.ndarray, prefixes: np.ndarray) -> np.ndarray:
    """Logits after prefixes `[batch, beam, places]` that are given anew."""
    memory = core.encode(ids, lengths)
    state = core.start(memory, prefixes.shape[1])
    for place in range(prefixes.shape[2]):
        logits, state = core.step(prefixes[:, :, place], memory, state)
    return logits


@pytest.mark.parametrize("kind", ["transformer", "causal"])
@pytest.mark.parametrize("compute", COMPUTES)
def test_selected_kept_and_joined_hypotheses_are_those_of_their_tokens(kind: str, compute: str) -> None:
    """A long walk: beams of changing width, sentences that leave and come, each step beside a replay of its tokens."""
    core = models.model(kind, compute=compute)
    generator = np.random.default_rng(5)
    ids, lengths = models.texts(40)
    sentences = [0, 1, 2]
    memory = core.encode(ids[:3], lengths[:3])
    state = core.start(memory, 2)
    prefixes = [np.empty((2, 0), int) for _ in sentences]
    for turn in range(12):
        words = models.tokens(len(sentences), state.beam, seed=turn)
        logits, state = core.step(words, memory, state)
        prefixes = [np.column_stack([prefix, row]) for prefix, row in zip(prefixes, words, strict=True)]
        for row, sentence in enumerate(sentences):
            alone = replayed(core, ids[[sentence]], lengths[[sentence]], prefixes[row][None])
            np.testing.assert_array_equal(logits[row], alone[0])
        parents = generator.integers(state.beam, size=(len(sentences), generator.integers(1, 5)))
        state = state.select(parents)
        prefixes = [prefix[chosen] for prefix, chosen in zip(prefixes, parents, strict=True)]
        kept = generator.permutation(len(sentences))[: max(1, len(sentences) - turn % 2)]
        memory, state = memory.keep(kept), state.keep(kept)
        sentences, prefixes = [sentences[row] for row in kept], [prefixes[row] for row in kept]
        new = core.encode(ids[[turn + 3]], lengths[[turn + 3]])
        memory, state = memory.join(new), state.join(core.start(new, state.beam))
        sentences.append(turn + 3)
        prefixes.append(np.empty((state.beam, 0), int))
    np.testing.assert_array_equal(memory.lengths, lengths[sentences])


def test_an_old_state_goes_on_as_if_nothing_had_followed() -> None:
    core = models.model()
    memory = core.encode(*models.texts(3))
    _, state = core.step(models.tokens(3, 2), memory, core.start(memory, 2))
    once, after = core.step(models.tokens(3, 2, seed=1), memory, state)
    for seed in range(2, 6):
        _, after = core.step(models.tokens(3, 2, seed=seed), memory, after)
    again, _ = core.step(models.tokens(3, 2, seed=1), memory, state)
    np.testing.assert_array_equal(once, again)
    np.testing.assert_array_equal(state.ages, [1, 1, 1])
    np.testing.assert_array_equal(after.ages, [6, 6, 6])


@pytest.mark.parametrize("kind", ["transformer", "causal"])
def test_keys_and_values_that_nobody_needs_are_freed(kind: str) -> None:
    core = models.model(kind)
    for round_ in range(30):
        memory = core.encode(*models.texts(5, seed=round_))
        prompts = core.cached_places
        assert prompts == (int((memory.lengths - 1).sum()) if kind == "causal" else 0)
        state = core.start(memory, 4)
        for step in range(20):
            _, _, state = core.best(models.tokens(5, 4, seed=step), memory, state, 2)
            state = state.select(np.zeros((5, 4), int))
        assert core.cached_places - prompts == 5 * 20  # all four go back to one
        del memory, state
        assert core.cached_places == 0
    assert core.cache_bytes <= 3 * 2**20


def test_an_empty_batch_is_a_batch() -> None:
    core = models.model()
    memory = core.encode(*models.texts(2)).keep([])
    logits, state = core.step(np.empty((0, 3), int), memory, core.start(memory, 3))
    assert logits.shape == (0, 3, models.VOCABULARY)
    assert state.ages.shape == (0,)
