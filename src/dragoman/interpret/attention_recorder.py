r"""Recorder of attention weights and masks in a model, and forward passes with what was recorded.

An SSRU, which takes the place of masked self-attention, is recorded as the weights of the positions that its cells
still hold (`ssru_memory`); a group of features stands in place of a head.

Inside `record`, forward hooks compute the weights of every attention module a second time, from its inputs. Modules and
outputs of the model stay the same, bit for bit. The hooks are removed at the end of the block, after an exception too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from dragoman.array_types import Bool, Float, Lengths, Shaped, SourceFeatures, SourceIds
from dragoman.errors import DataError
from dragoman.interpret.ssru_memory import memory_weights
from dragoman.models.protocols import EncoderDecoder, source_arguments
from dragoman.models.special_symbols import BOS, EOS, PAD
from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.attention_maps import AttentionMask, AttentionWeights, attention_maps
from dragoman.nn.blocks import DecoderBlock, EncoderBlock
from dragoman.nn.masks import causal_mask
from dragoman.nn.recurrent.decoder import RecurrentDecoder
from dragoman.nn.recurrent.global_attention import SourceAttention
from dragoman.nn.recurrent.ssru import SSRU
from dragoman.nn.sparse.linformer import Linformer

AttentionKind = Literal["encoder", "masked", "ssru", "cross"]
"""Bidirectional self-attention, causal self-attention or the memory of an SSRU, and attention to the encoder output."""
ATTENTION_KINDS: tuple[AttentionKind, ...] = ("encoder", "masked", "ssru", "cross")
AttentionModule = MultiHeadAttention | SourceAttention
AttentionMaps = Float[Tensor, "layers heads queries keys"]
Ids = Sequence[int]
BuildFeatures = Callable[[Sequence[Ids]], SourceFeatures | None]
"""Source features of a batch, given without end symbols."""


@dataclass(frozen=True)
class AttentionCall:
    """One call of one attention module.

    A row is a sentence or a hypothesis: in a step of beam search, masked attention has one row per hypothesis with one
    query, and cross-attention has one row per sentence with one query per hypothesis.
    """

    kind: AttentionKind
    layer: int
    """From 0, among the modules of its kind."""
    weights: AttentionWeights
    """In float32 on the CPU; zero where the mask is false. Those of an SSRU sum to less than one."""
    mask: AttentionMask
    """Keys that each query may attend to."""
    projected: bool
    """Whether the keys are Linformer's linear combinations of positions."""


@final
class Trace:
    """Recorded attention calls, in order."""

    def __init__(self) -> None:
        self.calls: list[AttentionCall] = []

    def clear(self) -> None:
        self.calls.clear()

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """Return the kinds of attention that were called."""
        recorded = {call.kind for call in self.calls}
        return tuple(kind for kind in ATTENTION_KINDS if kind in recorded)

    @property
    def projected_kinds(self) -> frozenset[AttentionKind]:
        """Return the kinds whose keys are not positions."""
        return frozenset(call.kind for call in self.calls if call.projected)

    def layer_calls(self, kind: AttentionKind, layer: int) -> list[AttentionCall]:
        return [call for call in self.calls if (call.kind, call.layer) == (kind, layer)]

    def weights(self, kind: AttentionKind) -> Float[Tensor, "layers rows heads queries keys"]:
        """Return the weights of one forward pass through all layers of a kind.

        Calls of a layer are concatenated along the queries, as in forced decoding step by step. Weights of keys that
        did not exist yet are zero, and so are those of pruned heads, which stand after the remaining ones. Raises
        DataError if nothing was recorded, or several passes.
        """
        return self._stack(kind, "weights")

    def mask(self, kind: AttentionKind) -> Bool[Tensor, "layers rows heads queries keys"]:
        """Return the masks of the same pass."""
        return self._stack(kind, "mask")

    def _stack(
        self, kind: AttentionKind, field: Literal["weights", "mask"]
    ) -> Shaped[Tensor, "layers rows heads queries keys"]:
        if not self.kinds:
            raise DataError("no attention was recorded. Call a model with attention inside the block of `record`.")
        if kind not in self.kinds:
            raise DataError(f"no {kind} attention was recorded. The model has {', '.join(self.kinds)} attention.")
        numbers = sorted({call.layer for call in self.calls if call.kind == kind})
        layers = [_concat_calls([getattr(call, field) for call in self.layer_calls(kind, layer)]) for layer in numbers]
        heads = max(layer.shape[1] for layer in layers)
        return torch.stack([F.pad(layer, (0, 0, 0, 0, 0, heads - layer.shape[1])) for layer in layers])


