"""Checks and conversions of the arrays that are passed to the extension module."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_INT32 = np.dtype(np.int32)
_WEIGHT_DTYPES = {np.dtype(np.float32), np.dtype(np.uint16), np.dtype(np.int8)}


def int32_array(values: ArrayLike, *, ndim: int, name: str) -> NDArray[np.int32]:
    """Convert to a contiguous int32 array.

    Raises ValueError for another number of axes or for numbers that are not integers, IndexError for integers beyond 32
    bits.
    """
    array = np.asarray(values)
    if array.ndim != ndim:
        raise ValueError(f"{name} has the shape {array.shape}, and must have {ndim} {'axis' if ndim == 1 else 'axes'}")
    if array.size and array.dtype != _INT32:
        if array.dtype.kind not in "iu":
            raise ValueError(f"{name} has the type {array.dtype}, and must hold integers")
        limits = np.iinfo(np.int32)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise IndexError(f"{name} ranges from {array.min()} to {array.max()}, beyond 32-bit integers")
    return np.ascontiguousarray(array, dtype=_INT32)


def weight_array(name: str, values: Any) -> NDArray[Any]:
    """Convert to a contiguous array; raise ValueError for an unsupported number format."""
    array = np.asarray(values)
    if array.dtype not in _WEIGHT_DTYPES:
        raise ValueError(
            f"weights: {name} is {array.dtype}, and must be float32, bfloat16 as uint16, or int8 with {name}_scale"
        )
    return np.ascontiguousarray(array)
