"""From settings to patterns, and what is refused."""

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from dragoman.errors import ConfigError
from dragoman.nn.attention import FullAttention, FullConfig
from dragoman.nn.sparse import (
    BigBird,
    BigBirdConfig,
    Linformer,
    LinformerConfig,
    PatternConfig,
    SlidingWindow,
    SlidingWindowConfig,
    build_pattern,
)


@pytest.mark.parametrize("causal", [True, False])
def test_what_can_hide_the_future_and_what_need_not(causal):
    full = build_pattern(FullConfig(), causal=causal)
    assert isinstance(full, FullAttention)
    assert full.causal == causal
    window = build_pattern(SlidingWindowConfig(window=7), causal=causal)
    assert isinstance(window, SlidingWindow)
    assert (window.window, window.causal) == (7, causal)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (BigBirdConfig(), "bigbird works in encoders only: its global blocks"),
        (LinformerConfig(), "linformer works in encoders only: its keys mix all positions"),
    ],
)
def test_what_cannot_hide_the_future_is_refused_with_the_reason(config, reason):
    with pytest.raises(ConfigError, match=rf"{reason}.*choose full or sliding_window"):
        build_pattern(config, causal=True)


def test_bigbird_for_an_encoder():
    pattern = build_pattern(BigBirdConfig(block_size=5, num_random_blocks=2, seed=3), causal=False)
    assert isinstance(pattern, BigBird)
    assert (pattern.block_size, pattern.num_random_blocks) == (5, 2)
    assert pattern.sampler(11, 3).shape == (3, 9, 2)


def test_every_layer_draws_blocks_of_its_own():
    first, again, second = (build_pattern(BigBirdConfig(), causal=False, layer=layer) for layer in (0, 0, 1))
    assert torch.equal(first.sampler(29, 1), again.sampler(29, 1))
    assert not torch.equal(first.sampler(29, 1), second.sampler(29, 1))


def test_linformer_for_an_encoder():
    pattern = build_pattern(LinformerConfig(projected_length=5, max_length=17), causal=False)
    assert isinstance(pattern, Linformer)
    assert isinstance(pattern, nn.Module)
    assert pattern.max_length == 17
    assert pattern.key_projection.shape == (5, 17)


def test_patterns_are_told_apart_by_their_kind():
    adapter = TypeAdapter(PatternConfig)
    assert adapter.validate_python({"kind": "sliding_window", "window": 3}) == SlidingWindowConfig(window=3)
    assert adapter.validate_python({"kind": "full"}) == FullConfig()
    for wrong in (
        {"kind": "sliding_window", "window": 0},
        {"kind": "bigbird", "block_size": 0},
        {"kind": "linformer", "window": 3},
    ):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)
