"""Lexical shortlists restrict top-k and its normalization, independently of the batch."""

from typing import Any

import numpy as np
import pytest

from native.tests import models
from native.tests.models import COMPUTE_TYPES, INSTRUCTION_SETS, VOCABULARY

LENGTHS = (1, 5, 64, 65, 131, VOCABULARY, 7)


def random_shortlists(seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.permutation(VOCABULARY)[:length] for length in LENGTHS]


def top_k_by_definition(logits: np.ndarray, shortlist: np.ndarray, k: int, suppressed: list[int]) -> tuple[Any, Any]:
    """Compute top-k of logits `[beam, vocabulary]` in double precision."""
    tokens = np.sort(shortlist)
    exact = logits[:, tokens].astype(np.float64)
    peak = exact.max(axis=1, keepdims=True)
    log_probs = exact - peak - np.log(np.exp(exact - peak).sum(axis=1, keepdims=True))
    log_probs[:, np.isin(tokens, suppressed)] = -np.inf
    order = np.argsort(-log_probs, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(log_probs, order, axis=1)
    missing = ((0, 0), (0, k - best.shape[1]))
    best = np.pad(best, missing, constant_values=-np.inf)
    return best, np.where(best > -np.inf, np.pad(tokens[order], missing), 0)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
@pytest.mark.parametrize("num_threads", [1, 3])
def test_top_k_equals_sort_of_the_shortlist(num_threads: int, compute_type: str, instruction_set: str) -> None:
    model = models.model(compute_type=compute_type, num_threads=num_threads, instruction_set=instruction_set)
    shortlists = random_shortlists()
    memory = model.encode(*models.sources(7), shortlists=shortlists)
    state = model.start(memory, 2)
    logits, _ = model.step(models.tokens(7, 2), memory, state)
    for suppressed in ([], [0, 1, 100, int(shortlists[0][0])]):
        for k in (1, 9, 80):
            log_probs, ids, _ = model.top_k(models.tokens(7, 2), memory, state, k, suppressed)
            for row in range(7):
                expected_log_probs, expected_ids = top_k_by_definition(logits[row], shortlists[row], k, suppressed)
                np.testing.assert_array_equal(ids[row], expected_ids)
                np.testing.assert_allclose(log_probs[row], expected_log_probs, atol=2e-5)


def decode(model: Any, sources: tuple[np.ndarray, np.ndarray], shortlists: Any, rows: Any = slice(None)) -> Any:
    """Run three steps with reordered hypotheses; return log-probabilities and tokens `[batch, steps, ...]`."""
    ids, lengths = sources
    memory = model.encode(ids[rows], lengths[rows], shortlists=shortlists)
    state = model.start(memory, 2)
    results = []
    for step in range(3):
        log_probs, tokens, state = model.top_k(models.tokens(7, 2, seed=step)[rows], memory, state, 3, [2])
        state = state.reorder(np.tile([[1, 0]], (len(lengths[rows]), 1)))
        results.append((log_probs, tokens))
    return [np.stack(each, axis=1) for each in zip(*results, strict=True)]


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
def test_shortlists_do_not_depend_on_batch_or_threads(compute_type: str, instruction_set: str) -> None:
    sources, shortlists = models.sources(7), random_shortlists(1)
    model = models.model(compute_type=compute_type, instruction_set=instruction_set)
    batch = decode(model, sources, shortlists)
    for row in range(7):
        alone = decode(model, sources, shortlists[row : row + 1], slice(row, row + 1))
        for result, batch_result in zip(alone, batch, strict=True):
            np.testing.assert_array_equal(result[0], batch_result[row])
    threaded = models.model(compute_type=compute_type, instruction_set=instruction_set, num_threads=3)
    for result, batch_result in zip(decode(threaded, sources, shortlists), batch, strict=True):
        np.testing.assert_array_equal(result, batch_result)


@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
def test_shortlist_of_the_full_vocabulary_has_no_effect(compute_type: str) -> None:
    sources, model = models.sources(7), models.model(compute_type=compute_type)
    full = [np.arange(VOCABULARY)] * 7
    for one, other in zip(decode(model, sources, full), decode(model, sources, None), strict=True):
        np.testing.assert_array_equal(one, other)


def test_batch_mixes_sentences_with_and_without_shortlist() -> None:
    (ids, lengths), shortlists, model = models.sources(7), random_shortlists(2), models.model(compute_type="int8")
    unrestricted = model.encode(ids[:3], lengths[:3])
    restricted = model.encode(ids[3:], lengths[3:], shortlists=shortlists[3:])
    mixed = unrestricted.concat(restricted).select([6, 0, 3, 1])
    state = model.start(mixed, 2)
    tokens = models.tokens(4, 2)
    log_probs, top_ids, _ = model.top_k(tokens, mixed, state, 5)
    for position, (memory, row) in enumerate([(restricted, 3), (unrestricted, 0), (restricted, 0), (unrestricted, 1)]):
        one = memory.select([row])
        alone, alone_ids, _ = model.top_k(tokens[position : position + 1], one, model.start(one, 2), 5)
        np.testing.assert_array_equal(alone[0], log_probs[position])
        np.testing.assert_array_equal(alone_ids[0], top_ids[position])


@pytest.mark.parametrize(
    ("shortlists", "error", "message"),
    [
        ([[1]], ValueError, "1 shortlists for 2 sentences"),
        ([[1], []], ValueError, "sentence 1 has 0 tokens"),
        ([[1], [2, VOCABULARY]], IndexError, f"token {VOCABULARY} is not in a vocabulary of {VOCABULARY}"),
        ([[1], [-1]], IndexError, "token -1"),
        ([[1], [5, 5]], ValueError, "ascending"),
        ([[1], [2**40]], IndexError, "beyond 32-bit"),
        ([[1], [0.5]], ValueError, "must hold integers"),
    ],
)
def test_invalid_shortlists_are_refused(shortlists: Any, error: type[Exception], message: str) -> None:
    model = models.model()
    with pytest.raises(error, match=message):
        model.encode(*models.sources(2), shortlists=shortlists)


def test_decoder_only_model_refuses_shortlists() -> None:
    with pytest.raises(ValueError, match="has no sources"):
        models.model("decoder_only").encode(*models.sources(1), shortlists=[[1]])
