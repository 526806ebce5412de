"""Quantized weights and their files."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dragoman.errors import RunError
from dragoman.models.weight_quantization import (
    dequantize_blocks,
    dequantize_weights,
    from_bfloat16,
    load_arrays,
    quantize_blocks,
    quantize_int8,
    quantize_weights,
    save_arrays,
    to_bfloat16,
)
from dragoman.models.weight_storage import load_tensors

numbers = st.floats(-100, 100, width=32)
matrices = arrays(np.float32, st.tuples(st.integers(1, 5), st.integers(1, 7)), elements=numbers)


@given(matrices)
def test_int8_error_is_at_most_half_a_step(weight):
    whole, scale = quantize_int8(weight)
    assert whole.dtype == np.int8
    assert scale.dtype == np.float32
    assert whole.min() >= -127
    assert (scale > 0).all()
    real = np.abs(weight).max(axis=1) > 1e-30  # of less, a step would be no number of full precision any more
    assert (np.abs(whole[real]).max(axis=1) == 127).all()
    assert (np.abs(weight - whole * scale[:, None]) <= scale[:, None] * 0.5001).all()


def test_int8_ties_to_even_and_zero_rows():
    weight = np.array([[127.0, 0.5, 1.5, -2.5], [0.0, 0.0, 0.0, 0.0]], dtype=np.float32)
    whole, scale = quantize_int8(weight)
    assert whole.tolist() == [[127, 0, 2, -2], [0, 0, 0, 0]]
    assert scale.tolist() == [1.0, 1.0]


@given(arrays(np.float32, st.tuples(st.integers(1, 3), st.integers(1, 70)), elements=numbers))
def test_block_error_is_at_most_half_a_step(weight):
    whole, scale, center = quantize_blocks(weight)
    assert whole.dtype == np.int8
    assert scale.shape == center.shape == (len(weight), -(-weight.shape[1] // 32))
    error = np.abs(dequantize_blocks(whole, scale, center) - weight)
    for block in range(scale.shape[1]):
        columns = slice(32 * block, 32 * block + 32)
        step = np.ptp(weight[:, columns], axis=1, keepdims=True) / 255
        rounding = np.abs(weight).max(axis=1, keepdims=True) * 2**-11  # of scales and centers to float16
        # Rows of still smaller numbers share the smallest unit, and with it the smallest float16 number, 2^-124.
        assert (error[:, columns] <= 0.5001 * step + rounding + 2.0**-124).all()


@given(
    arrays(
        np.float32, st.tuples(st.integers(1, 3), st.integers(1, 70)), elements=st.floats(-(2.0**99), 2.0**99, width=32)
    )
)
def test_blocks_equal_those_of_the_cpu_library(weight):
    cpu = pytest.importorskip("dragoman_cpu", reason="the CPU library is not installed")
    for mine, theirs in zip(quantize_blocks(weight), cpu.quantize_blocks(weight), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@given(matrices)
def test_bfloat16_rounds_like_pytorch(weight):
    theirs = torch.from_numpy(weight).to(torch.bfloat16)
    np.testing.assert_array_equal(to_bfloat16(weight), theirs.view(torch.uint16).numpy())
    np.testing.assert_array_equal(from_bfloat16(to_bfloat16(weight)), theirs.float().numpy())


NAMES = {
    "decoder.0.attention.query.weight": (5, 7),
    "decoder.0.attention.query.bias": (5,),
    "target_embedding.tokens.weight": (11, 7),
    "target_embedding.positions.table.weight": (13, 7),
    "decoder_norm.weight": (7,),
}


def some_arrays() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    return {name: generator.standard_normal(shape, dtype=np.float32) for name, shape in NAMES.items()}


@pytest.mark.parametrize(
    ("compute", "bytes_a_weight"), [("float32", 4), ("bfloat16", 2), ("int8", 1), ("int8_int16", 1)]
)
def test_large_matrices_are_quantized_on_disk(tmp_path, compute, bytes_a_weight):
    whole = some_arrays()
    save_arrays(tmp_path / "weights", quantize_weights(whole, compute))
    read = load_arrays(tmp_path / "weights")
    assert {array.itemsize for name, array in read.items() if name[9:] == ".attention.query.weight"} == {bytes_a_weight}
    back = dequantize_weights(read)
    assert back.keys() == whole.keys()
    for name, array in whole.items():
        exact = compute == "float32" or ("tokens" not in name and "query.weight" not in name)
        np.testing.assert_allclose(back[name], array, atol=0 if exact else 0.03, rtol=0)
        assert back[name].dtype == np.float32


@pytest.mark.parametrize("compute", ["float32", "bfloat16", "int8", "int8_int16"])
def test_pytorch_reads_same_numbers(tmp_path, compute):
    save_arrays(tmp_path / "weights", quantize_weights(some_arrays(), compute))
    arrays_, tensors = load_arrays(tmp_path / "weights"), load_tensors(tmp_path / "weights")
    assert arrays_.keys() == tensors.keys()
    for name, array in arrays_.items():
        mine = from_bfloat16(array) if array.dtype == np.uint16 else array
        np.testing.assert_array_equal(mine, tensors[name].float().numpy())


def test_bad_file_is_named(tmp_path):
    with pytest.raises(RunError, match="no such file"):
        load_arrays(tmp_path / "weights")
    (tmp_path / "weights").write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00{}")
    with pytest.raises(RunError, match="damaged"):
        load_arrays(tmp_path / "weights")
