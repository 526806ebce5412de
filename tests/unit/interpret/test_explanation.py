"""Studies of networks of every kind: what all of them answer, and what some have not."""

import json

import pytest
import torch

from dragoman.data.tokenizers import BpeConfig, Tokenizer
from dragoman.errors import DataError
from dragoman.interpret.explanation import study
from dragoman.interpret.report import page, tree_of
from dragoman.models.config import AlibiConfig, EncoderDecoderAttentionConfig, EncoderDecoderConfig, SelfAttentionConfig
from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig
from dragoman.nn.sparse import BigBirdConfig, LinformerConfig, SlidingWindowConfig
from tests.random_models import NO_DROPOUT, random_transformer
from tests.random_recurrent_models import random_recurrent

TEXTS = ["two small dogs play .", "the cat sleeps in the house ."]
TOKENIZER = Tokenizer.train(lambda: [(text, text) for text in TEXTS], BpeConfig(vocab_size=60, byte_fallback=False))
SIZES = {"source_vocabulary": len(TOKENIZER.source), "target_vocabulary": len(TOKENIZER.target)}
SMALL = {"d_model": 8, "num_heads": 2, "d_ff": 7, "encoder_layers": 1, "decoder_layers": 2, "dropout": NO_DROPOUT}
MIXTURES = EncoderDecoderAttentionConfig(
    encoder=SelfAttentionConfig(pattern=LinformerConfig(projected_length=3, max_length=53))
)
NEAR = SelfAttentionConfig(pattern=SlidingWindowConfig(window=2))
WINDOWS = EncoderDecoderAttentionConfig(encoder=NEAR, decoder=NEAR)
BLOCKS = EncoderDecoderAttentionConfig(
    encoder=SelfAttentionConfig(pattern=BigBirdConfig(block_size=2, num_random_blocks=1))
)
PRUNED = EncoderDecoderAttentionConfig(
    encoder=SelfAttentionConfig(kept_heads=((1,),)), decoder=SelfAttentionConfig(kept_heads=((0,), (0, 1)))
)
NETWORKS = {
    "plain": lambda: random_transformer(EncoderDecoderConfig(**SMALL), **SIZES),
    "alibi": lambda: random_transformer(EncoderDecoderConfig(**SMALL, positions=AlibiConfig()), **SIZES),
    "mixtures": lambda: random_transformer(EncoderDecoderConfig(**SMALL, attention=MIXTURES), **SIZES),
    "windows": lambda: random_transformer(EncoderDecoderConfig(**SMALL, attention=WINDOWS), **SIZES),
    "big bird": lambda: random_transformer(EncoderDecoderConfig(**SMALL, attention=BLOCKS), **SIZES),
    "shared keys": lambda: random_transformer(EncoderDecoderConfig(**SMALL, num_kv_heads=1), **SIZES),
    "pruned": lambda: random_transformer(EncoderDecoderConfig(**SMALL, attention=PRUNED), **SIZES),
    "recurrent": lambda: random_recurrent(RecurrentConfig(d_model=6), **SIZES),
    "bottleneck": lambda: random_recurrent(RecurrentConfig(d_model=6, attention=NoAttentionConfig()), **SIZES),
}


def studied(name):
    source, target = (TOKENIZER.source.encode(text) for text in TEXTS)
    return study(NETWORKS[name](), TOKENIZER, source, target)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_every_network_is_studied_and_shown(name):
    one = studied(name)
    assert one.target[-1] == one.source[-1] == "<eos>"
    assert [step.token for step in one.steps] == list(one.target)
    assert one.log_prob == pytest.approx(float(one.passed.token_log_probs.sum()), abs=1e-4)
    assert [found.name for found in one.alignments][-1] == "leave one out"
    for found in one.alignments:
        assert found.weights.shape == (len(one.target_words), len(one.source_words))
    tree = tree_of([("ours", [("network", name)], [one], TOKENIZER.target)], title="A <title> & more", compact=True)
    text = page(tree)
    assert "A &lt;title> &amp; more" in text
    assert "NaN" not in json.dumps(tree)


def test_what_a_network_lacks_is_left_out():
    assert set(studied("recurrent").passed.weights) == {"cross"}
    assert studied("recurrent").heads == {}
    bottleneck = studied("bottleneck")
    assert (bottleneck.passed.weights, bottleneck.rollout, bottleneck.statistics) == ({}, None, ())
    assert len(bottleneck.alignments) == 1
    mixtures = studied("mixtures")
    assert mixtures.rollout is None
    assert {row.kind for row in mixtures.statistics} == {"masked", "cross"}
    assert studied("pruned").heads == {}


def test_what_a_head_is_worth_is_the_change_without_it():
    one = studied("plain")
    assert {kind: table.shape for kind, table in one.heads.items()} == {
        "encoder": torch.Size([1, 2]),
        "masked": torch.Size([2, 2]),
        "cross": torch.Size([2, 2]),
    }


def test_an_empty_text_gives_nothing_to_look_at():
    with pytest.raises(DataError, match="nothing to look at"):
        study(NETWORKS["plain"](), TOKENIZER, [], [5])
