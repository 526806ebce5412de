"""Int8 GEMM against integer arithmetic in NumPy, through a model that reduces to its output projection."""

from typing import Any

import numpy as np
import pytest

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
