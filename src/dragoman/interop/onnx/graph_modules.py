"""Models as functions of tensors alone, which ONNX graphs are made from.

The state of a decoder layer is one or two tensors: keys and values, or the cell of an SSRU. A graph has no sizes of its
own: sentences, hypotheses and positions may be any number, and a state of 0 positions is the one before the first step.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, final

import torch
from torch import Tensor, nn

from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.decoder_state import DecoderState, Layers, SourceMemory
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.nn.kv_cache import KVCache, LayerState
from dragoman.nn.recurrent.ssru import SSRUState

Sizes = dict[int, str]
"""Names of the sizes of a tensor that a caller chooses, by axis."""
SENTENCES, HYPOTHESES, POSITIONS = "sentences", "hypotheses", "positions"


class GraphModule(Protocol):
    """Function of a graph, with examples and names of its inputs and outputs."""

    def example(self, *, more: int = 0) -> tuple[Any, ...]:
        """Return inputs of sizes that differ from each other and from 0 and 1, each longer by a number."""
        ...

    def inputs(self) -> dict[str, Sizes]:
        """Return the names of the inputs, and of their sizes."""
        ...

    def outputs(self) -> list[str]:
        """Return the names of the outputs."""
        ...


@final
class EncoderGraph(nn.Module):
    """Source and its lengths, end symbols included, to the keys and values of each decoder layer."""

    def __init__(self, model: EncoderDecoderTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_lengths: Tensor) -> tuple[Tensor, ...]:
        memory = self.model.encode(source, source_lengths)
        return memory.lengths, *_tensors(memory.layers)

    def example(self, *, more: int = 0) -> tuple[Any, ...]:
        return _padded_ids(2 + more, 5 + more)

    def inputs(self) -> dict[str, Sizes]:
        return {"source": {0: SENTENCES, 1: "source_positions"}, "source_lengths": {0: SENTENCES}}

    def outputs(self) -> list[str]:
        return ["memory.lengths", *_names("memory", self.model.encode(*self.example()).layers)]


@final
class PromptGraph(nn.Module):
    """All tokens of prompts but the last, and their numbers, to the state before the last token."""

    def __init__(self, model: DecoderOnlyTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        return _tensors(self.model.read_prefixes(tokens, lengths).layers)

    def example(self, *, more: int = 0) -> tuple[Any, ...]:
        return _padded_ids(2 + more, 5 + more)

    def inputs(self) -> dict[str, Sizes]:
        return {"tokens": {0: SENTENCES, 1: POSITIONS}, "lengths": {0: SENTENCES}}

    def outputs(self) -> list[str]:
        return _names("present", _start(self.model, 1, positions=2))


@final
class StepGraph(nn.Module):
    """Last token of each hypothesis, with the state of its prefix, to the logits of the next token and the next state.

    `lengths` are the numbers of tokens before.
    """

    def __init__(self, model: EncoderDecoderTransformer | DecoderOnlyTransformer) -> None:
        super().__init__()
        self.model = model
        self._has_memory = isinstance(model, EncoderDecoderTransformer)

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor,
        past: Sequence[Tensor],
        memory_lengths: Tensor | None = None,
        memory: Sequence[Tensor] = (),
    ) -> tuple[Tensor, ...]:
        model: Any = self.model
        state = DecoderState(self._layers(past), lengths, beam_size=tokens.shape[1])
        source = None
        if memory_lengths is not None:
            source = SourceMemory(tuple(map(KVCache, memory[::2], memory[1::2])), memory_lengths)
        logits, after = model.step(tokens, source, state)
        return logits, *_tensors(after.layers)

    def example(self, *, more: int = 0) -> tuple[Any, ...]:
        sentences, beam, positions = 2 + more, 3 + more, 4 + more
        past = _tensors(_start(self.model, sentences * beam, positions=positions))
        arguments = torch.full((sentences, beam), 4), positions - torch.arange(sentences), past
        if not isinstance(self.model, EncoderDecoderTransformer):
            return arguments
        lengths, *memory = EncoderGraph(self.model)(*_padded_ids(sentences, 7 + more))
        return *arguments, lengths, tuple(memory)

    def inputs(self) -> dict[str, Sizes]:
        _, _, past, *memory = self.example()
        names = _names("past", _start(self.model, 1, positions=1))
        sizes: dict[str, Sizes] = {"tokens": {0: SENTENCES, 1: "beam"}, "lengths": {0: SENTENCES}}
        for name, tensor in zip(names, past, strict=True):
            sizes[name] = {0: HYPOTHESES} | ({2: POSITIONS} if tensor.ndim == 4 else {})
        if memory:
            sizes["memory.lengths"] = {0: SENTENCES}
            for number in range(len(memory[1]) // 2):
                for part in ("keys", "values"):
                    sizes[f"memory.{number}.{part}"] = {0: SENTENCES, 2: "source_positions"}
        return sizes

    def outputs(self) -> list[str]:
        return ["logits", *_names("present", _start(self.model, 1, positions=1))]

    def _layers(self, tensors: Sequence[Tensor]) -> Layers:
        """Return the states of the layers from their tensors."""
        left = iter(tensors)
        return tuple(
            SSRUState(next(left)) if isinstance(one, SSRUState) else KVCache(next(left), next(left))
            for one in _start(self.model, 1, positions=1)
        )


def _padded_ids(sentences: int, positions: int) -> tuple[Tensor, Tensor]:
    """Return ids and lengths, each sentence one token shorter than the one before."""
    return torch.full((sentences, positions), 4), positions - torch.arange(sentences)


def _start(model: Any, rows: int, *, positions: int) -> list[LayerState]:
    """Return states of the layers with so many positions."""
    blocks = model.decoder if isinstance(model, EncoderDecoderTransformer) else model.blocks
    return [block.start(rows).pad(before=positions) for block in blocks]


def _parts(layers: Sequence[LayerState]) -> Iterator[tuple[int, str, Tensor]]:
    """Yield number, name and tensor of the parts of all layers."""
    for number, layer in enumerate(layers):
        for part in ("cell",) if isinstance(layer, SSRUState) else ("keys", "values"):
            yield number, part, getattr(layer, part)


def _tensors(layers: Sequence[LayerState]) -> tuple[Tensor, ...]:
    return tuple(tensor for _, _, tensor in _parts(layers))


def _names(prefix: str, layers: Sequence[LayerState]) -> list[str]:
    return [f"{prefix}.{number}.{part}" for number, part, _ in _parts(layers)]
