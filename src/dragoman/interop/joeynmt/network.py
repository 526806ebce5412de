"""Network of a JoeyNMT model: its settings, and the names of its tensors."""

from collections.abc import Collection
from typing import Any, Final

from dragoman.errors import ConfigError, shorten
from dragoman.interop.imported_model import parse_encoder_decoder
from dragoman.interop.joeynmt.model_folder import CONFIG_FILE, ModelFolder
from dragoman.interop.tensor_names import LeftOver, TensorPair, TensorTable
from dragoman.models.config import EncoderDecoderConfig

_ACTIVATIONS: Final = {"relu": "relu", "gelu": "gelu", "swish": "silu"}
_EQUAL: Final = (
    ("hidden_size", 512),
    ("ff_size", 2048),
    ("layer_norm", None),
    ("activation", "relu"),
)
"""Settings that encoder and decoder share here, with their defaults."""
HEADS: Final = {"encoder": 4, "decoder": 8}
"""Attention heads of each stack where the settings do not say so."""
_NORM_EPSILON: Final = 1e-6
_ATTENTION_PARTS: Final = {"query": "q_layer", "key": "k_layer", "value": "v_layer", "output": "output_layer"}


def read_network(folder: ModelFolder, names: Collection[str], *, needs_output_bias: bool) -> EncoderDecoderConfig:
    """Return the network of a model with tensors of these names. Raises ConfigError if dragoman does not compute it."""
    heads = [folder.get("model", side, "num_heads", default=HEADS[side]) for side in HEADS]
    if heads[0] != heads[1]:
        raise _unsupported(folder, ("model", "decoder", "num_heads"), heads[1])
    for side in ("encoder", "decoder"):
        _require(folder, ("model", side, "type"), "transformer", default=None)
        _require(folder, ("model", side, "alpha"), 1.0, default=1.0)
    for key, default in _EQUAL:
        _require(
            folder, ("model", "decoder", key), folder.get("model", "encoder", key, default=default), default=default
        )
    scales = [folder.get("model", side, "embeddings", "scale", default=False) for side in ("encoder", "decoder")]
    if scales[0] != scales[1]:
        raise _unsupported(folder, ("model", "decoder", "embeddings", "scale"), scales[1])
    has_final_norm = "encoder.layer_norm.weight" in names
    activation = str(folder.get("model", "encoder", "activation", default="relu"))
    tied, shared = (
        folder.get("model", "tied_softmax", default=False),
        folder.get("model", "tied_embeddings", default=False),
    )
    if shared and not tied:
        raise _unsupported(folder, ("model", "tied_embeddings"), "true without tied_softmax")
    tree: dict[str, Any] = {
        "d_model": folder.get("model", "encoder", "hidden_size", default=512),
        "d_ff": folder.get("model", "encoder", "ff_size", default=2048),
        "num_heads": heads[0],
        "encoder_layers": folder.get("model", "encoder", "num_layers", default=8),
        "decoder_layers": folder.get("model", "decoder", "num_layers", default=4),
        "activation": _ACTIVATIONS.get(activation, activation),
        "norm_epsilon": _NORM_EPSILON,
        "norm_position": folder.get("model", "encoder", "layer_norm", default="pre" if has_final_norm else "post"),
        "scale_embedding": scales[0],
        "tie_embeddings": "all" if shared else "target" if tied else "none",
        "output_bias": needs_output_bias,
    }
    return parse_encoder_decoder(tree, where=str(folder.path / CONFIG_FILE))


def tensor_table(tied: str) -> TensorTable:
    """Return the table of names of a network whose embeddings are `tied`."""
    output, target = "decoder.output_layer.weight", "trg_embed.lut.weight"
    source = TensorPair("source_embedding.tokens.weight", "src_embed.lut.weight", rows="source")
    if tied == "all":
        source = TensorPair(source.network, source.foreign, rows="target", aliases=(target, output))
    pairs = [
        source,
        TensorPair(
            "target_embedding.tokens.weight", target, rows="target", aliases=(output,) if tied == "target" else ()
        ),
        TensorPair("unembedding.weight", output, rows="target"),
        TensorPair("unembedding.bias", (), rows="output_bias", default=0.0),
    ]
    attentions = {
        "encoder": {"attention": ("src_src_att", "layer_norm")},
        "decoder": {"attention": ("trg_trg_att", "x_layer_norm"), "cross_attention": ("src_trg_att", "dec_layer_norm")},
    }
    for side, sublayers in attentions.items():
        layer = f"{side}.layers.{{layer}}."
        renamed = {f"{side}_norm": f"{side}.layer_norm"}
        for module, (foreign, norm) in sublayers.items():
            renamed[f"{side}.{{layer}}.{module}_residual.norm"] = layer + norm
            for part, name in _ATTENTION_PARTS.items():
                renamed[f"{side}.{{layer}}.{module}.{part}"] = f"{layer}{foreign}.{name}"
        renamed[f"{side}.{{layer}}.feed_forward_residual.norm"] = f"{layer}feed_forward.layer_norm"
        renamed[f"{side}.{{layer}}.feed_forward.inner"] = f"{layer}feed_forward.pwff_layer.0"
        renamed[f"{side}.{{layer}}.feed_forward.outer"] = f"{layer}feed_forward.pwff_layer.3"
        for module, name in renamed.items():
            pairs += [TensorPair(f"{module}.{kind}", f"{name}.{kind}") for kind in ("weight", "bias")]
    return TensorTable(pairs, [LeftOver(f"{side}.pe.pe", "sinusoids, computed") for side in attentions])


def _require(folder: ModelFolder, keys: tuple[str, ...], value: Any, *, default: Any) -> None:
    """Raise ConfigError if a setting has another value."""
    if (found := folder.get(*keys, default=default)) != value:
        raise _unsupported(folder, keys, found)


def _unsupported(folder: ModelFolder, keys: tuple[str, ...], value: Any) -> ConfigError:
    return ConfigError(
        f"{folder.path / CONFIG_FILE}: {'.'.join(keys)} is {shorten(value)}. dragoman reads Transformers of "
        "JoeyNMT whose encoder and decoder have the same sizes and options."
    )
