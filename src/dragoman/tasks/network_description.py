"""A network in words, from its settings."""

from typing import assert_never

from dragoman.models.config import DecoderOnlyConfig, EncoderOnlyConfig, TransformerConfig, EncoderDecoderConfig
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.tasks.compatibility import ModelConfig


def describe_model(config: ModelConfig) -> str:
    """Such as `Encoder-decoder Transformer, 6 encoder and 6 decoder layers, width 512/2048, 8 heads`."""
    match config:
        case EncoderDecoderConfig():
            layers = f"{config.encoder_layers} encoder and {config.decoder_layers} decoder layers"
            return f"Encoder-decoder Transformer, {layers}, {_describe_stack(config)}"
        case DecoderOnlyConfig():
            return f"Decoder-only Transformer, {config.num_layers} layers, {_describe_stack(config)}"
        case EncoderOnlyConfig():
            return f"Encoder-only Transformer, {config.num_layers} layers, {_describe_stack(config)}"
        case RecurrentConfig():
            attention = f"{config.attention.kind} attention" if config.attention.kind != "none" else "no attention"
            layers = f"{config.encoder_layers} encoder and {config.decoder_layers} decoder layers"
            return f"Recurrent encoder-decoder ({config.cell}), {layers}, width {config.d_model}, {attention}"
        case _:
            assert_never(config)


def _describe_stack(config: TransformerConfig) -> str:
    shared = f" on {config.num_kv_heads} of keys and values" if config.num_kv_heads is not None else ""
    positions = config.positions.kind if config.positions.kind != "none" else "no"
    return f"width {config.d_model}/{config.d_ff}, {config.num_heads} heads{shared}, {positions} positions"
