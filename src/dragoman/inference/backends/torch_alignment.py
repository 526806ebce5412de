"""Cross-attention of PyTorch models in a forced pass, read as an alignment."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.array_types import Float, Lengths, SourceFeatures, SourceIds, TargetIds
from dragoman.models.alignment_head import AlignmentHead
from dragoman.models.ensemble import Ensemble
from dragoman.models.protocols import source_arguments
from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.attention_maps import AttentionWeights, attention_maps
from dragoman.nn.blocks import DecoderBlock
from dragoman.nn.recurrent.decoder import RecurrentDecoder
from dragoman.nn.recurrent.global_attention import SourceAttention

CrossAttention = MultiHeadAttention | SourceAttention


@torch.inference_mode()
def align_pairs(
    model: Any,
    source: SourceIds,
    source_lengths: Lengths,
    target: TargetIds,
    *,
    sizes: Sequence[tuple[int, int]],
    head: AlignmentHead | None,
    features: SourceFeatures | None = None,
) -> list[Float[np.ndarray, "_ _"]]:
    """Return the attention of each target token, in a pass over targets that start with the begin symbol.

    `sizes` are the tokens of each target and source that count, end symbols included. An ensemble aligns by its first
    member. Raises DataError if the decoder has no cross-attention.
    """
    if isinstance(model, Ensemble):
        model = model.networks[0]
    layers = list(_cross_attentions(model))
    ssru = any(isinstance(one, DecoderBlock) and one.ssru is not None for one in model.modules())
    head = head or AlignmentHead.default(len(layers), ssru=ssru)
    found: list[AttentionWeights] = []
    with ExitStack() as hooks:
        hook = partial(_store, found)
        hooks.enter_context(layers[head.layer].register_forward_hook(hook, with_kwargs=True))
        model.hidden(source, source_lengths, target, **source_arguments(model, features))
    weights = torch.cat(found, dim=2)  # a decoder with input feeding attends step by step
    rows = zip(weights.float().cpu().numpy(), sizes, strict=True)
    return [head.read(one[:, :targets, :sources]) for one, (targets, sources) in rows]


def _cross_attentions(model: nn.Module) -> Iterator[CrossAttention]:
    for module in model.modules():
        attention: CrossAttention | None = None
        match module:
            case DecoderBlock():
                attention = module.cross_attention
            case RecurrentDecoder():
                attention = module.attention
        if attention is not None:
            yield attention


def _store(
    found: list[AttentionWeights], attention: CrossAttention, inputs: Sequence[Any], options: dict[str, Any], _: Tensor
) -> None:
    if isinstance(attention, SourceAttention):  # of a recurrent decoder, with one head
        query, memory = inputs
        found.append(attention.weights(query, memory)[:, None])
    else:
        found.append(attention_maps(attention, *inputs, **options)[0])
