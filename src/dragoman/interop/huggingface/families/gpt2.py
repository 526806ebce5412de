"""GPT-2 (Radford et al., 2019): learned positions, LayerNorm before each sublayer, biases, tied embeddings.

Matrices are stored as (inputs, outputs), and those of queries, keys and values as one. Source: `modeling_gpt2.py` and
`configuration_gpt2.py` of transformers 5.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from dragoman.interop.huggingface.decoder_only import DecoderFamily, is_untied
from dragoman.interop.huggingface.families.bart import read_activation
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.tensor_names import TRANSPOSE, LeftOver, TensorPair, TensorTable
from dragoman.models.config import DecoderOnlyConfig, DropoutConfig, LearnedConfig

PREFIX = "transformer."
EMBEDDING, HEAD = "transformer.wte.weight", "lm_head.weight"


def read_network(_: str, config: ForeignConfig, tensors: Mapping[str, np.ndarray]) -> DecoderOnlyConfig:
    """Return the network of a configuration. Raises DataError for keys and values without counterpart."""
    d_model = config.size("n_embd", 768)
    return DecoderOnlyConfig(
        d_model=d_model,
        num_heads=config.size("n_head", 12),
        d_ff=config.size("n_inner", 4 * d_model),
        num_layers=config.size("n_layer", 12),
        activation=read_activation(config, "activation_function", "gelu_new"),
        norm_epsilon=config.positive("layer_norm_epsilon", 1e-5),
        scale_embedding=False,
        positions=LearnedConfig(max_length=config.size("n_positions", 1024)),
        tie_embeddings=not is_untied(config, tensors, EMBEDDING, HEAD, tied_by_default=True),
        dropout=DropoutConfig(
            embedding=config.rate("embd_pdrop", 0.1),
            residual=config.rate("resid_pdrop", 0.1),
            attention=config.rate("attn_pdrop", 0.1),
        ),
    )


def tensor_table(_: str, network: DecoderOnlyConfig) -> TensorTable:
    """Return the names of the tensors of a network."""
    head = (HEAD,) if network.tie_embeddings else ()
    return TensorTable(
        [
            TensorPair("embedding.tokens.weight", EMBEDDING, rows="target", aliases=head),
            TensorPair("embedding.positions.table.weight", "transformer.wpe.weight"),
            *_linear("norm", "transformer.ln_f"),
            TensorPair("unembedding.weight", HEAD, rows="target"),
            TensorPair("unembedding.bias", (), rows="output_bias", default=0.0),
            *_layer_pairs("blocks.{layer}", "transformer.h.{layer}"),
        ],
        (
            LeftOver("transformer.h.{layer}.attn.bias", "causal mask, which is computed"),
            LeftOver("transformer.h.{layer}.attn.masked_bias", "causal mask, which is computed"),
        ),
    )


def add_prefix(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the tensors with the prefix `transformer.`, which files of the base model lack."""
    if any(name.startswith(PREFIX) for name in tensors):
        return dict(tensors)
    return {name if name == HEAD else PREFIX + name: array for name, array in tensors.items()}


def _layer_pairs(module: str, foreign: str) -> Iterator[TensorPair]:
    for part in ("weight", "bias"):
        conversion = TRANSPOSE if part == "weight" else None
        fused = tuple(f"{module}.attention.{name}.{part}" for name in ("query", "key", "value"))
        yield TensorPair(fused, f"{foreign}.attn.c_attn.{part}", conversion)
        for own, other in (
            ("attention.output", "attn.c_proj"),
            ("feed_forward.inner", "mlp.c_fc"),
            ("feed_forward.outer", "mlp.c_proj"),
        ):
            yield TensorPair(f"{module}.{own}.{part}", f"{foreign}.{other}.{part}", conversion)
    yield from _linear(f"{module}.attention_residual.norm", f"{foreign}.ln_1")
    yield from _linear(f"{module}.feed_forward_residual.norm", f"{foreign}.ln_2")


def _linear(module: str, foreign: str) -> list[TensorPair]:
    return [TensorPair(f"{module}.{part}", f"{foreign}.{part}") for part in ("weight", "bias")]


FAMILIES = (
    DecoderFamily(
        "gpt2",
        "GPT2LMHeadModel",
        read_network,
        tensor_table,
        rename=add_prefix,
        positions_key="n_positions",
        default_positions=1024,
    ),
)
