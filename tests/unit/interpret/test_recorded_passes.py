"""Recorded forward passes: batch invariance, predictions of forced decoding, and unchanged models."""

import pytest
import torch

from dragoman.decoding.forced_decoding import score_targets
from dragoman.interpret.attention_recorder import pad_sequences, record_pairs
from dragoman.models.config import EncoderDecoderAttentionConfig, EncoderDecoderConfig, SelfAttentionConfig
from dragoman.nn.sparse.linformer import LinformerConfig
from tests.random_models import NO_DROPOUT, random_transformer

SIZES = {"num_heads": 2, "d_model": 10, "d_ff": 7, "dropout": NO_DROPOUT, "encoder_layers": 2, "decoder_layers": 3}
SOURCES, TARGETS = [[5, 6, 7, 8, 9], [7], [11, 4]], [[4, 5], [6, 7, 8, 9], []]


@pytest.fixture(scope="module")
def model():
    return random_transformer(EncoderDecoderConfig(**SIZES), source_vocabulary=13, target_vocabulary=13)


def test_sentence_in_a_batch_equals_the_sentence_alone(model):
    together = record_pairs(model, SOURCES, TARGETS)
    for one, source, target in zip(together, SOURCES, TARGETS, strict=True):
        (alone,) = record_pairs(model, [source], [target])
        assert (one.source, one.target) == (alone.source, alone.target) == ((*source, 3), (*target, 3))
        for kind in ("encoder", "masked", "cross"):
            torch.testing.assert_close(one.weights[kind], alone.weights[kind], atol=1e-5, rtol=1e-4)
            assert torch.equal(one.masks[kind], alone.masks[kind])
        torch.testing.assert_close(one.log_probs, alone.log_probs, atol=1e-4, rtol=1e-4)
    places = {kind: one.weights[kind].shape for kind in one.weights}
    assert places == {"encoder": (2, 2, 3, 3), "masked": (3, 2, 1, 1), "cross": (3, 2, 1, 3)}


def test_predictions_equal_forced_decoding(model):
    source, lengths = pad_sequences([[*ids, 3] for ids in SOURCES], torch.device("cpu"))
    target, _ = pad_sequences([[2, *ids] for ids in TARGETS], torch.device("cpu"))
    expected, _ = pad_sequences([[*ids, 3] for ids in TARGETS], torch.device("cpu"))
    scored = score_targets(model, source, lengths, target=target, expected=expected)
    for row, one in enumerate(record_pairs(model, SOURCES, TARGETS)):
        torch.testing.assert_close(one.target_log_probs, scored[row, : len(one.target)], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(one.log_probs.exp().sum(dim=1), torch.ones(len(one.target)))


def test_recording_disables_dropout_and_restores_training(model):
    config = EncoderDecoderConfig(**SIZES | {"dropout": NO_DROPOUT.model_copy(update={"residual": 0.5})})
    dropping = random_transformer(config, source_vocabulary=13, target_vocabulary=13).train()
    first, second = (record_pairs(dropping, SOURCES, TARGETS) for _ in range(2))
    assert torch.equal(first[0].log_probs, second[0].log_probs)
    assert dropping.training


def test_projected_keys_are_all_kept():
    roles = EncoderDecoderAttentionConfig(
        encoder=SelfAttentionConfig(pattern=LinformerConfig(projected_length=3, max_length=17))
    )
    config = EncoderDecoderConfig(**SIZES, attention=roles)
    model = random_transformer(config, source_vocabulary=13, target_vocabulary=13)
    one = record_pairs(model, SOURCES, TARGETS)[1]
    assert one.projected == {"encoder"}
    assert one.weights["encoder"].shape == (2, 2, 2, 3)
