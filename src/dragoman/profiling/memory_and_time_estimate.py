"""Parameters, operations and memory of a model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from torch import nn

from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.models.encoder_only import EncoderOnlyTransformer
from dragoman.models.protocols import Decoder
from dragoman.models.recurrent.encoder_decoder import RecurrentEncoderDecoder
from dragoman.models.task_heads import DecoderOnlyBackbone, ModelWithHead
from dragoman.models.weight_initialization import without_numbers
from dragoman.nn.blocks import DecoderBlock
from dragoman.tasks.config import Experiment
from dragoman.tasks.factory import build_task
from dragoman.tasks.task import RunFiles
from dragoman.training.losses import RDropConfig

FLOAT32_BYTES: Final = 4

Pass = Literal["encode", "decode"]


@dataclass(frozen=True)
class ModelCost:
    """Parameters by part of the model, operations per token and size of the cache."""

    parts: dict[str, int]
    """Parameters; a tied weight counts in its first part."""
    flops: dict[Pass, int]
    """Operations to encode a token, and to decode a token of one hypothesis, without attention to earlier tokens."""
    cache_bytes: int
    """Bytes that the key-value cache of a hypothesis grows by per token, in float32."""

    @property
    def parameters(self) -> int:
        return sum(self.parts.values())

    @property
    def weight_bytes(self) -> int:
        """Return the size of the weights in float32."""
        return FLOAT32_BYTES * self.parameters

    @property
    def flops_per_token(self) -> int:
        """Return the operations for one encoded token, if there is an encoder, and one decoded token."""
        return sum(self.flops.values())


def model_cost(model: nn.Module) -> ModelCost:
    return ModelCost(
        _count_parts(_parts(model)), count_flops(model), _cache_growth(model) if isinstance(model, Decoder) else 0
    )


def count_parameters(model: nn.Module) -> int:
    """Count the parameters, tied weights once."""
    return sum(parameter.numel() for parameter in model.parameters())


def count_flops(model: nn.Module) -> dict[Pass, int]:
    """Count the operations per token: two, a multiplication and an addition, for each weight applied to the token."""
    match model:
        case EncoderDecoderTransformer():
            # Keys and values of cross-attention are computed once per source token.
            attentions = model.cross_attentions()
            source_weights = _linear_weights([part for one in attentions for part in (one.key, one.value)])
            decoder_weights = _linear_weights(model.decoder) - source_weights + model.unembedding.weight.numel()
            return {"encode": 2 * (_linear_weights(model.encoder) + source_weights), "decode": 2 * decoder_weights}
        case RecurrentEncoderDecoder():
            decoder_weights = _linear_weights([model.decoder]) + model.unembedding.weight.numel()
            return {"encode": 2 * _linear_weights([model.encoder]), "decode": 2 * decoder_weights}
        case DecoderOnlyTransformer():
            return {"decode": 2 * (_linear_weights(model.blocks) + model.unembedding.weight.numel())}
        case EncoderOnlyTransformer():
            return {"encode": 2 * _linear_weights(model.blocks)}
        case ModelWithHead():
            return {"encode": 2 * (_linear_weights(_backbone(model).blocks) + _linear_weights([model.head]))}
        case _:
            raise TypeError(f"the operations of {type(model).__name__} are unknown")


def _parts(model: nn.Module) -> dict[str, Sequence[nn.Module]]:
    encoder: Sequence[nn.Module]
    decoder: Sequence[nn.Module]
    match model:
        case EncoderDecoderTransformer():
            encoder, decoder = [*model.encoder, model.encoder_norm], [*model.decoder, model.decoder_norm]
        case RecurrentEncoderDecoder():
            encoder, decoder = [model.encoder], [*model.bridges, model.decoder]
        case DecoderOnlyTransformer() | EncoderOnlyTransformer():
            head = [model.head] if isinstance(model, EncoderOnlyTransformer) and model.head is not None else []
            return {
                "embedding": [model.embedding],
                "blocks": [*model.blocks, model.norm],
                "unembedding": [*head, model.unembedding],
            }
        case ModelWithHead():
            return {**_parts(_backbone(model)), "head": [model.head]}
        case _:
            raise TypeError(f"the parts of {type(model).__name__} are unknown")
    return {
        "source embedding": [model.source_embedding],
        "encoder": encoder,
        "target embedding": [model.target_embedding],
        "decoder": decoder,
        "unembedding": [model.unembedding],
    }


def _backbone(model: ModelWithHead) -> DecoderOnlyTransformer | EncoderOnlyTransformer:
    backbone = model.backbone.model if isinstance(model.backbone, DecoderOnlyBackbone) else model.backbone
    assert isinstance(backbone, DecoderOnlyTransformer | EncoderOnlyTransformer), "no other models have heads"
    return backbone


def _count_parts(parts: Mapping[str, Sequence[nn.Module]]) -> dict[str, int]:
    """Count the parameters of each part that no earlier part contains."""
    seen: set[int] = set()
    counts = {}
    for name, modules in parts.items():
        new = {id(one): one.numel() for module in modules for one in module.parameters() if id(one) not in seen}
        seen.update(new)
        counts[name] = sum(new.values())
    return counts


def _linear_weights(modules: Iterable[nn.Module]) -> int:
    """Count the weights applied to each token: matrices of linear maps, and the 3-dimensional weights of scores."""
    layers = [layer for module in modules for layer in module.modules()]
    own = [(isinstance(one, nn.Linear | nn.RNNBase), p) for one in layers for p in one.parameters(recurse=False)]
    return sum(weight.numel() for linear, weight in own if weight.ndim == 3 or (linear and weight.ndim == 2))


def _cache_growth(model: nn.Module) -> int:
    """Return the bytes by which one step extends the keys and values; recurrent states and SSRUs do not grow."""
    attentions = [module.attention for module in model.modules() if isinstance(module, DecoderBlock)]
    return FLOAT32_BYTES * sum(
        one.key.weight.shape[0] + one.value.weight.shape[0] for one in attentions if one is not None
    )


def build_meta_model(experiment: Experiment, folder: RunFiles) -> nn.Module:
    """Build the model of an experiment on the meta device: shapes without numbers."""
    with without_numbers() as device:
        return build_task(experiment).build_model(folder, device=device)


def passes_per_step(experiment: Experiment) -> int:
    """Return how often the model reads every example in a step."""
    return 2 if isinstance(getattr(experiment.training, "loss", None), RDropConfig) else 1


def training_flops(model: nn.Module) -> float:
    """Return the operations per training token: the forward pass, and twice as many for the backward pass."""
    return 3.0 * sum(count_flops(model).values())
