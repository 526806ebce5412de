r"""Quantized weights of CTranslate2, $q = \mathrm{round}(s\,w)$, with a scale $s$ per row in int8, one in int16.

A row of int8 has $s = 127 / \max|w|$. A tensor of int16 has $s = 2^{10} / \max|w|$, so that products of two numbers
leave 12 bits for their sum; files without a scale have $s = 1000$.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from torch import Tensor

from dragoman.errors import DataError, shorten

SCALE, ZERO = "_scale", "_zero"
"""Suffixes of the names of the scales and zero points of a weight."""
_GLOBAL_INT16_SCALE = 1000.0
_INT8_MAX, _INT16_MAX = 127.0, 2.0**10
NUMBER_FORMATS: Final = {
    torch.float32: "float32",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}
"""Number formats of weights by their name in settings."""


def dequantize_weights(tensors: Mapping[str, Tensor], *, where: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the tensors of one or more dimensions in float32, and the number format of each that had another one.

    Raises DataError on scales that do not fit their weight, and on weights in other number formats.
    """
    found, formats = {}, {}
    scales = {name + SCALE for name in tensors if name + SCALE in tensors}
    for name, tensor in tensors.items():
        if tensor.dim() == 0 or name in scales:
            continue
        if tensor.dtype not in NUMBER_FORMATS or name.endswith(ZERO):
            raise DataError(
                f"{where}: {shorten(name)} is quantized in a way that only GPUs run (AWQ); convert the original model"
            )
        found[name] = _dequantize(name, tensor, tensors.get(name + SCALE), where=where)
        if tensor.dtype != torch.float32:
            formats[name] = NUMBER_FORMATS[tensor.dtype]
    return found, formats


def _dequantize(name: str, tensor: Tensor, scale: Tensor | None, *, where: str) -> np.ndarray:
    if tensor.dtype.is_floating_point:
        return np.asarray(tensor.float().numpy())
    if scale is None and tensor.dtype == torch.int16:
        scale = torch.tensor(_GLOBAL_INT16_SCALE)
    expected = tensor.shape[:1] if tensor.dtype == torch.int8 else torch.Size()
    if scale is None or scale.dtype != torch.float32 or scale.shape != expected:
        raise DataError(f"{where}: {shorten(name)} is {NUMBER_FORMATS[tensor.dtype]} without its scales")
    if not bool((scale > 0).all()):
        raise DataError(f"{where}: {shorten(name)} has a scale that is not positive")
    inverse = 1.0 / scale  # as CTranslate2 rounds
    return np.asarray((tensor.float() * inverse.reshape(-1, *[1] * (tensor.dim() - 1))).reshape(tensor.shape).numpy())


def quantize_weight(name: str, array: np.ndarray, number_format: str) -> dict[str, Tensor]:
    """Return a weight in a number format, with its scales, by name."""
    tensor = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
    if number_format == "int8":
        largest = tensor.abs().amax(dim=1)
        scale = _INT8_MAX / torch.where(largest == 0, torch.full_like(largest, _INT8_MAX), largest)
        return {name: (tensor * scale[:, None]).round().to(torch.int8), name + SCALE: scale}
    if number_format == "int16":
        scale = _INT16_MAX / tensor.abs().amax().clamp(min=torch.finfo(torch.float32).tiny)
        return {name: (tensor * scale).round().to(torch.int16), name + SCALE: scale}
    dtype = next(dtype for dtype, known in NUMBER_FORMATS.items() if known == number_format)
    return {name: tensor.to(dtype)}
