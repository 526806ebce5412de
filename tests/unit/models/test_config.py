"""Validation of Transformer configurations."""

import pytest

from dragoman.config import parse
from dragoman.errors import ConfigError
from dragoman.models.config import EncoderDecoderConfig, LearnedConfig, SinusoidalConfig


def refusal(**tree):
    with pytest.raises(ConfigError) as caught:
        parse(EncoderDecoderConfig, tree, where="recipe.yaml")
    return str(caught.value)


def test_num_heads_must_divide_d_model():
    assert refusal(d_model=12, num_heads=5) == (
        "recipe.yaml: model.num_heads = 5 does not divide model.d_model = 12; choose one of [1, 2, 3, 4, 6, 12], "
        "or set model.head_size"
    )


def test_head_size_frees_num_heads():
    assert EncoderDecoderConfig(d_model=12, num_heads=5, head_size=7).features_per_head == 7
    assert "rotates pairs of features, but a head has 7" in refusal(head_size=7, positions={"kind": "rotary"})


def test_scale_output_needs_tied_embeddings():
    assert "model.tie_embeddings = none; leave one of them out" in refusal(scale_output=True, tie_embeddings="none")
    assert EncoderDecoderConfig(scale_output=True, tie_embeddings="target").scale_output


def test_ssru_has_no_masked_attention():
    message = refusal(decoder_layer="ssru", attention={"decoder": {"score": {"kind": "dot"}}})
    assert "model.attention.decoder has no effect with model.decoder_layer = ssru" in message
    config = EncoderDecoderConfig(decoder_layer="ssru", decoder_layers=2)
    assert [role.key for role in config.attentions()] == ["attention.encoder", "attention.cross"]


def test_llama3_scaling_needs_ordered_factors():
    scaling = {"kind": "llama3", "factor": 8, "low_frequency_factor": 4}
    message = refusal(positions={"kind": "rotary", "scaling": scaling})
    assert "low_frequency_factor = 4.0 is not below high_frequency_factor = 4.0; choose a lower one" in message


def test_num_kv_heads_must_divide_num_heads():
    assert refusal(d_model=24, num_heads=6, num_kv_heads=4) == (
        "recipe.yaml: model.num_kv_heads = 4 does not divide model.num_heads = 6; choose one of [1, 2, 3, 6]"
    )


def test_more_kv_heads_than_heads_are_refused():
    assert "num_kv_heads = 8 does not divide model.num_heads = 4" in refusal(d_model=24, num_heads=4, num_kv_heads=8)


@pytest.mark.parametrize(("size", "heads", "num_kv_heads"), [(12, 12, 1), (35, 5, 5), (7, 1, None), (42, 6, 3)])
def test_valid_sizes_are_accepted(size, heads, num_kv_heads):
    config = EncoderDecoderConfig(d_model=size, num_heads=heads, num_kv_heads=num_kv_heads)
    assert (config.d_model, config.num_heads, config.num_kv_heads) == (size, heads, num_kv_heads)


@pytest.mark.parametrize("key", ["d_model", "encoder_layers", "decoder_layers", "num_heads", "d_ff"])
def test_zero_sizes_are_refused(key):
    assert f"recipe.yaml: {key} = 0: " in refusal(**{key: 0})


def test_unknown_key_suggests_nearest():
    assert refusal(encoder_layer=3) == "recipe.yaml: encoder_layer: no such key. Did you mean encoder_layers?"
    assert "Did you mean dropout.residual?" in refusal(dropout={"residuals": 0.1})


def test_option_without_effect_is_refused():
    assert "positions.max_length: no such key. It belongs to kind learned" in refusal(positions={"max_length": 7})


def test_positions_parse_by_kind():
    assert parse(EncoderDecoderConfig, {"positions": {"kind": "learned"}}).positions == LearnedConfig(max_length=1024)
    assert parse(EncoderDecoderConfig, {}).positions == SinusoidalConfig()
    assert "Did you mean learned?" in refusal(positions={"kind": "learnd"})


@pytest.mark.parametrize("place", ["embedding", "residual", "attention", "feed_forward"])
@pytest.mark.parametrize("probability", [-0.1, 1.0])
def test_probability_range(place, probability):
    assert f"dropout.{place} = {probability}: " in refusal(dropout={place: probability})
