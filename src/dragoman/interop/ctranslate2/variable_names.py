"""Table of the names of our tensors and of CTranslate2's variables.

CTranslate2 fuses query, key and value of self-attention, and key and value of cross-attention. Rotary positions turn
pairs of neighboring features there if `rotary_interleave` is set, and features of two halves here, so that the rows of
queries and keys change places.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from dragoman.interop.tensor_names import Conversion, LeftOver, TensorPair, TensorTable
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig

_NORM: Final = {"weight": "gamma", "bias": "beta"}
_PARTS: Final = ("weight", "bias")
LEFT_OVER: Final = (
    LeftOver("encoder/position_encodings/encodings", "sinusoidal positions, which dragoman computes"),
    LeftOver("decoder/position_encodings/encodings", "sinusoidal positions, which dragoman computes"),
    LeftOver("encoder/layer_{layer}/self_attention/relative_attention_bias", "equal to that of the first layer"),
    LeftOver("decoder/layer_{layer}/self_attention/relative_attention_bias", "equal to that of the first layer"),
)


def table_of_names(
    config: EncoderDecoderConfig | DecoderOnlyConfig, *, source_embeddings: str, is_interleaved: bool = False
) -> TensorTable:
    """Return the table of a network.

    `source_embeddings` is the name of the source embeddings there; `is_interleaved` says how rotary positions pair
    features there.
    """
    rotate = _interleave(config) if is_interleaved else None
    pairs = [*_embeddings(config, source_embeddings)]
    if isinstance(config, EncoderDecoderConfig):
        pairs += [
            *_layer("encoder.{layer}", "encoder/layer_{layer}", rotate),
            *_norm("encoder_norm", "encoder/layer_norm"),
        ]
        pairs += [
            *_layer("decoder.{layer}", "decoder/layer_{layer}", rotate),
            *_norm("decoder_norm", "decoder/layer_norm"),
        ]
        for side, scope in (("source", "encoder"), ("target", "decoder")):
            pairs += _around_embedding(f"{side}_embedding", scope)
            pairs += _stack_bias(f"{scope}.0", scope)
    else:
        pairs += [*_layer("blocks.{layer}", "decoder/layer_{layer}", rotate), *_norm("norm", "decoder/layer_norm")]
        pairs += [*_around_embedding("embedding", "decoder"), *_stack_bias("blocks.0", "decoder")]
    return TensorTable(pairs, LEFT_OVER)


def _embeddings(config: EncoderDecoderConfig | DecoderOnlyConfig, source: str) -> Iterator[TensorPair]:
    target, output = "decoder/embeddings/weight", "decoder/projection/weight"
    tie = config.tie_embeddings
    if isinstance(config, DecoderOnlyConfig):
        yield TensorPair("embedding.tokens.weight", target, rows="target", aliases=(output,) if tie else ())
    else:
        aliases = {"all": (target, output), "target": (), "none": ()}[str(tie)]
        yield TensorPair("source_embedding.tokens.weight", source, rows="source", aliases=aliases)
        aliases = (output,) if tie == "target" else ()
        yield TensorPair("target_embedding.tokens.weight", target, rows="target", aliases=aliases)
    yield TensorPair("unembedding.weight", output, rows="target")
    yield TensorPair("unembedding.bias", "decoder/projection/bias", rows="output_bias", default=0.0)


def _layer(module: str, foreign: str, rotate: Conversion | None) -> Iterator[TensorPair]:
    attention, cross, feed_forward = (f"{foreign}/{name}" for name in ("self_attention", "attention", "ffn"))
    for part in _PARTS:
        default = 0.0 if part == "bias" else None
        fused = tuple(f"{module}.attention.{name}.{part}" for name in ("query", "key", "value"))
        yield TensorPair(fused, f"{attention}/linear_0/{part}", rotate, default=default)
        fused = tuple(f"{module}.cross_attention.{name}.{part}" for name in ("key", "value"))
        yield TensorPair(fused, f"{cross}/linear_1/{part}", default=default)
        for name, counterpart in (
            ("attention.output", f"{attention}/linear_1"),
            ("cross_attention.query", f"{cross}/linear_0"),
            ("cross_attention.output", f"{cross}/linear_2"),
            ("feed_forward.inner", f"{feed_forward}/linear_0"),
            ("feed_forward.gate", f"{feed_forward}/linear_0_noact"),
            ("feed_forward.outer", f"{feed_forward}/linear_1"),
        ):
            yield TensorPair(f"{module}.{name}.{part}", f"{counterpart}/{part}", default=default)
    for name, counterpart in (
        ("attention_residual", attention),
        ("cross_attention_residual", cross),
        ("feed_forward_residual", feed_forward),
    ):
        yield from _norm(f"{module}.{name}.norm", f"{counterpart}/layer_norm")
    for name in ("key", "value"):
        positions = f"{attention}/relative_position_{name}s"
        yield TensorPair(f"{module}.attention.position_bias.{name}_embedding", positions)


def _norm(module: str, foreign: str) -> Iterator[TensorPair]:
    for part in _PARTS:
        yield TensorPair(f"{module}.{part}", f"{foreign}/{_NORM[part]}")


def _around_embedding(module: str, scope: str) -> Iterator[TensorPair]:
    yield from _norm(f"{module}.norm", f"{scope}/layernorm_embedding")
    yield TensorPair(f"{module}.positions.table.weight", f"{scope}/position_encodings/encodings")


def _stack_bias(module: str, scope: str) -> Iterator[TensorPair]:
    yield TensorPair(
        f"{module}.attention.position_bias.table", f"{scope}/layer_0/self_attention/relative_attention_bias"
    )


def _interleave(config: EncoderDecoderConfig | DecoderOnlyConfig) -> Conversion:
    """Return the conversion of fused queries, keys and values from pairs of neighbors to pairs across halves."""
    size = config.features_per_head
    rotated = (config.num_heads + (config.num_kv_heads or config.num_heads)) * size
    within = np.arange(size).reshape(-1, 2).T.reshape(-1)
    """Their feature of each of ours."""

    def permute(array: np.ndarray, order: np.ndarray) -> np.ndarray:
        head = array[:rotated].reshape(-1, size, *array.shape[1:])[:, order]
        return np.concatenate([head.reshape(-1, *array.shape[1:]), array[rotated:]])

    return Conversion(lambda array: permute(array, within), lambda array: permute(array, np.argsort(within)))
