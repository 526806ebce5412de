"""With candidates, the best are the best of them, under probabilities that are theirs alone, in any company."""

from typing import Any

import numpy as np
import pytest

from native.tests import models
from native.tests.models import COMPUTES, INSTRUCTION_SETS, VOCABULARY

LENGTHS = (1, 5, 64, 65, 131, VOCABULARY, 7)


def some_candidates(seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.permutation(VOCABULARY)[:length] for length in LENGTHS]


def by_definition(logits: np.ndarray, candidates: np.ndarray, k: int, forbidden: list[int]) -> tuple[Any, Any]:
    """For logits `[beam, vocabulary]`, in double precision."""
    tokens = np.sort(candidates)
    exact = logits[:, tokens].astype(np.float64)
    peak = exact.max(axis=1, keepdims=True)
    log_probs = exact - peak - np.log(np.exp(exact - peak).sum(axis=1, keepdims=True))
    log_probs[:, np.isin(tokens, forbidden)] = -np.inf
    order = np.argsort(-log_probs, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(log_probs, order, axis=1)
    missing = ((0, 0), (0, k - best.shape[1]))
    best = np.pad(best, missing, constant_values=-np.inf)
    return best, np.where(best > -np.inf, np.pad(tokens[order], missing), 0)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_best_are_those_of_a_sort_of_the_candidates(threads: int, compute: str, instruction_set: str) -> None:
    core = models.model(compute=compute, threads=threads, instruction_set=instruction_set)
    candidates = some_candidates()
    memory = core.encode(*models.texts(7), candidates=candidates)
    state = core.start(memory, 2)
    logits, _ = core.step(models.tokens(7, 2), memory, state)
    for forbidden in ([], [0, 1, 100, int(candidates[0][0])]):
        for k in (1, 9, 80):
            log_probs, ids, _ = core.best(models.tokens(7, 2), memory, state, k, forbidden)
            for row in range(7):
                expected, order = by_definition(logits[row], candidates[row], k, forbidden)
                np.testing.assert_array_equal(ids[row], order)
                np.testing.assert_allclose(log_probs[row], expected, atol=2e-5)


def decoded(core: Any, texts: tuple[np.ndarray, np.ndarray], candidates: Any, rows: Any = slice(None)) -> Any:
    """Three steps, the memory narrowed, joined and reordered on the way."""
    ids, lengths = texts
    memory = core.encode(ids[rows], lengths[rows], candidates=candidates)
    state = core.start(memory, 2)
    found = []
    for step in range(3):
        log_probs, tokens, state = core.best(models.tokens(7, 2, seed=step)[rows], memory, state, 3, [2])
        state = state.select(np.tile([[1, 0]], (len(lengths[rows]), 1)))
        found.append((log_probs, tokens))
    return [np.stack(each, axis=1) for each in zip(*found, strict=True)]


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute", COMPUTES)
def test_sentences_alone_and_together_by_one_and_more_threads(compute: str, instruction_set: str) -> None:
    texts, candidates = models.texts(7), some_candidates(1)
    core = models.model(compute=compute, instruction_set=instruction_set)
    together = decoded(core, texts, candidates)
    for row in range(7):
        alone = decoded(core, texts, candidates[row : row + 1], slice(row, row + 1))
        for one, all_ in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[0], all_[row])
    more = models.model(compute=compute, instruction_set=instruction_set, threads=3)
    for one, other in zip(decoded(more, texts, candidates), together, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("compute", COMPUTES)
def test_every_word_as_a_candidate_changes_nothing(compute: str) -> None:
    texts, core = models.texts(7), models.model(compute=compute)
    every = [np.arange(VOCABULARY)] * 7
    for one, other in zip(decoded(core, texts, every), decoded(core, texts, None), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sentences_with_candidates_and_without_run_together() -> None:
    (ids, lengths), candidates, core = models.texts(7), some_candidates(2), models.model(compute="int8")
    free, bound = core.encode(ids[:3], lengths[:3]), core.encode(ids[3:], lengths[3:], candidates=candidates[3:])
    both = free.join(bound).keep([6, 0, 3, 1])
    state = core.start(both, 2)
    tokens = models.tokens(4, 2)
    log_probs, words, _ = core.best(tokens, both, state, 5)
    for place, (memory, row) in enumerate([(bound, 3), (free, 0), (bound, 0), (free, 1)]):
        one = memory.keep([row])
        alone, theirs, _ = core.best(tokens[place : place + 1], one, core.start(one, 2), 5)
        np.testing.assert_array_equal(alone[0], log_probs[place])
        np.testing.assert_array_equal(theirs[0], words[place])


@pytest.mark.parametrize(
    ("candidates", "error", "message"),
    [
        ([[1]], ValueError, "1 lists of candidates for 2 sentences"),
        ([[1], []], ValueError, "sentence 1 has 0 candidates"),
        ([[1], [2, VOCABULARY]], IndexError, f"candidate {VOCABULARY} is not in a vocabulary of {VOCABULARY}"),
        ([[1], [-1]], IndexError, "candidate -1"),
        ([[1], [5, 5]], ValueError, "must rise"),
        ([[1], [2**40]], IndexError, "beyond all ids"),
        ([[1], [0.5]], ValueError, "whole numbers"),
    ],
)
def test_lists_that_make_no_sense_are_refused(candidates: Any, error: type[Exception], message: str) -> None:
    core = models.model()
    with pytest.raises(error, match=message):
        core.encode(*models.texts(2), candidates=candidates)
    with pytest.raises(ValueError, match="a causal model has none"):
        models.model("causal").encode(*models.texts(1), candidates=[[1]])
