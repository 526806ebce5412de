"""Integers and multipliers of an imported 8-bit model, with which Firefox's arithmetic is computed bit by bit."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from dragoman.errors import ConfigError
from dragoman.interop.marian.quantization import MULTIPLIER_SUFFIX, OUTPUT_MULTIPLIER, quantize
from dragoman.interop.marian.tensor_names import tensor_table
from dragoman.models.config import EncoderDecoderConfig

MULTIPLE: Final = 16
"""Numbers that a vector instruction computes, of which each size is a multiple."""
_EMBEDDING: Final = "source_embedding.tokens.weight"


def recorded_products(
    network: EncoderDecoderConfig, weights: Mapping[str, np.ndarray], multipliers: Mapping[str, Mapping[str, float]]
) -> dict[str, tuple[np.ndarray, float, float]]:
    """Return the integers, their multiplier and that of their inputs, by the name of each matrix of the network.

    Integers are (inputs, outputs), and those of the embedding (tokens, features). `multipliers` are those that the
    import recorded. Raises ConfigError if they are not those of the weights, or the network is no student of Firefox.
    """
    if (
        (network.decoder_layer, network.norm_position, network.tie_embeddings) != ("ssru", "post", "all")
        or network.gated
        or network.activation != "relu"
    ):
        raise ConfigError("compute_type = int8_shift: is for students of Firefox with an SSRU decoder. Leave it out.")
    _check_sizes(network)
    table, found = tensor_table(network), dict[str, tuple[np.ndarray, float, float]]()
    matrices, activations = (multipliers.get(key, {}) for key in ("matrices", "activations"))
    for name, weight in weights.items():
        if weight.ndim != 2:  # vectors are no factors of products
            continue
        (foreign,) = table.write({name: weight})
        activation = OUTPUT_MULTIPLIER if name == _EMBEDDING else foreign + MULTIPLIER_SUFFIX
        matrix = quantize(weight, matrices.get(foreign))
        if activation not in activations or np.float32(matrix.multiplier) != np.float32(matrices.get(foreign, 0)):
            raise ConfigError(
                f"compute_type = int8_shift: {name} is not as an import from an 8-bit file of Firefox. Leave it out."
            )
        values = matrix.values if name == _EMBEDDING else matrix.values.T
        found[name] = values, matrix.multiplier, activations[activation]
    return found


def _check_sizes(network: EncoderDecoderConfig) -> None:
    """Raise ConfigError if vector instructions do not compute products of these sizes."""
    sizes = {
        "model.d_model": network.d_model,
        "model.d_ff": network.d_ff,
        "model.d_model / model.num_heads": network.d_model // network.num_heads,
    }
    for name, size in sizes.items():
        if size % MULTIPLE:
            raise ConfigError(
                f"compute_type = int8_shift: needs a multiple of {MULTIPLE}, and {name} is {size}. Leave it out, or "
                "use int8."
            )


def recorded_multipliers(origin: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]]:
    """Return the multipliers in the record of an import; empty for other formats."""
    found: Mapping[str, Mapping[str, float]] = origin.get("documents", {}).get("multipliers", {})
    return found if origin.get("format") == "marian" else {}
