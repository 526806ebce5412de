"""BERT (Devlin et al., 2019), RoBERTa (Liu et al., 2019) and DistilBERT (Sanh et al., 2019).

They have learned positions, LayerNorm after each sublayer, tied embeddings, and a layer before masked tokens are
predicted, which sentence encoders lack. They differ in names, positions and segments:

| family     | first position | segments |
|------------|----------------|----------|
| bert       | 0              | `type_vocab_size` |
| roberta    | pad symbol + 1 | one, which is copied to the place of the second here |
| distilbert | 0              | none |

Sources: `modeling_*.py` and `configuration_*.py` of transformers 5.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dragoman.errors import ConfigError
from dragoman.interop.huggingface.encoder_heads import head_pairs
from dragoman.interop.huggingface.encoder_only import EncoderFamily
from dragoman.interop.huggingface.families.bart import read_activation
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.imported_model import HeadConfig
from dragoman.interop.tensor_names import Conversion, LeftOver, TensorPair, TensorTable
from dragoman.models.config import DropoutConfig, EncoderOnlyConfig, LearnedConfig

_HEADS: Final = ("cls.predictions.", "lm_head.", "vocab_")
"""First parts of the names of tensors that predict masked tokens."""


@dataclass(frozen=True)
class _Names:
    """Names of the tensors of a family, below its prefix or with the prefix of its head."""

    layer: str
    attention: str
    attention_output: str
    attention_norm: str
    inner: str
    outer: str
    norm: str
    transform: str
    transform_norm: str
    decoder: str
    bias: str


_BERT_LAYER: Final = (
    "encoder.layer.{layer}",
    "attention.self.{}",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)
_NAMES: Final = {
    "bert": _Names(
        *_BERT_LAYER,
        transform="cls.predictions.transform.dense",
        transform_norm="cls.predictions.transform.LayerNorm",
        decoder="cls.predictions.decoder",
        bias="cls.predictions.bias",
    ),
    "roberta": _Names(
        *_BERT_LAYER,
        transform="lm_head.dense",
        transform_norm="lm_head.layer_norm",
        decoder="lm_head.decoder",
        bias="lm_head.bias",
    ),
    "distilbert": _Names(
        layer="transformer.layer.{layer}",
        attention="attention.{}_lin",
        attention_output="attention.out_lin",
        attention_norm="sa_layer_norm",
        inner="ffn.lin1",
        outer="ffn.lin2",
        norm="output_layer_norm",
        transform="vocab_transform",
        transform_norm="vocab_layer_norm",
        decoder="vocab_projector",
        bias="vocab_projector.bias",
    ),
}


def read_network(family: str, config: ForeignConfig, tensors: Mapping[str, np.ndarray]) -> EncoderOnlyConfig:
    """Return the network of a configuration. Raises DataError for keys and values without counterpart."""
    has_head = any(name.startswith(_HEADS) for name in tensors)
    if family == "distilbert":
        return _distilbert(config, has_head=has_head)
    is_roberta = family == "roberta"
    offset = config.size("pad_token_id", 1, at_least=0) + 1 if is_roberta else 0
    segments = config.size("type_vocab_size", 2)
    if is_roberta != (segments == 1):
        raise config.error("type_vocab_size", segments, "1" if is_roberta else "2 or more")
    activation = read_activation(config, "hidden_act", "gelu")
    if is_roberta and has_head and activation != "gelu":
        raise config.error("hidden_act", config.value("hidden_act"), "gelu, which its head computes,")
    return EncoderOnlyConfig(
        d_model=config.size("hidden_size", 768),
        num_heads=config.size("num_attention_heads", 12),
        d_ff=config.size("intermediate_size", 3072),
        num_layers=config.size("num_hidden_layers", 12),
        activation=activation,
        norm_epsilon=config.positive("layer_norm_eps", 1e-12),
        positions=LearnedConfig(max_length=_positions(config, offset), offset=offset),
        num_segments=2 if is_roberta else segments,
        mlm_transform=has_head,
        dropout=_dropout(config.rate("hidden_dropout_prob", 0.1), config.rate("attention_probs_dropout_prob", 0.1)),
        **_COMMON,
    )


def tensor_table(family: str, network: EncoderOnlyConfig, head: HeadConfig | None) -> TensorTable:
    """Return the names of the tensors of a network, without a prefix where it has no head."""
    table = _encoder_table(family, network, prefix=f"{family}." if network.mlm_transform or head else "")
    if head is None:
        return table
    backbone = [replace(pair, network=f"backbone.{pair.network}") for pair in table.pairs]
    return replace(table, pairs=[*backbone, *head_pairs(family, head)])


def _encoder_table(family: str, network: EncoderOnlyConfig, *, prefix: str) -> TensorTable:
    names = _NAMES[family]
    has_head = network.mlm_transform
    word = f"{prefix}embeddings.word_embeddings.weight"
    return TensorTable(
        [
            TensorPair(
                "embedding.tokens.weight",
                word,
                rows="target",
                aliases=(f"{names.decoder}.weight",) if has_head else (),
            ),
            TensorPair("embedding.positions.table.weight", f"{prefix}embeddings.position_embeddings.weight"),
            _segments(family, prefix),
            *_linear("embedding.norm", f"{prefix}embeddings.LayerNorm"),
            *_layer_pairs(names, prefix),
            *_linear("head.linear", names.transform),
            *_linear("head.norm", names.transform_norm),
            _output_bias(names, has_head=has_head),
        ],
        (
            LeftOver(f"{prefix}pooler.dense.weight", "pooler of sentence pairs, which is not used"),
            LeftOver(f"{prefix}pooler.dense.bias", "pooler of sentence pairs, which is not used"),
            LeftOver("cls.seq_relationship.weight", "prediction of the next sentence, which is not used"),
            LeftOver("cls.seq_relationship.bias", "prediction of the next sentence, which is not used"),
        ),
    )


def _segments(family: str, prefix: str) -> TensorPair:
    """Return the row of the segments; DistilBERT has none, which are zeros in a model that answers questions."""
    if family == "distilbert":
        return TensorPair("embedding.segments.weight", (), default=0.0)
    conversion = _TWO_COPIES if family == "roberta" else None
    return TensorPair("embedding.segments.weight", f"{prefix}embeddings.token_type_embeddings.weight", conversion)


_COMMON: Final = {"norm_position": "post", "norm_embedding": True, "scale_embedding": False}


def _distilbert(config: ForeignConfig, *, has_head: bool) -> EncoderOnlyConfig:
    return EncoderOnlyConfig(
        d_model=config.size("dim", 768),
        num_heads=config.size("n_heads", 12),
        d_ff=config.size("hidden_dim", 3072),
        num_layers=config.size("n_layers", 6),
        activation=read_activation(config, "activation", "gelu"),
        norm_epsilon=1e-12,
        positions=LearnedConfig(max_length=_positions(config, 0)),
        num_segments=1,
        mlm_transform=has_head,
        dropout=_dropout(config.rate("dropout", 0.1), config.rate("attention_dropout", 0.1)),
        **_COMMON,
    )


def _positions(config: ForeignConfig, offset: int) -> int:
    """Return the number of positions after those of the offset."""
    return config.size("max_position_embeddings", 512, at_least=offset + 3) - offset


def _dropout(rate: float, attention: float) -> DropoutConfig:
    return DropoutConfig(embedding=rate, residual=rate, attention=attention)


def _output_bias(names: _Names, *, has_head: bool) -> TensorPair:
    """Return the row of the output bias, which a model without a head lacks."""
    if not has_head:
        return TensorPair("unembedding.bias", (), rows="output_bias", default=0.0)
    alias = f"{names.decoder}.bias"
    return TensorPair(
        "unembedding.bias", names.bias, rows="output_bias", aliases=(alias,) if alias != names.bias else ()
    )


def _layer_pairs(names: _Names, prefix: str) -> Iterator[TensorPair]:
    module, foreign = "blocks.{layer}", prefix + names.layer
    short = names.attention == "attention.{}_lin"
    for own in ("query", "key", "value"):
        yield from _linear(f"{module}.attention.{own}", f"{foreign}.{names.attention.format(own[0] if short else own)}")
    for own, other in (
        ("attention.output", names.attention_output),
        ("attention_residual.norm", names.attention_norm),
        ("feed_forward.inner", names.inner),
        ("feed_forward.outer", names.outer),
        ("feed_forward_residual.norm", names.norm),
    ):
        yield from _linear(f"{module}.{own}", f"{foreign}.{other}")


def _linear(module: str, foreign: str) -> list[TensorPair]:
    return [TensorPair(f"{module}.{part}", f"{foreign}.{part}") for part in ("weight", "bias")]


def _only_row(table: np.ndarray) -> np.ndarray:
    """Return the first of two equal rows. Raises ConfigError if a training made them different."""
    if not np.array_equal(table[:1], table[1:]):
        raise ConfigError(
            "The two segments have different embeddings since a training here, and the family has one segment. Export "
            "the model without --format."
        )
    return table[:1]


_TWO_COPIES: Final = Conversion(lambda table: np.repeat(table, 2, axis=0), _only_row)

FAMILIES = tuple(
    EncoderFamily(name, f"{stem}ForMaskedLM", f"{stem}Model", symbols, read_network, tensor_table)
    for name, stem, symbols in (
        ("bert", "Bert", ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")),
        ("roberta", "Roberta", ("<pad>", "<unk>", "<s>", "</s>", "<mask>")),
        ("distilbert", "DistilBert", ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")),
    )
)
