"""Passes: a sentence in a batch is as alone, predictions are those of forced decoding, and nothing stays changed."""

import pytest
import torch

from dragoman.decoding import score_targets
from dragoman.interpret.forward_pass import padded, watched
from dragoman.models.config import EncoderDecoderAttentionConfig, EncoderDecoderConfig, SelfAttentionConfig
from dragoman.nn.sparse import LinformerConfig
from tests.fake_models import SYMBOLS
from tests.random_models import NO_DROPOUT, random_transformer

SIZES = {"num_heads": 2, "d_model": 10, "d_ff": 7, "dropout": NO_DROPOUT, "encoder_layers": 2, "decoder_layers": 3}
SOURCES, TARGETS = [[5, 6, 7, 8, 9], [7], [11, 4]], [[4, 5], [6, 7, 8, 9], []]


@pytest.fixture(scope="module")
def model():
    return random_transformer(EncoderDecoderConfig(**SIZES), source_vocabulary=13, target_vocabulary=13)


def test_a_sentence_in_a_batch_is_as_alone(model):
    together = watched(model, SOURCES, TARGETS, symbols=SYMBOLS)
    for one, source, target in zip(together, SOURCES, TARGETS, strict=True):
        (alone,) = watched(model, [source], [target], symbols=SYMBOLS)
        assert (one.source, one.target) == (alone.source, alone.target) == ((*source, 3), (*target, 3))
        for kind in ("encoder", "masked", "cross"):
            torch.testing.assert_close(one.weights[kind], alone.weights[kind], atol=1e-5, rtol=1e-4)
            assert torch.equal(one.allowed[kind], alone.allowed[kind])
        torch.testing.assert_close(one.log_probs, alone.log_probs, atol=1e-4, rtol=1e-4)
    places = {kind: one.weights[kind].shape for kind in one.weights}
    assert places == {"encoder": (2, 2, 3, 3), "masked": (3, 2, 1, 1), "cross": (3, 2, 1, 3)}


def test_predictions_are_those_of_forced_decoding(model):
    source, lengths = padded([[*ids, 3] for ids in SOURCES], SYMBOLS, torch.device("cpu"))
    target, _ = padded([[2, *ids] for ids in TARGETS], SYMBOLS, torch.device("cpu"))
    expected, _ = padded([[*ids, 3] for ids in TARGETS], SYMBOLS, torch.device("cpu"))
    scored = score_targets(model, source, lengths, target=target, expected=expected)
    for row, one in enumerate(watched(model, SOURCES, TARGETS, symbols=SYMBOLS)):
        torch.testing.assert_close(one.token_log_probs, scored[row, : len(one.target)], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(one.log_probs.exp().sum(dim=1), torch.ones(len(one.target)))


def test_a_network_in_training_is_watched_without_dropout_and_goes_on_training(model):
    config = EncoderDecoderConfig(**SIZES | {"dropout": NO_DROPOUT.model_copy(update={"residual": 0.5})})
    dropping = random_transformer(config, source_vocabulary=13, target_vocabulary=13).train()
    first, second = (watched(dropping, SOURCES, TARGETS, symbols=SYMBOLS) for _ in range(2))
    assert torch.equal(first[0].log_probs, second[0].log_probs)
    assert dropping.training


def test_mixtures_keep_all_their_keys():
    roles = EncoderDecoderAttentionConfig(
        encoder=SelfAttentionConfig(pattern=LinformerConfig(projected_length=3, max_length=17))
    )
    config = EncoderDecoderConfig(**SIZES, attention=roles)
    model = random_transformer(config, source_vocabulary=13, target_vocabulary=13)
    one = watched(model, SOURCES, TARGETS, symbols=SYMBOLS)[1]
    assert one.mixtures == {"encoder"}
    assert one.weights["encoder"].shape == (2, 2, 2, 3)
