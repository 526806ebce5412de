"""Transformer blocks compared with their sublayers combined by hand."""

import math

import pytest
import torch

from dragoman.nn.attention import FullAttention, Heads, MultiHeadAttention
from dragoman.nn.attention_score_functions import DotScore
from dragoman.nn.blocks import DecoderBlock, EncoderBlock, Residual
from dragoman.nn.feed_forward import FeedForward
from dragoman.nn.masks import causal_mask, padding_mask
from dragoman.nn.norms import build_norm
from tests.reference_layers import attention, feed_forward, normalized

SIZE = 15
NORMS = pytest.mark.parametrize("norm", ["layer", "rms"])
ORDERS = pytest.mark.parametrize("position", ["pre", "post"])


def attention_layer(*, causal=False):
    return MultiHeadAttention(
        d_model=SIZE,
        heads=Heads(3),
        bias=True,
        dropout=0.0,
        score=DotScore(scale=1 / math.sqrt(5)),
        pattern=FullAttention(causal=causal),
    )


def feed_forward_layer():
    return FeedForward(d_model=SIZE, d_ff=19, activation="relu", gated=False, bias=True, dropout=0.0)


def around(norm, position):
    return lambda: Residual(build_norm(norm, SIZE), position=position, dropout=0.0)


def randomised(block):
    for parameter in block.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape)
    return block.eval()


def encoder_block(norm, position):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return randomised(
            EncoderBlock(
                attention=attention_layer(), feed_forward=feed_forward_layer(), build_residual=around(norm, position)
            )
        )


def decoder_block(norm, position):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return randomised(
            DecoderBlock(
                attention=attention_layer(causal=True),
                cross_attention=attention_layer(),
                feed_forward=feed_forward_layer(),
                build_residual=around(norm, position),
            )
        )


def inputs(rows, places):
    return torch.randn(rows, places, SIZE, generator=torch.Generator().manual_seed(places))


def surrounded(residual, x, sublayer):
    """post: norm(x + f(x)); pre: x + f(norm(x))."""
    if residual.position == "post":
        return normalized(residual.norm, x + sublayer(x))
    return x + sublayer(normalized(residual.norm, x))


def decoded(block, x, source, mask, source_mask):
    """Compose self-attention, cross-attention and the feed-forward network."""
    x = surrounded(block.attention_residual, x, lambda y: attention(block.attention, y, y, mask))
    x = surrounded(
        block.cross_attention_residual, x, lambda y: attention(block.cross_attention, y, source, source_mask)
    )
    return surrounded(block.feed_forward_residual, x, lambda y: feed_forward(block.feed_forward, y))


@NORMS
@ORDERS
def test_encoder_block_equals_sublayers(norm, position):
    block, x, mask = encoder_block(norm, position), inputs(2, 7), padding_mask(torch.tensor([3, 7]), 7)
    middle = surrounded(block.attention_residual, x, lambda y: attention(block.attention, y, y, mask))
    expected = surrounded(block.feed_forward_residual, middle, lambda y: feed_forward(block.feed_forward, y))
    torch.testing.assert_close(block(x, mask), expected)


@NORMS
@ORDERS
def test_decoder_block_equals_sublayers(norm, position):
    block, x, source = decoder_block(norm, position), inputs(2, 5), inputs(2, 7)
    mask, source_mask = causal_mask(5, 5), padding_mask(torch.tensor([3, 7]), 7)
    memory = block.cross_attention.project_keys_values(source)
    output, present = block(x, None, mask=None, memory=memory, memory_mask=source_mask)
    torch.testing.assert_close(output, decoded(block, x, source, mask, source_mask))
    assert present.length == 5


@ORDERS
def test_decoder_block_with_cache_equals_parallel(position):
    """The three hypotheses of each sentence share its memory."""
    block, x, source = decoder_block("layer", position), inputs(6, 5), inputs(2, 7)
    source_mask = padding_mask(torch.tensor([3, 7]), 7)
    copies = [0, 0, 0, 1, 1, 1]
    expected = decoded(block, x, source[copies], causal_mask(5, 5), source_mask[copies])
    memory = block.cross_attention.project_keys_values(source)
    past = None
    for place in range(5):
        output, past = block(x[:, place, None], past, mask=None, memory=memory, memory_mask=source_mask)
        torch.testing.assert_close(output[:, 0], expected[:, place])
        assert past.length == place + 1


@ORDERS
def test_dropout_applies_to_sublayer_only(position):
    residual = Residual(torch.nn.Identity(), position=position, dropout=0.5)
    x, added = torch.full((1, 1, 1009), 3.0), torch.full((1, 1, 1009), 5.0)
    assert set(residual(x, lambda y: added).unique().tolist()) == {3.0, 13.0}
    assert residual.eval()(x, lambda y: added).unique().tolist() == [8.0]
