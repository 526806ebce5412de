"""The best spans of a text under the probabilities of where an answer begins and where it ends."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.typing import Bool, Float


class Found(NamedTuple):
    """The first and the last place of a span, and the sum of the two log-probabilities."""

    start: int
    end: int
    score: float


def best_spans(
    starts: Float[Tensor, "windows places"],
    ends: Float[Tensor, "windows places"],
    allowed: Bool[Tensor, "windows places"],
    *,
    longest: int,
    count: int,
) -> list[list[Found]]:
    """The `count` best spans of each window, best first, or all there are; of equals the first and shortest leads.

    A span begins and ends at allowed places, in this order, and has `longest` places at most.
    """
    impossible = -torch.inf
    begins = starts.masked_fill(~allowed, impossible)
    last = F.pad(ends.masked_fill(~allowed, impossible), (0, longest - 1), value=impossible)
    scores = begins[:, :, None] + last.unfold(1, longest, 1)  # by window, first place, and places after it
    ranked = scores.flatten(1).sort(dim=1, descending=True, stable=True)
    found = []
    for values, places in zip(ranked.values[:, :count].tolist(), ranked.indices[:, :count].tolist(), strict=True):
        spans = [
            Found(place // longest, place // longest + place % longest, value)
            for value, place in zip(values, places, strict=True)
        ]
        found.append([span for span in spans if span.score > impossible])
    return found
