"""Names of the tensors of fairseq's Transformers, of all versions."""

from collections.abc import Collection
from typing import Final

from dragoman.interop.tensor_names import LeftOver, TensorPair, TensorTable

_PARTS: Final = ("query", "key", "value")
_TARGET: Final = "decoder.embed_tokens.weight"
_LEFT_OVER: Final = (
    LeftOver("encoder.version", "version of the names"),
    LeftOver("decoder.version", "version of the names"),
    LeftOver("encoder.embed_positions._float_tensor", "empty"),
    LeftOver("decoder.embed_positions._float_tensor", "empty"),
)
_NORMS: Final = {
    "encoder": {"attention": "self_attn_layer_norm", "feed_forward": "final_layer_norm"},
    "decoder": {
        "attention": "self_attn_layer_norm",
        "cross_attention": "encoder_attn_layer_norm",
        "feed_forward": "final_layer_norm",
    },
}
"""Foreign name of the norm of each sublayer; older versions number them, `layer_norms.0` and so on."""


def tensor_table(names: Collection[str], *, tied: str) -> TensorTable:
    """Return the table for a checkpoint with tensors of these names, whose embeddings are `tied` as the network's."""
    pairs = [*_embeddings(tied)]
    for side, norms in _NORMS.items():
        numbered = f"{side}.layers.0.layer_norms.0.weight" in names
        layer = f"{side}.layers.{{layer}}."
        attentions = {"attention": "self_attn"} | ({"cross_attention": "encoder_attn"} if side == "decoder" else {})
        for module, foreign in attentions.items():
            pairs += _attention(f"{side}.{{layer}}.{module}.", f"{layer}{foreign}.", names)
        for number, (module, foreign) in enumerate(norms.items()):
            name = f"layer_norms.{number}" if numbered else foreign
            pairs += _renamed(f"{side}.{{layer}}.{module}_residual.norm", layer + name)
        pairs += _renamed(f"{side}.{{layer}}.feed_forward.inner", f"{layer}fc1")
        pairs += _renamed(f"{side}.{{layer}}.feed_forward.outer", f"{layer}fc2")
        pairs += _renamed(f"{side}_norm", f"{side}.layer_norm")
    return TensorTable(pairs, _LEFT_OVER)


def _embeddings(tied: str) -> list[TensorPair]:
    tie_output = ("decoder.output_projection.weight", "decoder.embed_out")
    source = TensorPair("source_embedding.tokens.weight", "encoder.embed_tokens.weight", rows="source")
    if tied == "all":
        first = (_TARGET, *tie_output)
        source = TensorPair(source.network, source.foreign, rows="target", aliases=first)
    pairs = [
        source,
        TensorPair("target_embedding.tokens.weight", _TARGET, rows="target", aliases=tie_output * (tied == "target")),
        TensorPair("unembedding.weight", tie_output[0], rows="target", aliases=tie_output[1:]),
        TensorPair("unembedding.bias", (), rows="output_bias", default=0.0),
    ]
    for side, name in (("encoder", "source"), ("decoder", "target")):
        pairs.append(TensorPair(f"{name}_embedding.positions.table.weight", f"{side}.embed_positions.weight"))
        pairs += _renamed(f"{name}_embedding.norm", f"{side}.layernorm_embedding")
    return pairs


def _attention(module: str, foreign: str, names: Collection[str]) -> list[TensorPair]:
    """Return the rows of an attention, whose projections older versions join."""
    pairs = _renamed(f"{module}output", f"{foreign}out_proj")
    if f"{foreign.replace('{layer}', '0')}in_proj_weight" in names:
        for kind in ("weight", "bias"):
            pairs.append(TensorPair(tuple(f"{module}{part}.{kind}" for part in _PARTS), f"{foreign}in_proj_{kind}"))
        return pairs
    for part in _PARTS:
        pairs += _renamed(module + part, f"{foreign}{part[0]}_proj")
    return pairs


def _renamed(module: str, foreign: str) -> list[TensorPair]:
    """Return the rows of weight and bias."""
    return [TensorPair(f"{module}.{kind}", f"{foreign}.{kind}") for kind in ("weight", "bias")]
