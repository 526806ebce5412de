r"""BigBird (Zaheer et al., 2020, section 2 and appendix D): block-sparse attention, global, near and random.

The sequence is cut into blocks. The first and the last are global: they see every block and every block sees them
(the paper's ITC). Each other block sees itself, its two neighbours, and `random` blocks of the rest, which are drawn
once and stay. What a block sees is gathered beside it and looked at as one small dense attention: $O(n)$ time and
memory.

Where we differ from the implementation of Hugging Face:

- The last block is that of each row, not of the batch with its padding, and the random blocks follow from the number
  of blocks of the row: a text alone and in a batch is attended in the same way.
- Random blocks are drawn from all blocks that are not seen already. So few blocks that none is left out, at most
  4 + `random`, are full attention; there full attention is taken up to 5 + 2 `random` blocks.
- They are the same in training and in use. There, in evaluation mode, the first block takes the place of every random
  one, and so counts `random` + 1 times.
"""

from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Literal, final

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor

from dragoman.config import Config
from dragoman.nn.attention import AttentionFunction, KeyMask
from dragoman.nn.functional import AttentionOutput, Values
from dragoman.nn.scores import MappedKeys, MappedQueries
from dragoman.typing import Bool, Float, Int, Shaped

NO_BLOCK = -1
"""In a plan: no block."""

RandomBlocks = Int[Tensor, "key_heads middle random"]
"""The random blocks of every block but the first and the last."""

BlockSampler = Callable[[int, int], RandomBlocks]
"""The plan for a number of blocks and of key heads; a plan for one head serves all."""

Blocks = Float[Tensor, "rows heads blocks block width"]
BlockIds = Int[Tensor, "rows middle key_heads slots"]


class BigBirdConfig(Config):
    """Global, near and random blocks (Zaheer et al., 2020)."""

    kind: Literal["bigbird"] = "bigbird"
    block_size: PositiveInt = Field(64, description="places of a block")
    num_random_blocks: NonNegativeInt = Field(
        3, description="random blocks that a block sees, beside its neighbours and the ends"
    )
    seed: NonNegativeInt = Field(0, description="of the random blocks")


@lru_cache(maxsize=256)
def sample_random_blocks(num_blocks: int, num_heads: int, *, num_random_blocks: int, seed: int) -> RandomBlocks:
    """Blocks for each head and each middle block: not its neighbours, not the ends, none twice.

    The plan is a pure function of its arguments on every machine. Where fewer blocks than `random` are left to choose
    from, all are taken and the rest is `NONE`. Heads of keys have plans of their own; query heads that share keys share
    the plan.

    >>> sample_random_blocks(9, 1, num_random_blocks=2, seed=0)[0, 3].tolist()  # what the middle one of nine blocks sees
    [6, 7]
    """
    draws = Random(f"{num_blocks} blocks {seed}")  # noqa: S311  # no secret hangs on it

    def row(place: int) -> list[int]:
        far = (*range(1, place - 1), *range(place + 2, num_blocks - 1))
        chosen = sorted(far[index] for index in _sample(draws, len(far), min(num_random_blocks, len(far))))
        return chosen + [NO_BLOCK] * (num_random_blocks - len(chosen))

    rows = [[row(place) for place in range(1, num_blocks - 1)] for _ in range(num_heads)]
    return torch.tensor(rows, dtype=torch.long).view(num_heads, max(0, num_blocks - 2), num_random_blocks)


def _sample(draws: Random, population: int, number: int) -> set[int]:
    """So many different numbers below `population`, by Floyd's algorithm from `random()`, which Python keeps stable."""
    chosen: set[int] = set()
    for last in range(population - number, population):
        index = int(draws.random() * (last + 1))
        chosen.add(last if index in chosen else index)
    return chosen


