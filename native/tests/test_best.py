"""The best continuations are those of a sort of all logits."""

import numpy as np
import pytest

from native.tests import models
from native.tests.models import COMPUTES, INSTRUCTION_SETS, VOCABULARY


def sorted_out(logits: np.ndarray, k: int, forbidden: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """By the definition, in double precision."""
    exact = logits.astype(np.float64)
    peak = exact.max(axis=-1, keepdims=True)
    log_probs = exact - peak - np.log(np.exp(exact - peak).sum(axis=-1, keepdims=True))
    order = logits.copy()
    order[..., forbidden] = -np.inf
    ids = np.argsort(-order, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(log_probs, ids, axis=-1), ids


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize("threads", [1, 3])
def test_best_is_a_sort_of_all_logits(threads: int, compute: str, instruction_set: str) -> None:
    core = models.model(compute=compute, threads=threads, instruction_set=instruction_set)
    memory = core.encode(*models.texts(7))
    for forbidden in ([], [0, 1, 100, 196], list(range(64, 128))):
        for k in (1, 8, 13, VOCABULARY - len(forbidden)):
            state = core.start(memory, 2)
            logits, _ = core.step(models.tokens(7, 2), memory, state)
            log_probs, ids, _ = core.best(models.tokens(7, 2), memory, state, k, forbidden)
            expected, order = sorted_out(logits, k, forbidden)
            np.testing.assert_array_equal(ids, order)
            np.testing.assert_allclose(log_probs, expected, atol=2e-5)


def test_ties_go_to_the_lower_token() -> None:
    made = models.config()
    arrays = models.weights(made)
    for name, array in arrays.items():
        if name.startswith("source_embedding"):
            array[...] = array[0]
    arrays["unembedding.bias"][...] = 0.0
    for threads in (1, 2):
        core = models.cpu.Model(made, arrays, compute="int8", threads=threads)
        memory = core.encode(*models.texts(2))
        log_probs, ids, _ = core.best(models.tokens(2, 1), memory, core.start(memory, 1), 5, [1])
        np.testing.assert_array_equal(ids, [[[0, 2, 3, 4, 5]]] * 2)
        np.testing.assert_allclose(log_probs, -np.log(VOCABULARY), rtol=1e-5)


@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
def test_logits_that_are_not_finite_are_refused(instruction_set: str, compute: str) -> None:
    made = models.config()
    arrays = models.weights(made)
    arrays["decoder.1.feed_forward.outer.weight"][...] = 3e38
    for threads, batch in ((1, 2), (2, 90)):  # of which members of the team take portions of their own
        core = models.cpu.Model(made, arrays, compute=compute, threads=threads, instruction_set=instruction_set)
        memory = core.encode(*models.texts(batch))
        with pytest.raises(ValueError, match="not finite"):
            core.best(models.tokens(batch, 2), memory, core.start(memory, 2), 3)
        assert core.cached_places == 0
