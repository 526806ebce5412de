"""Options of a network as attributes of CTranslate2, and the networks that it cannot compute."""

from typing import Final

import torch
from torch import Tensor

from dragoman.errors import ConfigError
from dragoman.interop.ctranslate2.model_keys import ACTIVATIONS
from dragoman.models.config import (
    AlibiConfig,
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    LearnedConfig,
    RotaryConfig,
    SelfAttentionConfig,
    SinusoidalConfig,
    T5BiasConfig,
    TreeConfig,
)
from dragoman.nn.positions.rotary import Llama3ScalingConfig

Network = EncoderDecoderConfig | DecoderOnlyConfig
_REMEDY: Final = "Export it without --format."


def check_network(network: Network) -> None:
    """Raise ConfigError if CTranslate2 cannot compute a network."""
    if getattr(network, "decoder_layer", "self_attention") != "self_attention":
        raise ConfigError(f"model.decoder_layer = ssru: CTranslate2 has no such layer. {_REMEDY}")
    positions = network.positions
    if isinstance(positions, TreeConfig):
        raise ConfigError(f"model.positions.kind = tree: CTranslate2 has no such positions. {_REMEDY}")
    if isinstance(positions, SinusoidalConfig | LearnedConfig) and positions.join != "add":
        raise ConfigError(f"model.positions.join = {positions.join}: CTranslate2 adds positions. {_REMEDY}")
    if isinstance(positions, AlibiConfig) and (
        isinstance(network, EncoderDecoderConfig) or network.num_heads & (network.num_heads - 1)
    ):
        raise ConfigError(
            "model.positions.kind = alibi: CTranslate2 has it in language models, and a power of 2 as number of heads. "
            + _REMEDY
        )
    scores = set()
    for role in network.attentions():
        scores.add(role.config.score.kind)
        if role.config.kept_heads is not None:
            raise ConfigError(f"model.{role.key}.kept_heads: CTranslate2 has the same heads in all layers. {_REMEDY}")
        if isinstance(role.config, SelfAttentionConfig) and role.config.pattern.kind != "full":
            raise ConfigError(f"model.{role.key}.pattern.kind = {role.config.pattern.kind}: CTranslate2 has full.")
    if len(scores) > 1 or not scores <= {"dot", "scaled_dot"}:
        raise ConfigError(
            f"model.attention: CTranslate2 has the scores dot and scaled_dot, not {sorted(scores)}. {_REMEDY}"
        )


def attribute_tensors(network: Network, *, starts_from_zero: bool) -> dict[str, Tensor]:
    """Return the attributes of a network by name; outputs may start from an embedding of zeros."""
    flag, number = _int8, _float32
    activation = next(index for index, name in ACTIVATIONS.items() if name == network.activation)
    if isinstance(network, EncoderDecoderConfig):
        scopes = {"decoder": network.decoder_layers, "encoder": network.encoder_layers}
    else:
        scopes = {"decoder": network.num_layers}
    found: dict[str, Tensor] = {}
    for scope, layers in scopes.items():
        found |= {
            f"{scope}/activation": flag(activation),
            f"{scope}/num_heads": torch.tensor(network.num_heads, dtype=torch.int16),
            f"{scope}/pre_norm": flag(network.norm_position == "pre"),
            f"{scope}/scale_embeddings": flag(network.scale_embedding),
        }
        kinds = ["self_attention"]
        kinds += ["attention"] if scope == "decoder" and isinstance(network, EncoderDecoderConfig) else []
        for layer in range(layers):
            for kind in kinds:
                place = f"{scope}/layer_{layer}/{kind}"
                found |= {f"{place}/{name}": one for name, one in _attention(network, kind).items()}
    if isinstance(network, EncoderDecoderConfig):
        found |= {"encoder/embeddings_merge": flag(0), "encoder/multi_query_attention": flag(0)}
        if network.scale_output:
            found["decoder/scale_outputs"] = number(network.d_model**-0.5)
    found |= {f"decoder/{name}": flag(0) for name in ("alibi_use_positive_positions", "scale_alibi")}
    found |= {
        "decoder/alibi": flag(isinstance(network.positions, AlibiConfig)),
        "decoder/alignment_heads": torch.tensor(1, dtype=torch.int16),
        "decoder/alignment_layer": torch.tensor(-1, dtype=torch.int16),
        "decoder/start_from_zero_embedding": flag(starts_from_zero),
    }
    return found


def _attention(network: Network, kind: str) -> dict[str, Tensor]:
    """Return the attributes of an attention of every layer."""
    found: dict[str, Tensor] = {}
    if network.head_size is not None:
        found["head_dim"] = torch.tensor(network.head_size, dtype=torch.int32)
    if network.num_kv_heads is not None:
        found["num_heads_kv"] = torch.tensor(network.num_kv_heads, dtype=torch.int32)
    if next(network.attentions()).config.score.kind == "dot":
        found["queries_scale"] = _float32(1.0)
    positions = network.positions
    if kind == "self_attention" and isinstance(positions, T5BiasConfig):
        found["relative_attention_max_distance"] = torch.tensor(positions.max_distance, dtype=torch.int32)
    if kind == "self_attention" and isinstance(positions, RotaryConfig):
        found |= _rotary(positions)
    return found


def _rotary(positions: RotaryConfig) -> dict[str, Tensor]:
    found = {
        "rotary_dim": torch.tensor(0, dtype=torch.int32),
        "rotary_interleave": _int8(0),
        "rotary_base": _float32(positions.base),
    }
    scaling = positions.scaling
    if scaling is not None:
        is_llama3 = isinstance(scaling, Llama3ScalingConfig)
        found |= {
            "rotary_scaling_type": _int8(2 if is_llama3 else 0),
            "rotary_scaling_factor": _float32(scaling.factor),
        }
    if isinstance(scaling, Llama3ScalingConfig):
        found["rotary_low_freq_factor"] = _float32(scaling.low_frequency_factor)
        found["rotary_high_freq_factor"] = _float32(scaling.high_frequency_factor)
        found["original_max_position_embeddings"] = torch.tensor(scaling.original_length, dtype=torch.int32)
    return found


def _int8(value: int) -> Tensor:
    return torch.tensor(int(value), dtype=torch.int8)


def _float32(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float32)
