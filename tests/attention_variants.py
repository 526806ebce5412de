"""All attention configurations: scores, positions and patterns, and the combinations that are allowed.

The table is written by hand, so that the tests check what the configuration refuses.
"""

from itertools import product

from hypothesis import strategies as st
from pydantic import BaseModel

from dragoman.models.config import (
    AlibiConfig,
    CrossAttentionConfig,
    EncoderDecoderAttentionConfig,
    LearnedConfig,
    NoPositionsConfig,
    PositionsConfig,
    RotaryConfig,
    SelfAttentionConfig,
    ShawConfig,
    SinusoidalConfig,
    T5BiasConfig,
)
from dragoman.nn.attention import FullConfig
from dragoman.nn.attention_score_functions import (
    AdditiveConfig,
    CosineConfig,
    DotConfig,
    MultiplicativeConfig,
    ReducedRankConfig,
    ScaledDotConfig,
)
from dragoman.nn.positions.rotary import LinearScalingConfig
from dragoman.nn.sparse.bigbird import BigBirdConfig
from dragoman.nn.sparse.linformer import LinformerConfig
from dragoman.nn.sparse.sliding_window import SlidingWindowConfig

SCORES: dict[str, BaseModel] = {
    "dot": DotConfig(),
    "scaled_dot": ScaledDotConfig(),
    "multiplicative": MultiplicativeConfig(),
    "reduced_rank": ReducedRankConfig(rank=3),
    "additive": AdditiveConfig(hidden_size=5),
    "cosine": CosineConfig(scale=2.0),
}
OF_ONE_SIZE = ("dot", "scaled_dot", "cosine")
"""Scores of queries and keys of one size."""
POSITIONS: dict[str, list[PositionsConfig]] = {
    "sinusoidal": [
        SinusoidalConfig(),
        SinusoidalConfig(join="concatenate"),
        SinusoidalConfig(order="halves", inclusive=True, offset=2),
    ],
    "learned": [LearnedConfig(max_length=53), LearnedConfig(max_length=53, join="concatenate", offset=2)],
    "shaw": [ShawConfig(max_distance=3), ShawConfig(max_distance=3, values=False)],
    "t5_bias": [T5BiasConfig(num_buckets=8, max_distance=7)],
    "rotary": [RotaryConfig(base=11.0), RotaryConfig(base=11.0, scaling=LinearScalingConfig(factor=2.0))],
    "alibi": [AlibiConfig()],
    "none": [NoPositionsConfig()],
}
PATTERNS: dict[str, BaseModel] = {
    "full": FullConfig(),
    "sliding_window": SlidingWindowConfig(window=2),
    "bigbird": BigBirdConfig(),
    "linformer": LinformerConfig(projected_length=3, max_length=53),
}
SCORES_BESIDE = dict.fromkeys(POSITIONS, tuple(SCORES)) | {
    "rotary": ("dot", "scaled_dot", "cosine"),
    "shaw": ("dot", "scaled_dot", "multiplicative"),
}
POSITIONS_BESIDE = dict.fromkeys(PATTERNS, tuple(POSITIONS)) | {
    "bigbird": ("sinusoidal", "learned", "rotary", "none"),
    "linformer": ("sinusoidal", "learned", "none"),
}
OF_ENCODERS_ALONE = ("bigbird", "linformer")


def is_valid_combination(score: str, positions: str, pattern: str, *, masked: bool) -> bool:
    """Return whether a self-attention with these parts is allowed."""
    return (
        score in SCORES_BESIDE[positions]
        and positions in POSITIONS_BESIDE[pattern]
        and not (masked and pattern in OF_ENCODERS_ALONE)
    )


def every_combination() -> list[tuple[str, str, str, bool]]:
    """Return all combinations of score, position, pattern and causality."""
    return list(product(SCORES, POSITIONS, PATTERNS, (False, True)))


@st.composite
def self_attentions(
    draw: st.DrawFn,
    positions: str,
    *,
    masked: bool,
    patterns: tuple[str, ...] = ("full", "sliding_window", "linformer"),
) -> SelfAttentionConfig:
    """Draw a self-attention that is allowed with the positions."""
    scores = [name for name in SCORES if is_valid_combination(name, positions, "full", masked=masked)]
    some = [name for name in patterns if is_valid_combination("dot", positions, name, masked=masked)]
    return SelfAttentionConfig(
        score=SCORES[draw(st.sampled_from(scores))], pattern=PATTERNS[draw(st.sampled_from(some))]
    )


@st.composite
def attentions(draw: st.DrawFn) -> tuple[PositionsConfig, EncoderDecoderAttentionConfig]:
    """Draw positions and three attentions that are allowed with them."""
    kind = draw(st.sampled_from(list(POSITIONS)))
    return draw(st.sampled_from(POSITIONS[kind])), EncoderDecoderAttentionConfig(
        encoder=draw(self_attentions(kind, masked=False)),
        decoder=draw(self_attentions(kind, masked=True)),
        cross=CrossAttentionConfig(score=draw(st.sampled_from(list(SCORES.values())))),
    )
