"""PyTorch backends, and how they pad batches and switch models to inference."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from dragoman.data.datasets.source_features import Starts, build_source_features, word_start_mask
from dragoman.data.readers.conllu import Heads
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.scoring import score_outputs, score_tokens
from dragoman.decoding.torch_stepper import DeviceMemory, DeviceState, TorchStepper
from dragoman.inference.backends.protocol import Ids, Shortlists
from dragoman.models.protocols import (
    Backend,
    DecoderOnly,
    EncoderDecoder,
    PromptDecoder,
    TopK,
    needs_source_features,
    source_arguments,
)
from dragoman.models.special_symbols import EOS, PAD
from dragoman.typing import Bool, Float, Int, SourceFeatures


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


@final
class TorchBackend:
    """Encoder-decoder model of PyTorch; implements `Seq2SeqBackend`."""

    continuous_batching = False

    def __init__(
        self,
        model: EncoderDecoder[Any, Any],
        source_tokenizer: LanguageTokenizer,
        *,
        target_vocabulary: int,
        device: torch.device | str,
    ) -> None:
        """The model is on `device` already."""
        self.device = torch.device(device)
        self._model = model
        self._source_tokenizer = source_tokenizer
        self._target_vocabulary = target_vocabulary
        self._stepper = TorchStepper(model)

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
        self, sources: Sequence[Ids], source_features: Sequence[Heads] = (), shortlists: Shortlists | None = None
    ) -> DeviceMemory[Any]:
        features = source_arguments(self._model, self.build_features(sources, source_features))
        memory = self._model.encode(*self._pad(sources), **features)
        return TorchStepper.wrap_memory(memory, allowed=None if shortlists is None else self._allowed(shortlists))

    def start(self, memory: DeviceMemory[Any], *, beam_size: int) -> DeviceState[Any]:
        return self._stepper.start(memory, beam_size=beam_size)

    def top_k(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: DeviceMemory[Any],
        state: DeviceState[Any],
        *,
        k: int,
        suppress_tokens: Sequence[int] = (),
    ) -> TopK[DeviceState[Any]]:
        return self._stepper.top_k(tokens, memory, state, k=k, suppress_tokens=suppress_tokens)

    def score(
        self,
        sources: Sequence[Ids],
        outputs: Sequence[Ids],
        *,
        penalty: LengthPenalty,
        source_features: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        features = self.build_features(sources, source_features)
        return score_outputs(
            self._model, *self._pad(sources), outputs=outputs, penalty=penalty, source_features=features
        )

    def build_features(self, sources: Sequence[Ids], heads: Sequence[Heads]) -> SourceFeatures | None:
        """Return the features of sources, given without end symbols, from the dependency heads of their words."""
        return build_source_features(sources, heads, self._word_starts).to(self.device) if heads else None

    def _allowed(self, shortlists: Shortlists) -> Bool[Tensor, "batch vocabulary"]:
        """Return a mask of the allowed tokens of each sentence."""
        allowed = torch.zeros(len(shortlists), self._target_vocabulary, dtype=torch.bool)
        for row, tokens in zip(allowed, shortlists, strict=True):
            row[torch.from_numpy(tokens).long()] = True
        return allowed.to(self.device)

    def _pad(self, sources: Sequence[Ids]) -> tuple[Tensor, Tensor]:
        """Return the padded sources with their end symbols, and their lengths."""
        return pad_batch([[*ids, EOS] for ids in sources], device=self.device)

    @cached_property
    def _word_starts(self) -> Starts:
        return word_start_mask(self._source_tokenizer)


@runtime_checkable
class DecoderOnlyBackend(Protocol):
    """Backend of a decoder-only model: sampling, search and scoring."""

    @property
    def device(self) -> torch.device:
        """Device of its logits."""
        ...

    @property
    def decoder(self) -> PromptDecoder[Any, Any]:
        """The model to sample from, with logits as tensors."""
        ...

    def inference_mode(self) -> AbstractContextManager[None]:
        """Disable gradients and dropout inside the context."""
        ...

    def encode_prompts(self, prompts: Sequence[Ids]) -> tuple[Backend[Any, Any], Any]:
        """Return the interface for search and its memory of the prompts."""
        ...

    def score_tokens(
        self, tokens: Int[Tensor, "batch places"], expected: Int[Tensor, "batch places"]
    ) -> Float[Tensor, "batch places"]:
        """Return the log-probability of each expected token, 0 at padding."""
        ...


@final
class TorchDecoderOnlyBackend:
    """Decoder-only model of PyTorch; implements `DecoderOnlyBackend`."""

    def __init__(self, model: DecoderOnly[Any, Any], *, device: torch.device | str) -> None:
        """The model is on `device` already."""
        self.device = torch.device(device)
        self.decoder = model

    def inference_mode(self) -> AbstractContextManager[None]:
        return inference_mode(self.decoder)

    def encode_prompts(self, prompts: Sequence[Ids]) -> tuple[Backend[Any, Any], Any]:
        stepper = TorchStepper(self.decoder)
        return stepper, stepper.wrap_memory(self.decoder.encode(*pad_batch(prompts, device=self.device)))

    def score_tokens(
        self, tokens: Int[Tensor, "batch places"], expected: Int[Tensor, "batch places"]
    ) -> Float[Tensor, "batch places"]:
        return score_tokens(self.decoder, tokens, expected)
