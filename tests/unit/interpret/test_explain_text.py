"""Explanations of every kind of model, and the parts that some models lack."""

import json

import pytest
import torch

from dragoman.data.tokenizers import BOS, BpeConfig, Tokenizer
from dragoman.errors import DataError
from dragoman.interpret.explain_text import explain_continuation, explain_translation
from dragoman.interpret.report.html_page import render_explanations
from dragoman.interpret.report.serialization import ExplainedSystem, explanations_to_dict
from dragoman.models.config import (
    AlibiConfig,
    DecoderOnlyConfig,
    EncoderDecoderAttentionConfig,
    EncoderDecoderConfig,
    SelfAttentionConfig,
)
from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig
from dragoman.nn.sparse.bigbird import BigBirdConfig
from dragoman.nn.sparse.linformer import LinformerConfig
from dragoman.nn.sparse.sliding_window import SlidingWindowConfig
from tests.random_models import NO_DROPOUT, random_causal, random_transformer
from tests.random_recurrent_models import random_recurrent

TEXTS = ["two small dogs play .", "the cat sleeps in the house ."]
TOKENIZER = Tokenizer.train(lambda: [(text, text) for text in TEXTS], BpeConfig(vocab_size=60, byte_fallback=False))
SIZES = {"source_vocabulary": len(TOKENIZER.source), "target_vocabulary": len(TOKENIZER.target)}
SMALL = {"d_model": 8, "num_heads": 2, "d_ff": 7, "encoder_layers": 1, "decoder_layers": 2, "dropout": NO_DROPOUT}
PROJECTED = EncoderDecoderAttentionConfig(
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
MODELS = {
    "plain": lambda: random_transformer(EncoderDecoderConfig(**SMALL), **SIZES),
    "alibi": lambda: random_transformer(EncoderDecoderConfig(**SMALL, positions=AlibiConfig()), **SIZES),
    "linformer": lambda: random_transformer(EncoderDecoderConfig(**SMALL, attention=PROJECTED), **SIZES),
    "sliding window": lambda: random_transformer(EncoderDecoderConfig(**SMALL, attention=WINDOWS), **SIZES),
    "bigbird": lambda: random_transformer(EncoderDecoderConfig(**SMALL, attention=BLOCKS), **SIZES),
    "grouped heads": lambda: random_transformer(EncoderDecoderConfig(**SMALL, num_kv_heads=1), **SIZES),
    "pruned": lambda: random_transformer(EncoderDecoderConfig(**SMALL, attention=PRUNED), **SIZES),
    "ssru": lambda: random_transformer(EncoderDecoderConfig(**SMALL, decoder_layer="ssru"), **SIZES),
    "recurrent": lambda: random_recurrent(RecurrentConfig(d_model=6), **SIZES),
    "recurrent without attention": lambda: random_recurrent(
        RecurrentConfig(d_model=6, attention=NoAttentionConfig()), **SIZES
    ),
}


def explain(name):
    source, target = (TOKENIZER.source.encode(text) for text in TEXTS)
    return explain_translation(MODELS[name](), TOKENIZER, source, target)


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_is_explained(name):
    one = explain(name)
    assert one.target[-1] == one.source[-1] == "<eos>"
    assert [prediction.token for prediction in one.predictions] == list(one.target)
    assert one.log_prob == pytest.approx(float(one.forward_pass.target_log_probs.sum()), abs=1e-4)
    assert [found.name for found in one.alignments][-1] == "leave one out"
    for found in one.alignments:
        assert found.weights.shape == (len(one.target_words), len(one.source_words))
    system = ExplainedSystem("ours", [("network", name)], [one], TOKENIZER.target)
    tree = explanations_to_dict([system], title="A <title> & more", compact=True)
    text = render_explanations(tree)
    assert "A &lt;title> &amp; more" in text
    assert "NaN" not in json.dumps(tree)


def test_parts_that_a_model_lacks_are_empty():
    assert set(explain("recurrent").forward_pass.weights) == {"cross"}
    assert explain("recurrent").head_effects == {}
    no_attention = explain("recurrent without attention")
    assert (no_attention.forward_pass.weights, no_attention.rollout, no_attention.statistics) == ({}, None, ())
    assert len(no_attention.alignments) == 1
    linformer = explain("linformer")
    assert linformer.rollout is None
    assert {row.kind for row in linformer.statistics} == {"masked", "cross"}
    assert explain("pruned").head_effects == {}


def test_head_effects_have_one_value_per_head():
    one = explain("plain")
    assert {kind: table.shape for kind, table in one.head_effects.items()} == {
        "encoder": torch.Size([1, 2]),
        "masked": torch.Size([2, 2]),
        "cross": torch.Size([2, 2]),
    }


@pytest.mark.parametrize("finished", [False, True])
def test_report_says_whether_a_continuation_has_ended(finished):
    config = DecoderOnlyConfig(d_model=12, num_heads=2, d_ff=19, num_layers=1, dropout=NO_DROPOUT)
    model = random_causal(config, vocabulary=len(TOKENIZER.target), seed=3)
    one = explain_continuation(model, TOKENIZER.target, [BOS, 5], [6, 7], finished=finished)
    tree = explanations_to_dict([ExplainedSystem("model", [], [one], TOKENIZER.target)], title="")
    assert tree["systems"][0]["sentences"][0]["has_end_symbol"] is finished


def test_empty_text_is_refused():
    with pytest.raises(DataError, match="The text is empty"):
        explain_translation(MODELS["plain"](), TOKENIZER, [], [5])