def _concat_calls(calls: list[Tensor]) -> Shaped[Tensor, "rows heads queries keys"]:
    if len({call.shape[:2] for call in calls}) > 1:
        raise DataError(
            "The recorded calls belong to several passes with different numbers of rows. Record one pass, or read "
            "`trace.calls`."
        )
    keys = max(call.shape[3] for call in calls)
    return torch.cat([F.pad(call, (0, keys - call.shape[3])) for call in calls], dim=2)


@contextmanager
def record(model: nn.Module) -> Iterator[Trace]:
    """Record the weights of every attention module inside the block, and the memory of every SSRU.

    Recording adds the cost of the reference attention. A model without attention leaves the trace empty. The memory of
    an SSRU is recorded in passes from the first position on: one step knows the cell, and not what it consists of.

    >>> from dragoman.models.factory import build_encoder_only
    >>> from dragoman.models.config import EncoderOnlyConfig
    >>> model = build_encoder_only(EncoderOnlyConfig(d_model=8, num_heads=2, num_layers=3, d_ff=16), vocabulary=11)
    >>> with record(model) as trace:
    ...     hidden = model.hidden(torch.tensor([[4, 7, 5, 9, 3]]), torch.tensor([5]))
    >>> trace.weights("encoder").shape  # layers, rows, heads, queries, keys
    torch.Size([3, 1, 2, 5, 5])
    """
    trace = Trace()

    @torch.inference_mode(mode=False)
    @torch.no_grad()
    def store(
        kind: AttentionKind, layer: int, attention: AttentionModule, inputs: Any, options: Any, _: Tensor
    ) -> None:
        if isinstance(attention, SourceAttention):  # of a recurrent decoder, with one head
            query, memory = inputs
            weights = attention.weights(query, memory)[:, None]
            mask = memory.mask.expand_as(weights)
        else:
            weights, mask = attention_maps(attention, *inputs, **options)
        projected = isinstance(attention, MultiHeadAttention) and isinstance(attention.pattern, Linformer)
        trace.calls.append(AttentionCall(kind, layer, weights.float().cpu(), mask.cpu(), projected))

    @torch.inference_mode(mode=False)
    @torch.no_grad()
    def store_memory(layer: int, ssru: SSRU, inputs: Any, _: Any) -> None:
        x, past = inputs
        if past is None:
            weights = memory_weights(ssru, x).float().cpu()
            mask = causal_mask(x.shape[1], x.shape[1]).expand_as(weights)
            trace.calls.append(AttentionCall("ssru", layer, weights, mask, projected=False))

    with ExitStack() as hooks:
        for kind, layer, attention in attention_modules(model):
            hooks.enter_context(attention.register_forward_hook(partial(store, kind, layer), with_kwargs=True))
        for layer, ssru in enumerate(module for module in model.modules() if isinstance(module, SSRU)):
            hooks.enter_context(ssru.register_forward_hook(partial(store_memory, layer)))
        yield trace


