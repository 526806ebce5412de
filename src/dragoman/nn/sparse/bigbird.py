r"""BigBird (Zaheer et al., 2020, section 2 and appendix D): global, neighboring and random blocks.

The first and the last block of a sequence are global: they attend to every block, and every block attends to them (the
paper's ITC). Each other block attends to itself, its two neighbors, and `num_random_blocks` others, drawn once. The
blocks that a block attends to are gathered for one small dense attention, in $O(n)$ time and memory.

Differences from the implementation of Hugging Face:

- The last block is that of the row, not of the padded batch, and random blocks depend on the number of blocks of the
  row. A text therefore has the same attention alone and in a batch.
- Random blocks are drawn from all other blocks. Sequences of at most 4 + `num_random_blocks` blocks use full attention;
  there the limit is 5 + 2 `num_random_blocks`.
- Random blocks are the same in training and evaluation. There, evaluation replaces each random block by the first.
"""

from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Literal, final

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor

from dragoman.array_types import Bool, Float, Int, Shaped
from dragoman.config import Config
from dragoman.nn.attention import AttentionFunction, KeyMask
from dragoman.nn.attention_functions import AttentionOutput, Values, VisibleKeys
from dragoman.nn.attention_score_functions import MappedKeys, MappedQueries

NO_BLOCK = -1
"""Marks an unused slot of a list of blocks."""

RandomBlocks = Int[Tensor, "key_heads middle random"]
"""Random blocks of every block but the first and the last."""

BlockSampler = Callable[[int, int], RandomBlocks]
"""Returns random blocks for a number of blocks and key heads; those of one head serve all."""

Blocks = Float[Tensor, "rows heads blocks block width"]
BlockIds = Int[Tensor, "rows middle key_heads slots"]


class BigBirdConfig(Config):
    """Global, neighboring and random blocks (Zaheer et al., 2020)."""

    kind: Literal["bigbird"] = "bigbird"
    block_size: PositiveInt = Field(default=64, description="positions per block")
    num_random_blocks: NonNegativeInt = Field(default=3, le=1024, description="random blocks per block")
    seed: NonNegativeInt = Field(default=0, description="seed of the random blocks")


@lru_cache(maxsize=256)
def sample_random_blocks(num_blocks: int, num_heads: int, *, num_random_blocks: int, seed: int) -> RandomBlocks:
    """Draw distinct blocks for each key head and each middle block, without its neighbors and the ends.

    The result depends on the arguments only. If fewer blocks are left, the rest is `NO_BLOCK`.

    >>> sample_random_blocks(9, 1, num_random_blocks=2, seed=0)[0, 3].tolist()  # of the middle block
    [6, 7]
    """
    draws = Random(f"{num_blocks} blocks {seed}")  # noqa: S311  # not used for security

    def row(place: int) -> list[int]:
        far = (*range(1, place - 1), *range(place + 2, num_blocks - 1))
        chosen = sorted(far[index] for index in _sample(draws, len(far), min(num_random_blocks, len(far))))
        return chosen + [NO_BLOCK] * (num_random_blocks - len(chosen))

    rows = [[row(place) for place in range(1, num_blocks - 1)] for _ in range(num_heads)]
    return torch.tensor(rows, dtype=torch.long).view(num_heads, max(0, num_blocks - 2), num_random_blocks)


def _sample(draws: Random, population: int, number: int) -> set[int]:
    """Draw distinct numbers below `population` by Floyd's algorithm; Python keeps `random()` stable."""
    chosen: set[int] = set()
    for last in range(population - number, population):
        index = int(draws.random() * (last + 1))
        chosen.add(last if index in chosen else index)
    return chosen


