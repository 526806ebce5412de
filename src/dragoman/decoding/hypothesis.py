"""Decoded output of one source, and what precedes an output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.constraints.phrase_automaton import PhraseAutomaton
from dragoman.decoding.length_penalty import hypothesis_score
from dragoman.models.special_symbols import BOS, EOS

TokenAlternatives = tuple[tuple[int, float], ...]
"""Most probable tokens of a step with their log-probabilities, best first."""
TokenObserver = Callable[[int, float, TokenAlternatives], bool]
"""Receives each token of an output, its log-probability and its alternatives; returns whether the output is complete.

The end symbol is not among the tokens.
"""


@dataclass(frozen=True, slots=True)
class OutputStart:
    """Tokens before an output; sampling uses the other fields, too."""

    token: int = BOS
    """Token before the output, which is not part of it."""
    context: tuple[int, ...] = ()
    """Earlier tokens for the filters that look back."""
    key: tuple[int, int] = (0, 0)
    """Two numbers that, with the seed, determine the random numbers of the output: those of prompt and sample."""
    seed: int | None = None
    """Seed in place of that of the configuration, so that outputs with different seeds take their steps together."""
    observe: Callable[[], TokenObserver] | None = None
    """Build the observer of the output; called again where the output is started again."""
    forced: tuple[int, ...] = ()
    """Tokens that the output begins with, such as the tag of its language; their log-probabilities are 0."""
    alternatives: int = 0
    """Most probable tokens that are recorded with each token."""
    constraints: PhraseAutomaton | None = None
    """Phrases that the output must have or not; only beam search meets them."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Output ids without begin and end symbol, with their log-probabilities.

    `log_prob` is the sum of `token_log_probs` (natural logarithm), whose last entry belongs to the end symbol where the
    hypothesis is `finished`. `score` is `log_prob` after the length penalty, less the bonuses of preferred phrases that
    are missing. A hypothesis that is not `finished` was cut off at its length limit.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    token_log_probs: tuple[float, ...]
    finished: bool
    alternatives: tuple[TokenAlternatives, ...] = ()
    """For each log-probability, the most probable tokens, where they were recorded."""

    @property
    def length(self) -> int:
        """Number of generated tokens, end symbol included: the length of the length penalty."""
        return len(self.token_log_probs)

    def to_dict(self) -> dict[str, Any]:
        """Return the record of `dragoman score --format jsonl`, without the line number; `tokens` is the length."""
        return {
            "log_prob": self.log_prob,
            "score": self.score,
            "tokens": self.length,
            "token_log_probs": list(self.token_log_probs),
        }


def without_forced(hypothesis: Hypothesis, count: int, penalty: LengthPenalty) -> Hypothesis:
    """Return a scored hypothesis with log-probabilities of 0 for its first `count` tokens, which a search forces."""
    if not count:
        return hypothesis
    tokens = (*hypothesis.tokens, EOS) if hypothesis.finished else hypothesis.tokens
    log_probs = (0.0,) * count + hypothesis.token_log_probs[count:]
    return build_hypothesis(list(zip(tokens, log_probs, strict=True)), penalty)


def without_first(hypothesis: Hypothesis, count: int, penalty: LengthPenalty) -> Hypothesis:
    """Return a hypothesis without its first `count` tokens, and with the score of the others."""
    if not count:
        return hypothesis
    tokens = (*hypothesis.tokens, EOS) if hypothesis.finished else hypothesis.tokens
    output = list(zip(tokens, hypothesis.token_log_probs, strict=True))[count:]
    return build_hypothesis(output, penalty, alternatives=hypothesis.alternatives[count:])


def build_hypothesis(
    output: Sequence[tuple[int, float]],
    penalty: LengthPenalty,
    *,
    adds_end: bool = False,
    alternatives: Sequence[TokenAlternatives] = (),
) -> Hypothesis:
    """Build a hypothesis from its tokens and their log-probabilities, end symbol included.

    With `adds_end`, the length in its score counts one more, an end symbol that costs nothing.
    """
    tokens = [token for token, _ in output]
    log_probs = [log_prob for _, log_prob in output]
    finished = bool(tokens) and tokens[-1] == EOS
    log_prob = float(np.array(log_probs, dtype=np.float32).sum())
    return Hypothesis(
        tokens=tuple(tokens[:-1] if finished else tokens),
        log_prob=log_prob,
        score=hypothesis_score(log_prob, len(tokens) + int(adds_end), penalty),
        token_log_probs=tuple(log_probs),
        finished=finished,
        alternatives=tuple(alternatives[: len(tokens)]),
    )