def attention_modules(model: nn.Module) -> Iterator[tuple[AttentionKind, int, AttentionModule]]:
    """Yield kind, layer and module of each attention of a model."""
    counts = dict.fromkeys(ATTENTION_KINDS, 0)
    for module in model.modules():
        found: dict[AttentionKind, AttentionModule | None] = {}
        match module:
            case EncoderBlock():
                found = {"encoder": module.attention}
            case DecoderBlock():
                found = {"masked": module.attention, "cross": module.cross_attention}
            case RecurrentDecoder():
                found = {"cross": module.attention}
        for kind, attention in found.items():
            if attention is not None:
                yield kind, counts[kind], attention
                counts[kind] += 1


@dataclass(frozen=True)
class ForwardPass:
    """Attention and predictions of a model for one source and one target, without padding.

    The only text of a decoder-only or encoder-only model is its source. In a translation, position $t$ of the target is
    decoding step $t$: its query has read the tokens before $t$ and predicts token $t$, the last one the end symbol.
    """

    source: tuple[int, ...]
    """With the end symbol."""
    target: tuple[int, ...]
    """Expected prediction of each step, with the end symbol."""
    weights: Mapping[AttentionKind, AttentionMaps]
    masks: Mapping[AttentionKind, Bool[Tensor, "layers heads queries keys"]]
    projected: frozenset[AttentionKind]
    """Kinds whose keys are not positions."""
    log_probs: Float[Tensor, "steps classes"]
    """Of each token of the vocabulary, or of each label, at each step."""

    @property
    def target_log_probs(self) -> Float[Tensor, " steps"]:
        return self.log_probs.gather(1, torch.tensor(self.target)[:, None])[:, 0]


@torch.no_grad()
def record_pairs(
    model: EncoderDecoder[Any, Any],
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    *,
    source_features: BuildFeatures | None = None,
) -> list[ForwardPass]:
    """Record the forward passes of sentence pairs in one batch; ids are without begin and end symbols.

    The memory of SSRUs is left out: its groups of features depend on the whole row, padding included.
    """
    module = as_module(model)
    device = next(module.parameters()).device
    source, source_lengths = pad_sequences([[*ids, EOS] for ids in sources], device)
    target, _ = pad_sequences([[BOS, *ids] for ids in targets], device)
    with eval_mode(module), record(module) as trace:
        features = None if source_features is None else source_features(sources)
        hidden = model.hidden(source, source_lengths, target, **source_arguments(model, features))
    kinds = [kind for kind in trace.kinds if kind != "ssru"]
    recorded = [(kind, trace.weights(kind), trace.mask(kind)) for kind in kinds]
    passes = []
    for row, (ids, outputs) in enumerate(zip(sources, targets, strict=True)):
        sizes = {"encoder": len(ids) + 1, "masked": len(outputs) + 1, "cross": len(ids) + 1}
        region = {  # without padding; projected keys are never padding
            kind: (
                slice(sizes["encoder" if kind == "encoder" else "masked"]),
                slice(None if kind in trace.projected_kinds else sizes[kind]),
            )
            for kind in kinds
        }
        logits = model.unembed(hidden[row, : len(outputs) + 1])
        passes.append(
            ForwardPass(
                source=(*ids, EOS),
                target=(*outputs, EOS),
                weights={kind: weights[:, row][:, :, *region[kind]] for kind, weights, _ in recorded},
                masks={kind: mask[:, row][:, :, *region[kind]] for kind, _, mask in recorded},
                projected=trace.projected_kinds,
                log_probs=at_least_float32(logits).log_softmax(dim=-1).cpu(),
            )
        )
    return passes


def at_least_float32(logits: Float[Tensor, "*positions vocabulary"]) -> Float[Tensor, "*positions vocabulary"]:
    """Convert half precision to float32, for sums of many small numbers."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def as_module(model: object) -> nn.Module:
    assert isinstance(model, nn.Module), "models are modules"
    return model


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Disable dropout inside the block."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def pad_sequences(rows: Sequence[Ids], device: torch.device) -> tuple[SourceIds, Lengths]:
    """Return sequences as a padded batch, and their lengths."""
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return pad_sequence(tensors, batch_first=True, padding_value=PAD).to(device), lengths
