"""Factory of attention patterns."""

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from dragoman.errors import ConfigError
from dragoman.nn.attention import FullAttention, FullConfig
from dragoman.nn.sparse.bigbird import BigBird, BigBirdConfig
from dragoman.nn.sparse.factory import PatternConfig, build_pattern
from dragoman.nn.sparse.linformer import Linformer, LinformerConfig
from dragoman.nn.sparse.sliding_window import SlidingWindow, SlidingWindowConfig


@pytest.mark.parametrize("causal", [True, False])
def test_causal_patterns(causal):
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
def test_causal_bigbird_and_linformer_are_refused(config, reason):
    with pytest.raises(ConfigError, match=rf"{reason}.*choose full or sliding_window"):
        build_pattern(config, causal=True)


def test_build_bigbird():
    pattern = build_pattern(BigBirdConfig(block_size=5, num_random_blocks=2, seed=3), causal=False)
    assert isinstance(pattern, BigBird)
    assert (pattern.block_size, pattern.num_random_blocks) == (5, 2)
    assert pattern.sampler(11, 3).shape == (3, 9, 2)


def test_layers_have_different_random_blocks():
    first, again, second = (build_pattern(BigBirdConfig(), causal=False, layer=layer) for layer in (0, 0, 1))
    assert torch.equal(first.sampler(29, 1), again.sampler(29, 1))
    assert not torch.equal(first.sampler(29, 1), second.sampler(29, 1))


def test_build_linformer():
    pattern = build_pattern(LinformerConfig(projected_length=5, max_length=17), causal=False)
    assert isinstance(pattern, Linformer)
    assert isinstance(pattern, nn.Module)
    assert pattern.max_length == 17
    assert pattern.key_projection.shape == (5, 17)


def test_patterns_parse_by_kind():
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
