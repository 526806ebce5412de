"""Export of our Transformer to Hugging Face's Pegasus with the same weights.

Pegasus orders sinusoidal positions differently: sines first, then cosines. The residual stream is permuted to that
order, which changes no result.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]
MAX_POSITIONS = 1024


def require_peer_model(model: Mapping[str, Any]) -> None:
    """Raise ValueError for a model that the peers do not implement."""
    required = {
        "norm_position": "pre",
        "positions": "sinusoidal",
        "tie_embeddings": "all",
        "activation": "relu",
        "gated": False,
    }
    found = {**model, "positions": model["positions"]["kind"]}
    if others := {name: found[name] for name, value in required.items() if found[name] != value}:
        raise ValueError(f"the model has {others}, but Pegasus and CTranslate2 need {required}")


def pegasus(model: Mapping[str, Any], weights: Weights) -> Any:
    """Return the model as `transformers.PegasusForConditionalGeneration`."""
    import torch
    from transformers import PegasusConfig, PegasusForConditionalGeneration

    require_peer_model(model)
    vocabulary, size = weights["source_embedding.tokens.weight"].shape
    config = PegasusConfig(
        vocab_size=vocabulary,
        max_position_embeddings=MAX_POSITIONS,
        d_model=size,
        encoder_layers=model["encoder_layers"],
        decoder_layers=model["decoder_layers"],
        encoder_attention_heads=model["num_heads"],
        decoder_attention_heads=model["num_heads"],
        encoder_ffn_dim=model["d_ff"],
        decoder_ffn_dim=model["d_ff"],
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
    )
    built = PegasusForConditionalGeneration(config).eval()
    peer = {
        name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in pegasus_weights(model, weights).items()
    }
    missing, unexpected = built.load_state_dict(peer, strict=False)
    left = [name for name in missing if "embed_positions" not in name and "embed_tokens" not in name]
    if unexpected or left != ["lm_head.weight"]:
        raise ValueError(f"Pegasus has other weights: {left} are missing, {unexpected} too many")
    built.tie_weights()
    return built


def pegasus_weights(model: Mapping[str, Any], weights: Weights) -> dict[str, np.ndarray]:
    """Return the weights by their names in Pegasus, sines before cosines in the residual stream."""
    size = weights["source_embedding.tokens.weight"].shape[1]
    order = np.concatenate([np.arange(0, size, 2), np.arange(1, size, 2)])
    found = {"model.shared.weight": weights["source_embedding.tokens.weight"][:, order]}
    found["final_logits_bias"] = weights["unembedding.bias"][None]
    for stack in ("encoder", "decoder"):
        place = f"model.{stack}"
        found |= norm_weights(f"{place}.layer_norm", f"{stack}_norm", weights, order)
        for number in range(model[f"{stack}_layers"]):
            own, layer = f"{stack}.{number}", f"{place}.layers.{number}"
            attentions = [("self_attn", "attention")]
            attentions += [("encoder_attn", "cross_attention")] if stack == "decoder" else []
            for peer_name, name in attentions:
                found |= norm_weights(f"{layer}.{peer_name}_layer_norm", f"{own}.{name}_residual.norm", weights, order)
                for part in ("query", "key", "value"):
                    reads = f"{layer}.{peer_name}.{part[0]}_proj"
                    found |= input_weights(reads, f"{own}.{name}.{part}", weights, order)
                found |= output_weights(f"{layer}.{peer_name}.out_proj", f"{own}.{name}.output", weights, order)
            found |= norm_weights(f"{layer}.final_layer_norm", f"{own}.feed_forward_residual.norm", weights, order)
            found |= input_weights(f"{layer}.fc1", f"{own}.feed_forward.inner", weights, order)
            found |= output_weights(f"{layer}.fc2", f"{own}.feed_forward.outer", weights, order)
    return found


def norm_weights(peer: str, own: str, weights: Weights, order: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{peer}.{part}": weights[f"{own}.{part}"][order] for part in ("weight", "bias")}


def input_weights(peer: str, own: str, weights: Weights, order: np.ndarray) -> dict[str, np.ndarray]:
    """Return the weights of a linear layer that reads the residual stream."""
    return {f"{peer}.weight": weights[f"{own}.weight"][:, order], f"{peer}.bias": weights[f"{own}.bias"]}


def output_weights(peer: str, own: str, weights: Weights, order: np.ndarray) -> dict[str, np.ndarray]:
    """Return the weights of a linear layer that writes to the residual stream."""
    return {f"{peer}.weight": weights[f"{own}.weight"][order], f"{peer}.bias": weights[f"{own}.bias"][order]}
