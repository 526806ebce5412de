"""The same weights for CTranslate2 and Hugging Face: from a run of ours to a model of theirs.

For Transformers normed before each sublayer, with sinusoidal positions and one embedding for everything, such as
`tiny`, `small` and `base`. Hugging Face has this network as Pegasus, whose sinusoids stand in another order (sines
first, then cosines): the numbers of the residual stream are put into that order, which changes no result.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]
PLACES = 1024
"""Positions that the partners' models know."""


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


def require_partners_network(model: Mapping[str, Any]) -> None:
    """Raises ValueError for a network that would be another one there, and write something else."""
    wanted = {"norm_position": "pre", "positions": "sinusoidal", "tie": "all", "activation": "relu", "gated": False}
    found = {**model, "positions": model["positions"]["kind"]}
    if others := {name: found[name] for name, value in wanted.items() if found[name] != value}:
        raise ValueError(f"the partners are given networks with {wanted}, and this one has {others}")


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
            fill_norm(layer.self_attention.layer_norm, f"{block}.around_attention.norm", weights)
            fill_linears(layer.self_attention.linear, f"{block}.attention", ["query+key+value", "output"], weights)
            if name == "decoder":
                fill_norm(layer.attention.layer_norm, f"{block}.around_cross_attention.norm", weights)
                parts = ["query", "key+value", "output"]
                fill_linears(layer.attention.linear, f"{block}.cross_attention", parts, weights)
            fill_norm(layer.ffn.layer_norm, f"{block}.around_feed_forward.norm", weights)
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
    angles = np.arange(PLACES)[:, None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(PLACES, size).astype(np.float32)


def pegasus(model: Mapping[str, Any], weights: Weights) -> Any:
    """The network as `transformers.PegasusForConditionalGeneration`."""
    import torch
    from transformers import PegasusConfig, PegasusForConditionalGeneration

    require_partners_network(model)
    vocabulary, size = weights["source_embedding.tokens.weight"].shape
    config = PegasusConfig(
        vocab_size=vocabulary,
        max_position_embeddings=PLACES,
        d_model=size,
        encoder_layers=model["encoder_layers"],
        decoder_layers=model["decoder_layers"],
        encoder_attention_heads=model["heads"],
        decoder_attention_heads=model["heads"],
        encoder_ffn_dim=model["feed_forward"],
        decoder_ffn_dim=model["feed_forward"],
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
    )
    built = PegasusForConditionalGeneration(config).eval()
    theirs = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in renamed(model, weights).items()}
    missing, unexpected = built.load_state_dict(theirs, strict=False)
    left = [name for name in missing if "embed_positions" not in name and "embed_tokens" not in name]
    if unexpected or left != ["lm_head.weight"]:
        raise ValueError(f"Pegasus has other weights: {left} are missing, {unexpected} too many")
    built.tie_weights()
    return built


def renamed(model: Mapping[str, Any], weights: Weights) -> dict[str, np.ndarray]:
    """The weights by their names in Pegasus, sines before cosines in the residual stream."""
    size = weights["source_embedding.tokens.weight"].shape[1]
    order = np.concatenate([np.arange(0, size, 2), np.arange(1, size, 2)])
    found = {"model.shared.weight": weights["source_embedding.tokens.weight"][:, order]}
    found["final_logits_bias"] = weights["unembedding.bias"][None]
    for stack in ("encoder", "decoder"):
        place = f"model.{stack}"
        found |= of_norm(f"{place}.layer_norm", f"{stack}_norm", weights, order)
        for number in range(model[f"{stack}_layers"]):
            ours, layer = f"{stack}.{number}", f"{place}.layers.{number}"
            attentions = [("self_attn", "attention")]
            attentions += [("encoder_attn", "cross_attention")] if stack == "decoder" else []
            for their_name, name in attentions:
                found |= of_norm(f"{layer}.{their_name}_layer_norm", f"{ours}.around_{name}.norm", weights, order)
                for part in ("query", "key", "value"):
                    reads = f"{layer}.{their_name}.{part[0]}_proj"
                    found |= reading(reads, f"{ours}.{name}.{part}", weights, order)
                found |= writing(f"{layer}.{their_name}.out_proj", f"{ours}.{name}.output", weights, order)
            found |= of_norm(f"{layer}.final_layer_norm", f"{ours}.around_feed_forward.norm", weights, order)
            found |= reading(f"{layer}.fc1", f"{ours}.feed_forward.inner", weights, order)
            found |= writing(f"{layer}.fc2", f"{ours}.feed_forward.outer", weights, order)
    return found


def of_norm(theirs: str, ours: str, weights: Weights, order: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{theirs}.{part}": weights[f"{ours}.{part}"][order] for part in ("weight", "bias")}


def reading(theirs: str, ours: str, weights: Weights, order: np.ndarray) -> dict[str, np.ndarray]:
    """A linear layer that reads the residual stream."""
    return {f"{theirs}.weight": weights[f"{ours}.weight"][:, order], f"{theirs}.bias": weights[f"{ours}.bias"]}


def writing(theirs: str, ours: str, weights: Weights, order: np.ndarray) -> dict[str, np.ndarray]:
    """A linear layer that writes to it."""
    return {f"{theirs}.weight": weights[f"{ours}.weight"][order], f"{theirs}.bias": weights[f"{ours}.bias"][order]}
