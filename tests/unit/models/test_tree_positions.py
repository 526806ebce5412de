"""Tree positions of a model: validation, modules and source features."""

import pytest
import torch

from dragoman.array_types import SourceFeatures
from dragoman.config import parse
from dragoman.errors import ConfigError, DataError
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig, TreeConfig
from dragoman.models.factory import build_encoder_decoder
from dragoman.models.protocols import EncoderDecoder, needs_source_features, source_arguments
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.recurrent.factory import build_recurrent_model
from tests.attention_variants import PATTERNS, SCORES
from tests.random_models import random_transformer

SMALL = {"d_model": 12, "num_heads": 3, "d_ff": 19, "encoder_layers": 2, "decoder_layers": 1}
VOCABULARIES = {"source_vocabulary": 17, "target_vocabulary": 17}
BOTH, ABSOLUTE, RELATIVE = ({}, {"relative": False}, {"absolute": False})
SOURCE, LENGTHS = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([4, 2])
TREES = SourceFeatures(torch.tensor([[1, 1, 2, 0], [1, 0, 0, 0]]), torch.tensor([[0, 2, 0], [0, 0, 0]]))


def structural(**positions) -> EncoderDecoderConfig:
    return EncoderDecoderConfig(**SMALL, positions=TreeConfig(**positions))


def refusal(kind=EncoderDecoderConfig, **tree) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(kind, {"positions": {"kind": "tree"}, **tree})
    return str(caught.value)


@pytest.mark.parametrize("kind", [DecoderOnlyConfig, EncoderOnlyConfig])
def test_tree_positions_need_encoder_decoder(kind):
    message = refusal(kind)
    assert "requires the encoder of an encoder-decoder Transformer" in message
    assert "choose other positions" in message


def test_absolute_or_relative_is_required():
    message = refusal(positions={"kind": "tree", "absolute": False, "relative": False})
    assert "leave no tree positions; set one of them to true, or choose sinusoidal positions" in message


def test_max_distance_without_relations_is_refused():
    message = refusal(positions={"kind": "tree", "relative": False, "max_distance": 5})
    assert "model.positions.max_distance = 5 has no effect with model.positions.relative = false" in message


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("relative", [True, False])
def test_relations_need_inner_products(score, relative):
    tree = {
        "positions": {"kind": "tree", "relative": relative},
        "attention": {"encoder": {"score": SCORES[score].model_dump()}},
    }
    if not relative or score in ("dot", "scaled_dot", "multiplicative"):
        assert parse(EncoderDecoderConfig, tree).attention.encoder.score.kind == score
        return
    message = refusal(**tree)
    assert f"model.attention.encoder.score.kind = {score} does not go with tree positions" in message
    assert "vectors added to the keys of an inner product; choose dot, scaled_dot or multiplicative" in message


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("relative", [True, False])
def test_relations_need_full_attention(pattern, relative):
    tree = {
        "positions": {"kind": "tree", "relative": relative},
        "attention": {"encoder": {"pattern": PATTERNS[pattern].model_dump()}},
    }
    if not relative or pattern == "full":
        assert parse(EncoderDecoderConfig, tree).attention.encoder.pattern.kind == pattern
        return
    message = refusal(**tree)
    assert f"model.attention.encoder.pattern.kind = {pattern} does not go with tree positions" in message
    assert "choose full" in message


def test_decoder_attention_is_unrestricted():
    decoder = {"score": {"kind": "additive"}, "pattern": {"kind": "sliding_window"}}
    taken = parse(EncoderDecoderConfig, {"positions": {"kind": "tree"}, "attention": {"decoder": decoder}})
    assert taken.attention.decoder.pattern.kind == "sliding_window"


@pytest.mark.parametrize("form", [BOTH, ABSOLUTE, RELATIVE])
def test_modules_are_in_encoder_only(form):
    model = build_encoder_decoder(structural(**form), **VOCABULARIES)
    trees = [block.attention.tree for block in (*model.encoder, *model.decoder)]
    assert [tree is not None for tree in trees] == [form is not ABSOLUTE] * 2 + [False]
    assert (model.source_embedding.depth is not None) == (form is not RELATIVE)
    assert model.target_embedding.depth is None
    assert isinstance(model, EncoderDecoder)
    assert needs_source_features(model)
    assert model.max_length is None
    if form is not RELATIVE:
        bound = (6 / (12 + 24)) ** 0.5
        assert 0.9 * bound < float(model.source_embedding.depth.join.weight.detach().abs().max()) <= bound


@pytest.mark.parametrize("form", [BOTH, ABSOLUTE, RELATIVE])
def test_all_modules_get_gradients(form):
    model = random_transformer(structural(**form), **VOCABULARIES)
    target = torch.tensor([[2, 5], [2, 6]])
    logits = model(SOURCE, LENGTHS, target, TREES)
    logits.square().sum().backward()
    names = [name for name, parameter in model.named_parameters() if "tree" in name or "depth" in name]
    assert len(names) == {"": 4, "relative": 2, "absolute": 2}["".join(form)]
    assert all(dict(model.named_parameters())[name].grad.abs().sum() > 0 for name in names)
    turned = SourceFeatures(TREES.words, torch.tensor([[0, 0, 1], [0, 0, 0]]))
    changed = (model(SOURCE, LENGTHS, target, turned) != logits).flatten(1).any(dim=1)
    assert changed.tolist() == [True, False]


def test_missing_or_useless_source_features_are_refused():
    model, plain = (
        build_encoder_decoder(config, **VOCABULARIES) for config in (structural(), EncoderDecoderConfig(**SMALL))
    )
    recurrent = build_recurrent_model(RecurrentConfig(d_model=8), **VOCABULARIES)
    with pytest.raises(DataError, match="Give the dependency heads of each source too"):
        model.encode(SOURCE, LENGTHS)
    with pytest.raises(DataError, match="source features have no effect"):
        plain.encode(SOURCE, LENGTHS, TREES)
    for other in (plain, recurrent):
        assert not needs_source_features(other)
        assert source_arguments(other, None) == {}
        with pytest.raises(DataError, match="source features have no effect"):
            source_arguments(other, TREES)
    assert source_arguments(model, TREES) == {"source_features": TREES}


@torch.no_grad()
def test_source_features_reach_every_pass():
    model = random_transformer(structural(), **VOCABULARIES)
    target = torch.tensor([[2, 5], [2, 6]])
    hidden = model.hidden(SOURCE, LENGTHS, target, TREES)
    assert torch.equal(model.unembed(hidden), model(SOURCE, LENGTHS, target, TREES))
    memory = model.encode(SOURCE, LENGTHS, TREES)
    logits, _ = model.step(target[:, :1], memory, model.start(memory, beam_size=1))
    torch.testing.assert_close(logits[:, 0], model.unembed(hidden)[:, 0])
