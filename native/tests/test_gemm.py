"""Int8 GEMMs against arithmetic in NumPy, through a model that reduces to its output projection."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from native.tests import models
from native.tests.models import INSTRUCTION_SETS, cpu


def test_quantize_error_is_at_most_half_a_step() -> None:
    weight = (np.random.default_rng(0).standard_normal((29, 31)) * np.logspace(-3, 3, 29)[:, None]).astype(np.float32)
    quantized, scale = cpu.quantize(weight)
    assert quantized.dtype == np.int8
    assert (np.abs(quantized.astype(int)).max(axis=1) == 127).all()
    assert (np.abs(quantized * scale[:, None] - weight) <= scale[:, None] * 0.5001).all()
    again, same_scale = cpu.quantize((quantized * scale[:, None]).astype(np.float32))
    np.testing.assert_array_equal(again, quantized)
    np.testing.assert_allclose(same_scale, scale, rtol=1e-6)


def test_quantize_rounds_ties_to_even_and_keeps_zero_rows() -> None:
    quantized, scale = cpu.quantize(np.array([[127.0, 0.5, 1.5, -2.5], [0, 0, 0, 0]], np.float32))
    np.testing.assert_array_equal(quantized, [[127, 0, 2, -2], [0, 0, 0, 0]])
    np.testing.assert_array_equal(scale, [1.0, 1.0])


def projection_only_model(d_model: int) -> tuple[dict[str, Any], models.Weights]:
    """Return a decoder-only model whose blocks add nothing: its logits project the normalized embedding."""
    config = models.config(
        "decoder_only", d_model=d_model, num_heads=1, num_kv_heads=1, num_layers=1, tie_embeddings=False
    )
    config |= {"positions": {"kind": "none"}, "scale_embedding": False}
    arrays = models.weights(config)
    for name, array in arrays.items():
        if ".output." in name or ".outer." in name:
            array[...] = 0.0
    arrays["norm.weight"][...] = 1.0
    arrays["norm.bias"][...] = 0.0
    arrays["unembedding.weight"] = np.random.default_rng(3).standard_normal((models.VOCABULARY, d_model), np.float32)
    return config, arrays


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 13])
@pytest.mark.parametrize("d_model", [1, 61, 131])
def test_int8_gemm_equals_integer_product(rows: int, d_model: int, instruction_set: str) -> None:
    config, arrays = projection_only_model(d_model)
    model = cpu.Model(config, arrays, compute_type="int8", num_threads=1, instruction_set=instruction_set)
    tokens = models.tokens(rows, 1)
    memory = model.encode(tokens, np.ones(rows, int))
    logits, _ = model.step(tokens, memory, model.start(memory, 1))

    embedding, embedding_scale = cpu.quantize(arrays["embedding.tokens.weight"])
    x = (embedding * embedding_scale[:, None])[tokens[:, 0]].astype(np.float64)
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    largest = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-30)
    weight, scale = cpu.quantize(arrays["unembedding.weight"])
    sums = np.rint(127 * x / largest).astype(np.int32) @ weight.astype(np.int32).T
    expected = sums * (largest / 127) * scale + arrays["unembedding.bias"]
    # An input halfway between two integers may round to either, which changes the result by one quantization step.
    step = np.abs(weight).max() * scale.max() * largest.max() / 127
    assert np.abs(logits[:, 0] - expected).max() <= 1.01 * step
    assert np.abs(logits[:, 0] - expected).mean() <= 1e-4 + 0.02 * step


@pytest.mark.parametrize("columns", [1, 31, 32, 33, 130])
@pytest.mark.parametrize("magnitude", [1e-30, 1e-6, 1.0, 1e30])
def test_block_error_is_at_most_half_a_step(columns: int, magnitude: float) -> None:
    weight = (np.random.default_rng(columns).standard_normal((29, columns)) * magnitude).astype(np.float32)
    quantized, scale, center = cpu.quantize_blocks(weight)
    assert scale.shape == center.shape == (29, -(-columns // 32))
    restored = dequantized(quantized, scale, center)
    starts = range(0, columns, 32)
    spread = np.maximum.reduceat(weight, starts, axis=1) - np.minimum.reduceat(weight, starts, axis=1)
    steps = np.repeat(spread / 255, 32, axis=1)[:, :columns]
    rounding = np.abs(weight).max() * 2.0**-11  # of scales and centers to half precision
    assert (np.abs(restored - weight) <= 0.5001 * steps + rounding).all()


def dequantized(
    quantized: NDArray[np.int8], scale: NDArray[np.float32], center: NDArray[np.float32]
) -> NDArray[np.float32]:
    columns = quantized.shape[1]
    scales, centers = (np.repeat(one, 32, axis=1)[:, :columns] for one in (scale, center))
    result: NDArray[np.float32] = quantized * scales + centers
    return result


@pytest.mark.parametrize("levels", [range(-127, 128), range(16), range(-8, 8)], ids=["Q8_0", "Q4_1", "Q4_0"])
def test_weights_of_llama_cpp_are_exact(levels: range) -> None:
    """Each block holds its extreme levels, as in a file that was quantized from floats."""
    generator = np.random.default_rng(1)
    integers = generator.integers(levels.start, levels.stop, (7, 3, 32))
    integers[..., 5], integers[..., 17] = levels.start, levels.stop - 1
    scale = generator.uniform(0.001, 0.01, (7, 3, 1)).astype(np.float16).astype(np.float32)
    least = generator.standard_normal((7, 3, 1)).astype(np.float16).astype(np.float32)
    weight = (integers.astype(np.float32) * scale + (least if levels.start == 0 else 0)).reshape(7, 96)
    np.testing.assert_array_equal(dequantized(*cpu.quantize_blocks(weight)), weight)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 13])
@pytest.mark.parametrize("d_model", [1, 61, 131])
def test_block_gemm_equals_product_of_rounded_numbers(rows: int, d_model: int, instruction_set: str) -> None:
    config, arrays = projection_only_model(d_model)
    model = cpu.Model(config, arrays, compute_type="int8_int16", num_threads=1, instruction_set=instruction_set)
    tokens = models.tokens(rows, 1)
    memory = model.encode(tokens, np.ones(rows, int))
    logits, _ = model.step(tokens, memory, model.start(memory, 1))

    x = dequantized(*cpu.quantize_blocks(arrays["embedding.tokens.weight"]))[tokens[:, 0]].astype(np.float64)
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    step = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-30) / 32767
    weight = dequantized(*cpu.quantize_blocks(arrays["unembedding.weight"])).astype(np.float64)
    expected = np.rint(x / step) * step @ weight.T + arrays["unembedding.bias"]
    np.testing.assert_allclose(logits[:, 0], expected, atol=1e-3 if d_model > 1 else 1e-6, rtol=1e-5)
