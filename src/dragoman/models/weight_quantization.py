"""Weights as named NumPy arrays on disk (safetensors), in float32 or quantized.

The large matrices of a model are stored as bfloat16, as int8 with a scale per row, or for int8_int16 as int8 with a
scale and a center per block of 32 columns; all other weights stay float32.
NumPy has no bfloat16, so its bits are kept in 16-bit integers.
"""

import json
import struct
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from dragoman.array_types import Float32, Int8, UInt16
from dragoman.atomic_files import write_atomically
from dragoman.checksums import with_checksum
from dragoman.models.weight_validation import (
    BLOCK_SIZE,
    CENTER_SUFFIX,
    FORMATS,
    SCALE_SUFFIX,
    Shapes,
    check_headers,
    check_values,
    quantized_name,
)
from dragoman.safetensors_files import WEIGHTS, allocate_array, open_safetensors

ComputeType = Literal["float32", "bfloat16", "int8", "int8_int16"]
"""Number format of the matrix products of a model: of weights and of activations, if these differ."""

Arrays = dict[str, np.ndarray]
BlockParams = Float32[np.ndarray, "rows blocks"]
_ROWS_AT_ONCE = 1024
"""Rows whose blocks are quantized together: intermediate results stay small."""


def quantize_weights(arrays: Mapping[str, np.ndarray], compute: ComputeType) -> Arrays:
    """Quantize float32 arrays."""
    if compute == "float32":
        return dict(arrays)
    result: Arrays = {}
    for name, array in arrays.items():
        if not _is_large(name, array):
            result[name] = array
        elif compute == "bfloat16":
            result[name] = to_bfloat16(array)
        elif compute == "int8":
            result[name], result[name + SCALE_SUFFIX] = quantize_int8(array)
        else:
            integers, scale, center = quantize_blocks(array)
            result |= {name: integers, name + SCALE_SUFFIX: scale, name + CENTER_SUFFIX: center}
    return result


