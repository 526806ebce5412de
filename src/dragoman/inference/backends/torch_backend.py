"""PyTorch backend, and how it pads batches and switches models to inference.

Logits stay on the device of the model, and only the chosen tokens come back.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from dragoman.array_types import Bool, Int, SourceFeatures
from dragoman.data.datasets.source_token_features import Starts, build_source_features, word_start_mask
from dragoman.data.readers.conllu import Heads
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.forced_decoding import score_outputs, score_tokens
from dragoman.decoding.greedy_search import NextTokens
from dragoman.decoding.hypothesis import Hypothesis, build_hypothesis
from dragoman.decoding.sampling import SamplingStep, sample_next
from dragoman.decoding.torch_logits_operations import TorchOperations, top_k_tokens
from dragoman.inference.backends.protocol import Shortlists, TokenIds
from dragoman.inference.length_batches import run_in_batches
from dragoman.models.protocols import TopK, needs_source_features, source_arguments
from dragoman.models.special_symbols import EOS, PAD


@contextmanager
def inference_mode(model: object) -> Iterator[None]:
    """Disable gradients and dropout; a model in training mode returns to it afterwards."""
    module = model if isinstance(model, nn.Module) and model.training else None
    with torch.inference_mode():
        if module is not None:
            module.eval()
        try:
            yield
        finally:
            if module is not None:
                module.train()


def pad_batch(
    rows: Sequence[Sequence[int]], *, device: torch.device
) -> tuple[Int[Tensor, "batch places"], Int[Tensor, " batch"]]:
    """Return ids padded at the end, and their lengths."""
    ids = [torch.tensor(row, dtype=torch.long) for row in rows]
    padded = pad_sequence(ids, batch_first=True, padding_value=PAD)
    return padded.to(device), torch.tensor([len(row) for row in rows], device=device)


def predict_probabilities(
    model: Any, rows: Sequence[Sequence[int]], *, device: torch.device, batch_tokens: int
) -> list[Tensor]:
    """Return the probabilities of the labels for each row of ids, in double precision on the CPU.

    The model is a `ModelWithHead`; with labels for each token, a row has positions and padding.
    """

    def run(batch: list[int]) -> Tensor:
        logits: Tensor = model(*pad_batch([rows[row] for row in batch], device=device))
        return logits.cpu().double().softmax(dim=-1)

    with inference_mode(model):
        return run_in_batches([len(row) for row in rows], run, batch_tokens=batch_tokens)


@final
@dataclass(frozen=True)
class DeviceMemory:
    """Memory of a model on its device, with rows addressed by numpy arrays."""

    memory: Any
    device: torch.device
    allowed: Bool[Tensor, "batch vocabulary"] | None = None
    """Shortlist of each sentence; None allows all tokens."""

    @torch.inference_mode()
    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        kept = _to_device(self.device, rows)
        return type(self)(self.memory.select(kept), self.device, None if self.allowed is None else self.allowed[kept])

    @torch.inference_mode()
    def concat(self, other: Self) -> Self:
        both = None
        if self.allowed is not None:
            assert other.allowed is not None, "all sentences have a shortlist, or none has"
            both = torch.cat([self.allowed, other.allowed])
        return type(self)(self.memory.concat(other.memory), self.device, both)


@final
@dataclass(frozen=True)
class DeviceState:
    """State of a model on its device, with rows addressed by numpy arrays."""

    state: Any
    device: torch.device

    @torch.inference_mode()
    def reorder(self, parents: Int[np.ndarray, "batch beam"]) -> Self:
        return type(self)(self.state.reorder(_to_device(self.device, parents)), self.device)

    @torch.inference_mode()
    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        return type(self)(self.state.select(_to_device(self.device, rows)), self.device)

    @torch.inference_mode()
    def concat(self, other: Self) -> Self:
        return type(self)(self.state.concat(other.state), self.device)


@final
class TorchBackend:
    """Model of PyTorch; implements `InferenceBackend`."""

    continuous_batching = False

    def __init__(
        self,
        model: Any,
        *,
        device: torch.device | str = "cpu",
        tokenizer: Tokenizer | None = None,
        decoder_only: bool = False,
    ) -> None:
        """The model, an `EncoderDecoder` or a `DecoderOnly`, is on `device` already.

        Source features and shortlists need the tokenizer.
        """
        self.device = torch.device(device)
        self._model = model
        self._tokenizer = tokenizer
        self._decoder_only = decoder_only

    @property
    def max_length(self) -> int | None:
        longest: int | None = getattr(self._model, "max_length", None)
        return longest

    @property
    def needs_source_features(self) -> bool:
        return needs_source_features(self._model)

    def inference_mode(self) -> AbstractContextManager[None]:
        return inference_mode(self._model)

    def encode(
        self, sources: Sequence[TokenIds], source_features: Sequence[Heads] = (), shortlists: Shortlists | None = None
    ) -> DeviceMemory:
        features = source_arguments(self._model, self.build_features(sources, source_features))
        memory = self._model.encode(*self._pad(sources), **features)
        return DeviceMemory(memory, self.device, None if shortlists is None else self._allowed(shortlists))

    @torch.inference_mode()
    def start(self, memory: DeviceMemory, *, beam_size: int) -> DeviceState:
        return DeviceState(self._model.start(memory.memory, beam_size=beam_size), self.device)

    @torch.inference_mode()
    def top_k(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: DeviceMemory,
        state: DeviceState,
        *,
        k: int,
        suppress_tokens: Sequence[int] = (),
    ) -> TopK[DeviceState]:
        logits, after = self._step(tokens, memory, state)
        log_probs, best = top_k_tokens(logits, k=k, suppress_tokens=suppress_tokens)
        return log_probs, best, after

    @torch.inference_mode()
    def sample(
        self, tokens: Int[np.ndarray, "batch 1"], memory: DeviceMemory, state: DeviceState, *, step: SamplingStep
    ) -> NextTokens[DeviceState]:
        logits, after = self._step(tokens, memory, state)
        sampled, log_probs = sample_next(logits[:, 0], step, TorchOperations)
        return sampled.cpu().numpy(), log_probs.cpu().numpy(), after

    def score(
        self,
        sources: Sequence[TokenIds],
        targets: Sequence[TokenIds],
        *,
        penalty: LengthPenalty,
        source_features: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        if self._decoder_only:
            return self._score_continuations(sources, targets, penalty)
        features = self.build_features(sources, source_features)
        outputs = [target[:-1] for target in targets]
        return score_outputs(
            self._model, *self._pad(sources), outputs=outputs, penalty=penalty, source_features=features
        )

    def build_features(self, sources: Sequence[TokenIds], heads: Sequence[Heads]) -> SourceFeatures | None:
        """Return the features of sources, given without end symbols, from the dependency heads of their words."""
        return build_source_features(sources, heads, self._word_starts).to(self.device) if heads else None

    def _step(self, tokens: Int[np.ndarray, "batch beam"], memory: DeviceMemory, state: DeviceState) -> Any:
        """Return the logits, minus infinity for tokens outside the shortlists, and the next state."""
        logits, after = self._model.step(_to_device(self.device, tokens), memory.memory, state.state)
        if memory.allowed is not None:
            logits = logits.masked_fill(~memory.allowed[:, None], -math.inf)
        return logits, DeviceState(after, self.device)

    def _score_continuations(
        self, prompts: Sequence[TokenIds], targets: Sequence[TokenIds], penalty: LengthPenalty
    ) -> list[Hypothesis]:
        pairs = list(zip(prompts, targets, strict=True))
        tokens, _ = pad_batch([[*prompt, *target[:-1]] for prompt, target in pairs], device=self.device)
        expected, _ = pad_batch(
            [[PAD] * (len(prompt) - 1) + list(target) for prompt, target in pairs], device=self.device
        )
        scored = score_tokens(self._model, tokens, expected).tolist()
        return [
            build_hypothesis(list(zip(target, row[len(prompt) - 1 :], strict=False)), penalty)
            for (prompt, target), row in zip(pairs, scored, strict=True)
        ]

    def _allowed(self, shortlists: Shortlists) -> Bool[Tensor, "batch vocabulary"]:
        """Return a mask of the allowed tokens of each sentence."""
        assert self._tokenizer is not None, "shortlists need the tokenizer"
        allowed = torch.zeros(len(shortlists), len(self._tokenizer.target), dtype=torch.bool)
        for row, tokens in zip(allowed, shortlists, strict=True):
            row[torch.from_numpy(tokens).long()] = True
        return allowed.to(self.device)

    def _pad(self, sources: Sequence[TokenIds]) -> tuple[Tensor, Tensor]:
        """Return the padded sources, with end symbols for an encoder, and their lengths."""
        rows = sources if self._decoder_only else [[*ids, EOS] for ids in sources]
        return pad_batch(rows, device=self.device)

    @cached_property
    def _word_starts(self) -> Starts:
        assert self._tokenizer is not None, "source features need the tokenizer"
        return word_start_mask(self._tokenizer.source)


def _to_device(device: torch.device, numbers: Int[np.ndarray, "*places"]) -> Int[Tensor, "*places"]:
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(device, torch.long)
