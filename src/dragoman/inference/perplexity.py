"""Scores and perplexity of texts under a decoder-only model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from dragoman.decoding.config import AVERAGE_LOG_PROB
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.errors import ConfigError
from dragoman.evaluation import perplexity
from dragoman.inference.backends.protocol import InferenceBackend
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


@dataclass(frozen=True, slots=True)
class ScoringWindow:
    """Positions `begin` to `end` of a text; those before `scored` are context only."""

    begin: int
    scored: int
    end: int


def scoring_windows(length: int, *, context: int, overlap: int = 0) -> list[ScoringWindow]:
    """Split a text of `length` positions into windows of at most `context`, so that each position is scored once.

    The first scored positions of a window see `overlap` positions before them: 0 is cheapest and gives the lowest
    scores, `context - 1` gives each position the full context, with one window per position. Raises ConfigError
    where the overlap leaves nothing to score.
    """
    if not 0 <= overlap < context:
        raise ConfigError(
            f"overlap = {overlap}: a window of {context} tokens can share 0 to {context - 1} tokens with the one before"
        )
    found: list[ScoringWindow] = []
    scored = 0
    while scored < length:
        begin = max(0, scored - overlap)
        end = min(begin + context, length)
        found.append(ScoringWindow(begin, scored, end))
        scored = end
    return found


def score_texts(
    backend: InferenceBackend[Any, Any], texts: Sequence[ScoringText], *, context: int, overlap: int, batch_tokens: int
) -> list[Hypothesis]:
    """Score each text as an output, with the log-probability of each expected token; the score is their mean."""
    windows = [(row, window) for row, text in enumerate(texts) for window in _windows(text, context, overlap)]
    log_probs: dict[tuple[int, int], Sequence[float]] = {}
    for indices in batch_by_length([one.end - one.begin for _, one in windows], batch_tokens=batch_tokens):
        chosen = [windows[index] for index in indices]
        pairs = [_prompt_and_target(texts[row], one) for row, one in chosen]
        prompts, targets = zip(*pairs, strict=True)
        scored = backend.score(prompts, targets, penalty=AVERAGE_LOG_PROB)
        log_probs |= {(row, one.begin): own.token_log_probs for (row, one), own in zip(chosen, scored, strict=True)}
    found: list[list[float]] = [[] for _ in texts]
    for row, begin in sorted(log_probs):
        found[row] += log_probs[row, begin]
    return [_hypothesis(text, numbers) for text, numbers in zip(texts, found, strict=True)]


def _windows(text: ScoringText, context: int, overlap: int) -> list[ScoringWindow]:
    """Return the windows in which a token is scored."""
    windows = scoring_windows(len(text.tokens), context=context, overlap=overlap)
    return [one for one in windows if any(token != PAD for token in text.expected[one.scored : one.end])]


def _prompt_and_target(text: ScoringText, window: ScoringWindow) -> tuple[Sequence[int], Sequence[int]]:
    """Return the tokens of a window up to the first that is scored, and the tokens that are scored."""
    begin = next(place for place in range(window.scored, window.end) if text.expected[place] != PAD)
    return text.tokens[window.begin : begin + 1], text.expected[begin : window.end]


def _hypothesis(text: ScoringText, log_probs: list[float]) -> Hypothesis:
    tokens = tuple(token for token in text.expected if token not in (PAD, EOS))
    total = math.fsum(log_probs)
    return Hypothesis(tokens, total, total / len(log_probs), tuple(log_probs), finished=True)
