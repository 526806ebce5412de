"""What a network is asked on some input: how probable its outcomes are, by a pass that any number of rows can repeat.

An outcome is a class that was found somewhere: the token of a step, the label of a text or of a word, the place where
an answer begins. Gradients, heads left out and words left out all ask the same question of a changed network or input.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.interpret.forward_pass import BuildFeatures, Ids, at_least_single, module_of
from dragoman.models.protocols import EncoderDecoder, source_arguments
from dragoman.models.special_symbols import SpecialSymbols
from dragoman.typing import Float, Int

States = Callable[[int, bool], Float[Tensor, "rows outcomes features"]]
"""From a number of rows, each the same input, to what each outcome is read off; the flag asks for unknown symbols in
place of the tokens, as many and between the same begin and end."""


@dataclass(frozen=True)
class Asked:
    """A network, its input, and the outcomes that are asked about."""

    network: nn.Module
    embeddings: Sequence[nn.Module]
    """One for each sequence that it reads, in the order of the tokens that are told of."""
    wanted: Int[Tensor, " outcomes"]
    """The class that each outcome is."""
    states: States
    logits: Callable[[Float[Tensor, "some features"]], Float[Tensor, "some classes"]]
    """Of all classes, from the states of some outcomes."""

    def one_each(self, some: Int[Tensor, " some"], *, unknown: bool = False) -> Float[Tensor, " some"]:
        """The log-probabilities of some outcomes by their numbers, each read off a row of its own."""
        rows = torch.arange(len(some), device=some.device)
        own = self.states(len(some), unknown)[rows, some]
        return self._log_softmax(own).gather(1, self.wanted[some, None])[:, 0]

    def together(self, *, unknown: bool = False) -> Float[Tensor, " outcomes"]:
        """Those of all outcomes, read off one row."""
        return self.of_all_classes(unknown=unknown).gather(1, self.wanted[:, None])[:, 0]

    def of_all_classes(self, *, unknown: bool = False) -> Float[Tensor, "outcomes classes"]:
        """The log-probabilities of every class in the place of each outcome."""
        return self._log_softmax(self.states(1, unknown)[0])

    def _log_softmax(self, states: Float[Tensor, "some features"]) -> Float[Tensor, "some classes"]:
        return at_least_single(self.logits(states)).log_softmax(dim=-1)


def of_pair(
    model: EncoderDecoder[Any, Any],
    source: Ids,
    target: Ids,
    *,
    symbols: SpecialSymbols,
    source_features: BuildFeatures | None = None,
) -> Asked:
    """The tokens of a translation, its end symbol the last; ids stand without begin and end.

    Its tokens are those of the source with the end symbol, and behind them those of the target that are read, the begin
    symbol first.
    """
    module: Any = module_of(model)
    device = next(module.parameters()).device

    def states(rows: int, unknown: bool) -> Float[Tensor, "rows steps size"]:
        first, second = (masked(ids, symbols) if unknown else ids for ids in (source, target))
        read, given = repeated([*first, symbols.eos], rows, device), repeated([symbols.bos, *second], rows, device)
        lengths = torch.full((rows,), read.shape[1], device=device)
        features = None if source_features is None else source_features([source] * rows)
        return model.hidden(read, lengths, given, **source_arguments(model, features))

    wanted = torch.tensor([*target, symbols.eos], device=device)
    return Asked(module, (module.source_embedding, module.target_embedding), wanted, states, model.unembed)


def masked(ids: Ids, symbols: SpecialSymbols) -> list[int]:
    """As many unknown symbols, but for the symbols that begin and end."""
    return [token if token in (symbols.bos, symbols.eos) else symbols.unk for token in ids]


def repeated(ids: Ids, rows: int, device: torch.device) -> Int[Tensor, "rows places"]:
    """The same ids in so many rows."""
    return torch.tensor([list(ids)], device=device).expand(rows, -1)


def as_they_are(states: Float[Tensor, "some classes"]) -> Float[Tensor, "some classes"]:
    """Of outcomes that are read off logits already."""
    return states
