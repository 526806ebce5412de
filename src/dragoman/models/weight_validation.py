"""Validation of stored weights: names, shapes, number formats and values, the same for every backend and for exports.

Names, shapes and formats are checked in the header of the file, before any memory is allocated.
"""

from collections.abc import Container, Mapping

import numpy as np

from dragoman.errors import RunError, shorten
from dragoman.safetensors_files import TensorHeader

SCALE_SUFFIX = "_scale"
"""Suffix of the name of the scales of an int8 array."""
CENTER_SUFFIX = "_center"
"""Suffix of the name of the centers of an int8 array that is quantized by blocks."""
BLOCK_SIZE = 32
"""Columns that share a scale and a center."""
FORMATS = {"float32": "F32", "uint16": "BF16", "int8": "I8"}
"""Number formats of safetensors by that of the array."""
_BFLOAT16_INFINITY = 0x7F80
"""Bits of infinity; those of NaN are greater."""

Shapes = Mapping[str, tuple[int, ...]]


def check_shapes(found: Shapes, expected: Shapes, *, where: str) -> None:
    """Raise RunError if names or shapes differ from those of a model."""
    missing, unknown = expected.keys() - found.keys(), found.keys() - expected.keys()
    reshaped = {name for name in expected.keys() & found.keys() if found[name] != expected[name]}
    for names, problem in ((missing, "lacks"), (unknown, "has an unknown"), (reshaped, "has another shape of")):
        if names:
            raise RunError(
                f"{where}: {problem} {min(names)}; the weights belong to another configuration. "
                "Use the config.yaml they were trained with"
            )


def check_headers(headers: Mapping[str, TensorHeader], expected: Shapes | None, *, where: str) -> None:
    """Raise RunError on a format that weights do not have, on int8 without scales, and as `check_shapes` does."""
    parameters = {name for name in headers if quantized_name(name, headers) is not None}
    for name, header in headers.items():
        if header.dtype not in FORMATS.values():
            known = ", ".join(FORMATS.values())
            raise RunError(
                f"{where}: {shorten(name)} has the number format {header.dtype}, and weights have {known}; "
                "restore the file from a copy"
            )
        if header.dtype == "I8":
            _check_quantization(name, headers, where=where)
    if expected is not None:
        check_shapes({name: headers[name].shape for name in headers.keys() - parameters}, expected, where=where)


def quantized_name(name: str, known: Container[str]) -> str | None:
    """Return the name of the array whose scales or centers an array of this name holds; None for other arrays."""
    for suffix in (SCALE_SUFFIX, CENTER_SUFFIX):
        if name.endswith(suffix) and name.removesuffix(suffix) in known:
            return name.removesuffix(suffix)
    return None


def _check_quantization(name: str, headers: Mapping[str, TensorHeader], *, where: str) -> None:
    """Raise RunError on int8 without a scale for each row, or without a scale and a center for each block."""
    shape = headers[name].shape
    scale, center = (headers.get(name + suffix) for suffix in (SCALE_SUFFIX, CENTER_SUFFIX))
    if center is None:
        if scale is None or (scale.dtype, scale.shape) != ("F32", shape[:1]):
            raise RunError(
                f"{where}: {shorten(name)} is int8 without a float32 scale for each row; restore the file from a copy"
            )
        return
    expected = ("F32", (*shape[:1], *(-(-size // BLOCK_SIZE) for size in shape[1:])))
    if any(one is None or (one.dtype, one.shape) != expected for one in (scale, center)):
        raise RunError(
            f"{where}: {shorten(name)} is int8 without a float32 scale and a center for each block of {BLOCK_SIZE} "
            "columns; restore the file from a copy"
        )


def check_values(arrays: Mapping[str, np.ndarray], *, where: str) -> None:
    """Raise RunError on NaN and infinity, and on negative scales; bfloat16 has the type uint16."""
    for name, array in arrays.items():
        if not _is_finite(array):
            raise non_finite_error(name, where=where)
        if name.endswith(SCALE_SUFFIX) and quantized_name(name, arrays) is not None and (array < 0).any():
            raise RunError(f"{where}: {shorten(name)} has a negative scale; restore the file from a copy")


def non_finite_error(name: str, *, where: str) -> RunError:
    """Return the error for a weight with NaN or infinity."""
    return RunError(
        f"{where}: {shorten(name)} has values that are not finite (NaN or infinity); restore the file from a copy, or "
        "train again with a lower learning rate"
    )


def _is_finite(array: np.ndarray) -> bool:
    if array.dtype == np.uint16:
        return not array.size or bool((array & 0x7FFF).max() < _BFLOAT16_INFINITY)
    if array.dtype == np.int8:
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum()  # a third of the time of `isfinite`; a sum of finite numbers may overflow
    return bool(np.isfinite(total)) or bool(np.isfinite(array).all())
