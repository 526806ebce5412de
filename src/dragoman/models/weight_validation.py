"""Validation of stored weights: names, shapes, number formats and values, the same for every backend and for exports.

Names, shapes and formats are checked in the header of the file, before any memory is allocated.
"""

from collections.abc import Mapping

import numpy as np

from dragoman.errors import RunError, shorten
from dragoman.safetensors_files import TensorHeader

SCALE_SUFFIX = "_scale"
"""Suffix of the name of the scales of an int8 array."""
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
    scales = {name for name in headers if name.removesuffix(SCALE_SUFFIX) in headers.keys() - {name}}
    for name, header in headers.items():
        scale = headers.get(name + SCALE_SUFFIX)
        if header.dtype not in FORMATS.values():
            known = ", ".join(FORMATS.values())
            raise RunError(
                f"{where}: {shorten(name)} has the number format {header.dtype}, and weights have {known}; "
                "restore the file from a copy"
            )
        if header.dtype == "I8" and (scale is None or (scale.dtype, scale.shape) != ("F32", header.shape[:1])):
            raise RunError(
                f"{where}: {shorten(name)} is int8 without a float32 scale for each row; restore the file from a copy"
            )
    if expected is not None:
        check_shapes({name: headers[name].shape for name in headers.keys() - scales}, expected, where=where)


def check_values(arrays: Mapping[str, np.ndarray], *, where: str) -> None:
    """Raise RunError on NaN and infinity, and on negative scales; bfloat16 has the type uint16."""
    for name, array in arrays.items():
        if not _is_finite(array):
            raise non_finite_error(name, where=where)
        if name.endswith(SCALE_SUFFIX) and name.removesuffix(SCALE_SUFFIX) in arrays and (array < 0).any():
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
