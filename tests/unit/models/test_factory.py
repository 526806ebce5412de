"""Factory of Transformers: tied weights, parameter counts and initialization."""

import math

import pytest
import torch
from torch import nn

from dragoman.errors import ConfigError, DataError
from dragoman.models.config import (
    DropoutConfig,
    EncoderDecoderAttentionConfig,
    EncoderDecoderConfig,
    LearnedConfig,
    SelfAttentionConfig,
)
from dragoman.models.factory import build_encoder_decoder
from dragoman.models.protocols import EncoderDecoder
from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.dropout import Dropout
from dragoman.nn.sparse.linformer import LinformerConfig

SMALL = {"d_model": 15, "num_heads": 3, "d_ff": 19, "encoder_layers": 2, "decoder_layers": 3}


def build(source=17, target=17, **options):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = EncoderDecoderConfig(**{**SMALL, **options})
        return build_encoder_decoder(config, source_vocabulary=source, target_vocabulary=target)


def test_model_implements_protocol():
    assert isinstance(build(), EncoderDecoder)


def test_tie_all():
    model = build(tie_embeddings="all")
    weight = model.unembedding.weight
    assert weight is model.source_embedding.tokens.weight
    assert weight is model.target_embedding.tokens.weight


def test_tie_target():
    model = build(tie_embeddings="target", source=23)
    assert model.unembedding.weight is model.target_embedding.tokens.weight
    assert model.source_embedding.tokens.weight.shape == (23, 15)
    assert model.unembedding.weight.shape == (17, 15)


def test_tie_none():
    model = build(tie_embeddings="none", source=17)
    weights = [model.source_embedding.tokens.weight, model.target_embedding.tokens.weight, model.unembedding.weight]
    assert len({id(weight) for weight in weights}) == 3
    assert len({float(weight.detach().sum()) for weight in weights}) == 3


def test_different_vocabularies_cannot_be_tied():
    with pytest.raises(ConfigError) as caught:
        build(tie_embeddings="all", source=17, target=23)
    assert "17 and 23 entries; set tokenizer.shared=true or model.tie_embeddings=target" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "source", "target"),
    [
        ({}, 17, 17),
        ({"tie_embeddings": "target"}, 23, 17),
        ({"tie_embeddings": "none"}, 23, 17),
        ({"tie_embeddings": "none", "bias": False}, 23, 17),
        ({"norm_position": "post"}, 17, 17),
        ({"norm": "rms"}, 17, 17),
        ({"norm": "rms", "norm_position": "post", "bias": False}, 17, 17),
        ({"gated": True, "activation": "silu"}, 17, 17),
        ({"gated": True, "bias": False}, 17, 17),
        ({"num_kv_heads": 1}, 17, 17),
        ({"num_heads": 5, "num_kv_heads": 1, "bias": False}, 17, 17),
        ({"positions": LearnedConfig(max_length=31)}, 17, 17),
    ],
)
def test_parameter_count_equals_formula(options, source, target):
    model = build(source, target, **options)
    config = EncoderDecoderConfig(**{**SMALL, **options})
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters(config, source, target)


def parameters(config, source, target):
    d, f, bias = config.d_model, config.d_ff, int(config.bias)
    narrow = d // config.num_heads * (config.num_kv_heads or config.num_heads)
    attention = 2 * d * (d + bias) + 2 * narrow * (d + bias)
    feed_forward = (2 if config.gated else 1) * f * (d + bias) + d * (f + bias)
    norm = d if config.norm == "rms" else 2 * d
    encoder = config.encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = config.decoder_layers * (2 * attention + feed_forward + 3 * norm)
    last_norms = 2 * norm if config.norm_position == "pre" else 0
    matrices = {"all": target, "target": source + target, "none": source + 2 * target}[config.tie_embeddings]
    places = 2 * config.positions.max_length if isinstance(config.positions, LearnedConfig) else 0
    return encoder + decoder + last_norms + (matrices + places) * d + bias * target


def test_base_model_has_size_of_paper():
    """Table 3 of Vaswani et al. (2017): 65 million parameters with 37,000 entries and tied embeddings."""
    config = EncoderDecoderConfig(norm_position="post")
    assert parameters(config, 37_000, 37_000) == pytest.approx(65e6, rel=0.04)


def test_embeddings_have_unit_variance_once_scaled():
    model = build(d_model=64, num_heads=4, source=1009, target=1009, tie_embeddings="none")
    for weight in (
        model.source_embedding.tokens.weight,
        model.target_embedding.tokens.weight,
        model.unembedding.weight,
    ):
        assert float(weight.detach().std()) * math.sqrt(64) == pytest.approx(1, rel=0.02)
        assert float(weight.detach().mean()) == pytest.approx(0, abs=0.003)


def test_linear_maps_use_glorot_initialization():
    model = build(d_model=60, num_heads=4, d_ff=101)
    split = {id(map_) for layer in attentions(model) for map_ in (layer.query, layer.key, layer.value)}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            outputs, inputs = module.weight.shape
            bound = math.sqrt(6 / (inputs + outputs)) / (math.sqrt(2) if id(module) in split else 1)
            assert 0.98 * bound < float(module.weight.detach().abs().max()) <= bound
            assert not module.bias.any()


def attentions(model):
    return [module for module in model.modules() if isinstance(module, MultiHeadAttention)]


def test_dropout_probabilities_are_separate():
    chosen = DropoutConfig(embedding=0.1, residual=0.2, attention=0.3, feed_forward=0.4)
    model = build(dropout=chosen)
    assert {layer.dropout for layer in attentions(model)} == {0.3}
    found = {
        name.rpartition(".")[0].rpartition(".")[2]: module.probability
        for name, module in model.named_modules()
        if isinstance(module, Dropout)
    }
    assert found == {
        "source_embedding": 0.1,
        "target_embedding": 0.1,
        "attention_residual": 0.2,
        "cross_attention_residual": 0.2,
        "feed_forward_residual": 0.2,
        "feed_forward": 0.4,
    }


def test_max_length_of_positions():
    assert build().max_length is None
    model = build(positions=LearnedConfig(max_length=7))
    assert model.max_length == 7
    target = torch.full((1, 3), 5)
    assert model(torch.full((1, 7), 5), torch.tensor([7]), target).shape == (1, 3, 17)
    with pytest.raises(DataError, match="position 7"):
        model(torch.full((1, 8), 5), torch.tensor([8]), target)


def test_max_length_is_shortest_limit():
    linformer = SelfAttentionConfig(pattern=LinformerConfig(projected_length=3, max_length=11))
    roles = EncoderDecoderAttentionConfig(encoder=linformer)
    assert build(attention=roles).max_length == 11
    assert build(attention=roles, positions=LearnedConfig(max_length=7)).max_length == 7
    assert build(attention=roles, positions=LearnedConfig(max_length=13)).max_length == 11


def test_seed_determines_weights():
    first, second = dict(build().named_parameters()), dict(build().named_parameters())
    assert first.keys() == second.keys()
    assert all(torch.equal(parameter, second[name]) for name, parameter in first.items())
