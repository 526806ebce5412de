"""Our Transformer as Hugging Face's Pegasus, with the same weights.

Pegasus stores sinusoidal positions in another order: sines first, then cosines. The residual stream is permuted to that
order, which changes no result.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]
MAX_POSITIONS = 1024


def require_partners_network(model: Mapping[str, Any]) -> None:
    """Raises ValueError for a network that would be another one there, and write something else."""
    wanted = {"norm_position": "pre", "positions": "sinusoidal", "tie": "all", "activation": "relu", "gated": False}
    found = {**model, "positions": model["positions"]["kind"]}
    if others := {name: found[name] for name, value in wanted.items() if found[name] != value}:
        raise ValueError(f"the partners are given networks with {wanted}, and this one has {others}")


def pegasus(model: Mapping[str, Any], weights: Weights) -> Any:
    """The network as `transformers.PegasusForConditionalGeneration`."""
    import torch
    from transformers import PegasusConfig, PegasusForConditionalGeneration

    require_partners_network(model)
    vocabulary, size = weights["source_embedding.tokens.weight"].shape
    config = PegasusConfig(
        vocab_size=vocabulary,
        max_position_embeddings=MAX_POSITIONS,
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
                found |= of_norm(f"{layer}.{their_name}_layer_norm", f"{ours}.{name}_residual.norm", weights, order)
                for part in ("query", "key", "value"):
                    reads = f"{layer}.{their_name}.{part[0]}_proj"
                    found |= reading(reads, f"{ours}.{name}.{part}", weights, order)
                found |= writing(f"{layer}.{their_name}.out_proj", f"{ours}.{name}.output", weights, order)
            found |= of_norm(f"{layer}.final_layer_norm", f"{ours}.feed_forward_residual.norm", weights, order)
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
