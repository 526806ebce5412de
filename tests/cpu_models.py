"""Random models for the CPU library and for PyTorch with the same weights."""

import random
from typing import Any, Literal, TypeVar

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import nn

from dragoman.models.config import (
    AlibiConfig,
    CrossAttentionConfig,
    DecoderLayer,
    DecoderOnlyConfig,
    EncoderDecoderAttentionConfig,
    EncoderDecoderConfig,
    KeptHeads,
    LearnedConfig,
    NoPositionsConfig,
    PositionsConfig,
    RotaryConfig,
    SelfAttentionConfig,
    SinusoidalConfig,
    T5BiasConfig,
)
from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.models.factory import build_decoder_only, build_encoder_decoder
from dragoman.nn.attention_score_functions import DotConfig, ScaledDotConfig, ScoreConfig
from dragoman.nn.positions.rotary import LinearScalingConfig, Llama3ScalingConfig
from tests.random_models import NO_DROPOUT, random_causal, random_transformer

cpu = pytest.importorskip(
    "dragoman_cpu", reason="the CPU library is not installed; `make test` builds it where a C++17 compiler is"
)

VOCABULARY, SOURCE_VOCABULARY = 71, 43
INSTRUCTION_SETS: tuple[str, ...] = cpu.instruction_sets()
POSITIONS: list[PositionsConfig] = [
    SinusoidalConfig(),
    SinusoidalConfig(order="halves", inclusive=True),
    SinusoidalConfig(inclusive=True, offset=2),
    LearnedConfig(max_length=53),
    LearnedConfig(max_length=53, offset=2),
    RotaryConfig(base=11.0),
    RotaryConfig(base=11.0, scaling=LinearScalingConfig(factor=3.0)),
    RotaryConfig(base=11.0, scaling=Llama3ScalingConfig(factor=5.0, high_frequency_factor=2.0, original_length=17)),
    AlibiConfig(),
    T5BiasConfig(num_buckets=8, max_distance=7),
    NoPositionsConfig(),
]


