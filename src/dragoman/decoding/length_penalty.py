"""How outputs of different length are made comparable, and how good an open one may still become."""

from typing import assert_never

import numpy as np

from dragoman.decoding.config import Average, Gnmt, Normalisation, Raw
from dragoman.typing import Float, Int


def penalty(lengths: Int[np.ndarray, "*places"], normalisation: Normalisation) -> Float[np.ndarray, "*places"]:
    """What a log-probability is divided by; `lengths` count generated tokens and the end symbol."""
    numbers = np.maximum(lengths, 1).astype(np.float32)
    match normalisation:
        case Average(alpha=alpha):
            return numbers**alpha
        case Gnmt(alpha=alpha):
            return ((5 + numbers) / 6) ** alpha
        case Raw():
            return np.ones_like(numbers)
        case _:
            assert_never(normalisation)


def normalised(
    log_probs: Float[np.ndarray, "*places"], lengths: Int[np.ndarray, "*places"], normalisation: Normalisation
) -> Float[np.ndarray, "*places"]:
    """The scores that hypotheses are ranked by."""
    return log_probs / penalty(lengths, normalisation)


def attainable(
    log_probs: Float[np.ndarray, " batch"],
    *,
    shortest: Int[np.ndarray, " batch"],
    longest: Int[np.ndarray, " batch"],
    normalisation: Normalisation,
) -> Float[np.ndarray, " batch"]:
    """The best score that an open hypothesis can still reach when it ends at a length from `shortest` to `longest`.

    Its log-probability cannot rise, and every penalty is monotone in the length: rising with a positive alpha, so that
    the longest end is the best one, and falling with a negative alpha, so that it is the shortest.
    """
    return np.maximum(normalised(log_probs, shortest, normalisation), normalised(log_probs, longest, normalisation))


def score_of(log_prob: float, length: int, normalisation: Normalisation) -> float:
    """The score of one hypothesis."""
    return float(normalised(np.array([log_prob], dtype=np.float32), np.array([length]), normalisation)[0])
