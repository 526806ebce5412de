"""Decoded output of one source."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.length_penalty import hypothesis_score
from dragoman.models.special_symbols import EOS


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Output ids without begin and end symbol, with their log-probabilities.

    `log_prob` is the sum of `token_log_probs` (natural logarithm), whose last entry belongs to the end symbol where the
    hypothesis is `finished`. `score` is `log_prob` after the length penalty. A hypothesis that is not `finished` was
    cut off at its length limit.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    token_log_probs: tuple[float, ...]
    finished: bool

    @property
    def length(self) -> int:
        """Number of generated tokens, end symbol included: the length of the length penalty."""
        return len(self.token_log_probs)


def build_hypothesis(output: Sequence[tuple[int, float]], penalty: LengthPenalty) -> Hypothesis:
    """Build a hypothesis from its tokens and their log-probabilities, end symbol included."""
    tokens = [token for token, _ in output]
    log_probs = [log_prob for _, log_prob in output]
    finished = bool(tokens) and tokens[-1] == EOS
    log_prob = float(np.array(log_probs, dtype=np.float32).sum())
    return Hypothesis(
        tokens=tuple(tokens[:-1] if finished else tokens),
        log_prob=log_prob,
        score=hypothesis_score(log_prob, len(tokens), penalty),
        token_log_probs=tuple(log_probs),
        finished=finished,
    )
