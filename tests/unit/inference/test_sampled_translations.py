"""Sampled translations: they depend on the seed and the number of the text only."""

import math
from collections import Counter

import pytest
import torch

from dragoman.data.tokenizers import Tokenizer, WordConfig
from dragoman.decoding import SamplingConfig
from dragoman.inference.sample_translations import sample_translations
from dragoman.inference.translator import Translator
from dragoman.models.config import EncoderDecoderConfig
from tests.random_models import NO_DROPOUT, random_transformer

TEXTS = ["two dogs play .", "", "a cat sits", "dogs", "two", "two dogs sit . " * 3, "a a a"]
CONFIG = EncoderDecoderConfig(d_model=12, num_heads=2, encoder_layers=1, decoder_layers=1, d_ff=17, dropout=NO_DROPOUT)


def translator(*, batch_tokens: int = 4096) -> Translator:
    tokenizer = Tokenizer.train(lambda: [("two dogs play .", "a cat sits sit")], WordConfig())
    size = len(tokenizer.source)
    model = random_transformer(CONFIG, source_vocabulary=size, target_vocabulary=size, seed=5)
    with torch.no_grad():
        model.unembedding.bias[[0, 1, 2]] -= 30  # special symbols are never sampled
        model.unembedding.bias[3] += 3.5  # so that outputs end soon
    return Translator(model, tokenizer, batch_tokens=batch_tokens)


def drawn(texts: list[str], *, seed: int = 1, chunk: int = 100, batch_tokens: int = 4096) -> list[str]:
    settings = SamplingConfig(seed=seed)
    return list(sample_translations(translator(batch_tokens=batch_tokens), texts, settings, chunk=chunk))


@pytest.mark.parametrize(("chunk", "batch_tokens"), [(1, 4096), (3, 4096), (100, 7)])
def test_samples_do_not_depend_on_the_batch(chunk, batch_tokens):
    assert drawn(TEXTS, chunk=chunk, batch_tokens=batch_tokens) == drawn(TEXTS)


def test_samples_depend_on_the_seed():
    assert drawn(TEXTS, seed=2) != drawn(TEXTS)
    assert drawn(TEXTS)[1] == ""


def test_outputs_end_at_the_configured_limit():
    short = translator()
    short.config = short.config.model_copy(update={"max_length_ratio": 0.0, "max_length_offset": 1})
    found = list(sample_translations(short, ["two dogs"] * 200, SamplingConfig(seed=1), chunk=100))
    assert max(len(text.split()) for text in found) == 1
    assert max(len(text.split()) for text in drawn(["two dogs"] * 200)) > 1


def test_frequencies_follow_the_probabilities():
    found = Counter(drawn(["two dogs"] * 1000))
    assert len(found) > 20
    for text, count in found.most_common(4):
        expected = math.exp(translator().score(["two dogs"], [text])[0].log_prob)
        assert count / 1000 == pytest.approx(expected, abs=0.04)
