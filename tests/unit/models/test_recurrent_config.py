"""Validation of configurations of recurrent models."""

import pytest

from dragoman.config import parse
from dragoman.config_keys import kinds_of
from dragoman.errors import ConfigError
from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig
from dragoman.nn.attention_score_functions import AdditiveConfig, CosineConfig
from tests.attention_variants import SCORES

NONE = {"kind": "none"}


def refusal(**tree):
    with pytest.raises(ConfigError) as caught:
        parse(RecurrentConfig, tree, where="recipe.yaml")
    return str(caught.value)


def test_every_score_and_none_parse():
    assert kinds_of(RecurrentConfig.model_fields["attention"].annotation) == ["none", *SCORES]


def test_attention_parses_by_kind():
    assert parse(RecurrentConfig, {}).attention == AdditiveConfig()
    assert parse(RecurrentConfig, {"attention": NONE}).attention == NoAttentionConfig()
    assert parse(RecurrentConfig, {"attention": {"hidden_size": 7}}).attention == AdditiveConfig(hidden_size=7)
    assert parse(RecurrentConfig, {"attention": {"kind": "cosine"}}).attention == CosineConfig()
    assert "Did you mean additive?" in refusal(attention={"kind": "aditive"})
    assert "attention.rank: no such key. It belongs to kind reduced_rank" in refusal(attention={"rank": 3})


def test_missing_sizes_follow_decoder():
    config = RecurrentConfig(d_model=14)
    assert (config.resolved_encoder_size, config.resolved_embedding_size) == (14, 14)
    config = RecurrentConfig(d_model=7, encoder_size=10, embedding_size=11, tie_embeddings="none")
    assert (config.resolved_encoder_size, config.resolved_embedding_size) == (10, 11)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [({}, True), ({"attention": NONE}, False), ({"input_feeding": False}, False), ({"input_feeding": True}, True)],
)
def test_input_feeding_follows_attention(tree, expected):
    assert parse(RecurrentConfig, tree).use_input_feeding is expected


def test_input_feeding_without_attention_is_refused():
    assert parse(RecurrentConfig, {"attention": NONE, "input_feeding": False}).use_input_feeding is False
    message = refusal(attention=NONE, input_feeding=True)
    assert "recipe.yaml: model.input_feeding = true has no effect without attention" in message


def test_odd_encoder_size_is_refused():
    assert "model.d_model = 7 cannot be halved between the two directions" in refusal(d_model=7)
    assert "model.encoder_size = 9 cannot be halved" in refusal(d_model=14, encoder_size=9)
    assert parse(RecurrentConfig, {"d_model": 7, "encoder_size": 10}).resolved_encoder_size == 10


@pytest.mark.parametrize("kind", ["dot", "scaled_dot", "cosine"])
def test_inner_products_need_equal_sizes(kind):
    assert parse(RecurrentConfig, {"d_model": 14, "attention": {"kind": kind}}).attention.kind == kind
    assert refusal(d_model=14, encoder_size=10, attention={"kind": kind}) == (
        f"recipe.yaml: model.attention.kind = {kind} compares states of one size, but model.encoder_size = 10 and "
        "model.d_model = 14; leave encoder_size out, or choose multiplicative, reduced_rank or additive"
    )


@pytest.mark.parametrize("kind", ["none", "multiplicative", "reduced_rank", "additive"])
def test_other_scores_accept_two_sizes(kind):
    tree = {"d_model": 14, "encoder_size": 10, "attention": {"kind": kind}}
    assert parse(RecurrentConfig, tree).resolved_encoder_size == 10


@pytest.mark.parametrize("tie", ["all", "target"])
def test_embeddings_of_other_size_cannot_be_tied(tie):
    assert f"model.tie_embeddings = {tie} needs embeddings of the hidden size" in refusal(
        d_model=14, embedding_size=10, tie_embeddings=tie
    )
    assert parse(RecurrentConfig, {"d_model": 14, "embedding_size": 14, "tie_embeddings": tie}).tie_embeddings == tie


def test_dropout_between_single_layers_is_refused():
    assert "model.dropout.layers = 0.3 has no effect between single layers" in refusal(dropout={"layers": 0.3})
    tree = {"decoder_layers": 2, "dropout": {"layers": 0.3}}
    assert parse(RecurrentConfig, tree).dropout.layers == 0.3


@pytest.mark.parametrize("key", ["d_model", "encoder_size", "embedding_size", "encoder_layers", "decoder_layers"])
def test_zero_sizes_are_refused(key):
    assert f"recipe.yaml: {key} = 0: " in refusal(**{key: 0})


@pytest.mark.parametrize("place", ["embedding", "layers", "output"])
@pytest.mark.parametrize("probability", [-0.1, 1.0])
def test_probability_range(place, probability):
    assert f"dropout.{place} = {probability}: " in refusal(dropout={place: probability})


def test_unknown_key_suggests_nearest():
    assert refusal(encoder_layer=3) == "recipe.yaml: encoder_layer: no such key. Did you mean encoder_layers?"


def test_copied_states_need_one_size():
    assert parse(RecurrentConfig, {"bridge": "copy", "bidirectional": False, "d_model": 7}).bridge == "copy"
    message = refusal(bridge="copy", encoder_size=8, d_model=6)
    assert "model.bridge = copy needs states of one size" in message
    assert "model.encoder_size = 8 and model.d_model = 6" in message


def test_odd_size_is_for_one_direction():
    assert "choose an even number, or model.bidirectional=false" in refusal(d_model=7)
