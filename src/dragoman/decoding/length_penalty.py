"""Length penalties: comparable scores for outputs of different lengths."""

from typing import assert_never

import numpy as np

from dragoman.array_types import Float, Int
from dragoman.decoding.config import LengthPenalty


def length_divisor(lengths: Int[np.ndarray, "*places"], penalty: LengthPenalty) -> Float[np.ndarray, "*places"]:
    """Return the divisor of each log-probability; `lengths` count generated tokens and the end symbol.

    In float64, because long outputs with a large exponent have divisors beyond float32.
    """
    numbers = np.maximum(lengths, 1).astype(np.float64)
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
    """Return the scores that rank hypotheses; no score of a longer output is lower at an equal log-probability."""
    return log_probs / length_divisor(lengths, penalty)


def hypothesis_score(log_prob: float, length: int, penalty: LengthPenalty) -> float:
    """Return the score of one hypothesis."""
    return float(normalize_by_length(np.array([log_prob]), np.array([length]), penalty)[0])
