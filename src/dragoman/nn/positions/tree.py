r"""Structural positions (Wang et al., 2019): where words stand in the dependency tree of their sentence.

Absolute: the depth $d_i$ of a word, whose sinusoids join those of its place, $\tanh(W\,[PE(p_i); PE(d_i)])$. Relative:

$r_{ij} = d_j - d_i$ where one of the words is above the other or both are one, else
$r_{ij} = \mathrm{sign}(j - i)\,(d_i + d_j)$,

clipped to $[-k, k]$, with a learnt vector for each, which joins the keys as those of Shaw et al. (2018) do. The tokens
of a word stand where it stands. In the paper the root of a sentence has depth 0; here it has depth 1, and depth 0 is
that of a root above all, word 0, to which the END of the sentence belongs, so that there may be several roots. Like our
other distances, relations run from query to key; those of the paper run from key to query.
"""

from typing import final

import torch
from torch import Tensor, nn

from dragoman.nn.masks import distances
from dragoman.nn.positions.sinusoidal import sinusoids
from dragoman.nn.scores import MappedQueries
from dragoman.shapes import Structure
from dragoman.typing import Bool, Float, Int

Heads = Int[Tensor, "rows words"]
"""The word that each word hangs on; that of word 0 is 0."""


def depths(heads: Heads) -> Int[Tensor, "rows words"]:
    r"""$d_0 = 0$ and $d_w = d_{h_w} + 1$ for the word $h_w$ that $w$ hangs on.

    Every turn knows the way that is twice as long, so that a few do for any tree.
    """
    away, above = torch.ones_like(heads), heads
    away[:, 0] = 0
    for _ in range(_turns(heads)):
        away, above = away + away.gather(1, above), above.gather(1, above)
    return away


def ancestry(heads: Heads) -> Bool[Tensor, "rows words words"]:
    """Whether the second word is above the first, or is the first."""
    size, above = heads.shape[1], heads
    found = torch.eye(size, dtype=torch.bool, device=heads.device).expand(heads.shape[0], -1, -1)
    for _ in range(_turns(heads)):
        found = found | found.gather(1, above[:, :, None].expand(-1, -1, size))
        above = above.gather(1, above)
    return found


def tree_relations(heads: Heads) -> Int[Tensor, "rows words words"]:
    r"""$r_{ij}$ above for each pair of words, not yet clipped."""
    depth, above = depths(heads), ancestry(heads)
    own, other = depth[:, :, None], depth[:, None, :]
    side = distances(heads.shape[1], heads.shape[1], before=0, device=heads.device).sign()
    return torch.where(above | above.transpose(1, 2), other - own, side * (own + other))


def token_depths(structure: Structure) -> Int[Tensor, "rows places"]:
    """The depth of each token's word."""
    return depths(structure.heads).gather(1, structure.words)


def token_relations(structure: Structure) -> Int[Tensor, "rows places places"]:
    """How the words of each pair of tokens stand to each other."""
    row = torch.arange(len(structure.words), device=structure.words.device)[:, None, None]
    return tree_relations(structure.heads)[row, structure.words[:, :, None], structure.words[:, None, :]]


@final
class DepthPositions(nn.Module):
    r"""$\tanh(W\,[PE(p); PE(d)])$: what is known of a place becomes what is known of it and of a depth."""

    def __init__(self, *, size: int, bias: bool) -> None:
        super().__init__()
        self.join = nn.Linear(2 * size, size, bias=bias)

    def forward(
        self, positions: Float[Tensor, "#rows places size"], depth: Int[Tensor, "rows places"]
    ) -> Float[Tensor, "rows places size"]:
        of_depth = sinusoids(depth, positions.shape[-1]).to(self.join.weight.dtype)
        joined: Tensor = self.join(torch.cat([positions.expand_as(of_depth).to(of_depth.dtype), of_depth], dim=-1))
        return joined.tanh()


@final
class TreeRelations(nn.Module):
    """A learnt vector for each relation, shared by the heads of a layer; none is ever held for a pair of tokens."""

    TABLES = ("of_keys",)

    def __init__(self, *, reach: int, head_size: int, scale: float) -> None:
        """`scale` is that of the score which they join."""
        super().__init__()
        self.reach = reach
        self.scale = scale
        self.of_keys = nn.Parameter(torch.randn(2 * reach + 1, head_size) * head_size**-0.5)

    def bias(
        self, query: MappedQueries, relations: Int[Tensor, "rows places keys"], *, before: int
    ) -> Float[Tensor, "rows heads queries keys"]:
        """What is added to the scores of these queries, the first of which stands at the place `before`."""
        scores = query @ self.of_keys.t() * self.scale
        own = relations[:, before : before + query.shape[2]].clamp(-self.reach, self.reach) + self.reach
        return scores.gather(-1, own[:, None].expand(-1, scores.shape[1], -1, -1))


def _turns(heads: Heads) -> int:
    """How often a way must be doubled to be as long as the deepest of trees."""
    return (heads.shape[1] - 1).bit_length()
