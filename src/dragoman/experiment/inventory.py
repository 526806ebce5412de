"""What a model is made of and what it costs."""

from dataclasses import dataclass

from torch import nn

from dragoman.experiment.config import Experiment
from dragoman.models.transformer.config import TransformerConfig
from dragoman.models.transformer.seq2seq import Seq2SeqTransformer


@dataclass(frozen=True)
class Inventory:
    """Parameters by part (a tied weight counts once, where it first occurs), and costs."""

    parts: dict[str, int]
    encode_flops: int
    """Operations a source token."""
    decode_flops: int
    """Operations a generated token and hypothesis, attention to earlier tokens aside."""
    cache_bytes: int
    """Bytes that a hypothesis keeps for each generated token, in float32."""

    @property
    def parameters(self) -> int:
        return sum(self.parts.values())

    @property
    def weight_bytes(self) -> int:
        """In float32."""
        return 4 * self.parameters


def take_inventory(model: Seq2SeqTransformer, experiment: Experiment) -> Inventory:
    """Count; an operation is a multiplication or an addition, two for each weight that a token meets."""
    seen: set[int] = set()
    named: list[tuple[str, nn.Module]] = [
        ("source embedding", model.source_embedding),
        ("encoder", nn.ModuleList([*model.encoder, model.encoder_norm])),
        ("target embedding", model.target_embedding),
        ("decoder", nn.ModuleList([*model.decoder, model.decoder_norm])),
        ("unembedding", model.unembedding),
    ]
    parts = {name: _new_parameters(part, seen) for name, part in named}
    config = experiment.model
    vocabulary, size = model.unembedding.weight.shape
    heads = config.key_value_heads or config.heads
    return Inventory(
        parts=parts,
        encode_flops=2 * _encoder_weights(config),
        decode_flops=2 * (_decoder_weights(config) + vocabulary * size),
        cache_bytes=4 * config.decoder_layers * 2 * heads * (size // config.heads),
    )


def _new_parameters(part: nn.Module, seen: set[int]) -> int:
    new = [parameter for parameter in part.parameters() if id(parameter) not in seen]
    seen.update(id(parameter) for parameter in new)
    return sum(parameter.numel() for parameter in new)


def _feed_forward_weights(config: TransformerConfig) -> int:
    return (3 if config.gated else 2) * config.size * config.feed_forward


def _key_value_weights(config: TransformerConfig) -> int:
    return 2 * config.size * config.size * (config.key_value_heads or config.heads) // config.heads


def _encoder_weights(config: TransformerConfig) -> int:
    """Met by each source token: the encoder, and the keys and values that it gives to every decoder layer."""
    block = 2 * config.size**2 + _key_value_weights(config) + _feed_forward_weights(config)
    return config.encoder_layers * block + config.decoder_layers * _key_value_weights(config)


def _decoder_weights(config: TransformerConfig) -> int:
    block = 4 * config.size**2 + _key_value_weights(config) + _feed_forward_weights(config)
    return config.decoder_layers * block
