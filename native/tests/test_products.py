"""Quantised products beside whole-number arithmetic in numpy, through a model that is little else than one product."""

import numpy as np
import pytest

from native.tests import models
from native.tests.models import INSTRUCTION_SETS, cpu


def test_a_quantised_weight_is_within_half_a_step_and_uses_the_whole_range() -> None:
    weight = (np.random.default_rng(0).standard_normal((29, 31)) * np.logspace(-3, 3, 29)[:, None]).astype(np.float32)
    whole, scale = cpu.quantise(weight)
    assert whole.dtype == np.int8
    assert (np.abs(whole.astype(int)).max(axis=1) == 127).all()
    assert (np.abs(whole * scale[:, None] - weight) <= scale[:, None] * 0.5001).all()
    again, same = cpu.quantise((whole * scale[:, None]).astype(np.float32))
    np.testing.assert_array_equal(again, whole)
    np.testing.assert_allclose(same, scale, rtol=1e-6)


def test_ties_go_to_the_even_number_and_zeros_have_a_factor() -> None:
    whole, scale = cpu.quantise(np.array([[127.0, 0.5, 1.5, -2.5], [0, 0, 0, 0]], np.float32))
    np.testing.assert_array_equal(whole, [[127, 0, 2, -2], [0, 0, 0, 0]])
    np.testing.assert_array_equal(scale, [1.0, 1.0])


def last_product(hidden_size: int) -> tuple[dict, models.Weights]:
    """A causal model whose blocks add nothing, so that its logits are the unembedding of the normed embedding."""
    plain = models.config("causal", size=hidden_size, heads=1, key_value_heads=1, layers=1, tie=False)
    plain |= {"positions": {"kind": "none"}, "scale_embedding": False}
    arrays = models.weights(plain)
    for name, array in arrays.items():
        if ".output." in name or ".outer." in name:
            array[...] = 0.0
    arrays["norm.weight"][...] = 1.0
    arrays["norm.bias"][...] = 0.0
    arrays["unembedding.weight"] = np.random.default_rng(3).standard_normal(
        (models.VOCABULARY, hidden_size), np.float32
    )
    return plain, arrays


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 13])
@pytest.mark.parametrize("size", [1, 61, 131])
def test_products_are_those_of_whole_numbers(rows: int, size: int, instruction_set: str) -> None:
    plain, arrays = last_product(size)
    core = cpu.Model(plain, arrays, compute="int8", threads=1, instruction_set=instruction_set)
    words = models.tokens(rows, 1)
    memory = core.encode(words, np.ones(rows, int))
    logits, _ = core.step(words, memory, core.start(memory, 1))

    table, factors = cpu.quantise(arrays["embedding.tokens.weight"])
    x = (table * factors[:, None])[words[:, 0]].astype(np.float64)
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    reach = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-30)
    weight, scale = cpu.quantise(arrays["unembedding.weight"])
    sums = np.rint(127 * x / reach).astype(np.int32) @ weight.astype(np.int32).T
    expected = sums * (reach / 127) * scale + arrays["unembedding.bias"]
    # A number that lies between two whole ones may be rounded to either: one step of the operand.
    step = np.abs(weight).max() * scale.max() * reach.max() / 127
    assert np.abs(logits[:, 0] - expected).max() <= 1.01 * step
    assert np.abs(logits[:, 0] - expected).mean() <= 1e-4 + 0.02 * step
