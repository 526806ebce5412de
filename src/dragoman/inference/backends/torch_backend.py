"""PyTorch backend, and how it switches models to inference.

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

from dragoman.array_types import Bool, Float, Int, SourceFeatures
from dragoman.data.datasets.source_token_features import Starts, build_source_features, word_start_mask
from dragoman.data.readers.conllu import Heads
from dragoman.data.shortlist import Shortlist
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.forced_decoding import pad_batch, score_outputs, score_tokens
from dragoman.decoding.greedy_search import NextTokens
from dragoman.decoding.hypothesis import Hypothesis, build_hypothesis
from dragoman.decoding.sampling import SamplingStep, sample_next
from dragoman.decoding.torch_logits_operations import TorchOperations, top_k_tokens
from dragoman.inference.backends.protocol import Sources, TokenIds
from dragoman.inference.backends.torch_alignment import align_pairs
from dragoman.inference.concurrent_calls import hand_over
from dragoman.models.alignment_head import AlignmentHead, no_alignment_error
from dragoman.models.protocols import LastTokens, TopK, needs_source_features, source_arguments
from dragoman.models.special_symbols import BOS, EOS, PAD

TURN_TOKENS = 512
"""Tokens, padding included, that a CPU scores at once, so that other calls wait for fractions of a second."""

ALIGNED_PAIRS = 16
"""Pairs of sentences that are aligned in one pass."""


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


@final
@dataclass(frozen=True)
class OnDevice:
    """Memory or state of a model on its device, with rows addressed by NumPy arrays."""

    part: Any
    device: torch.device
    allowed: Bool[Tensor, "batch vocabulary"] | None = None
    """Shortlist of each sentence, next to its memory; None allows all tokens."""

    @torch.inference_mode()
    def reorder(self, parents: Int[np.ndarray, "batch beam"]) -> Self:
        return type(self)(self.part.reorder(_to_device(self.device, parents)), self.device)

    @torch.inference_mode()
    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        kept = _to_device(self.device, rows)
        return type(self)(self.part.select(kept), self.device, None if self.allowed is None else self.allowed[kept])

    @torch.inference_mode()
    def concat(self, other: Self) -> Self:
        both = None
        if self.allowed is not None:
            assert other.allowed is not None, "all sentences have a shortlist, or none has"
            both = torch.cat([self.allowed, other.allowed])
        return type(self)(self.part.concat(other.part), self.device, both)


@final
class TorchBackend:
    """Model of PyTorch; implements `InferenceBackend`."""

    continuous_batching = False
    shortlist: Shortlist | None = None

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
        self.max_length: int | None = getattr(model, "max_length", None)
        self.needs_source_features = needs_source_features(model)
        self._model = model
        self._tokenizer = tokenizer
        self._decoder_only = decoder_only

    def inference_mode(self) -> AbstractContextManager[None]:
        return inference_mode(self._model)

    def encode(self, sources: Sources, source_features: Sequence[Heads] = (), *, needed: Sources = ()) -> OnDevice:
        features = source_arguments(self._model, self.build_features(sources, source_features))
        memory = self._model.encode(*self._pad(sources), **features)
        allowed = None if self.shortlist is None else self._allowed(self.shortlist.tokens_for_each(sources, needed))
        return OnDevice(memory, self.device, allowed)

    @torch.inference_mode()
    def start(self, memory: OnDevice, *, beam_size: int) -> OnDevice:
        return OnDevice(self._model.start(memory.part, beam_size=beam_size), self.device)

    @torch.inference_mode()
    def top_k(
        self,
        tokens: LastTokens,
        memory: OnDevice,
        state: OnDevice,
        *,
        k: int,
        suppress_tokens: TokenIds = (),
        extra_tokens: TokenIds = (),
    ) -> TopK[OnDevice]:
        logits, after = self._step(tokens, memory, state)
        return *top_k_tokens(logits, k=k, suppress_tokens=suppress_tokens, extra_tokens=extra_tokens), after

    @torch.inference_mode()
    def sample(
        self, tokens: LastTokens, memory: OnDevice, state: OnDevice, *, step: SamplingStep
    ) -> NextTokens[OnDevice]:
        logits, after = self._step(tokens, memory, state)
        sampled, log_probs = sample_next(logits[:, 0], step, TorchOperations)
        return sampled.cpu().numpy(), log_probs.cpu().numpy(), after

    def score(
        self, sources: Sources, targets: Sources, *, penalty: LengthPenalty, source_features: Sequence[Heads] = ()
    ) -> list[Hypothesis]:
        longest = max(map(len, (*sources, *targets)), default=0) + 1
        count = max(1, TURN_TOKENS // longest) if self.device.type == "cpu" else len(sources)
        found: list[Hypothesis] = []
        for first in range(0, len(sources), count):
            hand_over()
            rows = slice(first, first + count)
            found += self._score_rows(sources[rows], targets[rows], penalty, source_features[rows])
        return found

    def _score_rows(
        self, sources: Sources, targets: Sources, penalty: LengthPenalty, source_features: Sequence[Heads]
    ) -> list[Hypothesis]:
        if self._decoder_only:
            return self._score_continuations(sources, targets, penalty)
        features = self.build_features(sources, source_features)
        outputs = [target[:-1] for target in targets]
        return score_outputs(
            self._model, *self._pad(sources), outputs=outputs, penalty=penalty, source_features=features
        )

    def align(
        self,
        sources: Sources,
        targets: Sources,
        *,
        head: AlignmentHead | None = None,
        source_features: Sequence[Heads] = (),
    ) -> list[Float[np.ndarray, "target source"]]:
        if self._decoder_only:
            raise no_alignment_error()
        found: list[np.ndarray] = []
        for first in range(0, len(sources), ALIGNED_PAIRS):
            hand_over()
            rows = slice(first, first + ALIGNED_PAIRS)
            inputs, _ = pad_batch([[BOS, *target] for target in targets[rows]], device=self.device)
            features = self.build_features(sources[rows], source_features[rows])
            pairs = zip(targets[rows], sources[rows], strict=True)
            sizes = [(len(target) + 1, len(source) + 1) for target, source in pairs]
            found += align_pairs(
                self._model, *self._pad(sources[rows]), inputs, sizes=sizes, head=head, features=features
            )
        return found

    def build_features(self, sources: Sources, heads: Sequence[Heads]) -> SourceFeatures | None:
        """Return the features of sources, given without end symbols, from the dependency heads of their words."""
        return build_source_features(sources, heads, self._word_starts).to(self.device) if heads else None

    def _step(self, tokens: LastTokens, memory: OnDevice, state: OnDevice) -> Any:
        """Return the logits, minus infinity for tokens outside the shortlists, and the next state."""
        logits, after = self._model.step(_to_device(self.device, tokens), memory.part, state.part)
        if memory.allowed is not None:
            logits = logits.masked_fill(~memory.allowed[:, None], -math.inf)
        return logits, OnDevice(after, self.device)

    def _score_continuations(self, prompts: Sources, targets: Sources, penalty: LengthPenalty) -> list[Hypothesis]:
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

    def _allowed(self, shortlists: Sequence[np.ndarray]) -> Bool[Tensor, "batch vocabulary"]:
        """Return a mask of the allowed tokens of each sentence."""
        assert self._tokenizer is not None, "shortlists need the tokenizer"
        allowed = torch.zeros(len(shortlists), len(self._tokenizer.target), dtype=torch.bool)
        for row, tokens in zip(allowed, shortlists, strict=True):
            row[torch.from_numpy(tokens).long()] = True
        return allowed.to(self.device)

    def _pad(self, sources: Sources) -> tuple[Tensor, Tensor]:
        """Return the padded sources, with end symbols for an encoder, and their lengths."""
        rows = sources if self._decoder_only else [[*ids, EOS] for ids in sources]
        return pad_batch(rows, device=self.device)

    @cached_property
    def _word_starts(self) -> Starts:
        assert self._tokenizer is not None, "source features need the tokenizer"
        return word_start_mask(self._tokenizer.source)


def _to_device(device: torch.device, numbers: Int[np.ndarray, "*places"]) -> Int[Tensor, "*places"]:
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(device, torch.long)
