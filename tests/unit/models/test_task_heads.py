"""Task heads: pooling, outputs and allowed answers."""

import pytest
import torch

from dragoman.config import parse
from dragoman.errors import ConfigError
from dragoman.models.task_heads import (
    SequenceHead,
    SequenceHeadConfig,
    SpanHead,
    SpanHeadConfig,
    TokenHead,
    TokenHeadConfig,
    answer_mask,
    build_head,
    pool_hidden,
)
from tests.reference_layers import linear

HIDDEN = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(1))
LENGTHS = torch.tensor([7, 4, 1])
POOLED = {
    "first": [HIDDEN[row, 0] for row in range(3)],
    "mean": [
        torch.stack([HIDDEN[row, place] for place in range(length)]).mean(0) for row, length in enumerate((7, 4, 1))
    ],
    "last": [HIDDEN[0, 6], HIDDEN[1, 3], HIDDEN[2, 0]],
}


@pytest.mark.parametrize("pooling", POOLED)
def test_pooling_ignores_padding(pooling):
    expected = torch.stack(POOLED[pooling])
    torch.testing.assert_close(pool_hidden(HIDDEN, LENGTHS, pooling), expected)
    spoilt = HIDDEN.clone()
    spoilt[1, 4:], spoilt[2, 1:] = torch.nan, torch.inf
    torch.testing.assert_close(pool_hidden(spoilt, LENGTHS, pooling), expected)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("pooling", POOLED)
def test_sequence_head_equals_equation(pooling, dense):
    config = SequenceHeadConfig(pooling=pooling, dense=dense)
    head = build_head(config, d_model=5, num_labels=3).eval()
    x = torch.stack(POOLED[pooling])
    if dense:
        x = torch.tanh(linear(head.dense, x))
    torch.testing.assert_close(head(HIDDEN, LENGTHS), linear(head.output, x))


def test_token_head_equals_equation():
    head = build_head(TokenHeadConfig(), d_model=5, num_labels=3).eval()
    torch.testing.assert_close(head(HIDDEN, LENGTHS), linear(head.output, HIDDEN))


def test_answers_lie_in_context_or_at_zero():
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]])
    expected = [[1, 0, 0, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]]
    allowed = answer_mask(LENGTHS, segments)
    assert allowed.tolist() == torch.tensor(expected).bool().tolist()
    head = build_head(SpanHeadConfig(), d_model=5, num_labels=3).eval()
    logits = head(HIDDEN, LENGTHS, segments)
    for side, plain in zip(logits, linear(head.output, HIDDEN).unbind(-1), strict=True):
        torch.testing.assert_close(side[allowed], plain[allowed])
        assert (side[~allowed] == torch.finfo(side.dtype).min).all()
        torch.testing.assert_close(side.softmax(-1)[~allowed], torch.zeros(int((~allowed).sum())))


def test_dropout_applies_in_training_only():
    segments = torch.ones(3, 7, dtype=torch.long)
    for head, rest in (
        (SequenceHead(d_model=5, num_labels=3, pooling="mean", dense=False, dropout=0.5), (LENGTHS,)),
        (TokenHead(d_model=5, num_labels=3, dropout=0.5), (LENGTHS,)),
        (SpanHead(d_model=5, dropout=0.5), (LENGTHS, segments)),
    ):
        drawn = [head(HIDDEN, *rest) for _ in range(2)]
        assert not all(one.equal(other) for one, other in zip(drawn[0], drawn[1], strict=True))
        head.eval()
        same = [head(HIDDEN, *rest) for _ in range(2)]
        assert all(one.equal(other) for one, other in zip(same[0], same[1], strict=True))


def test_initial_weights_follow_generator():
    def drawn(seed: int) -> torch.Tensor:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return build_head(SequenceHeadConfig(dense=True), d_model=67, num_labels=3).dense.weight.detach()

    assert drawn(1).equal(drawn(1))
    assert not drawn(1).equal(drawn(2))
    assert drawn(1).std().item() == pytest.approx(0.02, rel=0.05)


def test_unknown_pooling_is_refused():
    with pytest.raises(ConfigError, match="pooling = 'max'"):
        parse(SequenceHeadConfig, {"pooling": "max"})
