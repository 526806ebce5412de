"""Factory of recurrent models: tied weights, parameter counts and initialization."""

import math

import pytest
import torch
from torch import nn

from dragoman.errors import ConfigError
from dragoman.models.protocols import EncoderDecoder, Memory, State
from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig, RecurrentDropoutConfig
from dragoman.models.recurrent.factory import build_recurrent_model
from dragoman.nn.attention_score_functions import AdditiveConfig, DotConfig
from dragoman.nn.dropout import Dropout
from dragoman.training.step import TrainableSeq2Seq

SMALL = {"d_model": 14, "encoder_layers": 2, "decoder_layers": 3}


def build(source=17, target=17, **options):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = RecurrentConfig(**{**SMALL, **options})
        return build_recurrent_model(config, source_vocabulary=source, target_vocabulary=target)


def test_model_implements_protocol():
    model = build()
    assert isinstance(model, EncoderDecoder)
    assert isinstance(model, TrainableSeq2Seq)
    memory = model.encode(torch.tensor([[5, 3]]), torch.tensor([2]))
    assert isinstance(memory, Memory)
    assert isinstance(model.start(memory, beam_size=2), State)
    assert model.max_length is None


def test_tie_all():
    model = build(tie_embeddings="all")
    weight = model.unembedding.weight
    assert weight is model.source_embedding.tokens.weight
    assert weight is model.target_embedding.tokens.weight


def test_tie_target():
    model = build(tie_embeddings="target", source=23)
    assert model.unembedding.weight is model.target_embedding.tokens.weight
    assert model.source_embedding.tokens.weight.shape == (23, 14)


def test_tie_none():
    model = build(tie_embeddings="none", source=23, embedding_size=11)
    assert model.source_embedding.tokens.weight.shape == (23, 11)
    assert model.target_embedding.tokens.weight.shape == (17, 11)
    assert model.unembedding.weight.shape == (17, 14)


def test_different_vocabularies_cannot_be_tied():
    with pytest.raises(ConfigError) as caught:
        build(tie_embeddings="all", source=17, target=23)
    assert "17 and 23 entries; set tokenizer.shared=true or model.tie_embeddings=target" in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cell": "gru"},
        {"tie_embeddings": "target"},
        {"tie_embeddings": "none", "embedding_size": 11},
        {"attention": NoAttentionConfig()},
        {"attention": NoAttentionConfig(), "encoder_size": 10, "cell": "gru"},
        {"attention": DotConfig()},
        {"attention": DotConfig(), "input_feeding": False},
        {"attention": AdditiveConfig(hidden_size=5), "encoder_size": 10},
        {"encoder_layers": 1, "decoder_layers": 1},
        {"encoder_layers": 3, "decoder_layers": 1, "cell": "gru"},
    ],
)
def test_parameter_count_equals_formula(options):
    config = RecurrentConfig(**{**SMALL, **options})
    source = 17 if config.tie_embeddings == "all" else 23
    model = build(source, 17, **options)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters(config, source, 17)


def parameters(config, source, target):
    gates, parts = {"lstm": (4, 2), "gru": (3, 1)}[config.cell]
    d, e, w = config.d_model, config.encoder_size or config.d_model, config.embedding_size or config.d_model

    def layer(inputs, size):
        return gates * size * (inputs + size + 2)

    encoder = 2 * layer(w, e // 2) + (config.encoder_layers - 1) * 2 * layer(e, e // 2)
    decoder = layer(w, d) + (config.decoder_layers - 1) * layer(d, d)
    bridges = config.decoder_layers * parts * d * (e + 1)
    attention = 0 if config.attention.kind == "none" else d * (e + d)
    if config.attention.kind == "additive":
        hidden = config.attention.hidden_size or d
        attention += hidden * (d + e + 1)
    feed = gates * d * d if config.attention.kind != "none" and config.input_feeding is not False else 0
    words = {"all": source * w, "target": (source + target) * w, "none": (source + target) * w + target * d}
    return encoder + decoder + bridges + attention + feed + words[config.tie_embeddings] + target


@pytest.mark.parametrize(("encoder_layers", "decoder_layers"), [(2, 3), (3, 1), (2, 2), (1, 3)])
def test_layers_correspond_from_the_top(encoder_layers, decoder_layers):
    model = build(encoder_layers=encoder_layers, decoder_layers=decoder_layers, attention=NoAttentionConfig())
    source, lengths = torch.tensor([[5, 7, 3], [4, 3, 0]]), torch.tensor([3, 2])
    places = torch.arange(3)[None]
    last = model.encoder(model.eval().source_embedding(source, places), lengths).last
    first = model.encode(source, lengths).initial_states
    assert len(first) == decoder_layers
    for below_top in range(decoder_layers):
        bridge, begins = model.bridges[-1 - below_top], first[-1 - below_top]
        torch.testing.assert_close(tuple(begins), bridge(last[max(-1 - below_top, -encoder_layers)]))


def test_embeddings_have_unit_variance_once_scaled():
    model = build(d_model=64, source=1009, target=1009, tie_embeddings="none", embedding_size=32)
    for weight, size in (
        (model.source_embedding.tokens.weight, 32),
        (model.target_embedding.tokens.weight, 32),
        (model.unembedding.weight, 64),
    ):
        assert float(weight.detach().std()) * math.sqrt(size) == pytest.approx(1, rel=0.02)
    words = model.eval().source_embedding(torch.arange(1009)[None], torch.arange(1009)[None])
    assert float(words.detach().std()) == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_gates_are_initialized_separately(cell):
    model = build(cell=cell, d_model=34, encoder_size=26)
    recurrent = [module for module in model.modules() if isinstance(module, nn.LSTM | nn.GRU)]
    assert len(recurrent) == 5
    for module in recurrent:
        size = module.hidden_size
        for name, parameter in module.named_parameters():
            gates = parameter.detach().split(size)
            assert len(gates) == {"lstm": 4, "gru": 3}[cell]
            for number, gate in enumerate(gates):
                if name.startswith("weight_hh"):
                    torch.testing.assert_close(gate @ gate.t(), torch.eye(size), atol=1e-5, rtol=1e-5)
                elif name.startswith("weight_ih"):
                    bound = math.sqrt(6 / (gate.shape[0] + gate.shape[1]))
                    assert 0.95 * bound < float(gate.abs().max()) <= bound
                else:
                    forgets = cell == "lstm" and number == 1 and name.startswith("bias_ih")
                    assert torch.equal(gate, torch.full_like(gate, float(forgets)))


def test_dropout_probabilities_are_separate():
    model = build(dropout=RecurrentDropoutConfig(embedding=0.1, layers=0.2, output=0.3))
    found = {name: module.probability for name, module in model.named_modules() if isinstance(module, Dropout)}
    assert found == {
        "source_embedding.dropout": 0.1,
        "target_embedding.dropout": 0.1,
        "encoder.dropout": 0.2,
        "decoder.layer_dropout": 0.2,
        "decoder.output_dropout": 0.3,
    }


def test_seed_determines_weights():
    first, second = dict(build().named_parameters()), dict(build().named_parameters())
    assert first.keys() == second.keys()
    assert all(torch.equal(parameter, second[name]) for name, parameter in first.items())
