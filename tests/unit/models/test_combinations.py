"""Combinations of scores, positions and patterns that a configuration accepts."""

import pytest

from dragoman.config import parse
from dragoman.errors import ConfigError
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig
from tests.attention_variants import PATTERNS, POSITIONS, SCORES, every_combination, is_valid_combination

REASONS = {
    "rotary": "need an inner product of queries and keys",
    "shaw": "add vectors to the keys of an inner product",
    "linformer": "its keys mix",
    "bigbird": "blocks",
}


def tree(score: str, positions: str, pattern: str) -> dict[str, object]:
    attention = {"score": SCORES[score].model_dump(), "pattern": PATTERNS[pattern].model_dump()}
    return {"d_model": 12, "num_heads": 3, "positions": POSITIONS[positions][0].model_dump(), "attention": attention}


@pytest.mark.parametrize(("score", "positions", "pattern", "masked"), every_combination())
def test_combinations_are_checked(score: str, positions: str, pattern: str, masked: bool) -> None:
    kind = DecoderOnlyConfig if masked else EncoderOnlyConfig
    if is_valid_combination(score, positions, pattern, masked=masked):
        assert parse(kind, tree(score, positions, pattern)).attention.pattern.kind == pattern
        return
    with pytest.raises(ConfigError) as caught:
        parse(kind, tree(score, positions, pattern))
    message = str(caught.value)
    assert any(reason in message for word, reason in REASONS.items() if word in (positions, pattern))
    assert "choose" in message


def test_each_attention_is_checked() -> None:
    def refusal(**attention: object) -> str:
        with pytest.raises(ConfigError) as caught:
            parse(EncoderDecoderConfig, {"positions": {"kind": "rotary"}, "attention": attention})
        return str(caught.value)

    additive = {"score": {"kind": "additive"}}
    assert "model.attention.encoder.score.kind = additive" in refusal(encoder=additive)
    assert "model.attention.decoder.score.kind = additive" in refusal(decoder=additive)
    taken = parse(EncoderDecoderConfig, {"positions": {"kind": "rotary"}, "attention": {"cross": additive}})
    assert taken.attention.cross.score.kind == "additive"
    assert "attention.cross.pattern: no such key" in refusal(cross={"pattern": {"kind": "sliding_window"}})
    assert "works in encoders only" in refusal(decoder={"pattern": {"kind": "linformer"}})


def test_rotary_needs_even_head_size() -> None:
    with pytest.raises(ConfigError, match="a head has 5"):
        parse(DecoderOnlyConfig, {"d_model": 15, "num_heads": 3, "positions": {"kind": "rotary"}})
