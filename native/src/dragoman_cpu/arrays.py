"""Arrays as the core takes them; what does not fit is refused here, with its name."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_INT32 = np.dtype(np.int32)
_NUMBERS = {np.dtype(np.float32), np.dtype(np.uint16), np.dtype(np.int8)}


def whole_numbers(values: ArrayLike, *, axes: int, name: str) -> NDArray[np.int32]:
    """Whole numbers in 32 bits; raises ValueError for others, and IndexError for what 32 bits do not hold."""
    array = np.asarray(values)
    if array.ndim != axes:
        raise ValueError(f"{name} have the shape {array.shape}, and need {axes} {'axis' if axes == 1 else 'axes'}")
    if array.size and array.dtype != _INT32:
        if array.dtype.kind not in "iu":
            raise ValueError(f"{name} are {array.dtype}, and must be whole numbers")
        limits = np.iinfo(np.int32)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise IndexError(f"{name} reach from {array.min()} to {array.max()}, beyond all ids")
    return np.ascontiguousarray(array, dtype=_INT32)


def weight_array(name: str, values: Any) -> NDArray[Any]:
    """A weight as it is stored; raises ValueError for numbers that the core does not read."""
    array = np.asarray(values)
    if array.dtype not in _NUMBERS:
        raise ValueError(
            f"weights: {name} is {array.dtype}, and must be float32, bfloat16 as uint16, or int8 with {name}_scale"
        )
    return np.ascontiguousarray(array)
