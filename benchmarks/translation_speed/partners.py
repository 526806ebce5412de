"""The same weights for CTranslate2 and Hugging Face: from a run of ours to a model of theirs.

For Transformers normed before each sublayer, with sinusoidal positions and one embedding for everything, such as
`tiny`, `small` and `base`. Hugging Face has this network as Pegasus, whose sinusoids stand in another order (sines
first, then cosines): the numbers of the residual stream are put into that order, which changes no result.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.pegasus import MAX_POSITIONS, Weights, require_partners_network


def write_ctranslate2(model: Mapping[str, Any], weights: Weights, words: Sequence[str], out: Path, **how: Any) -> None:
    """A folder that `ctranslate2.Translator` reads, by its public Python specification.

    `model` is the configuration of a run's model, `words` its vocabulary; `how` goes to `Converter.convert`, as
    `quantization="int8"` does.
    """
    import ctranslate2

    require_partners_network(model)

    class Converter(ctranslate2.converters.Converter):
        def _load(self) -> Any:
            layers = (model["encoder_layers"], model["decoder_layers"])
            spec = ctranslate2.specs.TransformerSpec.from_config(layers, model["heads"], pre_norm=True)
            fill(spec, weights)
            spec.register_source_vocabulary(list(words))
            spec.register_target_vocabulary(list(words))
            spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = words[1:4]
            spec.config.decoder_start_token, spec.config.add_source_eos = words[2], False
            return spec

    Converter().convert(str(out), **how)


def fill(spec: Any, weights: Weights) -> None:
    """The weights at their places in CTranslate2's specification."""
    embedding = weights["source_embedding.tokens.weight"]
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = embedding
    spec.decoder.projection.bias = weights["unembedding.bias"]
    for name, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        stack.position_encodings.encodings = sinusoids(embedding.shape[1])
        fill_norm(stack.layer_norm, f"{name}_norm", weights)
        for number, layer in enumerate(stack.layer):
            block = f"{name}.{number}"
            fill_norm(layer.self_attention.layer_norm, f"{block}.attention_residual.norm", weights)
            fill_linears(layer.self_attention.linear, f"{block}.attention", ["query+key+value", "output"], weights)
            if name == "decoder":
                fill_norm(layer.attention.layer_norm, f"{block}.cross_attention_residual.norm", weights)
                parts = ["query", "key+value", "output"]
                fill_linears(layer.attention.linear, f"{block}.cross_attention", parts, weights)
            fill_norm(layer.ffn.layer_norm, f"{block}.feed_forward_residual.norm", weights)
            fill_linears([layer.ffn.linear_0, layer.ffn.linear_1], f"{block}.feed_forward", ["inner", "outer"], weights)


def fill_norm(spec: Any, name: str, weights: Weights) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def fill_linears(specs: Sequence[Any], name: str, parts: Sequence[str], weights: Weights) -> None:
    """A linear layer for each of the parts; what a `+` joins are the rows of one."""
    for spec, joined in zip(specs, parts, strict=True):
        names = [f"{name}.{part}" for part in joined.split("+")]
        spec.weight = np.concatenate([weights[f"{one}.weight"] for one in names])
        spec.bias = np.concatenate([weights[f"{one}.bias"] for one in names])


def sinusoids(size: int) -> np.ndarray:
    """Our positions, sines and cosines in turns."""
    rates = 10000.0 ** (-np.arange(0, size, 2) / size)
    angles = np.arange(MAX_POSITIONS)[:, None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(MAX_POSITIONS, size).astype(np.float32)
