"""Classifier: batches, streams and truncation."""

import math
import warnings

import pytest
import torch
from torch import Tensor, nn

from dragoman.data.datasets.labeled import Labels
from dragoman.data.tokenizers import CharacterConfig, LanguageTokenizer, Tokenizer
from dragoman.inference import Classifier, InputWarning
from dragoman.models.config import DropoutConfig, EncoderOnlyConfig, LearnedConfig, SelfAttentionConfig
from dragoman.models.task_heads import ModelWithHead, SequenceHead
from dragoman.nn.sparse.linformer import LinformerConfig
from tests.random_models import random_encoder

TEXTS = ["two dogs play.", "", "  ", "a cat", "dogs, dogs, dogs", "μία γάτα 猫", "a", "by the sea, two dogs and a cat"]
MIXED = SelfAttentionConfig(pattern=LinformerConfig(projected_length=5, max_length=7))
LABELS = Labels(("bad", "good", "none"))


@pytest.fixture(scope="module")
def side() -> LanguageTokenizer:
    return Tokenizer.train(lambda: [("two dogs play.", "a cat sits by the sea")], CharacterConfig()).source


def network(side: LanguageTokenizer, **choices) -> ModelWithHead:
    config = EncoderOnlyConfig(d_model=12, num_heads=2, d_ff=19, num_layers=1, **choices)
    backbone = random_encoder(config, vocabulary=len(side) + 1)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        head = SequenceHead(d_model=12, num_labels=3, pooling="mean", dense=True, dropout=0.1)
        nn.init.normal_(head.output.weight)
    return ModelWithHead(backbone, head).eval()


@pytest.mark.parametrize("batch_tokens", [1, 37, 4096])
def test_batch_equals_alone_in_order(side, batch_tokens):
    model = network(side)
    together = Classifier(model, side, LABELS, batch_tokens=batch_tokens).classify(TEXTS)
    alone = [Classifier(model, side, LABELS).classify([text])[0] for text in TEXTS]
    assert [one.label for one in together] == [one.label for one in alone]
    assert [one.probability for one in together] == pytest.approx([one.probability for one in alone], abs=1e-6)
    assert len({round(one.probability, 6) for one in together}) > 4


def test_probabilities_cover_all_labels_best_first(side):
    model = network(side)
    for text, one in zip(TEXTS, Classifier(model, side, LABELS).classify(TEXTS), strict=True):
        ids = torch.tensor([[2, *side.encode(text), 3]])
        expected = model(ids, torch.tensor([ids.shape[1]])).double().softmax(-1)[0].tolist()
        assert dict(one.probabilities) == pytest.approx(dict(zip(LABELS.names, expected, strict=True)), abs=1e-6)
        assert list(one.probabilities.values()) == sorted(one.probabilities.values(), reverse=True)
        assert math.fsum(one.probabilities.values()) == pytest.approx(1)
        assert (one.label, one.probability) == next(iter(one.probabilities.items()))


def test_ties_take_the_first_label(side):
    def undecided(tokens: Tensor, lengths: Tensor) -> Tensor:
        return torch.zeros(len(lengths), 3)

    [one] = Classifier(undecided, side, LABELS).classify(["a"])
    assert (one.label, one.probability) == ("bad", pytest.approx(1 / 3))


@pytest.mark.parametrize("limit", [{"max_length": 7}, {"positions": LearnedConfig(max_length=7)}, {"attention": MIXED}])
def test_long_text_is_truncated_with_a_warning(side, limit):
    options = {key: value for key, value in limit.items() if key == "max_length"}
    model = network(side, **{key: value for key, value in limit.items() if key != "max_length"})
    classifier = Classifier(model, side, LABELS, **options)
    with pytest.warns(InputWarning, match=r"texts\[11\]: 8 tokens exceed the limit of 7"):
        [short, found] = classifier.classify(["two", "a cat?"], first_line=11)
    assert (short.truncated, found.truncated) == (False, True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [expected] = classifier.classify(["a cat"])
    assert found.probabilities == pytest.approx(dict(expected.probabilities), abs=1e-6)


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_stream_equals_list_and_reads_one_chunk_ahead(side, chunk):
    classifier = Classifier(network(side), side, LABELS)
    assert [one.label for one in classifier.classify_stream(iter(TEXTS), chunk=chunk)] == [
        one.label for one in classifier.classify(TEXTS)
    ]
    read = []
    next(classifier.classify_stream((read.append(text) or text for text in TEXTS), chunk=chunk))
    assert len(read) == min(chunk, len(TEXTS))


def test_stream_numbers_its_texts(side):
    classifier = Classifier(network(side), side, LABELS, max_length=7)
    with pytest.warns(InputWarning, match=r"texts\[4\]: "):
        list(classifier.classify_stream(["a", "b", "c", "d", "a cat?", "e"], chunk=2))


def test_training_model_is_used_without_dropout(side):
    dropping = DropoutConfig(embedding=0.5, residual=0.5)
    classifier = Classifier(network(side, dropout=dropping), side, LABELS)
    expected = classifier.classify(TEXTS)
    classifier.model.train()
    assert classifier.classify(TEXTS) == expected
    assert classifier.model.training


def test_one_text_gives_one_classification(side):
    classifier = Classifier(network(side), side, LABELS)
    assert classifier.classify("two dogs") == classifier.classify(["two dogs"])[0]
    assert classifier.classify([]) == classifier.classify(iter(())) == []


def test_unknown_characters_are_reported(side):
    with pytest.warns(InputWarning, match="^3 texts have characters that are not in the vocabulary: .* μ ί α γ ά τ 猫"):
        Classifier(network(side), side, LABELS).classify(TEXTS)
