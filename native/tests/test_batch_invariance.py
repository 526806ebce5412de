"""Results are bit-identical for any batch and any number of threads."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from native.tests import models
from native.tests.models import COMPUTE_TYPES, INSTRUCTION_SETS, KINDS, cpu

STEPS = 3


def decode(model: Any, ids: np.ndarray, lengths: np.ndarray, tokens: np.ndarray) -> list[np.ndarray]:
    """Run some steps; return logits, log-probabilities and top-k ids, each `[batch, steps, beam, ...]`."""
    memory = model.encode(ids, lengths)
    state = model.start(memory, tokens.shape[2])
    results = []
    for step in range(STEPS):
        logits, _ = model.step(tokens[:, step], memory, state)
        log_probs, top_ids, state = model.top_k(tokens[:, step], memory, state, 7, [0, 2])
        results.append((logits, log_probs, top_ids))
    return [np.stack(each, axis=1) for each in zip(*results, strict=True)]


def assert_identical(results: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def random_tokens(batch: int, beam: int) -> np.ndarray:
    return np.random.default_rng(1).integers(models.VOCABULARY, size=(batch, STEPS, beam))


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
@pytest.mark.parametrize("make_config", [models.config, models.pruned, models.pruned_groups])
@pytest.mark.parametrize("kind", KINDS)
def test_results_do_not_depend_on_batch_or_threads(
    kind: str, make_config: Callable[[str], dict[str, Any]], compute_type: str, instruction_set: str
) -> None:
    ids, lengths = models.sources(13)
    tokens = random_tokens(13, 3)
    options = {
        "model_config": make_config(kind),
        "compute_type": compute_type,
        "instruction_set": instruction_set,
    }
    model = models.model(**options)
    expected = decode(model, ids, lengths, tokens)
    assert np.isfinite(expected[0]).all()
    for batch in (1, 5):
        for first in range(0, 13, batch):
            part = slice(first, first + batch)
            assert_identical(decode(model, ids[part], lengths[part], tokens[part]), [each[part] for each in expected])
    for num_threads in (2, 3):
        threaded = models.model(**options, num_threads=num_threads)
        assert_identical(decode(threaded, ids, lengths, tokens), expected)
        assert_identical(decode(threaded, ids[:1], lengths[:1], tokens[:1]), [each[:1] for each in expected])


@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_of_single_threads_give_the_same_results(kind: str, compute_type: str) -> None:
    """With hundreds of rows, each thread computes separate chunks."""
    batch = 151
    ids, lengths = models.sources(batch)
    tokens = random_tokens(batch, 3)
    model = models.model(kind, compute_type=compute_type)
    expected = decode(model, ids, lengths, tokens)
    for part in (slice(0, 1), slice(70, 79)):
        assert_identical(decode(model, ids[part], lengths[part], tokens[part]), [each[part] for each in expected])
    for num_threads in (2, 3):
        threaded = models.model(kind, compute_type=compute_type, num_threads=num_threads)
        assert_identical(decode(threaded, ids, lengths, tokens), expected)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
def test_hypotheses_do_not_depend_on_beam_size(compute_type: str, instruction_set: str) -> None:
    """Cross-attention computes the hypotheses of a sentence in tiles, whose size varies with the beam size."""
    max_beam = 13
    ids, lengths = models.sources(3)
    tokens = random_tokens(3, max_beam)
    model = models.model(compute_type=compute_type, instruction_set=instruction_set)
    alone = [decode(model, ids, lengths, tokens[:, :, beam : beam + 1]) for beam in range(max_beam)]
    for beam_size in (2, 3, 4, 5, 6, 7, max_beam):
        results = decode(model, ids, lengths, tokens[:, :, :beam_size])
        for beam in range(beam_size):
            assert_identical([each[:, :, beam : beam + 1] for each in results], alone[beam])


@pytest.mark.parametrize("compute_type", ["int8", "int8_int16", "bfloat16"])
def test_instruction_sets_agree(compute_type: str) -> None:
    """Integer sums and bfloat16 products are exact; only the order of float additions differs."""
    ids, lengths = models.sources(5)
    tokens = random_tokens(5, 2)
    best, *others = (
        decode(models.model(compute_type=compute_type, instruction_set=name), ids, lengths, tokens)[0]
        for name in INSTRUCTION_SETS
    )
    for other in others:
        assert np.abs(best - other).mean() < 0.01


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("num_threads", [1, 3])
def test_forked_process_loads_a_model_of_its_own(num_threads: int) -> None:
    """Worker threads do not survive a fork: the child drops its copy of the model and loads another."""
    config, weights = models.config(), models.weights(models.config())
    model = cpu.Model(config, weights, compute_type="float32", num_threads=num_threads)
    ids, lengths = np.array([[5, 6, 3]], dtype=np.int32), np.array([3], dtype=np.int32)
    model.encode(ids, lengths)
    time.sleep(0.05)  # idle workers go to sleep
    child = os.fork()
    if child == 0:
        try:
            model = cpu.Model(config, weights, compute_type="float32", num_threads=num_threads)
            model.encode(ids, lengths)
        except BaseException:  # the child must not continue with the test suite
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + 60
    while (status := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if status == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert status == (child, 0)
