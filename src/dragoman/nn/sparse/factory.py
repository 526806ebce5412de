"""Factory of attention patterns."""

from functools import partial
from typing import Annotated, assert_never

from pydantic import Field

from dragoman.errors import ConfigError
from dragoman.nn.attention import AttentionPattern, FullAttention, FullConfig, Heads
from dragoman.nn.sparse.bigbird import BigBird, BigBirdConfig, BlockSampler, RandomBlocks, sample_random_blocks
from dragoman.nn.sparse.linformer import Linformer, LinformerConfig
from dragoman.nn.sparse.sliding_window import SlidingWindow, SlidingWindowConfig

PatternConfig = Annotated[
    FullConfig | SlidingWindowConfig | BigBirdConfig | LinformerConfig, Field(discriminator="kind")
]
NOT_CAUSAL = {
    "bigbird": "its global blocks attend to the whole text, including the future",
    "linformer": "its keys mix all positions, including the future, and cannot grow step by step",
}
"""Reasons why a pattern works in encoders only."""


def build_pattern(
    config: PatternConfig, *, causal: bool, layer: int = 0, heads: Heads | None = None
) -> AttentionPattern:
    """Build the pattern of one attention; the random blocks depend on `layer`.

    After pruning, each key head in `heads` keeps the blocks that it had before. Raises ConfigError if `causal` and the
    pattern cannot be causal.
    """
    if causal and config.kind in NOT_CAUSAL:
        reason = NOT_CAUSAL[config.kind]
        raise ConfigError(
            f"pattern.kind = {config.kind} works in encoders only: {reason}; choose full or sliding_window"
        )
    match config:
        case FullConfig():
            return FullAttention(causal=causal)
        case SlidingWindowConfig(window=window):
            return SlidingWindow(window=window, causal=causal)
        case BigBirdConfig(block_size=block, num_random_blocks=num_random_blocks, seed=seed):
            sampler: BlockSampler = partial(
                sample_random_blocks, num_random_blocks=num_random_blocks, seed=seed + layer
            )
            if heads is not None and heads.kept is not None:
                sampler = partial(_sample_kept, sampler, heads)
            return BigBird(block_size=block, num_random_blocks=num_random_blocks, sampler=sampler)
        case LinformerConfig(projected_length=projected_length, max_length=max_length):
            return Linformer(projected_length=projected_length, max_length=max_length)
        case _:
            assert_never(config)


def _sample_kept(sampler: BlockSampler, heads: Heads, blocks: int, left: int) -> RandomBlocks:
    """Sample the blocks of all key heads before pruning, and return those of the heads kept."""
    kept = sorted({head // heads.group for head in heads.kept or ()})
    assert left == len(kept), "a pruned attention has the heads that pruning kept"
    return sampler(blocks, heads.total // heads.group)[kept]