def dequantize_weights(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return stored arrays as float32."""
    result: Arrays = {}
    for name, array in arrays.items():
        if array.dtype == np.int8 and name + CENTER_SUFFIX in arrays:
            result[name] = dequantize_blocks(array, arrays[name + SCALE_SUFFIX], arrays[name + CENTER_SUFFIX])
        elif array.dtype == np.int8:
            result[name] = array * arrays[name + SCALE_SUFFIX][:, None]
        elif array.dtype == np.uint16:
            result[name] = from_bfloat16(array)
        elif quantized_name(name, arrays) is None:
            result[name] = array
    return result


def quantize_int8(
    weight: Float32[np.ndarray, "rows columns"],
) -> tuple[Int8[np.ndarray, "rows columns"], Float32[np.ndarray, " rows"]]:
    r"""Quantize each row $w$: $q = \mathrm{round}(w / s)$ with $s = \max|w| / 127$, ties to even; $s = 1$ for zeros."""
    scale = np.abs(weight).max(axis=1) / np.float32(127)
    scale = np.where(scale > 0, scale, np.float32(1))
    return np.clip(np.rint(weight / scale[:, None]), -127, 127).astype(np.int8), scale


def quantize_blocks(
    weight: Float32[np.ndarray, "rows columns"],
) -> tuple[Int8[np.ndarray, "rows columns"], BlockParams, BlockParams]:
    r"""Quantize each block: $w \approx s q + c$, with $q$ from -128 to 127; return $q$, scales $s$ and centers $c$.

    Of four grids the one with the smallest maximal error is chosen: 256 levels from the smallest to the largest weight,
    symmetric levels up to 127, 16 levels, and symmetric levels up to 8. Weights that were stored in the formats Q8_0,
    Q4_1 or Q4_0 of llama.cpp are therefore exact. Scales and centers have the precision of float16, relative to the
    magnitude of their row.
    """
    starts = [*range(0, len(weight), _ROWS_AT_ONCE), len(weight)]
    parts = [_quantize_rows(weight[start:end]) for start, end in pairwise(starts)]
    quantized, scale, center = (np.concatenate(one) for one in zip(*parts, strict=True))
    return quantized, scale, center


def dequantize_blocks(
    quantized: Int8[np.ndarray, "rows columns"], scale: BlockParams, center: BlockParams
) -> Float32[np.ndarray, "rows columns"]:
    """Return $s q + c$ in float32."""
    columns = quantized.shape[1]
    scales, centers = (np.repeat(one, BLOCK_SIZE, axis=1)[:, :columns] for one in (scale, center))
    result: np.ndarray = quantized * scales + centers
    return result


def to_bfloat16(array: Float32[np.ndarray, "*sizes"]) -> UInt16[np.ndarray, "*sizes"]:
    """Round to bfloat16, ties to even."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def from_bfloat16(array: UInt16[np.ndarray, "*sizes"]) -> Float32[np.ndarray, "*sizes"]:
    """Convert bfloat16 to float32."""
    return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays with a checksum atomically; 16-bit integers hold bfloat16."""
    header, end = {}, 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        header[name] = {"dtype": FORMATS[array.dtype.name], "shape": array.shape, "data_offsets": [start, end]}
    words = json.dumps(header).encode()
    content = b"".join([struct.pack("<Q", len(words)), words, *(one.tobytes() for one in arrays.values())])
    write_atomically(path, *with_checksum(content))


def load_arrays(path: Path, shapes: Shapes | None = None) -> Arrays:
    """Read the weights of a model. Raises RunError if they are missing, damaged or not finite.

    `shapes` are those of the parameters of the model; other names and shapes are an error before memory is allocated.
    """
    with open_safetensors(path, WEIGHTS) as file:
        check_headers(file.tensors, shapes, where=str(path))
        arrays = file.read(allocate_array)
    check_values(arrays, where=str(path))
    return arrays


def _quantize_rows(
    weight: Float32[np.ndarray, "rows columns"],
) -> tuple[Int8[np.ndarray, "rows columns"], BlockParams, BlockParams]:
    rows, columns = weight.shape
    missing = -columns % BLOCK_SIZE  # the last block is padded by its own last weight, which changes no grid
    blocks = np.pad(weight, ((0, 0), (0, missing)), mode="edge").reshape(rows, -1, BLOCK_SIZE)
    low, high = blocks.min(axis=-1), blocks.max(axis=-1)
    magnitude, spread = np.maximum(np.abs(low), np.abs(high)), high - low
    unit = _float16_unit(np.abs(weight).max(axis=1, keepdims=True))
    no_center = np.zeros_like(low)
    step = spread / np.float32(255)
    fits = [
        _quantize_on_grid(blocks, *grid, unit)
        for grid in (
            (step, low + np.float32(128) * step),
            (magnitude / np.float32(127), no_center),
            (spread / np.float32(15), low),
            (magnitude / np.float32(8), no_center),
        )
    ]
    best = np.argmin([error for _, error in fits], axis=0)[None, ..., None]
    levels, scale, center = (
        np.take_along_axis(np.stack(parts), best, axis=0)[0] for parts in zip(*(fit for fit, _ in fits), strict=True)
    )
    quantized = np.ascontiguousarray(levels.reshape(rows, -1)[:, :columns])
    return quantized, scale[..., 0], center[..., 0]


def _float16_unit(magnitude: Float32[np.ndarray, "rows 1"]) -> Float32[np.ndarray, "rows 1"]:
    """Return the powers of two that bring numbers of at most these magnitudes below 2^15, and so into float16."""
    exponent = np.frexp(magnitude)[1]
    return np.ldexp(np.float32(1), np.maximum(exponent - 15, -100))


def _quantize_on_grid(
    blocks: Float32[np.ndarray, "rows blocks size"],
    scale: BlockParams,
    center: BlockParams,
    unit: Float32[np.ndarray, "rows 1"],
) -> tuple[tuple[Int8[np.ndarray, "rows blocks size"], np.ndarray, np.ndarray], BlockParams]:
    """Return the integers, the parameters in the precision of float16, and the maximal error of each block."""
    step, offset = (((one / unit).astype(np.float16).astype(np.float32) * unit)[..., None] for one in (scale, center))
    levels = (blocks - offset) / np.where(step > 0, step, np.float32(1))
    levels = np.rint(np.clip(levels, np.float32(-128), np.float32(127)))
    return (levels.astype(np.int8), step, offset), np.abs(levels * step + offset - blocks).max(axis=-1)


def _is_large(name: str, array: np.ndarray) -> bool:
    """Return whether an array is a matrix of a linear map or a token embedding; position embeddings stay float32."""
    return array.ndim == 2 and name.endswith(".weight") and ".positions." not in name
