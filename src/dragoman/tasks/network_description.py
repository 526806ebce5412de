"""A network in words, from its settings."""

from typing import assert_never

from dragoman.models.config import CausalConfig, EncoderConfig, StackConfig, TransformerConfig
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.tasks.compatibility import Network


def network_in_words(config: Network) -> str:
    """Such as `Encoder-decoder Transformer, 6 encoder and 6 decoder layers, width 512/2048, 8 heads`."""
    match config:
        case TransformerConfig():
            layers = f"{config.encoder_layers} encoder and {config.decoder_layers} decoder layers"
            return f"Encoder-decoder Transformer, {layers}, {_stack(config)}"
        case CausalConfig():
            return f"Decoder-only Transformer, {config.layers} layers, {_stack(config)}"
        case EncoderConfig():
            return f"Encoder-only Transformer, {config.layers} layers, {_stack(config)}"
        case RecurrentConfig():
            attention = f"{config.attention.kind} attention" if config.attention.kind != "none" else "no attention"
            layers = f"{config.encoder_layers} encoder and {config.decoder_layers} decoder layers"
            return f"Recurrent encoder-decoder ({config.cell}), {layers}, width {config.size}, {attention}"
        case _:
            assert_never(config)


def _stack(config: StackConfig) -> str:
    shared = f" on {config.key_value_heads} of keys and values" if config.key_value_heads is not None else ""
    positions = config.positions.kind if config.positions.kind != "none" else "no"
    return f"width {config.size}/{config.feed_forward}, {config.heads} heads{shared}, {positions} positions"
