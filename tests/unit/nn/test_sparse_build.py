"""From settings to patterns, and what is refused."""

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from dragoman.errors import ConfigError
from dragoman.nn.attention import Full, FullConfig
from dragoman.nn.sparse import (
    BigBird,
    BigBirdConfig,
    Linformer,
    LinformerConfig,
    PatternConfig,
    Window,
    WindowConfig,
    build_pattern,
)


@pytest.mark.parametrize("causal", [True, False])
def test_what_can_hide_the_future_and_what_need_not(causal):
    full = build_pattern(FullConfig(), causal=causal)
    assert isinstance(full, Full)
    assert full.causal == causal
    window = build_pattern(WindowConfig(reach=7), causal=causal)
    assert isinstance(window, Window)
    assert (window.reach, window.causal) == (7, causal)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (BigBirdConfig(), "the pattern bigbird cannot hide the future: its first and last blocks see the whole text"),
        (
            LinformerConfig(),
            "the pattern linformer cannot hide the future: each of its keys is a mixture of all places",
        ),
    ],
)
def test_what_cannot_hide_the_future_is_refused_with_the_reason(config, reason):
    with pytest.raises(ConfigError, match=rf"{reason}.*choose window or full"):
        build_pattern(config, causal=True)


def test_bigbird_for_an_encoder():
    pattern = build_pattern(BigBirdConfig(block=5, random=2, seed=3), causal=False)
    assert isinstance(pattern, BigBird)
    assert (pattern.block, pattern.random) == (5, 2)
    assert pattern.draw(11, 3).shape == (3, 9, 2)


def test_every_layer_draws_blocks_of_its_own():
    first, again, second = (build_pattern(BigBirdConfig(), causal=False, layer=layer) for layer in (0, 0, 1))
    assert torch.equal(first.draw(29, 1), again.draw(29, 1))
    assert not torch.equal(first.draw(29, 1), second.draw(29, 1))


def test_linformer_for_an_encoder():
    pattern = build_pattern(LinformerConfig(width=5, length=17), causal=False)
    assert isinstance(pattern, Linformer)
    assert isinstance(pattern, nn.Module)
    assert pattern.maximum_length == 17
    assert pattern.of_keys.shape == (5, 17)


def test_patterns_are_told_apart_by_their_kind():
    adapter = TypeAdapter(PatternConfig)
    assert adapter.validate_python({"kind": "window", "reach": 3}) == WindowConfig(reach=3)
    assert adapter.validate_python({"kind": "full"}) == FullConfig()
    for wrong in ({"kind": "window", "reach": 0}, {"kind": "bigbird", "block": 0}, {"kind": "linformer", "reach": 3}):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)