def bigbird_mask(
    places: int, *, block_size: int, random_blocks: RandomBlocks
) -> Bool[Tensor, "key_heads {places} {places}"]:
    """The dense mask that BigBird stands for in a row of so many places.

    >>> bigbird_mask(6, block_size=1, random_blocks=sample_random_blocks(6, 1, num_random_blocks=0, seed=0))[0].int()
    tensor([[1, 1, 1, 1, 1, 1],
            [1, 1, 1, 0, 0, 1],
            [1, 1, 1, 1, 0, 1],
            [1, 0, 1, 1, 1, 1],
            [1, 0, 0, 1, 1, 1],
            [1, 1, 1, 1, 1, 1]], dtype=torch.int32)
    """
    blocks = -(-places // block_size)
    number = torch.arange(blocks)
    ends = (number == 0) | (number == blocks - 1)
    near = (number[:, None] - number).abs() <= 1
    seen = (near | ends | ends[:, None]).repeat(random_blocks.shape[0], 1, 1)
    seen[:, 1:-1] |= (random_blocks[..., None] == number).any(dim=2)
    block_of = torch.arange(places) // block_size
    return seen[:, block_of][:, :, block_of]


@final
class BigBird:
    """Two looks: of the first and last block of each row at everything, and of each other block at what it sees."""

    max_length: int | None = None

    def __init__(self, *, block_size: int, num_random_blocks: int, sampler: BlockSampler) -> None:
        """`draw` must name `random` blocks; one that it names twice counts twice."""
        self.block_size = block_size
        self.num_random_blocks = num_random_blocks
        self.sampler = sampler

    def __call__(
        self, attend: AttentionFunction, query: MappedQueries, key: MappedKeys, value: Values, mask: KeyMask | None
    ) -> AttentionOutput:
        places = key.shape[2]
        assert query.shape[2] == places, "BigBird is for sequences that look at themselves, without a cache"
        assert mask is None or mask.shape[2] == 1, "BigBird hides padding alone, the same for all queries"
        if places <= (4 + self.num_random_blocks) * self.block_size:
            return attend(query, key, value, mask=mask, causal=False, past_length=None)
        counts = self._blocks_of_rows(query, mask)
        queries = split_into_blocks(query, self.block_size)
        last_block = torch.tensor(counts, device=query.device) - 1
        first, last = self._attend_from_ends(attend, queries, last_block, key, value, mask)
        middle = self._attend_from_middle(attend, queries, counts, key, value, mask)
        joined = torch.cat([first, middle, last], dim=2)
        if min(counts) < queries.shape[2]:
            here = torch.arange(queries.shape[2], device=query.device) == last_block[:, None]
            joined = torch.where(here[:, None, :, None, None], last, joined)
        return joined.flatten(2, 3)[:, :, :places]

    def _blocks_of_rows(self, query: MappedQueries, mask: KeyMask | None) -> list[int]:
        """How many blocks the real places of each row fill, at least one."""
        rows, _, places, _ = query.shape
        if mask is None:
            return [-(-places // self.block_size)] * rows
        numbers = torch.arange(1, places + 1, device=mask.device)
        lengths = (mask[:, 0, 0] * numbers).amax(dim=1).expand(rows)
        return [max(1, -(-length // self.block_size)) for length in lengths.tolist()]

    def _attend_from_ends(
        self,
        attend: AttentionFunction,
        queries: Blocks,
        last_block: Int[Tensor, " rows"],
        key: MappedKeys,
        value: Values,
        mask: KeyMask | None,
    ) -> tuple[Float[Tensor, "rows heads 1 block value_size"], Float[Tensor, "rows heads 1 block value_size"]]:
        rows = torch.arange(len(last_block), device=last_block.device)
        ends = torch.cat([queries[:, :, 0], queries[rows, :, last_block]], dim=2)
        first, last = attend(ends, key, value, mask=mask, causal=False, past_length=None).split(self.block_size, dim=2)
        return first[:, :, None], last[:, :, None]

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
        visible = gather_blocks(real, chosen)[..., 0] & (chosen != NO_BLOCK).repeat_interleave(
            self.block_size, dim=3
        ).flatten(0, 1)
        attended = attend(
            queries[:, :, 1:-1].transpose(1, 2).flatten(0, 1),
            gather_blocks(split_into_blocks(key, self.block_size), chosen),
            gather_blocks(split_into_blocks(value, self.block_size), chosen),
            mask=visible[:, :, None].repeat_interleave(heads // key_heads, dim=1),
            causal=False,
            past_length=None,
        )
        return attended.unflatten(0, (rows, blocks - 2)).transpose(1, 2)

    def _chosen(self, counts: list[int], blocks: int, key_heads: int) -> BlockIds:
        """The blocks that each middle block of each row sees, every one of them once; `NONE` in slots left over."""
        plans = {count: self.sampler(count, key_heads) for count in set(counts)}
        padded = {
            count: F.pad(plan, (0, 0, 0, blocks - 2 - plan.shape[1]), value=NO_BLOCK) for count, plan in plans.items()
        }
        drawn = torch.stack([padded[count].expand(key_heads, -1, -1) for count in counts]).transpose(1, 2)
        here = torch.arange(1, blocks - 1).expand(len(counts), -1)
        last = (torch.tensor(counts) - 1)[:, None].expand_as(here)
        left = torch.where(here > 1, here - 1, NO_BLOCK)  # the first block is there already
        right = torch.where(here + 1 < last, here + 1, NO_BLOCK)  # and so is the last
        fixed = torch.stack([torch.zeros_like(here), last, left, here, right], dim=-1)
        return torch.cat([fixed[:, :, None].expand(-1, -1, key_heads, -1), drawn], dim=-1)


def split_into_blocks(
    x: Shaped[Tensor, "rows heads places width"], block: int
) -> Shaped[Tensor, "rows heads blocks {block} width"]:
    """Places cut into blocks, the last one filled up with zeros."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % block)).unflatten(2, (-1, block))


def gather_blocks(
    x: Shaped[Tensor, "rows heads blocks block width"], chosen: Int[Tensor, "rows middle heads slots"]
) -> Shaped[Tensor, "folded heads gathered width"]:
    """The chosen blocks of each row and head one behind the other, for every middle block a row; `NONE` gives any."""
    rows, heads, blocks, block, width = x.shape
    start = torch.arange(rows * heads, device=x.device).view(rows, 1, heads, 1) * blocks
    index = (start + chosen.clamp(min=0)).flatten()
    return x.flatten(0, 2).index_select(0, index).view(-1, heads, chosen.shape[3] * block, width)
