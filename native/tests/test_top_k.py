"""Top-k against a sort of all logits."""

import numpy as np
import pytest

from native.tests import models
from native.tests.models import COMPUTE_TYPES, INSTRUCTION_SETS, VOCABULARY


def sorted_top_k(logits: np.ndarray, k: int, suppressed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Compute log-softmax and top-k by definition, in double precision."""
    exact = logits.astype(np.float64)
    peak = exact.max(axis=-1, keepdims=True)
    log_probs = exact - peak - np.log(np.exp(exact - peak).sum(axis=-1, keepdims=True))
    ranked = logits.copy()
    ranked[..., suppressed] = -np.inf
    ids = np.argsort(-ranked, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(log_probs, ids, axis=-1), ids


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
@pytest.mark.parametrize("num_threads", [1, 3])
def test_top_k_equals_sort_of_all_logits(num_threads: int, compute_type: str, instruction_set: str) -> None:
    model = models.model(compute_type=compute_type, num_threads=num_threads, instruction_set=instruction_set)
    memory = model.encode(*models.sources(7))
    for suppressed in ([], [0, 1, 100, 196], list(range(64, 128))):
        for k in (1, 8, 13, VOCABULARY - len(suppressed)):
            state = model.start(memory, 2)
            logits, _ = model.step(models.tokens(7, 2), memory, state)
            log_probs, ids, _ = model.top_k(models.tokens(7, 2), memory, state, k, suppressed)
            expected_log_probs, expected_ids = sorted_top_k(logits, k, suppressed)
            np.testing.assert_array_equal(ids, expected_ids)
            np.testing.assert_allclose(log_probs, expected_log_probs, atol=2e-5)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
@pytest.mark.parametrize("num_threads", [1, 3])
def test_extra_tokens_follow_the_best(num_threads: int, compute_type: str, instruction_set: str) -> None:
    model = models.model(compute_type=compute_type, num_threads=num_threads, instruction_set=instruction_set)
    memory = model.encode(*models.sources(7))
    state = model.start(memory, 2)
    logits, _ = model.step(models.tokens(7, 2), memory, state)
    extra = [196, 3, 0, 64, 63, 100]
    log_probs, ids, _ = model.top_k(models.tokens(7, 2), memory, state, 8, [0, 100], extra)
    best, best_ids, _ = model.top_k(models.tokens(7, 2), memory, state, 8, [0, 100])
    np.testing.assert_array_equal(log_probs[..., :8], best)
    np.testing.assert_array_equal(ids[..., :8], best_ids)
    np.testing.assert_array_equal(ids[..., 8:], np.broadcast_to(extra, (7, 2, 6)))
    every, every_ids = sorted_top_k(logits, VOCABULARY, [])
    expected = np.take_along_axis(every, every_ids.argsort(axis=-1), axis=-1)[..., extra]
    np.testing.assert_allclose(log_probs[..., 8:], expected, atol=2e-5)


def test_top_k_breaks_ties_by_lower_token() -> None:
    config = models.config()
    arrays = models.weights(config)
    for name, array in arrays.items():
        if name.startswith("source_embedding"):
            array[...] = array[0]
    arrays["unembedding.bias"][...] = 0.0
    for num_threads in (1, 2):
        model = models.cpu.Model(config, arrays, compute_type="int8", num_threads=num_threads)
        memory = model.encode(*models.sources(2))
        log_probs, ids, _ = model.top_k(models.tokens(2, 1), memory, model.start(memory, 1), 5, [1])
        np.testing.assert_array_equal(ids, [[[0, 2, 3, 4, 5]]] * 2)
        np.testing.assert_allclose(log_probs, -np.log(VOCABULARY), rtol=1e-5)


@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
def test_top_k_refuses_non_finite_logits(instruction_set: str, compute_type: str) -> None:
    config = models.config()
    arrays = models.weights(config)
    arrays["decoder.1.feed_forward.outer.weight"][...] = 3e38
    for num_threads, batch in ((1, 2), (2, 90)):  # with 90 sentences, each thread computes chunks of its own
        model = models.cpu.Model(
            config, arrays, compute_type=compute_type, num_threads=num_threads, instruction_set=instruction_set
        )
        memory = model.encode(*models.sources(batch))
        with pytest.raises(ValueError, match="not finite"):
            model.top_k(models.tokens(batch, 2), memory, model.start(memory, 2), 3)
        assert model.cached_tokens == 0
