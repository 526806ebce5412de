"""How outputs of different length are made comparable, and how good an open one may still become."""

from typing import assert_never

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.config import Average, Gnmt, Normalisation, Raw


def penalty(lengths: Int[Tensor, "*places"], normalisation: Normalisation) -> Float[Tensor, "*places"]:
    """What a log-probability is divided by; `lengths` count generated tokens and the end symbol."""
    numbers = lengths.clamp(min=1).float()
    match normalisation:
        case Average(alpha=alpha):
            return numbers**alpha
        case Gnmt(alpha=alpha):
            return ((5 + numbers) / 6) ** alpha
        case Raw():
            return torch.ones_like(numbers)
        case _:
            assert_never(normalisation)


def normalised(
    log_probs: Float[Tensor, "*places"], lengths: Int[Tensor, "*places"], normalisation: Normalisation
) -> Float[Tensor, "*places"]:
    """The scores that hypotheses are ranked by."""
    return log_probs / penalty(lengths, normalisation)


def attainable(
    log_probs: Float[Tensor, " batch"],
    *,
    shortest: Int[Tensor, " batch"],
    longest: Int[Tensor, " batch"],
    normalisation: Normalisation,
) -> Float[Tensor, " batch"]:
    """The best score that an open hypothesis can still reach when it ends at a length from `shortest` to `longest`.

    Its log-probability cannot rise, and every penalty is monotone in the length: rising with a positive alpha, so that
    the longest end is the best one, and falling with a negative alpha, so that it is the shortest.
    """
    return torch.maximum(normalised(log_probs, shortest, normalisation), normalised(log_probs, longest, normalisation))
