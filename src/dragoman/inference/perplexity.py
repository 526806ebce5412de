"""Scores and perplexity of texts under a decoder-only model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.scoring import ScoringWindow, scoring_windows
from dragoman.evaluation import perplexity
from dragoman.inference.backends.torch_backend import DecoderOnlyBackend, pad_batch
from dragoman.inference.batching import batch_by_length
from dragoman.models.special_symbols import EOS, PAD


@final
@dataclass(frozen=True, slots=True)
class Perplexity:
    """Cost of predicting texts; end symbols count as tokens, begin symbols do not."""

    nats: float
    """Negative log-probability (natural logarithm) of all tokens."""
    tokens: int
    bytes: int
    """UTF-8 bytes of the normalized texts, which do not depend on the subwords."""

    @property
    def nats_per_token(self) -> float:
        """Cross-entropy, equal to the validation loss without label smoothing."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """Exponential of the cross-entropy; infinite beyond 1e304."""
        return perplexity(self.nats_per_token)

    @property
    def bits_per_byte(self) -> float:
        """Cost per byte in bits; infinite where the texts are empty."""
        return self.nats / math.log(2) / self.bytes if self.bytes else math.inf


@final
@dataclass(frozen=True)
class ScoringText:
    """Text to score: its tokens, and the token expected after each of them, padding where none is scored."""

    tokens: Sequence[int]
    expected: Sequence[int]


def score_texts(
    backend: DecoderOnlyBackend, texts: Sequence[ScoringText], *, context: int, overlap: int, batch_tokens: int
) -> list[Hypothesis]:
    """Score each text as an output, with the log-probability of each expected token; the score is their mean."""
    windows = [(row, window) for row, text in enumerate(texts) for window in _windows(text, context, overlap)]
    log_probs: dict[tuple[int, int], list[float]] = {}
    for indices in batch_by_length([one.end - one.begin for _, one in windows], batch_tokens=batch_tokens):
        chosen = [windows[index] for index in indices]
        tokens, _ = pad_batch([texts[row].tokens[one.begin : one.end] for row, one in chosen], device=backend.device)
        expected, _ = pad_batch([_expected(texts[row], one) for row, one in chosen], device=backend.device)
        scored = backend.score_tokens(tokens, expected).tolist()
        for (row, one), line, wanted in zip(chosen, scored, expected.tolist(), strict=True):
            log_probs[row, one.begin] = [number for number, token in zip(line, wanted, strict=True) if token != PAD]
    found: list[list[float]] = [[] for _ in texts]
    for row, begin in sorted(log_probs):
        found[row] += log_probs[row, begin]
    return [_hypothesis(text, numbers) for text, numbers in zip(texts, found, strict=True)]


def _windows(text: ScoringText, context: int, overlap: int) -> list[ScoringWindow]:
    """Return the windows in which a token is scored."""
    windows = scoring_windows(len(text.tokens), context=context, overlap=overlap)
    return [one for one in windows if any(token != PAD for token in text.expected[one.scored : one.end])]


def _expected(text: ScoringText, window: ScoringWindow) -> list[int]:
    return [PAD] * (window.scored - window.begin) + list(text.expected[window.scored : window.end])


def _hypothesis(text: ScoringText, log_probs: list[float]) -> Hypothesis:
    tokens = tuple(token for token in text.expected if token not in (PAD, EOS))
    total = math.fsum(log_probs)
    return Hypothesis(tokens, total, total / len(log_probs), tuple(log_probs), finished=True)
