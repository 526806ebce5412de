"""What is read off logits where they are, on any device."""

import math

import torch
from torch import Tensor

from dragoman.models.search_protocols import not_finite
from dragoman.shapes import StepLogits
from dragoman.typing import Float, Int

CACHED_ROWS = 64
"""Rows of logits that a CPU normalises at a time: what it writes on the way stays in its cache, twice as fast."""


def log_normaliser(logits: StepLogits) -> Float[Tensor, "batch beam"]:
    """log sum exp of the logits in 32 bits. Raises RunError when it is not finite."""
    normaliser = log_sum_exp(logits)
    if not bool(normaliser.isfinite().all()):
        raise not_finite()
    return normaliser


def log_sum_exp(logits: StepLogits) -> Float[Tensor, "batch beam"]:
    """log sum exp of the logits in 32 bits, whatever comes out."""
    rows = logits.flatten(0, 1)
    blocks = rows.split(CACHED_ROWS) if rows.device.type == "cpu" else (rows,)
    return torch.cat([block.float().logsumexp(dim=-1) for block in blocks]).view(logits.shape[:2])


def largest(
    values: Float[Tensor, "batch beam vocabulary"], count: int
) -> tuple[Float[Tensor, "batch beam count"], Int[Tensor, "batch beam count"]]:
    """The `count` largest values with their places (all, when there are fewer), in no certain order.

    Of values equal to the least taken one, those at lower places are taken; `torch.topk` leaves that open.
    """
    vocabulary = values.shape[-1]
    if count >= vocabulary:
        return values, torch.arange(vocabulary, device=values.device).expand_as(values)
    one_more, places = values.topk(count + 1)
    top, places = one_more[..., :count], places[..., :count]
    tied = (top[..., -1] == one_more[..., -1]) & (top[..., -1] > -math.inf)
    if bool(tied.any()):
        exact = values[tied].argsort(dim=-1, descending=True, stable=True)[:, :count]
        top[tied], places[tied] = values[tied].gather(1, exact), exact
    return top, places
