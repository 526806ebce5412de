"""A number has the same bits whatever is computed beside it, and by however many threads."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import dragoman_cpu as cpu
import numpy as np
import pytest

from native.tests import models
from native.tests.models import COMPUTES, INSTRUCTION_SETS

STEPS = 3


def decoded(core: Any, ids: np.ndarray, lengths: np.ndarray, given: np.ndarray) -> list[np.ndarray]:
    """Logits, best tokens and their log-probabilities of some steps, each `[batch, steps, beam, ...]`."""
    memory = core.encode(ids, lengths)
    state = core.start(memory, given.shape[2])
    logits, log_probs, best = [], [], []
    for step in range(STEPS):
        some, _ = core.step(given[:, step], memory, state)
        probable, words, state = core.best(given[:, step], memory, state, 7, [0, 2])
        logits.append(some)
        log_probs.append(probable)
        best.append(words)
    return [np.stack(each, axis=1) for each in (logits, log_probs, best)]


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize("make", [models.config, models.pruned, models.pruned_groups])
@pytest.mark.parametrize("kind", ["transformer", "causal"])
def test_sentences_alone_and_together_by_one_and_more_threads(
    kind: str, make: Callable[[str], dict[str, Any]], compute: str, instruction_set: str
) -> None:
    ids, lengths = models.texts(13)
    given = np.random.default_rng(1).integers(models.VOCABULARY, size=(13, STEPS, 3))
    made = make(kind)
    core = models.model(made=made, compute=compute, instruction_set=instruction_set)
    together = decoded(core, ids, lengths, given)
    assert np.isfinite(together[0]).all()
    for batch in (1, 5):
        for first in range(0, 13, batch):
            part = slice(first, first + batch)
            assert_same(decoded(core, ids[part], lengths[part], given[part]), [all_[part] for all_ in together])
    for threads in (2, 3):
        more = models.model(made=made, compute=compute, instruction_set=instruction_set, threads=threads)
        assert_same(decoded(more, ids, lengths, given), together)
        assert_same(decoded(more, ids[:1], lengths[:1], given[:1]), [all_[:1] for all_ in together])


@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize("kind", ["transformer", "causal"])
def test_members_of_a_team_that_take_portions_of_their_own_find_the_same(kind: str, compute: str) -> None:
    """Hundreds of rows, of which each member takes some through the network alone."""
    count = 151
    ids, lengths = models.texts(count)
    given = np.random.default_rng(1).integers(models.VOCABULARY, size=(count, STEPS, 3))
    lonely = models.model(made=models.config(kind), compute=compute)
    expected = decoded(lonely, ids, lengths, given)
    for some in (slice(0, 1), slice(70, 79)):
        assert_same(decoded(lonely, ids[some], lengths[some], given[some]), [each[some] for each in expected])
    for threads in (2, 3):
        team = models.model(made=models.config(kind), compute=compute, threads=threads)
        assert_same(decoded(team, ids, lengths, given), expected)
        followed = [
            core.follow(given[:, :, 0], np.arange(count) % STEPS + 1, memory, core.start(memory, 1), 5)[:2]
            for core in (lonely, team)
            for memory in [core.encode(ids, lengths)]
        ]
        assert_same(list(followed[1]), list(followed[0]))


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute", COMPUTES)
def test_beams_of_a_sentence_do_not_mix(compute: str, instruction_set: str) -> None:
    """However many of them look at the source together, which is in parts of like size."""
    widest = 13
    ids, lengths = models.texts(3)
    given = np.random.default_rng(1).integers(models.VOCABULARY, size=(3, STEPS, widest))
    core = models.model(compute=compute, instruction_set=instruction_set)
    alone = [decoded(core, ids, lengths, given[:, :, beam : beam + 1]) for beam in range(widest)]
    for width in (2, 3, 4, 5, 6, 7, widest):
        together = decoded(core, ids, lengths, given[:, :, :width])
        for beam in range(width):
            assert_same([all_[:, :, beam : beam + 1] for all_ in together], alone[beam])


@pytest.mark.parametrize("compute", ["int8", "bfloat16"])
def test_instruction_sets_agree(compute: str) -> None:
    """Sums of whole numbers are exact and products of bfloat16 are rounded alike; what is left is the order of sums."""
    ids, lengths = models.texts(5)
    given = np.random.default_rng(1).integers(models.VOCABULARY, size=(5, STEPS, 2))
    best, *others = (
        decoded(models.model(compute=compute, instruction_set=name), ids, lengths, given)[0]
        for name in INSTRUCTION_SETS
    )
    for other in others:
        assert np.abs(best - other).mean() < 0.01


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 3])
def test_a_forked_process_lets_go_of_a_model_and_loads_another(threads: int) -> None:
    """No thread follows a fork: what is computed there is computed by a model that was loaded there."""
    made, weights = models.config(), models.weights(models.config())
    model = cpu.Model(made, weights, compute="float32", threads=threads)
    tokens, lengths = np.array([[5, 6, 3]], dtype=np.int32), np.array([3], dtype=np.int32)
    model.encode(tokens, lengths)
    time.sleep(0.05)  # members that nobody asks anything go to sleep
    child = os.fork()
    if child == 0:
        try:
            model = cpu.Model(made, weights, compute="float32", threads=threads)
            model.encode(tokens, lengths)
        except BaseException:  # nothing of a test may go on in the child
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + 60
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.01)
    if found == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert found == (child, 0)
