"""Weights as named NumPy arrays on disk (safetensors), in float32 or quantized.

The large matrices of a model are stored as bfloat16, or as int8 with a scale per row; all other weights stay float32.
NumPy has no bfloat16, so its bits are kept in 16-bit integers.
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from dragoman.array_types import Float32, Int8, UInt16
from dragoman.atomic_files import write_atomically
from dragoman.checksums import with_checksum
from dragoman.models.weight_validation import FORMATS, SCALE_SUFFIX, Shapes, check_headers, check_values
from dragoman.safetensors_files import WEIGHTS, allocate_array, open_safetensors

ComputeType = Literal["float32", "bfloat16", "int8"]
"""Number format of the matrix products of a model."""

Arrays = dict[str, np.ndarray]


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
        else:
            result[name], result[name + SCALE_SUFFIX] = quantize_int8(array)
    return result


def dequantize_weights(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return stored arrays as float32."""
    result: Arrays = {}
    for name, array in arrays.items():
        if array.dtype == np.int8:
            result[name] = array * arrays[name + SCALE_SUFFIX][:, None]
        elif array.dtype == np.uint16:
            result[name] = from_bfloat16(array)
        elif not (name.endswith(SCALE_SUFFIX) and name.removesuffix(SCALE_SUFFIX) in arrays):
            result[name] = array
    return result


def quantize_int8(
    weight: Float32[np.ndarray, "rows columns"],
) -> tuple[Int8[np.ndarray, "rows columns"], Float32[np.ndarray, " rows"]]:
    r"""Quantize each row $w$: $q = \mathrm{round}(w / s)$ with $s = \max|w| / 127$, ties to even; $s = 1$ for zeros."""
    scale = np.abs(weight).max(axis=1) / np.float32(127)
    scale = np.where(scale > 0, scale, np.float32(1))
    return np.clip(np.rint(weight / scale[:, None]), -127, 127).astype(np.int8), scale


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


def _is_large(name: str, array: np.ndarray) -> bool:
    """Return whether an array is a matrix of a linear map or a token embedding; position embeddings stay float32."""
    return array.ndim == 2 and name.endswith(".weight") and ".positions." not in name
