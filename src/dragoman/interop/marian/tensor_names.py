"""Names of Marian's tensors and ours (`marian/src/models/transformer.h`, `layers`, `rnn/cells.h`).

Matrices are (inputs, outputs) in Marian, vectors have the shape (1, size), and layers are counted from 1.
"""

from collections.abc import Iterator
from typing import Final

from dragoman.interop.tensor_names import SINGLE_ROW, TRANSPOSE, LeftOver, TensorPair, TensorTable
from dragoman.models.config import EncoderDecoderConfig

OUTPUT_LAYER: Final = "decoder_ff_logit_out_Wt"
"""Output layer that is not tied to an embedding."""
_ATTENTION: Final = {"query": "q", "key": "k", "value": "v", "output": "o"}
_NORM: Final = {"weight": "scale", "bias": "bias"}


def tensor_table(network: EncoderDecoderConfig) -> TensorTable:
    """Return the table of a network; norms before and after sublayers have different names."""
    return TensorTable(tuple(_pairs(network)), (LeftOver("decoder_c_in", "not used by Transformers"),))


def _pairs(network: EncoderDecoderConfig) -> Iterator[TensorPair]:
    yield from _embeddings(network)
    after = "_pre" if network.norm_position == "pre" else ""
    for side, name, foreign in (
        ("encoder", "attention", "self"),
        ("decoder", "attention", "self"),
        ("decoder", "cross_attention", "context"),
    ):
        prefix = f"{side}_l{{number}}_{foreign}"
        for part, letter in _ATTENTION.items():
            module = f"{side}.{{layer}}.{name}.{part}"
            yield TensorPair(f"{module}.weight", f"{prefix}_W{letter}", TRANSPOSE)
            yield TensorPair(f"{module}.bias", f"{prefix}_b{letter}", SINGLE_ROW)
        if side == "encoder" or name == "cross_attention" or network.decoder_layer == "self_attention":
            yield from _norm(f"{side}.{{layer}}.{name}_residual.norm", f"{prefix}_Wo", after)
    for side in ("encoder", "decoder"):
        for part, number in (("inner", "1"), ("outer", "2")):
            module = f"{side}.{{layer}}.feed_forward.{part}"
            yield TensorPair(f"{module}.weight", f"{side}_l{{number}}_ffn_W{number}", TRANSPOSE)
            yield TensorPair(f"{module}.bias", f"{side}_l{{number}}_ffn_b{number}", SINGLE_ROW)
        yield from _norm(f"{side}.{{layer}}.feed_forward_residual.norm", f"{side}_l{{number}}_ffn_ffn", after)
        yield from _norm(f"{side}_norm", f"{side}_top", "")
    if network.decoder_layer == "ssru":
        yield TensorPair("decoder.{layer}.ssru.input.weight", "decoder_l{number}_rnn_W", TRANSPOSE)
        yield TensorPair("decoder.{layer}.ssru.forget_gate.weight", "decoder_l{number}_rnn_Wf", TRANSPOSE)
        yield TensorPair("decoder.{layer}.ssru.forget_gate.bias", "decoder_l{number}_rnn_bf", SINGLE_ROW)
        # Before the sublayer the norm has the name of the sublayer alone.
        ssru_norm = "decoder_l{number}_rnn" if after else "decoder_l{number}_rnn_ffn"
        yield from _norm("decoder.{layer}.attention_residual.norm", ssru_norm, after)


def _norm(module: str, foreign: str, suffix: str) -> Iterator[TensorPair]:
    for part, name in _NORM.items():
        yield TensorPair(f"{module}.{part}", f"{foreign}_ln_{name}{suffix}", SINGLE_ROW)


def _embeddings(network: EncoderDecoderConfig) -> Iterator[TensorPair]:
    """Yield the rows of embeddings, positions and the output layer."""
    if network.tie_embeddings == "all":
        yield TensorPair("source_embedding.tokens.weight", "Wemb", rows="source", aliases=_BOTH_EMBEDDINGS)
    else:
        yield TensorPair("source_embedding.tokens.weight", "encoder_Wemb", rows="source")
        yield TensorPair("target_embedding.tokens.weight", "decoder_Wemb", rows="target")
    yield TensorPair("unembedding.weight", OUTPUT_LAYER, rows="target")
    yield TensorPair("unembedding.bias", "decoder_ff_logit_out_b", SINGLE_ROW, rows="output_bias", default=0.0)
    for side, name in (("source", "encoder"), ("target", "decoder")):
        yield from _norm(f"{side}_embedding.norm", f"{name}_emb", "_pre")


_BOTH_EMBEDDINGS: Final = ("encoder_Wemb", "decoder_Wemb")
"""Names of the tied embedding in some files of shared vocabularies that name both sides."""
