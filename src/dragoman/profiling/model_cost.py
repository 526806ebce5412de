"""What a network is made of and what it costs, counted on the network itself."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.models.encoder_only import EncoderOnlyTransformer
from dragoman.models.heads import DecoderOnlyBackbone, ModelWithHead
from dragoman.models.protocols import Decoder, SupportsTrees
from dragoman.models.recurrent.encoder_decoder import RecurrentEncoderDecoder
from dragoman.typing import SourceFeatures

Pass = Literal["encode", "decode"]
Parts = dict[str, Sequence[nn.Module]]
FLOAT32 = 4
"""Bytes of a number."""


@dataclass(frozen=True)
class Inventory:
    """Parameters by part (a tied weight counts once, where it first occurs), and costs."""

    parts: dict[str, int]
    flops: dict[Pass, int]
    """Operations to read a token (`encode`) and to write one of one hypothesis (`decode`), what it looks at aside."""
    cache_bytes: int
    """Bytes that a hypothesis keeps for each token that it grows by, in float32."""

    @property
    def parameters(self) -> int:
        return sum(self.parts.values())

    @property
    def weight_bytes(self) -> int:
        """In float32."""
        return FLOAT32 * self.parameters

    @property
    def flops_a_token(self) -> int:
        """Operations for a token that is read, where there is a reader, and one that is written."""
        return sum(self.flops.values())


def count_parameters(model: nn.Module) -> int:
    """All learnt numbers, a tied weight once."""
    return sum(parameter.numel() for parameter in model.parameters())


def take_inventory(model: nn.Module) -> Inventory:
    """Count what `model` holds and costs."""
    return Inventory(_count(_parts(model)), count_flops(model), _growth(model) if isinstance(model, Decoder) else 0)


def count_flops(model: nn.Module) -> dict[Pass, int]:
    """Operations a token; each is a multiplication or an addition, two for each weight that the token meets."""
    match model:
        case EncoderDecoderTransformer():
            # The keys and values of the source are made once, for each of its tokens.
            attentions = [block.cross_attention for block in model.decoder]
            of_source = _met([part for attention in attentions for part in (attention.key, attention.value)])
            written = _met(model.decoder) - of_source + model.unembedding.weight.numel()
            return {"encode": 2 * (_met(model.encoder) + of_source), "decode": 2 * written}
        case RecurrentEncoderDecoder():
            written = _met([model.decoder]) + model.unembedding.weight.numel()
            return {"encode": 2 * _met([model.encoder]), "decode": 2 * written}
        case DecoderOnlyTransformer():
            return {"decode": 2 * (_met(model.blocks) + model.unembedding.weight.numel())}
        case EncoderOnlyTransformer():
            return {"encode": 2 * _met(model.blocks)}
        case ModelWithHead():
            return {"encode": 2 * (_met(_reader(model).blocks) + _met([model.head]))}
        case _:
            raise TypeError(f"no costs are known of {type(model).__name__}")


def _parts(model: nn.Module) -> Parts:
    match model:
        case EncoderDecoderTransformer():
            return {
                "source embedding": [model.source_embedding],
                "encoder": [*model.encoder, model.encoder_norm],
                "target embedding": [model.target_embedding],
                "decoder": [*model.decoder, model.decoder_norm],
                "unembedding": [model.unembedding],
            }
        case RecurrentEncoderDecoder():
            return {
                "source embedding": [model.source_embedding],
                "encoder": [model.encoder],
                "target embedding": [model.target_embedding],
                "decoder": [*model.bridges, model.decoder],
                "unembedding": [model.unembedding],
            }
        case DecoderOnlyTransformer():
            return {
                "embedding": [model.embedding],
                "blocks": [*model.blocks, model.norm],
                "unembedding": [model.unembedding],
            }
        case EncoderOnlyTransformer():
            head = [] if model.head is None else [model.head]
            return {
                "embedding": [model.embedding],
                "blocks": [*model.blocks, model.norm],
                "unembedding": [*head, model.unembedding],
            }
        case ModelWithHead():
            return {**_parts(_reader(model)), "head": [model.head]}
        case _:
            raise TypeError(f"no parts are known of {type(model).__name__}")


def _reader(model: ModelWithHead) -> DecoderOnlyTransformer | EncoderOnlyTransformer:
    """The network below the head."""
    backbone = model.backbone.model if isinstance(model.backbone, DecoderOnlyBackbone) else model.backbone
    assert isinstance(backbone, DecoderOnlyTransformer | EncoderOnlyTransformer), "heads stand on these alone"
    return backbone


def _count(parts: Parts) -> dict[str, int]:
    """The parameters of each part that no part before it has."""
    seen: set[int] = set()
    counts = {}
    for name, modules in parts.items():
        new = {id(one): one.numel() for module in modules for one in module.parameters() if id(one) not in seen}
        seen.update(new)
        counts[name] = sum(new.values())
    return counts


def _met(modules: Iterable[nn.Module]) -> int:
    """The weights of the linear maps that a token goes through: matrices, and those that scores have for each head."""
    everything = [layer for module in modules for layer in module.modules()]
    layers = [layer for layer in everything if isinstance(layer, nn.Linear | nn.RNNBase)]
    matrices = [one for layer in layers for one in layer.parameters(recurse=False) if one.ndim == 2]
    of_heads = [one for layer in everything for one in layer.parameters(recurse=False) if one.ndim == 3]
    return sum(one.numel() for one in (*matrices, *of_heads))


@torch.inference_mode()
def _growth(model: Any) -> int:
    """Bytes of the state after one step beyond those before it."""
    token, length = torch.zeros(1, 1, dtype=torch.long), torch.ones(1, dtype=torch.long)
    trees = [SourceFeatures(token, token)] if isinstance(model, SupportsTrees) and model.structural else []
    memory = model.encode(token, length, *trees)
    before = model.start(memory, beam_size=1)
    _, after = model.step(token, memory, before)
    return _bytes(after) - _bytes(before)


def _bytes(state: Any) -> int:
    """Of the keys and values in a state; what a recurrent network keeps does not grow."""
    layers = getattr(state, "layers", ())
    return FLOAT32 * sum(layer.keys.numel() + layer.values.numel() for layer in layers)
