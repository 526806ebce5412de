r"""Marian's 8-bit matrices and activation multipliers.

A matrix $W$ is stored as $\mathrm{round}(m W)$ with one multiplier $m = 127 / \max|W|$. The inputs $x$ of each product
are rounded to $\mathrm{round}(a x)$ and clipped to 127, where $a$ is fixed in the file: 127 divided by the mean of the
greatest inputs of some sentences plus 1.1 standard deviations (Bogoychev et al., 2020).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from dragoman.array_types import Float32
from dragoman.errors import DataError, shorten_text
from dragoman.interop.marian.binary_format import Int8Matrix, MarianTensor, MarianTensors

MULTIPLIER_SUFFIX: Final = "_QuantMultA"
"""End of the name of an activation multiplier; it begins with the name of the matrix."""
OUTPUT_MULTIPLIER: Final = "none" + MULTIPLIER_SUFFIX
"""Activation multiplier of an output layer that is tied to both embeddings."""
_LARGEST: Final = 127
_DEVIATIONS: Final = 1.1


def read_multipliers(tensors: MarianTensors, *, where: str) -> dict[str, dict[str, float]]:
    """Return the multipliers of all matrices, and those of all activations, by the name of their tensor.

    Raises DataError if a multiplier of activations is not positive or not finite.
    """
    matrices = {name: one.multiplier for name, one in tensors.items() if isinstance(one, Int8Matrix)}
    activations = {
        name: float(to_floats(one).reshape(-1)[0]) for name, one in tensors.items() if name.endswith(MULTIPLIER_SUFFIX)
    }
    if wrong := [name for name, value in activations.items() if not 0 < value < float("inf")]:
        raise DataError(f"{where}: {shorten_text(wrong[0])} is no positive number. Get the file again.")
    return {"matrices": matrices, "activations": activations}


def to_floats(tensor: MarianTensor) -> np.ndarray:
    """Return the numbers of a tensor."""
    return tensor.dequantize() if isinstance(tensor, Int8Matrix) else tensor


def quantize(matrix: Float32[np.ndarray, "rows columns"], recorded: float | None = None) -> Int8Matrix:
    """Quantize a matrix, with the `recorded` multiplier if it gives the same numbers back."""
    if recorded is not None:
        found = _quantize(matrix, np.float32(recorded))
        if np.array_equal(found.dequantize(), matrix):
            return found
    greatest = np.abs(matrix).max()
    return _quantize(matrix, np.float32(_LARGEST) / greatest if greatest > 0 else np.float32(1))


def _quantize(matrix: np.ndarray, multiplier: np.floating[Any]) -> Int8Matrix:
    values = np.clip(np.rint(matrix * multiplier), -_LARGEST, _LARGEST).astype(np.int8)
    return Int8Matrix(values, float(multiplier))


def activation_multiplier(greatest: Sequence[float]) -> float:
    """Return the multiplier of inputs from the greatest absolute value in each of some sentences."""
    limit = float(np.mean(greatest) + _DEVIATIONS * np.std(greatest))
    return _LARGEST / limit if limit > 0 else 1.0


def quantize_tensors(
    tensors: Mapping[str, np.ndarray],
    activations: Mapping[str, float],
    recorded: Mapping[str, float | None],
    *,
    matrices: Collection[str],
) -> dict[str, MarianTensor]:
    """Return the tensors of a quantized file: `matrices` in 8 bits and the activation multipliers.

    `recorded` are the multipliers of the file that a model comes from. A multiplier of activations that they name is
    stored like a matrix, as Marian does with that of an embedding.
    """
    found: dict[str, MarianTensor] = {
        name: quantize(array, recorded.get(name)) if name in matrices else array for name, array in tensors.items()
    }
    for name, value in activations.items():
        scalar = np.full((1, 1), value, np.float32)
        found[name] = quantize(scalar, recorded[name]) if name in recorded else scalar
    return found
