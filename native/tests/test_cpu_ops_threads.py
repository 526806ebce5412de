"""Fused training operations give the same bits with any number of threads, in forked processes and concurrent calls."""

import ctypes
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from native.tests.models import INSTRUCTION_SETS, cpu
from native.tests.test_cpu_ops import HASH_MULTIPLIER, random, random_logits, to_bfloat16

ROWS, COLUMNS = 331, 1_201
"""Large enough for several threads, and no multiple of a share."""
BATCH, QUERIES, KEYS, HEADS, HEAD_DIM = 13, 29, 31, 5, 19


@pytest.fixture(scope="module")
def openmp() -> Iterator[ctypes.CDLL]:
    """OpenMP runtime in the global scope, as PyTorch loads it."""
    try:
        runtime = ctypes.CDLL("libgomp.so.1", ctypes.RTLD_GLOBAL)
    except OSError:
        pytest.skip("this system has no OpenMP runtime of GCC")
    before = runtime.omp_get_max_threads()
    yield runtime
    runtime.omp_set_num_threads(before)


def compute_all(ops: Any) -> dict[str, Any]:
    """Return the results of every operation on the same arrays."""
    x, bias, sums = random(1, ROWS, COLUMNS), random(2, COLUMNS), random(3, COLUMNS)
    results: dict[str, Any] = {name: np.empty_like(x) for name in ("float32", "float32_bias", "dropout")}
    results |= {name: np.full((ROWS + 3, COLUMNS), 7, np.uint16) for name in ("bfloat16", "bfloat16_summed")}
    ops.to_bfloat16(x, results["bfloat16"])
    ops.to_bfloat16(x, results["bfloat16_summed"], sums)
    ops.to_float32(results["bfloat16"], None, results["float32"])
    ops.to_float32(results["bfloat16"], bias, results["float32_bias"])
    seeds = np.random.default_rng(1).integers(-(2**63), 2**63, ROWS + COLUMNS)
    ops.dropout(x, seeds[:ROWS].copy(), seeds[ROWS:].copy(), HASH_MULTIPLIER, 0, 2.0, results["dropout"])
    results["sums"] = sums
    targets = np.random.default_rng(2).integers(0, COLUMNS, ROWS)
    for bfloat16 in (False, True):
        logits, gradient = random_logits(4, ROWS, COLUMNS, bfloat16=bfloat16), random(5, COLUMNS)
        probs = np.zeros_like(x)
        ops.accumulate_softmax(logits, 0.5, probs)
        loss = ops.cross_entropy(logits, targets, 0.9, probs, 0.5, gradient)
        results |= {f"{name}_{bfloat16}": value for name, value in
                    (("logits", logits), ("bias_gradient", gradient), ("probs", probs), ("loss", loss))}  # fmt: skip
    return results | compute_attention(ops)


def compute_attention(ops: Any) -> dict[str, Any]:
    """Return rotated queries, attention and its gradients."""
    query, rotated = random(1, BATCH, QUERIES, HEADS, 2 * HEAD_DIM), np.empty((BATCH, QUERIES, HEADS, 2 * HEAD_DIM))
    rotated = rotated.astype(np.float32)
    angles = random(2, 1, QUERIES, HEAD_DIM)
    ops.rope(query, np.cos(angles), np.sin(angles), HEADS, rotated)
    key, value = (random(seed, BATCH, KEYS, HEADS, 2 * HEAD_DIM) for seed in (3, 4))
    mask = (random(5, BATCH, 1, QUERIES, KEYS) > 0).astype(np.uint8)
    output = np.empty_like(query)
    gradients = [np.empty_like(one) for one in (query, key, value)]
    ops.attention(rotated, key, value, mask, False, 0.2, output)
    ops.attention_backward(rotated, key, value, mask, False, 0.2, output, *gradients)
    return {"rotated": rotated, "output": output, **dict(zip(("dq", "dk", "dv"), gradients, strict=True))}


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_results_do_not_depend_on_threads(openmp: ctypes.CDLL, name: str) -> None:
    ops = cpu.CpuOps(name)
    openmp.omp_set_num_threads(1)
    expected = compute_all(ops)
    for threads in (2, 3, 7):
        openmp.omp_set_num_threads(threads)
        assert_equal(compute_all(ops), expected)
    if (tasks := Path("/proc/self/task")).is_dir():
        assert len(list(tasks.iterdir())) >= 7


def test_concurrent_calls_do_not_mix_results(openmp: ctypes.CDLL) -> None:
    ops = cpu.CpuOps()
    openmp.omp_set_num_threads(1)
    expected = compute_all(ops)

    def compute(threads: int) -> dict[str, Any]:
        openmp.omp_set_num_threads(threads)  # of the calling thread only
        return compute_all(ops)

    with ThreadPoolExecutor(3) as callers:
        for found in callers.map(compute, [2, 3, 2, 3, 2, 3]):
            assert_equal(found, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_process_computes_without_threads(openmp: ctypes.CDLL) -> None:
    """A fork copies no threads: the child would wait for them forever."""
    ops = cpu.CpuOps()
    openmp.omp_set_num_threads(3)
    expected = compute_all(ops)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            assert_equal(compute_all(ops), expected)
        except BaseException:  # the child must not continue with the test suite
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_operations_follow_the_equations_with_threads(openmp: ctypes.CDLL) -> None:
    openmp.omp_set_num_threads(3)
    x, y, sums = random(1, ROWS, COLUMNS), np.empty((ROWS, COLUMNS), np.uint16), np.zeros(COLUMNS, np.float32)
    cpu.CpuOps().to_bfloat16(x, y, sums)
    np.testing.assert_array_equal(y, to_bfloat16(x))
    np.testing.assert_allclose(sums, x.sum(axis=0, dtype=np.float64), atol=1e-3)
