"""Length penalties: comparable scores for outputs of different lengths."""

from typing import assert_never

import numpy as np

from dragoman.array_types import Float, Int
from dragoman.decoding.config import LengthPenalty


def length_divisor(lengths: Int[np.ndarray, "*places"], penalty: LengthPenalty) -> Float[np.ndarray, "*places"]:
    """Return the divisor of each log-probability; `lengths` count generated tokens and the end symbol."""
    numbers = np.maximum(lengths, 1).astype(np.float32)
    match penalty.kind:
        case "average":
            return numbers**penalty.alpha
        case "gnmt":
            return ((5 + numbers) / 6) ** penalty.alpha
        case "none":
            return np.ones_like(numbers)
        case _:
            assert_never(penalty.kind)


def normalize_by_length(
    log_probs: Float[np.ndarray, "*places"], lengths: Int[np.ndarray, "*places"], penalty: LengthPenalty
) -> Float[np.ndarray, "*places"]:
    """Return the scores that rank hypotheses."""
    return log_probs / length_divisor(lengths, penalty)


def best_possible_score(
    log_probs: Float[np.ndarray, " batch"],
    *,
    shortest: Int[np.ndarray, " batch"],
    longest: Int[np.ndarray, " batch"],
    penalty: LengthPenalty,
) -> Float[np.ndarray, " batch"]:
    """Return an upper bound on the score of an open hypothesis that ends between `shortest` and `longest`.

    Its log-probability cannot rise, and every penalty is monotone in the length: with a positive alpha the longest
    output has the best score, with a negative alpha the shortest.
    """
    return np.maximum(
        normalize_by_length(log_probs, shortest, penalty), normalize_by_length(log_probs, longest, penalty)
    )


def hypothesis_score(log_prob: float, length: int, penalty: LengthPenalty) -> float:
    """Return the score of one hypothesis."""
    return float(normalize_by_length(np.array([log_prob], dtype=np.float32), np.array([length]), penalty)[0])
