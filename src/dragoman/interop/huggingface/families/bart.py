"""Families of BART's layout: Marian, BART, mBART, M2M100 with NLLB, and Pegasus.

They share the names of their tensors and differ in norms and positions:

| family  | norm | norm of the embedding | positions |
|---------|------|-----------------------|-----------|
| marian  | post | no  | sinusoidal, sines first, rates $10000^{-i/T}$ |
| bart    | post | yes | learned, after two unused rows |
| mbart   | pre  | yes | learned, after two unused rows |
| m2m_100 | pre  | no  | sinusoidal, sines first, rates $10000^{-i/(T-1)}$, from position 2 |
| pegasus | pre  | no  | as Marian |

Sources: `modeling_*.py` and `configuration_*.py` of transformers 5, whose defaults apply to keys that a file lacks.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch

from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.huggingface.seq2seq import Seq2SeqFamily
from dragoman.interop.tensor_names import SINGLE_ROW, LeftOver, TensorPair, TensorTable
from dragoman.models.config import DropoutConfig, EncoderDecoderConfig, LearnedConfig, SinusoidalConfig
from dragoman.nn.feed_forward import ActivationName
from dragoman.nn.positions.sinusoidal import sinusoidal_positions

ACTIVATIONS: Final[Mapping[str, ActivationName]] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""Our activations by the names of transformers."""
LEARNED_OFFSET = 2
"""Rows of a table of learned positions before that of the first position, which fairseq reserved for padding."""
PRE_NORM = ("mbart", "m2m_100", "pegasus")
NORM_EMBEDDING = ("bart", "mbart")
LEARNED = ("bart", "mbart")
POSITIONS = "model.{}.embed_positions.weight"
HEAD = "lm_head.weight"


def read_network(family: str, config: ForeignConfig, tensors: Mapping[str, np.ndarray]) -> EncoderDecoderConfig:
    """Return the network of a configuration. Raises DataError for keys and values without counterpart."""
    pre_norm, norm_embedding = family in PRE_NORM, family in NORM_EMBEDDING
    heads, d_ff = config.size("encoder_attention_heads", 16), config.size("encoder_ffn_dim", 4096)
    if (value := config.size("decoder_attention_heads", heads)) != heads:
        rule = f"{heads}, as encoder_attention_heads or num_attention_heads says,"
        raise config.error("decoder_attention_heads", value, rule)
    if (value := config.size("decoder_ffn_dim", d_ff)) != d_ff:
        raise config.error("decoder_ffn_dim", value, f"{d_ff}, as encoder_ffn_dim says,")
    d_model, dropout = config.size("d_model", 1024), config.rate("dropout", 0.1)
    return EncoderDecoderConfig(
        d_model=d_model,
        num_heads=heads,
        d_ff=d_ff,
        encoder_layers=config.size("encoder_layers", 12),
        decoder_layers=config.size("decoder_layers", 12),
        activation=read_activation(config, "activation_function", "relu" if family == "m2m_100" else "gelu"),
        norm_position="pre" if pre_norm else "post",
        norm_embedding=norm_embedding,
        positions=_positions(family, config, tensors, d_model=d_model),
        scale_embedding=config.flag("scale_embedding", family == "m2m_100"),
        tie_embeddings=_tied(family, config, tensors),
        dropout=DropoutConfig(
            embedding=dropout,
            residual=dropout,
            attention=config.rate("attention_dropout", 0.0),
            feed_forward=config.rate("activation_dropout", 0.0),
        ),
    )


def read_activation(config: ForeignConfig, key: str, default: str) -> ActivationName:
    """Return our name of an activation. Raises DataError if it is unknown."""
    name = config.get(key, str, default)
    if name not in ACTIVATIONS:
        raise config.error(key, name, "one of " + ", ".join(ACTIVATIONS))
    return ACTIVATIONS[name]


def has_two_vocabularies(family: str, config: ForeignConfig) -> bool:
    """Return whether source and target have vocabularies of their own, as some Marian models have."""
    return family == "marian" and not config.flag("share_encoder_decoder_embeddings", True)


def tensor_table(family: str, network: EncoderDecoderConfig) -> TensorTable:
    """Return the names of the tensors of a network."""
    pairs = [*_embedding_pairs(network), *_output_pairs(family)]
    for module, foreign in (("encoder", "encoder"), ("decoder", "decoder")):
        side = {"encoder": "source", "decoder": "target"}[module]
        stack = f"model.{foreign}"
        pairs += _linear(f"{side}_embedding.norm", f"{stack}.layernorm_embedding")
        pairs += _linear(f"{module}_norm", f"{stack}.layer_norm")
        pairs.append(TensorPair(f"{side}_embedding.positions.table.weight", POSITIONS.format(foreign)))
        pairs += _layer_pairs(module, f"{stack}.layers.{{layer}}")
    return TensorTable(
        pairs,
        (
            LeftOver("model.encoder.embed_positions.weight", "sinusoidal positions, which are computed"),
            LeftOver("model.decoder.embed_positions.weight", "sinusoidal positions, which are computed"),
            LeftOver("model.encoder.embed_positions.weights", "sinusoidal positions, which are computed"),
            LeftOver("model.decoder.embed_positions.weights", "sinusoidal positions, which are computed"),
            LeftOver("model.encoder.version", "version of the file"),
            LeftOver("model.decoder.version", "version of the file"),
        ),
    )


