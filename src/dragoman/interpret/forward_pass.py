"""One parallel pass over given translations, watched: weights, masks and predictions of each sentence by itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from dragoman.interpret.head_statistics import Maps
from dragoman.interpret.recorder import Kind, record
from dragoman.models.protocols import EncoderDecoder, source_arguments
from dragoman.models.special_symbols import SpecialSymbols
from dragoman.typing import Bool, Float, Lengths, SourceFeatures, SourceIds

Ids = Sequence[int]
BuildFeatures = Callable[[Sequence[Ids]], SourceFeatures | None]
"""Source features of a batch, given without end symbols."""


@dataclass(frozen=True)
class Pass:
    """What a network did with one source and one target, without padding.

    Of a network that reads one text and nothing else, that is the source. In a translation, place $t$ of the target is
    a step of decoding: its query has read the tokens before token $t$ of the output, and predicts token $t$, the last
    one the end symbol.
    """

    source: tuple[int, ...]
    """With the end symbol."""
    target: tuple[int, ...]
    """With the end symbol: what each step was to predict."""
    weights: Mapping[Kind, Maps]
    """Of each kind of attention that the network has."""
    allowed: Mapping[Kind, Bool[Tensor, "layers heads queries keys"]]
    mixtures: frozenset[Kind]
    """The kinds whose keys are no places."""
    log_probs: Float[Tensor, "steps vocabulary"]
    """Of every word at every step; of a network that labels, of every label where each was found."""

    @property
    def token_log_probs(self) -> Float[Tensor, " steps"]:
        """Of the target's own tokens."""
        return self.log_probs.gather(1, torch.tensor(self.target)[:, None])[:, 0]


@torch.no_grad()
def watched(
    model: EncoderDecoder[Any, Any],
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    *,
    symbols: SpecialSymbols,
    source_features: BuildFeatures | None = None,
) -> list[Pass]:
    """The passes of some pairs in one batch; ids stand without begin and end."""
    module = module_of(model)
    device = next(module.parameters()).device
    source, source_lengths = padded([[*ids, symbols.eos] for ids in sources], symbols, device)
    target, _ = padded([[symbols.bos, *ids] for ids in targets], symbols, device)
    with without_dropout(module), record(module) as trace:
        features = None if source_features is None else source_features(sources)
        hidden = model.hidden(source, source_lengths, target, **source_arguments(model, features))
    joined = [(kind, trace.weights(kind), trace.allowed(kind)) for kind in trace.kinds]
    mixtures = frozenset(one.kind for one in trace.seen if one.mixtures)
    passes = []
    for row, (ids, outputs) in enumerate(zip(sources, targets, strict=True)):
        places = _places(source=len(ids) + 1, target=len(outputs) + 1, mixtures=mixtures)
        passes.append(
            Pass(
                source=(*ids, symbols.eos),
                target=(*outputs, symbols.eos),
                weights={kind: weights[:, row][:, :, *places[kind]] for kind, weights, _ in joined},
                allowed={kind: allowed[:, row][:, :, *places[kind]] for kind, _, allowed in joined},
                mixtures=mixtures,
                log_probs=at_least_single(model.unembed(hidden[row, : len(outputs) + 1])).log_softmax(dim=-1).cpu(),
            )
        )
    return passes


def of_one_text(
    network: nn.Module,
    run: Callable[[], object],
    *,
    source: tuple[int, ...],
    target: tuple[int, ...],
    log_probs: Float[Tensor, "steps classes"],
) -> Pass:
    """The pass of a text that is read alone, as `run` runs it."""
    with record(network) as trace:
        run()
    return Pass(
        source=source,
        target=target,
        weights={kind: trace.weights(kind)[:, 0] for kind in trace.kinds},
        allowed={kind: trace.allowed(kind)[:, 0] for kind in trace.kinds},
        mixtures=frozenset(one.kind for one in trace.seen if one.mixtures),
        log_probs=log_probs,
    )


def _places(*, source: int, target: int, mixtures: frozenset[Kind]) -> dict[Kind, tuple[slice, slice]]:
    """The queries and keys of each kind that are no padding; mixtures have none."""
    sizes: dict[Kind, tuple[int, int]] = {
        "encoder": (source, source),
        "masked": (target, target),
        "cross": (target, source),
    }
    return {
        kind: (slice(queries), slice(None if kind in mixtures else keys)) for kind, (queries, keys) in sizes.items()
    }


def at_least_single(logits: Float[Tensor, "*places vocabulary"]) -> Float[Tensor, "*places vocabulary"]:
    """In single precision or better, for sums of many small numbers."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def module_of(model: object) -> nn.Module:
    """The network as the module that it is."""
    assert isinstance(model, nn.Module), "networks of the family are modules"
    return model


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Inside, the network is as its users have it; one in training goes on training afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def padded(rows: Sequence[Ids], symbols: SpecialSymbols, device: torch.device) -> tuple[SourceIds, Lengths]:
    """Sequences as one rectangle, and their lengths."""
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return pad_sequence(tensors, batch_first=True, padding_value=symbols.pad).to(device), lengths
