r"""What heads are like, in numbers, and what layers come to together.

Weights here are those of one sentence, without its padding: a row of weights is a query, and sums to one unless the
query may see nothing, in which case it counts for nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.interpret.recorder import Kind
from dragoman.typing import Bool, Float

Maps = Float[Tensor, "layers heads queries keys"]
OfHeads = Float[Tensor, "layers heads"]


@dataclass(frozen=True, slots=True)
class HeadStatistics:
    """One head on one sentence; each number is the mean over its queries."""

    kind: Kind
    layer: int
    head: int
    entropy: float
    """How widely it looks, in nats: 0 at one key, $\\ln n$ at $n$ keys alike."""
    distance: float | None
    """How many places away it looks; none where queries and keys are of two sequences."""
    on_punctuation: float
    """The share of its weights that lies on punctuation."""
    on_end: float
    """The share of its weights that lies on the end symbol."""


def head_statistics(
    kind: Kind, weights: Maps, *, punctuation: Bool[Tensor, " keys"], end: Bool[Tensor, " keys"]
) -> list[HeadStatistics]:
    """The statistics of all heads of a kind; `punctuation` and `end` say which keys are."""
    columns = [entropy(weights), distance(weights), share_on(weights, punctuation), share_on(weights, end)]
    return [
        HeadStatistics(kind, layer, head, wide, None if kind == "cross" else far, on_punctuation, on_end)
        for layer, rows in enumerate(zip(*(column.tolist() for column in columns), strict=True))
        for head, (wide, far, on_punctuation, on_end) in enumerate(zip(*rows, strict=True))
    ]


def entropy(weights: Maps) -> OfHeads:
    r"""$-\sum_j a_{ij} \ln a_{ij}$ in nats, the mean over queries."""
    return _mean_of_queries(torch.special.entr(weights).sum(dim=-1), weights)


def distance(weights: Maps) -> OfHeads:
    r"""$\sum_j a_{ij} \lvert i - j \rvert$ in places, the mean over queries."""
    queries, keys = weights.shape[2:]
    away = (torch.arange(keys) - torch.arange(queries)[:, None]).abs()
    return _mean_of_queries((weights * away).sum(dim=-1), weights)


def share_on(weights: Maps, keys: Bool[Tensor, " keys"]) -> OfHeads:
    """What part of the weights lies on these keys, the mean over queries."""
    return _mean_of_queries((weights * keys).sum(dim=-1), weights)


def rollout(weights: Maps) -> Float[Tensor, "layers queries keys"]:
    r"""How much of each token is in each place after every layer (Abnar and Zuidema, 2020, section 3).

    $\tilde A_l = \tfrac12 (\bar A_l + I)\,\tilde A_{l-1}$ with $\bar A_l$ the mean of the heads: half of what a layer
    hands on came by its attention, half by the residual connection beside it. For self-attention, where queries and
    keys are the same places.
    """
    places = weights.shape[3]
    mixed = torch.eye(places)
    layers = []
    for layer in mean_of_heads(weights):
        mixed = (layer + torch.eye(places)) / 2 @ mixed
        layers.append(mixed)
    return torch.stack(layers)


def mean_of_heads(weights: Maps) -> Float[Tensor, "layers queries keys"]:
    """The mean of the heads that a layer has; those that pruning took look at nothing."""
    there = (weights.sum(dim=(2, 3)) > 0).sum(dim=1).clamp(min=1)
    return weights.sum(dim=1) / there[:, None, None]


def is_punctuation(tokens: Sequence[str]) -> Bool[Tensor, " tokens"]:
    """Which readable tokens hold neither letter nor digit, special symbols (`<eos>`) aside."""
    return torch.tensor([not _special(token) and not any(map(str.isalnum, token)) for token in tokens])


def _special(token: str) -> bool:
    return len(token) > 2 and token[0] == "<" and token[-1] == ">"


def _mean_of_queries(numbers: Float[Tensor, "layers heads queries"], weights: Maps) -> OfHeads:
    """Over the queries that see anything."""
    seeing = weights.sum(dim=-1) > 0
    return (numbers * seeing).sum(dim=-1) / seeing.sum(dim=-1).clamp(min=1)
