"""Models with a task head on encoder-only and decoder-only backbones."""

import pytest
import torch

from dragoman.models.config import DecoderOnlyConfig, EncoderOnlyConfig, LearnedConfig
from dragoman.models.task_heads import DecoderOnlyBackbone, ModelWithHead, SequenceHead, SpanHead, TokenHead
from tests.random_models import NO_DROPOUT, random_causal, random_encoder

SIZES = {"d_model": 14, "num_heads": 2, "d_ff": 17, "num_layers": 1, "dropout": NO_DROPOUT}
TOKENS = torch.tensor([[2, 7, 11, 5, 3], [2, 13, 3, 0, 0]])
LENGTHS = torch.tensor([5, 3])
SEGMENTS = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])


def encoder():
    return random_encoder(EncoderOnlyConfig(**SIZES, num_segments=2), vocabulary=19)


def causal():
    return DecoderOnlyBackbone(random_causal(DecoderOnlyConfig(**SIZES), vocabulary=19))


def sequence_head() -> SequenceHead:
    return SequenceHead(d_model=14, num_labels=3, pooling="last", dense=False, dropout=0.0)


@pytest.mark.parametrize("backbone", [encoder(), causal()], ids=["encoder", "causal"])
def test_head_gets_hidden_states(backbone):
    sequence, token, span = (
        sequence_head(),
        TokenHead(d_model=14, num_labels=3, dropout=0.0),
        SpanHead(d_model=14, dropout=0.0),
    )
    plain = backbone.hidden(TOKENS, LENGTHS)
    torch.testing.assert_close(ModelWithHead(backbone, sequence)(TOKENS, LENGTHS), sequence(plain, LENGTHS))
    torch.testing.assert_close(ModelWithHead(backbone, token)(TOKENS, LENGTHS), token(plain, LENGTHS))
    told_apart = backbone.hidden(TOKENS, LENGTHS, SEGMENTS)
    logits = ModelWithHead(backbone, span)(TOKENS, LENGTHS, SEGMENTS)
    torch.testing.assert_close(logits, span(told_apart, LENGTHS, SEGMENTS))


def test_decoder_only_ignores_padding():
    network = ModelWithHead(causal(), sequence_head())
    together = network(TOKENS, LENGTHS)
    alone = torch.cat(
        [network(TOKENS[row : row + 1, :length], LENGTHS[row : row + 1]) for row, length in enumerate((5, 3))]
    )
    torch.testing.assert_close(together, alone)


def test_segments_reach_encoder():
    network = ModelWithHead(encoder(), SpanHead(d_model=14, dropout=0.0))
    other = torch.tensor([[0, 1, 1, 1, 1], [0, 1, 1, 0, 0]])
    one, two = network(TOKENS, LENGTHS, SEGMENTS), network(TOKENS, LENGTHS, other)
    assert not one.starts[0, 2:4].allclose(two.starts[0, 2:4])
    torch.testing.assert_close(one.starts[1], two.starts[1])


def test_backbone_and_head_get_gradients():
    network = ModelWithHead(causal(), sequence_head())
    names = dict(network.named_parameters())
    assert {name.partition(".")[0] for name in names} == {"backbone", "head"}
    network(TOKENS, LENGTHS).sum().backward()
    assert names["head.output.weight"].grad is not None
    assert names["backbone.model.embedding.tokens.weight"].grad is not None


def test_max_length_is_that_of_backbone():
    long = random_encoder(EncoderOnlyConfig(**SIZES, positions=LearnedConfig(max_length=23)), vocabulary=19)
    assert ModelWithHead(long, sequence_head()).max_length == 23
    assert ModelWithHead(causal(), sequence_head()).max_length is None
    assert (
        ModelWithHead(
            DecoderOnlyBackbone(
                random_causal(DecoderOnlyConfig(**SIZES, positions=LearnedConfig(max_length=29)), vocabulary=19)
            ),
            sequence_head(),
        ).max_length
        == 29
    )
