r"""Structural positions from dependency trees (Wang et al., 2019).

Absolute: the depth $d_i$ of a word, whose sinusoidal encoding is combined with that of its position,
$\tanh(W\,[PE(p_i); PE(d_i)])$. Relative:

$r_{ij} = d_j - d_i$ if one word is an ancestor of the other, or both are equal, else
$r_{ij} = \mathrm{sign}(j - i)\,(d_i + d_j)$,

clipped to $[-k, k]$, with a learned vector per relation that is added to the keys as in Shaw et al. (2018). All tokens
of a word share its relations. In the paper the root of a sentence has depth 0. Here it has depth 1: depth 0 is that of
an artificial root, word 0, to which EOS belongs, so that a sentence may have several roots. Relations run from query to
key, as other distances do; in the paper they run from key to query.
"""

from typing import final

import torch
from torch import Tensor, nn

from dragoman.array_types import Bool, Float, Int, SourceFeatures
from dragoman.nn.attention_score_functions import MappedQueries
from dragoman.nn.masks import distances
from dragoman.nn.positions.sinusoidal import sinusoidal_positions

WordHeads = Int[Tensor, "rows words"]
"""Head of each word; the head of word 0 is 0."""


def depths(heads: WordHeads) -> Int[Tensor, "rows words"]:
    r"""$d_0 = 0$ and $d_w = d_{h_w} + 1$ for the head $h_w$ of $w$.

    Every iteration doubles the path length (pointer jumping).
    """
    away, above = torch.ones_like(heads), heads
    away[:, 0] = 0
    for _ in range(_num_doublings(heads)):
        away, above = away + away.gather(1, above), above.gather(1, above)
    return away


def ancestry(heads: WordHeads) -> Bool[Tensor, "rows words words"]:
    """True where the second word is an ancestor of the first, or equals it."""
    size, above = heads.shape[1], heads
    found = torch.eye(size, dtype=torch.bool, device=heads.device).expand(heads.shape[0], -1, -1)
    for _ in range(_num_doublings(heads)):
        found = found | found.gather(1, above[:, :, None].expand(-1, -1, size))
        above = above.gather(1, above)
    return found


def tree_relations(heads: WordHeads) -> Int[Tensor, "rows words words"]:
    r"""Unclipped relation $r_{ij}$ of each pair of words."""
    depth, above = depths(heads), ancestry(heads)
    own, other = depth[:, :, None], depth[:, None, :]
    side = distances(heads.shape[1], heads.shape[1], past_length=0, device=heads.device).sign()
    return torch.where(above | above.transpose(1, 2), other - own, side * (own + other))


def token_depths(features: SourceFeatures) -> Int[Tensor, "rows positions"]:
    """Depth of each token's word."""
    return depths(features.heads).gather(1, features.words)


def token_relations(features: SourceFeatures) -> Int[Tensor, "rows positions positions"]:
    """Relation of the words of each pair of tokens."""
    row = torch.arange(len(features.words), device=features.words.device)[:, None, None]
    return tree_relations(features.heads)[row, features.words[:, :, None], features.words[:, None, :]]


@final
class DepthEmbedding(nn.Module):
    r"""$\tanh(W\,[PE(p); PE(d)])$: combines position and depth."""

    def __init__(self, *, size: int, bias: bool) -> None:
        super().__init__()
        self.join = nn.Linear(2 * size, size, bias=bias)

    def forward(
        self, positions: Float[Tensor, "#rows positions size"], depth: Int[Tensor, "rows positions"]
    ) -> Float[Tensor, "rows positions size"]:
        of_depth = sinusoidal_positions(depth, positions.shape[-1]).to(self.join.weight.dtype)
        joined: Tensor = self.join(torch.cat([positions.expand_as(of_depth).to(of_depth.dtype), of_depth], dim=-1))
        return joined.tanh()


@final
class TreeBias(nn.Module):
    """Learned vector per relation, shared by the heads of a layer."""

    LOOKUP_PARAMETERS = ("key_embedding",)

    def __init__(self, *, max_distance: int, head_size: int, scale: float) -> None:
        """Initialize; `scale` is the scale of the attention score."""
        super().__init__()
        self.max_distance = max_distance
        self.scale = scale
        self.key_embedding = nn.Parameter(torch.randn(2 * max_distance + 1, head_size) * head_size**-0.5)

    def bias(
        self, query: MappedQueries, relations: Int[Tensor, "rows positions keys"], *, past_length: int
    ) -> Float[Tensor, "rows heads queries keys"]:
        """Bias added to the scores of these queries; `past_length` keys precede the first one."""
        scores = query @ self.key_embedding.t() * self.scale
        own = (
            relations[:, past_length : past_length + query.shape[2]].clamp(-self.max_distance, self.max_distance)
            + self.max_distance
        )
        return scores.gather(-1, own[:, None].expand(-1, scores.shape[1], -1, -1))


def _num_doublings(heads: WordHeads) -> int:
    """Doublings needed to cover the deepest possible tree."""
    return (heads.shape[1] - 1).bit_length()
