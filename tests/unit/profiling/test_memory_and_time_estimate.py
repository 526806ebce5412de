"""Parameters, operations and caches counted on models, and the training time they imply."""

import subprocess
import sys

import pytest
import torch

from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig
from dragoman.models.factory import build_decoder_only, build_encoder_decoder, build_encoder_only
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.recurrent.factory import build_recurrent_model
from dragoman.profiling.memory_and_time_estimate import (
    count_flops,
    count_parameters,
    model_cost,
    training_flops,
)
from dragoman.runs.config import parse_experiment

CPU = torch.device("cpu")


@pytest.fixture
def meta_model():
    data = {"train": {"kind": "tsv", "path": "x.tsv"}}
    config = parse_experiment({"preset": "tiny", "data": data}).model
    with torch.device("meta"):
        return build_encoder_decoder(config, source_vocabulary=1009, target_vocabulary=1009)


def test_training_flops_are_six_per_weight(meta_model):
    """Embeddings are looked up and not multiplied, but the tied one unembeds."""
    matrices = [value.numel() for value in meta_model.parameters() if value.ndim == 2]
    assert training_flops(meta_model) == 6 * sum(matrices)


META_MODEL = """
import sys, torch
from dragoman.runs.config import parse_experiment
from dragoman.models.weight_initialization import without_numbers
from dragoman.models.factory import build_encoder_decoder
config = parse_experiment({"preset": "tiny", "data": {"train": {"kind": "tsv", "path": "x.tsv"}}}).model
with without_numbers():
    model = build_encoder_decoder(config, source_vocabulary=1009, target_vocabulary=1009)
assert all(parameter.is_meta for parameter in model.parameters())
sys.exit("sympy is imported" if "sympy" in sys.modules else 0)
"""


def test_meta_model_is_built_without_symbolic_shapes():
    answer = subprocess.run([sys.executable, "-c", META_MODEL], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


SIZES = {"d_model": 12, "num_heads": 2, "d_ff": 17}
VOCABULARY = 31


def encoder_decoder(**choices):
    config = EncoderDecoderConfig(**SIZES, encoder_layers=2, decoder_layers=3, **choices)
    return build_encoder_decoder(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)


def decoder_only(**choices):
    return build_decoder_only(DecoderOnlyConfig(**SIZES, num_layers=3, **choices), vocabulary=VOCABULARY)


def recurrent(**choices):
    config = RecurrentConfig(d_model=12, **choices)
    return build_recurrent_model(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)


def encoder():
    return build_encoder_only(EncoderOnlyConfig(**SIZES, num_layers=3), vocabulary=VOCABULARY)


MODELS = {
    "tied": lambda: encoder_decoder(),
    "untied": lambda: encoder_decoder(tie_embeddings="none"),
    "decoder-only": lambda: decoder_only(),
    "decoder-only, untied": lambda: decoder_only(tie_embeddings=False),
    "recurrent": lambda: recurrent(),
    "recurrent without attention": lambda: recurrent(attention={"kind": "none"}),
    "encoder": encoder,
}


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_in_one_part(name):
    model = MODELS[name]().eval()
    cost = model_cost(model)
    assert cost.parameters == count_parameters(model) == sum(p.numel() for p in model.parameters())
    assert cost.weight_bytes == 4 * cost.parameters
    assert all(count >= 0 for count in cost.parts.values())


def test_tied_weight_counts_in_its_first_part():
    parts = model_cost(encoder_decoder().eval()).parts
    assert parts["source embedding"] == VOCABULARY * 12
    assert parts["target embedding"] == 0
    assert parts["unembedding"] == VOCABULARY  # its bias


def test_flops_are_two_per_weight():
    layer = 4 * 12 * 12 + 2 * 12 * 17
    cross = 2 * 12 * 12
    assert count_flops(encoder_decoder()) == {
        "encode": 2 * (2 * layer + 3 * cross),
        "decode": 2 * (3 * (layer + cross) + 12 * VOCABULARY),
    }
    assert count_flops(decoder_only()) == {"decode": 2 * (3 * layer + 12 * VOCABULARY)}
    assert count_flops(encoder()) == {"encode": 2 * 3 * layer}
    assert model_cost(encoder_decoder().eval()).flops_per_token == sum(count_flops(encoder_decoder()).values())


def test_recurrent_flops_count_cells_attention_and_vocabulary():
    gates = 4 * 12
    encoder_weights = 2 * (4 * 6) * (12 + 6)  # two directions of half the width, from the word and from the state
    decoder_weights = gates * (12 + 12)
    plain = count_flops(recurrent(attention={"kind": "none"}))
    assert plain == {"encode": 2 * encoder_weights, "decode": 2 * (decoder_weights + 12 * VOCABULARY)}
    attentive = count_flops(recurrent(attention={"kind": "dot"}, input_feeding=False))
    assert attentive["decode"] == plain["decode"] + 2 * (24 * 12)


def test_grouped_heads_have_a_smaller_cache():
    whole, grouped = model_cost(decoder_only().eval()), model_cost(decoder_only(num_kv_heads=1).eval())
    assert whole.cache_bytes == 4 * 3 * 2 * 12  # layers, keys and values, width
    assert grouped.cache_bytes == whole.cache_bytes / 2
    assert model_cost(encoder_decoder().eval()).cache_bytes == whole.cache_bytes


def test_ssru_has_two_matrices_and_no_cache():
    whole, ssru = (model_cost(encoder_decoder(decoder_layer=one).eval()) for one in ("self_attention", "ssru"))
    assert ssru.cache_bytes == 0
    assert whole.flops["decode"] - ssru.flops["decode"] == 2 * 3 * 2 * 12**2  # layers, matrices less
    assert whole.flops["encode"] == ssru.flops["encode"]


def test_recurrent_state_does_not_grow():
    assert model_cost(recurrent().eval()).cache_bytes == 0


def test_unknown_model_is_refused():
    with pytest.raises(TypeError, match="Linear"):
        count_flops(torch.nn.Linear(2, 3))