def add_prefix(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the tensors with the prefix `model.`, which files of the base model lack."""
    if any(name.startswith("model.") for name in tensors):
        return dict(tensors)
    heads = ("lm_head.weight", "final_logits_bias")
    return {name if name in heads else f"model.{name}": array for name, array in tensors.items()}


def _positions(
    family: str, config: ForeignConfig, tensors: Mapping[str, np.ndarray], *, d_model: int
) -> LearnedConfig | SinusoidalConfig:
    """Return the positions; tables that the file holds instead of Marian's sinusoids are learned positions."""
    length = config.size("max_position_embeddings", 1024)
    if family in LEARNED:
        return LearnedConfig(max_length=length, offset=LEARNED_OFFSET)
    if family == "m2m_100":
        return SinusoidalConfig(order="halves", inclusive=True, offset=config.size("pad_token_id", 1, at_least=0) + 1)
    computed = SinusoidalConfig(order="halves")
    tables = [tensors[name] for name in map(POSITIONS.format, ("encoder", "decoder")) if name in tensors]
    if all(_is_sinusoidal(table, d_model) for table in tables):
        return computed
    return LearnedConfig(max_length=length)


def _is_sinusoidal(table: np.ndarray, d_model: int) -> bool:
    if table.ndim != 2 or table.shape[1] != d_model:
        return False
    computed = sinusoidal_positions(torch.arange(len(table)), d_model, order="halves")
    return bool(np.allclose(table, computed.numpy(), rtol=0, atol=1e-3))


def _tied(family: str, config: ForeignConfig, tensors: Mapping[str, np.ndarray]) -> Any:
    """Return which embeddings are tied; the weights of the file decide, as in transformers."""
    config.flag("tie_word_embeddings", True)
    if has_two_vocabularies(family, config):
        return "target"
    head, embedding = tensors.get(HEAD), tensors.get("model.decoder.embed_tokens.weight")
    embedding = tensors.get("model.shared.weight", embedding)
    has_own = head is not None and embedding is not None and not np.array_equal(head, embedding)
    return "none" if has_own else "all"


def _embedding_pairs(network: EncoderDecoderConfig) -> list[TensorPair]:
    source, target, shared, head = (
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "model.shared.weight",
        "lm_head.weight",
    )
    table = "{}_embedding.tokens.weight".format
    match network.tie_embeddings:
        case "all":
            return [TensorPair(table("source"), shared, rows="source", aliases=(source, target, head))]
        case "target":
            return [
                TensorPair(table("source"), source, rows="source"),
                TensorPair(table("target"), target, rows="target", aliases=(head,)),
            ]
        case "none":
            return [
                TensorPair(table("source"), shared, rows="source", aliases=(source,)),
                TensorPair(table("target"), (), rows="target", aliases=(shared, target)),
                TensorPair("unembedding.weight", head, rows="target"),
            ]


def _output_pairs(family: str) -> list[TensorPair]:
    """Return the row of the output bias, which M2M100 does not have."""
    name = () if family == "m2m_100" else "final_logits_bias"
    return [TensorPair("unembedding.bias", name, SINGLE_ROW, rows="output_bias", default=0.0)]


def _layer_pairs(module: str, foreign: str) -> list[TensorPair]:
    block = f"{module}.{{layer}}"
    pairs = [
        *_attention(f"{block}.attention", f"{foreign}.self_attn"),
        *_linear(f"{block}.attention_residual.norm", f"{foreign}.self_attn_layer_norm"),
        *_linear(f"{block}.feed_forward.inner", f"{foreign}.fc1"),
        *_linear(f"{block}.feed_forward.outer", f"{foreign}.fc2"),
        *_linear(f"{block}.feed_forward_residual.norm", f"{foreign}.final_layer_norm"),
    ]
    if module == "decoder":
        pairs += _attention(f"{block}.cross_attention", f"{foreign}.encoder_attn")
        pairs += _linear(f"{block}.cross_attention_residual.norm", f"{foreign}.encoder_attn_layer_norm")
    return pairs


def _attention(module: str, foreign: str) -> list[TensorPair]:
    names = (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "out_proj"))
    return [pair for own, other in names for pair in _linear(f"{module}.{own}", f"{foreign}.{other}")]


def _linear(module: str, foreign: str) -> list[TensorPair]:
    return [TensorPair(f"{module}.{part}", f"{foreign}.{part}") for part in ("weight", "bias")]


FAMILIES = tuple(
    Seq2SeqFamily(name, model_class, read_network, tensor_table, rename=add_prefix)
    for name, model_class in (
        ("marian", "MarianMTModel"),
        ("bart", "BartForConditionalGeneration"),
        ("mbart", "MBartForConditionalGeneration"),
        ("m2m_100", "M2M100ForConditionalGeneration"),
        ("pegasus", "PegasusForConditionalGeneration"),
    )
)
