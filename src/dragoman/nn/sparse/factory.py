"""From settings to a pattern: the parts list."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, assert_never

from pydantic import Field

from dragoman.errors import ConfigError
from dragoman.nn.attention import AttentionPattern, FullAttention, FullConfig
from dragoman.nn.sparse.bigbird import BigBird, BigBirdConfig, BlockSampler, RandomBlocks, sample_random_blocks
from dragoman.nn.sparse.linformer import Linformer, LinformerConfig
from dragoman.nn.sparse.sliding_window import SlidingWindow, SlidingWindowConfig

KeyHeads = tuple[Sequence[int], int]
"""Some heads of keys, and how many there are."""

PatternConfig = Annotated[
    FullConfig | SlidingWindowConfig | BigBirdConfig | LinformerConfig,
    Field(discriminator="kind"),
]


def build_pattern(
    config: PatternConfig, *, causal: bool, layer: int = 0, kept: KeyHeads | None = None
) -> AttentionPattern:
    """The pattern of one attention; a `layer` draws random blocks of its own.

    `kept` are the heads of keys that pruning left, and the number of all: each has the blocks that it had among them.

    Raises ConfigError where the future is to be hidden and the pattern cannot hide it.
    """
    match config:
        case FullConfig():
            return FullAttention(causal=causal)
        case SlidingWindowConfig(window=reach):
            return SlidingWindow(window=reach, causal=causal)
        case BigBirdConfig(block_size=block, num_random_blocks=random, seed=seed):
            _refuse_causal(
                causal, config.kind, "its first and last blocks see the whole text and are seen by all of it"
            )
            draw: BlockSampler = partial(sample_random_blocks, num_random_blocks=random, seed=seed + layer)
            return BigBird(
                block_size=block,
                num_random_blocks=random,
                sampler=draw if kept is None else partial(_drawn_among, draw, *kept),
            )
        case LinformerConfig(projected_length=width, max_length=length):
            _refuse_causal(
                causal, config.kind, "each of its keys is a mixture of all places, and none can be added later"
            )
            return Linformer(projected_length=width, max_length=length)
        case _:
            assert_never(config)


def _drawn_among(draw: BlockSampler, kept: Sequence[int], heads: int, blocks: int, left: int) -> RandomBlocks:
    """The plan of those heads that are left, `left` in number, of the plan for all of them."""
    assert left == len(kept), "the heads that are left are those that ask"
    return draw(blocks, heads)[list(kept)]


def _refuse_causal(causal: bool, kind: str, reason: str) -> None:
    if causal:
        raise ConfigError(
            f"the pattern {kind} cannot hide the future: {reason}; it is for encoders alone, choose window or full here"
        )