@st.composite
def stacks(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the options that both kinds of Transformer have and that the CPU library supports."""
    positions = draw(st.sampled_from(POSITIONS))
    heads, groups = draw(st.sampled_from([(1, None), (3, None), (6, 2), (6, 1), (5, 5)]))
    head_sizes = [2, 6, 14, 22] if isinstance(positions, RotaryConfig) else [2, 3, 7, 11, 17, 33]
    # The norm of two or three numbers is little more than their order, which any rounding may turn around.
    head_size = draw(st.sampled_from([size for size in head_sizes if heads * size > 5]))
    return {
        "d_model": heads * head_size,
        "num_heads": heads,
        "num_kv_heads": groups,
        "head_size": draw(st.sampled_from([None, None, 4, 18])),
        "d_ff": draw(st.sampled_from([5, 19, 67])),
        "activation": draw(st.sampled_from(["relu", "gelu", "gelu_tanh", "silu"])),
        "gated": draw(st.booleans()),
        "norm": draw(st.sampled_from(["layer", "rms"])),
        "norm_epsilon": draw(st.sampled_from([None, 1e-12, 0.1])),
        "norm_position": draw(st.sampled_from(["pre", "post"])),
        "bias": draw(st.booleans()),
        "qkv_bias": draw(st.sampled_from([None, True, False])),
        "output_bias": draw(st.sampled_from([None, True, False])),
        "positions": positions,
        "scale_embedding": draw(st.booleans()),
        "norm_embedding": draw(st.booleans()),
        "dropout": NO_DROPOUT,
    }


scores: st.SearchStrategy[ScoreConfig] = st.sampled_from([DotConfig(), ScaledDotConfig()])


@st.composite
def kept_heads(draw: st.DrawFn, stack: dict[str, Any], layers: int) -> KeptHeads | None:
    """Draw all heads, or the heads left by pruning; heads that share keys stay or leave together."""
    if draw(st.booleans()):
        return None
    groups = stack["num_kv_heads"] or stack["num_heads"]
    shared = stack["num_heads"] // groups
    left = st.sets(st.integers(0, groups - 1), min_size=1).map(sorted)
    return tuple(tuple(group * shared + head for group in draw(left) for head in range(shared)) for _ in range(layers))


AnyConfig = EncoderDecoderConfig | DecoderOnlyConfig
Kind = TypeVar("Kind", bound=AnyConfig)


def of_kind(kind: type[Kind], **choices: Any) -> Kind:
    """Return the configuration of a model kind; the type checker samples items, so it cannot check the strategy."""
    before = random.getstate()
    try:
        return kind(**choices)
    finally:
        random.setstate(before)


@st.composite
def seq2seq_configs(draw: st.DrawFn) -> EncoderDecoderConfig:
    stack = draw(stacks())
    encoder_layers, decoder_layers = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 3]))
    tie_embeddings: Literal["all", "target", "none"] = draw(st.sampled_from(["all", "target", "none"]))
    decoder_layer: DecoderLayer = draw(st.sampled_from(["self_attention", "ssru"]))
    decoder = SelfAttentionConfig()
    if decoder_layer == "self_attention":
        decoder = SelfAttentionConfig(score=draw(scores), kept_heads=draw(kept_heads(stack, decoder_layers)))
    return of_kind(
        EncoderDecoderConfig,
        **stack,
        decoder_layer=decoder_layer,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        attention=EncoderDecoderAttentionConfig(
            encoder=SelfAttentionConfig(score=draw(scores), kept_heads=draw(kept_heads(stack, encoder_layers))),
            decoder=decoder,
            cross=CrossAttentionConfig(score=draw(scores), kept_heads=draw(kept_heads(stack, decoder_layers))),
        ),
        tie_embeddings=tie_embeddings,
        scale_output=tie_embeddings != "none" and draw(st.booleans()),
    )


@st.composite
def causal_configs(draw: st.DrawFn) -> DecoderOnlyConfig:
    stack, layers = draw(stacks()), draw(st.sampled_from([1, 3]))
    return of_kind(
        DecoderOnlyConfig,
        **stack,
        num_layers=layers,
        attention=SelfAttentionConfig(score=draw(scores), kept_heads=draw(kept_heads(stack, layers))),
        tie_embeddings=draw(st.booleans()),
    )


Network = EncoderDecoderTransformer | DecoderOnlyTransformer


def random_model(config: AnyConfig, seed: int = 0) -> Network:
    """Return a PyTorch model whose weights are all random."""
    if isinstance(config, DecoderOnlyConfig):
        return random_causal(config, vocabulary=VOCABULARY, seed=seed)
    return random_transformer(
        config, source_vocabulary=source_vocabulary(config), target_vocabulary=VOCABULARY, seed=seed
    )


def initialized_model(config: AnyConfig, seed: int = 0) -> Network:
    """Return a model at the scale of trained ones: initialized, with every weight moved a little."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if isinstance(config, DecoderOnlyConfig):
            network: Network = build_decoder_only(config, vocabulary=VOCABULARY)
        else:
            network = build_encoder_decoder(
                config, source_vocabulary=source_vocabulary(config), target_vocabulary=VOCABULARY
            )
        for parameter in network.parameters():
            parameter.data += 0.02 * torch.randn_like(parameter)
    return network.eval()


def source_vocabulary(config: AnyConfig) -> int:
    """Return the number of tokens that `encode` accepts."""
    if isinstance(config, DecoderOnlyConfig) or config.tie_embeddings == "all":
        return VOCABULARY
    return SOURCE_VOCABULARY


def cpu_config(config: AnyConfig) -> dict[str, Any]:
    """Return the configuration in the form that the CPU library reads."""
    if isinstance(config, DecoderOnlyConfig):
        return {**config.model_dump(), "vocabulary": VOCABULARY}
    sizes = {"source_vocabulary": source_vocabulary(config), "target_vocabulary": VOCABULARY}
    return {**config.model_dump(), **sizes}


def arrays(network: nn.Module) -> dict[str, np.ndarray]:
    """Return every weight by its first name, as a run stores it."""
    return {name: parameter.detach().numpy() for name, parameter in network.named_parameters()}


def cpu_model(config: AnyConfig, network: nn.Module, **options: Any) -> Any:
    """Return the same model in the CPU library, with one thread by default."""
    return cpu.Model(cpu_config(config), arrays(network), **{"compute_type": "float32", "num_threads": 1, **options})


def padded_batch(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return padded ids and lengths. The padding is a real token, which must not change results."""
    width = max(len(row) for row in rows)
    ids = np.array([[*row, *[1] * (width - len(row))] for row in rows], dtype=np.int32)
    return ids, np.array([len(row) for row in rows], dtype=np.int32)


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).long()
