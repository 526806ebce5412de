"""Several tokens of a hypothesis in one pass give the very bits that they give one by one, and a way back."""

from typing import Any

import numpy as np
import pytest

from native.tests import models
from native.tests.models import COMPUTES, INSTRUCTION_SETS, VOCABULARY

LENGTHS = np.array([4, 1, 7, 2, 7])


def prepared(core: Any, *, bound: bool = False) -> tuple[Any, Any]:
    """Sentences of different ages."""
    ids, lengths = models.texts(5)
    candidates = [np.arange(row, VOCABULARY, 2) for row in range(5)] if bound else None
    memory = core.encode(ids, lengths, candidates=candidates)
    state = core.start(memory, 1)
    _, _, older = core.best(models.tokens(5, 1, seed=8), memory, state, 1)
    return memory, older.keep([0, 1]).join(state.keep([2, 3, 4]))


def one_by_one(core: Any, tokens: np.ndarray, memory: Any, state: Any, k: int, forbidden: list[int]) -> list[Any]:
    """For each sentence alone its log-probabilities, its tokens, and its state after each place."""
    found = []
    for row, length in enumerate(LENGTHS):
        one, now = memory.keep([row]), state.keep([row])
        steps = []
        for place in range(length):
            log_probs, ids, now = core.best(tokens[row : row + 1, place : place + 1], one, now, k, forbidden)
            steps.append((log_probs[0, 0], ids[0, 0], now))
        found.append(steps)
    return found


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["transformer", "causal", "bound"])
def test_following_is_stepping(kind: str, threads: int, compute: str, instruction_set: str) -> None:
    network = "causal" if kind == "causal" else "transformer"
    core = models.model(network, compute=compute, threads=threads, instruction_set=instruction_set)
    memory, state = prepared(core, bound=kind == "bound")
    tokens = models.tokens(5, 7, seed=3)
    log_probs, ids, after = core.follow(tokens, LENGTHS, memory, state, 3, [2, 9])
    steps = one_by_one(core, tokens, memory, state, 3, [2, 9])
    flat = [step for some in steps for step in some]
    np.testing.assert_array_equal(log_probs, [step[0] for step in flat])
    np.testing.assert_array_equal(ids, [step[1] for step in flat])
    np.testing.assert_array_equal(after.ages, state.ages + LENGTHS)
    back = np.array([1, 0, 3, 1, 6])
    before = after.back(back)
    np.testing.assert_array_equal(before.ages, after.ages - back)
    given = models.tokens(5, 1, seed=4)
    going, words, _ = core.best(given, memory, before, 2)
    for row in range(5):
        then = steps[row][-1 - back[row]][2]
        alone, theirs, _ = core.best(given[row : row + 1], memory.keep([row]), then, 2)
        np.testing.assert_array_equal(going[row], alone[0])
        np.testing.assert_array_equal(words[row], theirs[0])


def test_more_rows_than_a_pass_takes_and_places_that_are_freed() -> None:
    core = models.model(compute="int8")
    ids, lengths = models.texts(40)
    memory = core.encode(ids, lengths)
    state = core.start(memory, 1)
    tokens = models.tokens(40, 31)
    log_probs, _, after = core.follow(tokens, np.full(40, 31), memory, state, 1)
    assert core.cached_places == 40 * 31
    alone = core.follow(tokens[39:], [31], memory.keep([39]), state.keep([39]), 1)[0]
    np.testing.assert_array_equal(log_probs[39 * 31 :], alone)
    begun = after.back(np.full(40, 31))
    del after
    assert core.cached_places == 0
    np.testing.assert_array_equal(begun.ages, np.zeros(40))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"lengths": [1, 1, 1, 1, 8]}, ValueError, "row 4 has a length of 8"),
        ({"lengths": [0, 1, 1, 1, 1]}, ValueError, "row 0 has a length of 0"),
        ({"lengths": [1]}, ValueError, "1 lengths for 5 rows"),
        ({"tokens": np.full((5, 7), VOCABULARY)}, IndexError, f"token {VOCABULARY} is not in"),
        ({"tokens": np.zeros((4, 7), int)}, ValueError, "tokens of 4 rows for 5 sentences"),
        ({"k": 0}, ValueError, "k = 0"),
        ({"forbidden": [VOCABULARY]}, IndexError, f"forbidden token {VOCABULARY}"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    core = models.model()
    memory, state = prepared(core)
    asked = {"tokens": models.tokens(5, 7), "lengths": LENGTHS, "k": 2, "forbidden": []} | change
    with pytest.raises(error, match=message):
        core.follow(asked["tokens"], asked["lengths"], memory, state, asked["k"], asked["forbidden"])
    with pytest.raises(ValueError, match="with beams of 2; give one row a sentence, of beams of one"):
        core.follow(models.tokens(5, 7), LENGTHS, memory, core.start(memory, 2), 1)


def test_no_state_goes_back_before_its_beginning() -> None:
    core = models.model()
    _, state = prepared(core)
    for places, message in (
        ([2, 0, 0, 0, 0], "has 1 places, and cannot go 2 back"),
        ([-1, 0, 0, 0, 0], "cannot go -1"),
    ):
        with pytest.raises(IndexError, match=message):
            state.back(places)
    with pytest.raises(ValueError, match="2 numbers of places for 5 sentences"):
        state.back([0, 0])
    np.testing.assert_array_equal(state.back([1, 0, 0, 0, 0]).ages, [0, 1, 0, 0, 0])
