"""CPU backend of decoder-only models: logits by the `dragoman-cpu` library, sampling by PyTorch."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding import score_stepwise
from dragoman.inference.backends.cpu_backend import CpuModel
from dragoman.inference.backends.protocol import Ids
from dragoman.inference.backends.torch_backend import inference_mode
from dragoman.models.protocols import Backend
from dragoman.models.quantization import ComputeType
from dragoman.typing import BeamTokens, Float, Int, Lengths, SourceIds, StepLogits


@final
@dataclass(frozen=True)
class CpuMemory:
    """Memory of prompts in the library, with rows addressed by tensors."""

    memory: Any
    lengths: Lengths

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        return type(self)(self.memory.select(rows.numpy()), self.lengths[rows])

    def concat(self, other: Self) -> Self:
        return type(self)(self.memory.concat(other.memory), torch.cat([self.lengths, other.lengths]))


@final
@dataclass(frozen=True)
class CpuState:
    """State of hypotheses in the library, with rows addressed by tensors."""

    state: Any

    def reorder(self, parents: BeamTokens) -> Self:
        return type(self)(self.state.reorder(parents.numpy()))

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        return type(self)(self.state.select(rows.numpy()))

    def concat(self, other: Self) -> Self:
        return type(self)(self.state.concat(other.state))


@final
class CpuDecoderOnlyBackend:
    """Decoder-only model of the CPU library; implements `DecoderOnlyBackend` and `PromptDecoder`."""

    device = torch.device("cpu")

    def __init__(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, np.ndarray],
        *,
        compute_type: ComputeType,
        vocabulary: int,
        where: str = "these weights",
    ) -> None:
        """`config` is that of the model, which the library must support; `weights` are arrays by name.

        Raises RunError and ConfigError as `CpuBackend` does.
        """
        named = {**config, "vocabulary": vocabulary}
        self.model = CpuModel(named, weights, compute_type=compute_type, vocabulary=vocabulary, where=where)
        self.max_length = self.model.max_length

    @property
    def decoder(self) -> Self:
        return self

    def inference_mode(self) -> AbstractContextManager[None]:
        return inference_mode(self)

    def encode(self, prompt: SourceIds, lengths: Lengths) -> CpuMemory:
        rows = [row[:length] for row, length in zip(prompt.tolist(), lengths.tolist(), strict=True)]
        return CpuMemory(self.model.encode(rows), lengths)

    def start(self, memory: CpuMemory, *, beam_size: int) -> CpuState:
        return CpuState(self.model.start(memory.memory, beam_size=beam_size))

    def step(self, tokens: BeamTokens, memory: CpuMemory, state: CpuState) -> tuple[StepLogits, CpuState]:
        logits, after = self.model.step(tokens.numpy(), memory.memory, state.state)
        return torch.from_numpy(logits), CpuState(after)

    def encode_prompts(self, prompts: Sequence[Ids]) -> tuple[Backend[Any, Any], Any]:
        return self.model, self.model.encode(prompts)

    def score_tokens(
        self, tokens: Int[Tensor, "batch places"], expected: Int[Tensor, "batch places"]
    ) -> Float[Tensor, "batch places"]:
        memory = self.encode(tokens[:, :1], torch.ones(len(tokens), dtype=torch.long))
        return score_stepwise(self, memory, target=tokens, expected=expected)
