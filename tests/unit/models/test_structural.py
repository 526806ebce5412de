"""Structural positions: what their configuration refuses, where their parts stand, and that trees are asked for."""

import pytest
import torch

from dragoman.config import parse
from dragoman.errors import ConfigError, DataError
from dragoman.models.config import CausalConfig, EncoderConfig, StructuralConfig, TransformerConfig
from dragoman.models.factory import build_seq2seq
from dragoman.models.protocols import ReadsTrees, Seq2Seq
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.recurrent.factory import build_recurrent
from dragoman.models.source_trees import WithTrees, with_trees
from dragoman.shapes import Structure
from tests.networks import random_transformer
from tests.variants import PATTERNS, SCORES

SMALL = {"size": 12, "heads": 3, "feed_forward": 19, "encoder_layers": 2, "decoder_layers": 1}
VOCABULARIES = {"source_vocabulary": 17, "target_vocabulary": 17}
BOTH, ABSOLUTE, RELATIVE = ({}, {"relative": False}, {"absolute": False})
SOURCE, LENGTHS = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([4, 2])
TREES = Structure(torch.tensor([[1, 1, 2, 0], [1, 0, 0, 0]]), torch.tensor([[0, 2, 0], [0, 0, 0]]))


def structural(**positions) -> TransformerConfig:
    return TransformerConfig(**SMALL, positions=StructuralConfig(**positions))


def refusal(kind=TransformerConfig, **tree) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(kind, {"positions": {"kind": "structural"}, **tree})
    return str(caught.value)


@pytest.mark.parametrize("kind", [CausalConfig, EncoderConfig])
def test_only_an_encoder_beside_a_decoder_reads_trees(kind):
    message = refusal(kind)
    assert "is for the encoder of an encoder-decoder Transformer, whose sources come with their trees" in message
    assert "choose other positions" in message


def test_something_of_the_trees_must_be_left():
    message = refusal(positions={"kind": "structural", "absolute": False, "relative": False})
    assert "leave nothing of the trees; set one of them to true, or choose sinusoidal positions" in message


def test_a_reach_without_relations_has_no_effect():
    message = refusal(positions={"kind": "structural", "relative": False, "reach": 5})
    assert "model.positions.reach = 5 has no effect with model.positions.relative = false" in message


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("relative", [True, False])
def test_relations_go_with_inner_products_alone(score, relative):
    tree = {
        "positions": {"kind": "structural", "relative": relative},
        "attention": {"encoder": {"score": SCORES[score].model_dump()}},
    }
    if not relative or score in ("dot", "scaled_dot", "multiplicative"):
        assert parse(TransformerConfig, tree).attention.encoder.score.kind == score
        return
    message = refusal(**tree)
    assert f"model.attention.encoder.score.kind = {score} does not go with structural positions" in message
    assert "vectors added to the keys of an inner product; choose dot, scaled_dot or multiplicative" in message


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("relative", [True, False])
def test_relations_go_with_full_attention_alone(pattern, relative):
    tree = {
        "positions": {"kind": "structural", "relative": relative},
        "attention": {"encoder": {"pattern": PATTERNS[pattern].model_dump()}},
    }
    if not relative or pattern == "full":
        assert parse(TransformerConfig, tree).attention.encoder.pattern.kind == pattern
        return
    message = refusal(**tree)
    assert f"model.attention.encoder.pattern.kind = {pattern} does not go with structural positions" in message
    assert "choose full" in message


def test_the_decoder_is_free():
    decoder = {"score": {"kind": "additive"}, "pattern": {"kind": "window"}}
    taken = parse(TransformerConfig, {"positions": {"kind": "structural"}, "attention": {"decoder": decoder}})
    assert taken.attention.decoder.pattern.kind == "window"


@pytest.mark.parametrize("form", [BOTH, ABSOLUTE, RELATIVE])
def test_the_parts_stand_in_the_encoder_and_are_drawn_as_the_others(form):
    model = build_seq2seq(structural(**form), **VOCABULARIES)
    trees = [block.attention.tree for block in (*model.encoder, *model.decoder)]
    assert [tree is not None for tree in trees] == [form is not ABSOLUTE] * 2 + [False]
    assert (model.source_embedding.depth is not None) == (form is not RELATIVE)
    assert model.target_embedding.depth is None
    assert isinstance(model, ReadsTrees)
    assert model.structural
    assert model.maximum_length is None
    if form is not RELATIVE:
        bound = (6 / (12 + 24)) ** 0.5
        assert 0.9 * bound < float(model.source_embedding.depth.join.weight.detach().abs().max()) <= bound


@pytest.mark.parametrize("form", [BOTH, ABSOLUTE, RELATIVE])
def test_each_form_learns_and_looks_at_the_trees(form):
    model = random_transformer(structural(**form), **VOCABULARIES)
    target = torch.tensor([[2, 5], [2, 6]])
    logits = model(SOURCE, LENGTHS, target, TREES)
    logits.square().sum().backward()
    names = [name for name, parameter in model.named_parameters() if "tree" in name or "depth" in name]
    assert len(names) == {"": 4, "relative": 2, "absolute": 2}["".join(form)]
    assert all(dict(model.named_parameters())[name].grad.abs().sum() > 0 for name in names)
    turned = Structure(TREES.words, torch.tensor([[0, 0, 1], [0, 0, 0]]))
    changed = (model(SOURCE, LENGTHS, target, turned) != logits).flatten(1).any(dim=1)
    assert changed.tolist() == [True, False]


def test_trees_are_asked_for_and_refused_where_they_have_no_effect():
    model, plain = (build_seq2seq(config, **VOCABULARIES) for config in (structural(), TransformerConfig(**SMALL)))
    with pytest.raises(DataError, match="has structural positions; give the dependency tree of each source too"):
        model.encode(SOURCE, LENGTHS)
    with pytest.raises(DataError, match="trees have no effect on this network"):
        plain.encode(SOURCE, LENGTHS, TREES)
    assert not plain.structural
    with pytest.raises(DataError, match="trees have no effect on this network"):
        with_trees(plain, TREES).encode(SOURCE, LENGTHS)
    with pytest.raises(DataError, match="trees have no effect on this network"):
        with_trees(build_recurrent(RecurrentConfig(size=8), **VOCABULARIES), TREES)


@torch.no_grad()
def test_with_its_trees_a_network_is_like_any_other():
    model = random_transformer(structural(), **VOCABULARIES)
    reader = with_trees(model, TREES)
    assert isinstance(reader, WithTrees)
    assert isinstance(reader, Seq2Seq)
    target = torch.tensor([[2, 5], [2, 6]])
    hidden = reader.hidden(SOURCE, LENGTHS, target)
    assert torch.equal(reader.unembed(hidden), model(SOURCE, LENGTHS, target, TREES))
    memory = reader.encode(SOURCE, LENGTHS)
    logits, _ = reader.step(target[:, :1], memory, reader.start(memory, beam=1))
    torch.testing.assert_close(logits[:, 0], reader.unembed(hidden)[:, 0])
