"""What networks hold and cost, counted against their own weights."""

import pytest
import torch

from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig
from dragoman.models.factory import build_decoder_only, build_encoder_decoder, build_encoder_only
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.recurrent.factory import build_recurrent_model
from dragoman.profiling.model_cost import count_flops, count_parameters, take_inventory

SIZES = {"d_model": 12, "num_heads": 2, "d_ff": 17}
WORDS = 31


def seq2seq(**choices):
    config = EncoderDecoderConfig(**SIZES, encoder_layers=2, decoder_layers=3, **choices)
    return build_encoder_decoder(config, source_vocabulary=WORDS, target_vocabulary=WORDS)


def causal(**choices):
    return build_decoder_only(DecoderOnlyConfig(**SIZES, num_layers=3, **choices), vocabulary=WORDS)


def recurrent(**choices):
    config = RecurrentConfig(d_model=12, **choices)
    return build_recurrent_model(config, source_vocabulary=WORDS, target_vocabulary=WORDS)


def encoder():
    return build_encoder_only(EncoderOnlyConfig(**SIZES, num_layers=3), vocabulary=WORDS)


NETWORKS = {
    "tied": lambda: seq2seq(),
    "untied": lambda: seq2seq(tie="none"),
    "causal": lambda: causal(),
    "causal, untied": lambda: causal(tie=False),
    "recurrent": lambda: recurrent(),
    "bottleneck": lambda: recurrent(attention={"kind": "none"}),
    "encoder": encoder,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_parameter_is_in_one_part(name):
    network = NETWORKS[name]().eval()
    inventory = take_inventory(network)
    assert inventory.parameters == count_parameters(network) == sum(p.numel() for p in network.parameters())
    assert inventory.weight_bytes == 4 * inventory.parameters
    assert all(count >= 0 for count in inventory.parts.values())


def test_a_tied_weight_counts_where_it_first_occurs():
    parts = take_inventory(seq2seq().eval()).parts
    assert parts["source embedding"] == WORDS * 12
    assert parts["target embedding"] == 0
    assert parts["unembedding"] == WORDS  # its bias


def test_a_token_costs_two_operations_a_weight():
    layer = 4 * 12 * 12 + 2 * 12 * 17
    cross = 2 * 12 * 12
    assert count_flops(seq2seq()) == {
        "encode": 2 * (2 * layer + 3 * cross),
        "decode": 2 * (3 * (layer + cross) + 12 * WORDS),
    }
    assert count_flops(causal()) == {"decode": 2 * (3 * layer + 12 * WORDS)}
    assert count_flops(encoder()) == {"encode": 2 * 3 * layer}
    assert take_inventory(seq2seq().eval()).flops_a_token == sum(count_flops(seq2seq()).values())


def test_a_recurrent_token_meets_the_cells_the_look_back_and_the_vocabulary():
    gates = 4 * 12
    reader = 2 * (4 * 6) * (12 + 6)  # two directions of half the width, from the word and from the state
    writer = gates * (12 + 12)
    plain = count_flops(recurrent(attention={"kind": "none"}))
    assert plain == {"encode": 2 * reader, "decode": 2 * (writer + 12 * WORDS)}
    attentive = count_flops(recurrent(attention={"kind": "dot"}, input_feeding=False))
    assert attentive["decode"] == plain["decode"] + 2 * (24 * 12)


def test_grouped_heads_keep_less():
    whole, grouped = take_inventory(causal().eval()), take_inventory(causal(key_value_heads=1).eval())
    assert whole.cache_bytes == 4 * 3 * 2 * 12  # layers, keys and values, width
    assert grouped.cache_bytes == whole.cache_bytes / 2
    assert take_inventory(seq2seq().eval()).cache_bytes == whole.cache_bytes


def test_what_a_recurrent_network_keeps_does_not_grow():
    assert take_inventory(recurrent().eval()).cache_bytes == 0


def test_what_is_not_known_is_not_guessed():
    with pytest.raises(TypeError, match="Linear"):
        count_flops(torch.nn.Linear(2, 3))
