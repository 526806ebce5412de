"""Models in the 8-bit arithmetic of Firefox's engine: the same bits on every instruction set and in every batch."""

from collections.abc import Callable
from typing import Any

import dragoman_cpu
import numpy as np
import pytest
from dragoman_cpu import Int8ShiftModel

SIZE, HIDDEN, HEADS, WORDS, LAYERS = 32, 48, 2, 23, 2
SOURCES = ([4, 7, 22, 3], [3], [9, 9, 9, 9, 9, 9, 3])
SETS = [name for name in ("portable", "avx2") if name in dragoman_cpu.instruction_sets()]


def weights(seed: int = 0) -> dict[str, Any]:
    """Return random integers of the whole range, so that sums of pairs saturate."""
    generator = np.random.default_rng(seed)

    def product(inputs: int, outputs: int) -> tuple[np.ndarray, float, float, np.ndarray]:
        values = generator.integers(-127, 128, (inputs, outputs)).astype(np.int8)
        return values, 40.0, 1e-4, generator.normal(size=outputs).astype(np.float32)

    parts: dict[str, Any] = {}
    for stack in ("encoder", "decoder"):
        for layer in range(LAYERS):
            name = f"{stack}.{layer}"
            attention = "attention" if stack == "encoder" else "cross_attention"
            for part in ("query", "key", "value", "output"):
                parts[f"{name}.{attention}.{part}"] = product(SIZE, SIZE)
            parts[f"{name}.feed_forward.inner"] = product(SIZE, HIDDEN)
            parts[f"{name}.feed_forward.outer"] = product(HIDDEN, SIZE)
            for sublayer in {"attention", attention, "feed_forward"}:
                for part in ("weight", "bias"):
                    numbers = generator.normal(size=SIZE).astype(np.float32)
                    parts[f"{name}.{sublayer}_residual.norm.{part}"] = numbers
    for layer in range(LAYERS):
        for part in ("input", "forget_gate"):
            parts[f"decoder.{layer}.ssru.{part}"] = product(SIZE, SIZE)
    integers = generator.integers(-127, 128, (WORDS, SIZE)).astype(np.int8)
    bias = generator.normal(size=WORDS).astype(np.float32)
    parts["vocabulary"] = (integers, 0.01, 5.5, 40.0, 1e-4, bias)
    return parts


def model(instruction_set: str = "portable", *, parts: dict[str, Any] | None = None, threads: int = 1) -> Any:
    return Int8ShiftModel(
        weights() if parts is None else parts,
        size=SIZE,
        hidden=HIDDEN,
        heads=HEADS,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        positions=np.random.default_rng(5).normal(size=(9, SIZE)).astype(np.float32),
        num_threads=threads,
        instruction_set=instruction_set,
    )


def encode(network: Any, sources: Any) -> list[np.ndarray]:
    memories = [np.full(2 * LAYERS * SIZE * len(source), np.nan, np.float32) for source in sources]
    network.encode(np.array([token for source in sources for token in source], np.int32), memories)
    return memories


def two_steps(network: Any, memories: list[np.ndarray]) -> list[np.ndarray]:
    """Return the logits after two steps: from a zero embedding, and from a token."""
    rows = len(memories)
    cells, found = np.zeros((rows, LAYERS, SIZE), np.float32), []
    for position, token in enumerate((-1, 8)):
        after, hidden = np.empty_like(cells), np.empty((rows, SIZE), np.float32)
        tokens = np.full(rows, token, np.int32)
        network.decode(tokens, np.full(rows, position, np.int32), memories, cells, after, hidden)
        results = [np.empty(WORDS, np.float32) for _ in range(rows)]
        network.logits(hidden, [np.arange(WORDS, dtype=np.int32)] * rows, results)
        cells, found = after, [*found, *results]
    return found


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("instruction_set", SETS)
def test_results_are_the_same_on_every_instruction_set(instruction_set: str, threads: int) -> None:
    expected, found = model(), model(instruction_set, threads=threads)
    memories = encode(expected, SOURCES)
    for left, right in zip(encode(found, SOURCES), memories, strict=True):
        np.testing.assert_array_equal(left, right)
    for left, right in zip(two_steps(found, memories), two_steps(expected, memories), strict=True):
        assert np.isfinite(left).all()
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("instruction_set", SETS)
def test_results_do_not_depend_on_the_batch(instruction_set: str) -> None:
    network = model(instruction_set)
    together = encode(network, SOURCES)
    first, second = np.split(np.stack(two_steps(network, together)), 2)
    for number, source in enumerate(SOURCES):
        [alone] = encode(network, [source])
        np.testing.assert_array_equal(alone, together[number])
        np.testing.assert_array_equal(two_steps(network, [alone]), [first[number], second[number]])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda network: network.encode(np.array([WORDS], np.int32), [np.empty(2 * LAYERS * SIZE, np.float32)]),
        lambda network: network.encode(np.array([-1], np.int32), [np.empty(2 * LAYERS * SIZE, np.float32)]),
        lambda network: network.encode(np.array([1, 2], np.int32), [np.empty(2 * LAYERS * SIZE, np.float32)]),
        lambda network: network.encode(np.array([1], np.int32), [np.empty(7, np.float32)]),
        lambda network: encode(network, [[1] * 10]),
        lambda network: network.logits(
            np.zeros((1, SIZE), np.float32), [np.array([WORDS], np.int32)], [np.empty(1, np.float32)]
        ),
        lambda network: network.logits(
            np.zeros((1, SIZE), np.float32), [np.array([1], np.int32)], [np.empty(2, np.float32)]
        ),
        lambda network: network.decode(
            np.array([1], np.int32),
            np.array([9], np.int32),
            [np.empty(2 * LAYERS * SIZE, np.float32)],
            *(np.zeros((1, LAYERS, SIZE), np.float32) for _ in range(2)),
            np.empty((1, SIZE), np.float32),
        ),
    ],
)
def test_invalid_arguments_are_refused(wrong: Callable[[Any], None]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        wrong(model())


def test_weights_of_another_shape_are_refused() -> None:
    parts = weights()
    values, *rest = parts["decoder.0.ssru.input"]
    with pytest.raises(ValueError, match="a matrix has another shape"):
        model(parts=parts | {"decoder.0.ssru.input": (np.ascontiguousarray(values[:, :16]), *rest)})
