"""What a network looks at, watched from outside.

Inside the block of `record`, hooks on the attentions compute their weights beside them, from what they are called with.
The network's own road, its modules and its outputs stay as they are, bit for bit, and when the block ends the hooks are
gone, whatever ended it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.errors import DataError
from dragoman.interpret.attention import Visible, Weights, attention_mask, attention_weights, looks_at_mixtures
from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.blocks import DecoderBlock, EncoderBlock
from dragoman.nn.recurrent.attention import AttentionMemory, Queries, SourceAttention
from dragoman.nn.recurrent.decoder import RecurrentDecoder
from dragoman.typing import Bool, Float, Shaped

Kind = Literal["encoder", "masked", "cross"]
"""Self-attention from both sides; that which hides the future; that to the encoder's output."""

KINDS: tuple[Kind, ...] = ("encoder", "masked", "cross")
Attention = MultiHeadAttention | SourceAttention


@dataclass(frozen=True)
class Seen:
    """One call of one attention.

    A row is a sentence or a hypothesis, as the attention was called: in a step of a beam search, masked attention has a
    row and one query a hypothesis, attention to the source a row a sentence and a query a hypothesis.
    """

    kind: Kind
    layer: int
    """From 0, counted among the attentions of its kind."""
    weights: Float[Tensor, "rows heads queries keys"]
    """Of the reference road, in float32 on the CPU; exactly zero where nothing may be seen."""
    allowed: Bool[Tensor, "rows heads queries keys"]
    """What each query may see."""
    mixtures: bool
    """Whether the keys are Linformer's mixtures of places, which have no place of their own."""


@final
class Trace:
    """All that was seen since the recording began, in the order of the calls."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def clear(self) -> None:
        """Forget it, so that what comes next stands alone."""
        self.seen.clear()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that were called."""
        there = {one.kind for one in self.seen}
        return tuple(kind for kind in KINDS if kind in there)

    def calls(self, kind: Kind, layer: int) -> list[Seen]:
        """Every call of one attention."""
        return [one for one in self.seen if (one.kind, one.layer) == (kind, layer)]

    def weights(self, kind: Kind) -> Float[Tensor, "layers rows heads queries keys"]:
        """The weights of one pass through all layers of a kind.

        The calls of a layer are the queries of the pass one after the other, as in forced decoding by steps; keys that
        came later are zeros to those before, and so are heads that a layer lacks after pruning, behind those it has.
        Raises DataError where there are none, or the calls are of several passes.
        """
        return _stacked([_one_behind_the_other([call.weights for call in calls]) for calls in self._of(kind)])

    def allowed(self, kind: Kind) -> Bool[Tensor, "layers rows heads queries keys"]:
        """What could be seen in the same pass."""
        return _stacked([_one_behind_the_other([call.allowed for call in calls]) for calls in self._of(kind)])

    def _of(self, kind: Kind) -> list[list[Seen]]:
        layers = sorted({one.layer for one in self.seen if one.kind == kind})
        if not layers:
            raise DataError(
                f"no {kind} attention was recorded, but: {', '.join(self.kinds) or 'none'}; "
                "call the network inside the block of `record`"
            )
        return [self.calls(kind, layer) for layer in layers]


@contextmanager
def record(model: nn.Module) -> Iterator[Trace]:
    """Inside the block, the trace takes what every attention of the network looks at.

    The network computes what it always does, by the road it always takes; each attention costs as much again by the
    reference road. A network without attention leaves an empty trace.

    >>> from dragoman.models.factory import build_encoder
    >>> from dragoman.models.config import EncoderConfig
    >>> network = build_encoder(EncoderConfig(size=8, heads=2, layers=3, feed_forward=16), vocabulary=11)
    >>> with record(network) as trace:
    ...     hidden = network.hidden(torch.tensor([[4, 7, 5, 9, 3]]), torch.tensor([5]))
    >>> trace.weights("encoder").shape  # layers, rows, heads, queries, keys
    torch.Size([3, 1, 2, 5, 5])
    """
    trace = Trace()
    with ExitStack() as hooks:
        for kind, layer, attention in attentions_of(model):
            note = partial(_note, trace, kind, layer)
            hooks.callback(attention.register_forward_hook(note, with_kwargs=True).remove)
        yield trace


def attentions_of(model: nn.Module) -> Iterator[tuple[Kind, int, Attention]]:
    """The attentions of a network: their kinds, their layers from 0, and themselves."""
    counts = dict.fromkeys(KINDS, 0)
    for module in model.modules():
        for kind, attention in _attentions_in(module):
            yield kind, counts[kind], attention
            counts[kind] += 1


def _attentions_in(module: nn.Module) -> list[tuple[Kind, Attention]]:
    match module:
        case EncoderBlock():
            return [("encoder", module.attention)]
        case DecoderBlock():
            if module.cross_attention is None:
                return [("masked", module.attention)]
            return [("masked", module.attention), ("cross", module.cross_attention)]
        case RecurrentDecoder():
            return [] if module.attention is None else [("cross", module.attention)]
        case _:
            return []


def _note(
    trace: Trace,
    kind: Kind,
    layer: int,
    attention: Attention,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    output: Tensor,  # noqa: ARG001  # it is not touched
) -> None:
    """A forward hook: what the attention was called with is looked at again, outside of gradients."""
    with torch.inference_mode(mode=False), torch.no_grad():
        if isinstance(attention, SourceAttention):
            weights, allowed = _of_source(attention, *arguments, **named)
        else:
            weights = attention_weights(attention, *arguments, **named)
            allowed = attention_mask(attention, *arguments, **named)
        mixtures = isinstance(attention, MultiHeadAttention) and looks_at_mixtures(attention)
        trace.seen.append(Seen(kind, layer, weights.float().cpu(), allowed.cpu(), mixtures))


def _of_source(attention: SourceAttention, query: Queries, view: AttentionMemory) -> tuple[Weights, Visible]:
    """Attention of a recurrent decoder has one head."""
    weights = attention.weights(query, view)[:, None]
    return weights, view.mask.expand_as(weights)


def _stacked(layers: list[Tensor]) -> Shaped[Tensor, "layers rows heads queries keys"]:
    heads = max(layer.shape[1] for layer in layers)
    return torch.stack([F.pad(layer, (0, 0, 0, 0, 0, heads - layer.shape[1])) for layer in layers])


def _one_behind_the_other(calls: list[Tensor]) -> Shaped[Tensor, "rows heads queries keys"]:
    if len({call.shape[:2] for call in calls}) > 1:
        raise DataError(
            "the recorded calls are of several passes with different numbers of rows; record one pass, or read "
            "`trace.calls`"
        )
    keys = max(call.shape[3] for call in calls)
    return torch.cat([F.pad(call, (0, keys - call.shape[3])) for call in calls], dim=2)
