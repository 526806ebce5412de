"""A network of PyTorch as a translator uses it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, final

import numpy as np
import torch

from dragoman.data.datasets.trees import Starts, structure_of, word_starts
from dragoman.data.readers.conllu import Heads
from dragoman.data.tokenizers import Side
from dragoman.decoding.config import Normalisation
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.scoring import score_hypotheses
from dragoman.decoding.torch_stepper import HeldMemory, HeldState, Stepping
from dragoman.inference.backends.protocol import Ids
from dragoman.inference.inference_mode import in_use
from dragoman.inference.padding import rectangle
from dragoman.models.protocols import ReadsTrees, Seq2Seq
from dragoman.models.search_protocols import Best
from dragoman.models.source_trees import with_trees
from dragoman.models.special_symbols import Symbols
from dragoman.typing import Bool, Int


@final
class OnTensors:
    """Implements `runtime.network.Translating`."""

    joins_freely = False

    def __init__(
        self, model: Seq2Seq[Any, Any], side: Side, *, target_vocabulary: int, device: torch.device | str
    ) -> None:
        """The model is on `device` already; `side` is that of its sources."""
        self.device = torch.device(device)
        self._model = model
        self._side = side
        self._target_vocabulary = target_vocabulary
        self._stepping = Stepping(model)
        self._end = Symbols().end

    @property
    def maximum_length(self) -> int | None:
        longest: int | None = getattr(self._model, "maximum_length", None)
        return longest

    @property
    def structural(self) -> bool:
        return isinstance(self._model, ReadsTrees) and self._model.structural

    def in_use(self) -> AbstractContextManager[None]:
        return in_use(self._model)

    def encode(
        self,
        sources: Sequence[Ids],
        trees: Sequence[Heads] = (),
        candidates: Sequence[Int[np.ndarray, "_"]] | None = None,
    ) -> HeldMemory[Any]:
        memory = self.reading(sources, trees).encode(*self._rectangle(sources))
        return Stepping.hold(memory, allowed=None if candidates is None else self._allowed(candidates))

    def start(self, memory: HeldMemory[Any], *, beam: int) -> HeldState[Any]:
        return self._stepping.start(memory, beam=beam)

    def best(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: HeldMemory[Any],
        state: HeldState[Any],
        *,
        width: int,
        forbidden: Sequence[int] = (),
    ) -> Best[HeldState[Any]]:
        return self._stepping.best(tokens, memory, state, width=width, forbidden=forbidden)

    def score(
        self,
        sources: Sequence[Ids],
        outputs: Sequence[Ids],
        *,
        normalisation: Normalisation,
        trees: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        return score_hypotheses(
            self.reading(sources, trees),
            *self._rectangle(sources),
            outputs=outputs,
            normalisation=normalisation,
            symbols=Symbols(),
        )

    def _allowed(self, candidates: Sequence[Int[np.ndarray, "_"]]) -> Bool[torch.Tensor, "batch vocabulary"]:
        """Which tokens are candidates, sentence by sentence."""
        allowed = torch.zeros(len(candidates), self._target_vocabulary, dtype=torch.bool)
        for row, tokens in zip(allowed, candidates, strict=True):
            row[torch.from_numpy(tokens).long()] = True
        return allowed.to(self.device)

    def _rectangle(self, sources: Sequence[Ids]) -> tuple[torch.Tensor, torch.Tensor]:
        """The padded sources with their end symbols, and their lengths."""
        return rectangle([[*ids, self._end] for ids in sources], device=self.device)

    def reading(self, sources: Sequence[Ids], trees: Sequence[Heads]) -> Seq2Seq[Any, Any]:
        """The network as it reads these sources."""
        if not trees:
            return self._model
        return with_trees(self._model, structure_of(sources, trees, self._starts).to(self.device))

    @cached_property
    def _starts(self) -> Starts:
        return word_starts(self._side)