def bigbird_mask(
    length: int, *, block_size: int, random_blocks: RandomBlocks
) -> Bool[Tensor, "key_heads {length} {length}"]:
    """Return the dense mask of BigBird for a row without padding.

    >>> bigbird_mask(6, block_size=1, random_blocks=sample_random_blocks(6, 1, num_random_blocks=0, seed=0))[0].int()
    tensor([[1, 1, 1, 1, 1, 1],
            [1, 1, 1, 0, 0, 1],
            [1, 1, 1, 1, 0, 1],
            [1, 0, 1, 1, 1, 1],
            [1, 0, 0, 1, 1, 1],
            [1, 1, 1, 1, 1, 1]], dtype=torch.int32)
    """
    blocks = -(-length // block_size)
    number = torch.arange(blocks)
    ends = (number == 0) | (number == blocks - 1)
    near = (number[:, None] - number).abs() <= 1
    seen = (near | ends | ends[:, None]).repeat(random_blocks.shape[0], 1, 1)
    seen[:, 1:-1] |= (random_blocks[..., None] == number).any(dim=2)
    block_of = torch.arange(length) // block_size
    return seen[:, block_of][:, :, block_of]


@final
class BigBird:
    """Full attention from the first and last block of each row, and gathered blocks for all others."""

    max_length: int | None = None

    def __init__(self, *, block_size: int, num_random_blocks: int, sampler: BlockSampler) -> None:
        """`sampler` returns `num_random_blocks` per block; a block that it returns twice counts twice."""
        self.block_size = block_size
        self.num_random_blocks = num_random_blocks
        self.sampler = sampler

    def __call__(
        self, attend: AttentionFunction, query: MappedQueries, key: MappedKeys, value: Values, mask: KeyMask | None
    ) -> AttentionOutput:
        length = key.shape[2]
        assert query.shape[2] == length, "BigBird requires self-attention without a cache"
        assert mask is None or mask.shape[2] == 1, "BigBird masks padding only, the same for all queries"
        if length <= (4 + self.num_random_blocks) * self.block_size:
            return attend(query, key, value, VisibleKeys(mask))
        counts = self._blocks_of_rows(query, mask)
        queries = split_into_blocks(query, self.block_size)
        last_block = torch.tensor(counts, device=query.device) - 1
        rows = torch.arange(len(last_block), device=last_block.device)
        ends = torch.cat([queries[:, :, 0], queries[rows, :, last_block]], dim=2)
        ends = attend(ends, key, value, VisibleKeys(mask))
        first, last = (end[:, :, None] for end in ends.split(self.block_size, dim=2))
        middle = self._attend_from_middle(attend, queries, counts, key, value, mask)
        joined = torch.cat([first, middle, last], dim=2)
        if min(counts) < queries.shape[2]:
            here = torch.arange(queries.shape[2], device=query.device) == last_block[:, None]
            joined = torch.where(here[:, None, :, None, None], last, joined)
        return joined.flatten(2, 3)[:, :, :length]

    def _blocks_of_rows(self, query: MappedQueries, mask: KeyMask | None) -> list[int]:
        """Return the number of blocks of each row without padding, at least one."""
        rows, _, length, _ = query.shape
        if mask is None:
            return [-(-length // self.block_size)] * rows
        numbers = torch.arange(1, length + 1, device=mask.device)
        lengths = (mask[:, 0, 0] * numbers).amax(dim=1).expand(rows)
        return [max(1, -(-length // self.block_size)) for length in lengths.tolist()]

    def _attend_from_middle(
        self,
        attend: AttentionFunction,
        queries: Blocks,
        counts: list[int],
        key: MappedKeys,
        value: Values,
        mask: KeyMask | None,
    ) -> Float[Tensor, "rows heads middle block value_size"]:
        rows, heads, blocks, _, _ = queries.shape
        key_heads = key.shape[1]
        chosen = self._chosen(counts, blocks, key_heads).to(key.device)
        real = torch.ones(1, 1, 1, key.shape[2], dtype=torch.bool, device=key.device) if mask is None else mask
        real = split_into_blocks(real.transpose(2, 3).expand(rows, key_heads, -1, -1), self.block_size)
        used = (chosen != NO_BLOCK).repeat_interleave(self.block_size, dim=3).flatten(0, 1)
        visible = gather_blocks(real, chosen)[..., 0] & used
        attended = attend(
            queries[:, :, 1:-1].transpose(1, 2).flatten(0, 1),
            gather_blocks(split_into_blocks(key, self.block_size), chosen),
            gather_blocks(split_into_blocks(value, self.block_size), chosen),
            VisibleKeys(visible[:, :, None].repeat_interleave(heads // key_heads, dim=1)),
        )
        return attended.unflatten(0, (rows, blocks - 2)).transpose(1, 2)

    def _chosen(self, counts: list[int], blocks: int, key_heads: int) -> BlockIds:
        """Return the distinct blocks that each middle block attends to; unused slots are `NO_BLOCK`."""
        padded = {}
        for count in set(counts):
            sampled = self.sampler(count, key_heads)
            padded[count] = F.pad(sampled, (0, 0, 0, blocks - 2 - sampled.shape[1]), value=NO_BLOCK)
        drawn = torch.stack([padded[count].expand(key_heads, -1, -1) for count in counts]).transpose(1, 2)
        here = torch.arange(1, blocks - 1).expand(len(counts), -1)
        last = (torch.tensor(counts) - 1)[:, None].expand_as(here)
        left = torch.where(here > 1, here - 1, NO_BLOCK)  # the first and last block are in the list already
        right = torch.where(here + 1 < last, here + 1, NO_BLOCK)
        fixed = torch.stack([torch.zeros_like(here), last, left, here, right], dim=-1)
        return torch.cat([fixed[:, :, None].expand(-1, -1, key_heads, -1), drawn], dim=-1)


def split_into_blocks(
    x: Shaped[Tensor, "rows heads positions width"], block: int
) -> Shaped[Tensor, "rows heads blocks {block} width"]:
    """Split positions into blocks; the last block is padded with zeros."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % block)).unflatten(2, (-1, block))


def gather_blocks(
    x: Shaped[Tensor, "rows heads blocks block width"], chosen: Int[Tensor, "rows middle heads slots"]
) -> Shaped[Tensor, "folded heads gathered width"]:
    """Concatenate the chosen blocks, with one row per middle block; `NO_BLOCK` gives an arbitrary block."""
    rows, heads, blocks, block, width = x.shape
    start = torch.arange(rows * heads, device=x.device).view(rows, 1, heads, 1) * blocks
    index = (start + chosen.clamp(min=0)).flatten()
    return x.flatten(0, 2).index_select(0, index).view(-1, heads, chosen.shape[3] * block, width)
