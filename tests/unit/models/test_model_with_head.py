"""Networks with heads: what the head is given, from encoders and from causal networks."""

import pytest
import torch

from dragoman.models.config import CausalConfig, EncoderConfig, LearnedConfig
from dragoman.models.model_with_head import CausalTrunk, Headed
from dragoman.models.task_heads import SequenceHead, SpanHead, TokenHead
from tests.networks import NO_DROPOUT, random_causal, random_encoder

SIZES = {"size": 14, "heads": 2, "feed_forward": 17, "layers": 1, "dropout": NO_DROPOUT}
TOKENS = torch.tensor([[2, 7, 11, 5, 3], [2, 13, 3, 0, 0]])
LENGTHS = torch.tensor([5, 3])
SEGMENTS = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])


def encoder():
    return random_encoder(EncoderConfig(**SIZES, segments=2), vocabulary=19)


def causal():
    return CausalTrunk(random_causal(CausalConfig(**SIZES), vocabulary=19))


def sequence_head() -> SequenceHead:
    return SequenceHead(size=14, labels=3, pooling="last", dense=False, dropout=0.0)


@pytest.mark.parametrize("trunk", [encoder(), causal()], ids=["encoder", "causal"])
def test_the_head_stands_on_the_hidden_states(trunk):
    sequence, token, span = sequence_head(), TokenHead(size=14, labels=3, dropout=0.0), SpanHead(size=14, dropout=0.0)
    plain = trunk.hidden(TOKENS, LENGTHS)
    torch.testing.assert_close(Headed(trunk, sequence)(TOKENS, LENGTHS), sequence(plain, LENGTHS))
    torch.testing.assert_close(Headed(trunk, token)(TOKENS, LENGTHS), token(plain))
    told_apart = trunk.hidden(TOKENS, LENGTHS, SEGMENTS)
    logits = Headed(trunk, span)(TOKENS, LENGTHS, SEGMENTS)
    torch.testing.assert_close(logits, span(told_apart, LENGTHS, SEGMENTS))


def test_a_causal_network_reads_each_row_as_alone():
    network = Headed(causal(), sequence_head())
    together = network(TOKENS, LENGTHS)
    alone = torch.cat(
        [network(TOKENS[row : row + 1, :length], LENGTHS[row : row + 1]) for row, length in enumerate((5, 3))]
    )
    torch.testing.assert_close(together, alone)


def test_segments_reach_an_encoder():
    network = Headed(encoder(), SpanHead(size=14, dropout=0.0))
    other = torch.tensor([[0, 1, 1, 1, 1], [0, 1, 1, 0, 0]])
    one, two = network(TOKENS, LENGTHS, SEGMENTS), network(TOKENS, LENGTHS, other)
    assert not one.starts[0, 2:4].allclose(two.starts[0, 2:4])
    torch.testing.assert_close(one.starts[1], two.starts[1])


def test_both_parts_are_trained():
    network = Headed(causal(), sequence_head())
    names = dict(network.named_parameters())
    assert {name.partition(".")[0] for name in names} == {"trunk", "head"}
    network(TOKENS, LENGTHS).sum().backward()
    assert names["head.output.weight"].grad is not None
    assert names["trunk.model.embedding.tokens.weight"].grad is not None


def test_the_longest_text_is_that_of_the_trunk():
    long = random_encoder(EncoderConfig(**SIZES, positions=LearnedConfig(length=23)), vocabulary=19)
    assert Headed(long, sequence_head()).maximum_length == 23
    assert Headed(causal(), sequence_head()).maximum_length is None
    assert (
        Headed(
            CausalTrunk(random_causal(CausalConfig(**SIZES, positions=LearnedConfig(length=29)), vocabulary=19)),
            sequence_head(),
        ).maximum_length
        == 29
    )
