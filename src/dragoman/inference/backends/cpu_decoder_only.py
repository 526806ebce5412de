"""A network of the compiled core that predicts the next token; what is drawn from its logits PyTorch draws."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding import score_by_steps
from dragoman.inference.backends.cpu_backend import Core
from dragoman.inference.backends.protocol import Ids
from dragoman.inference.inference_mode import in_use
from dragoman.models.quantization import Compute
from dragoman.models.search_protocols import Searched
from dragoman.models.special_symbols import Symbols
from dragoman.shapes import BeamTokens, Lengths, SourceIds, StepLogits
from dragoman.typing import Float, Int


@final
@dataclass(frozen=True)
class CoreMemory:
    """Implements `models.interfaces.Memory` for prompts that the core has read."""

    core: Any
    lengths: Lengths

    def keep(self, rows: Int[Tensor, " kept"]) -> Self:
        return type(self)(self.core.keep(rows.numpy()), self.lengths[rows])

    def join(self, other: Self) -> Self:
        return type(self)(self.core.join(other.core), torch.cat([self.lengths, other.lengths]))


@final
@dataclass(frozen=True)
class CoreState:
    """Implements `models.interfaces.State` for hypotheses in the core."""

    core: Any

    def select(self, parents: BeamTokens) -> Self:
        return type(self)(self.core.select(parents.numpy()))

    def keep(self, rows: Int[Tensor, " kept"]) -> Self:
        return type(self)(self.core.keep(rows.numpy()))

    def join(self, other: Self) -> Self:
        return type(self)(self.core.join(other.core))


@final
class CompiledPredicting:
    """Implements `runtime.predicting.Predicting`, and `models.interfaces.Prompted` with its logits as tensors."""

    device = torch.device("cpu")

    def __init__(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, np.ndarray],
        *,
        compute: Compute,
        vocabulary: int,
        where: str = "these weights",
    ) -> None:
        """`config` is that of the model, which the core does not refuse; `weights` as `models.arrays` reads them.

        Raises RunError and ConfigError as `runtime.compiled.Compiled` does.
        """
        named = {**config, "vocabulary": vocabulary}
        self.core = Core(named, weights, compute=compute, vocabulary=vocabulary, where=where)
        self.maximum_length = self.core.maximum_length
        self._symbols = Symbols()

    @property
    def steps(self) -> Self:
        return self

    def in_use(self) -> AbstractContextManager[None]:
        return in_use(self)

    def encode(self, prompt: SourceIds, lengths: Lengths) -> CoreMemory:
        rows = [row[:length] for row, length in zip(prompt.tolist(), lengths.tolist(), strict=True)]
        return CoreMemory(self.core.encode(rows), lengths)

    def start(self, memory: CoreMemory, *, beam: int) -> CoreState:
        return CoreState(self.core.start(memory.core, beam=beam))

    def step(self, tokens: BeamTokens, memory: CoreMemory, state: CoreState) -> tuple[StepLogits, CoreState]:
        logits, after = self.core.step(tokens.numpy(), memory.core, state.core)
        return torch.from_numpy(logits), CoreState(after)

    def read(self, prompts: Sequence[Ids]) -> tuple[Searched[Any, Any], Any]:
        return self.core, self.core.encode(prompts)

    def score_tokens(
        self, tokens: Int[Tensor, "batch places"], expected: Int[Tensor, "batch places"]
    ) -> Float[Tensor, "batch places"]:
        memory = self.encode(tokens[:, :1], torch.ones(len(tokens), dtype=torch.long))
        return score_by_steps(self, memory, target=tokens, expected=expected, symbols=self._symbols)
