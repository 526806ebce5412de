"""PyTorch's `nn.Transformer` with the same weights gives the same hidden states and logits."""

import pytest
import torch
from torch import Tensor, nn

from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.feed_forward import FeedForward
from tests.fake_models import SYMBOLS, rectangle
from tests.random_models import NO_DROPOUT, random_transformer

SIZE, HEADS, HIDDEN, VOCABULARY = 35, 5, 53, 43
SOURCES = [[5, 11, 7, 13, 41, 3], [17, 3], [29, 31, 5, 3]]
TARGETS = [[19, 23, 37], [5, 7, 11, 13, 41, 4, 4], []]


def ours(norm_position: str, activation: str) -> EncoderDecoderTransformer:
    config = EncoderDecoderConfig(
        d_model=SIZE,
        num_heads=HEADS,
        d_ff=HIDDEN,
        encoder_layers=2,
        decoder_layers=3,
        norm_position=norm_position,
        activation=activation,
        dropout=NO_DROPOUT,
    )
    return random_transformer(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)


def torch_transformer(model: EncoderDecoderTransformer, norm_position: str, activation: str) -> nn.Transformer:
    """Return PyTorch's model. It ends both stacks in a norm; with post-norm we remove it, as in the paper."""
    options = {"activation": activation, "batch_first": True, "norm_first": norm_position == "pre", "dropout": 0.0}
    pre = norm_position == "pre"
    twin = nn.Transformer(
        SIZE,
        HEADS,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(SIZE, HEADS, HIDDEN, **options),
            num_layers=2,
            norm=nn.LayerNorm(SIZE) if pre else None,
            enable_nested_tensor=False,
        ),
        custom_decoder=nn.TransformerDecoder(
            nn.TransformerDecoderLayer(SIZE, HEADS, HIDDEN, **options),
            num_layers=3,
            norm=nn.LayerNorm(SIZE) if pre else None,
        ),
        **options,
    )
    copy_weights(model, twin)
    return twin.eval()


@torch.no_grad()
def copy_weights(model: EncoderDecoderTransformer, twin: nn.Transformer) -> None:
    for mine, other in zip(model.encoder, twin.encoder.layers, strict=True):
        copy_attention(mine.attention, other.self_attn)
        copy_feed_forward(mine.feed_forward, other)
        copy_same(mine.attention_residual.norm, other.norm1)
        copy_same(mine.feed_forward_residual.norm, other.norm2)
    for mine, other in zip(model.decoder, twin.decoder.layers, strict=True):
        copy_attention(mine.attention, other.self_attn)
        copy_attention(mine.cross_attention, other.multihead_attn)
        copy_feed_forward(mine.feed_forward, other)
        copy_same(mine.attention_residual.norm, other.norm1)
        copy_same(mine.cross_attention_residual.norm, other.norm2)
        copy_same(mine.feed_forward_residual.norm, other.norm3)
    if twin.encoder.norm is not None:
        copy_same(model.encoder_norm, twin.encoder.norm)
        copy_same(model.decoder_norm, twin.decoder.norm)


def copy_same(mine: nn.Module, other: nn.Module) -> None:
    other.load_state_dict(mine.state_dict())


def copy_attention(mine: MultiHeadAttention, other: nn.MultiheadAttention) -> None:
    parts = (mine.query, mine.key, mine.value)
    other.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    other.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    copy_same(mine.output, other.out_proj)


def copy_feed_forward(mine: FeedForward, other: nn.Module) -> None:
    copy_same(mine.inner, other.linear1)
    copy_same(mine.outer, other.linear2)


def torch_hidden(model: EncoderDecoderTransformer, twin: nn.Transformer, source: Tensor, target: Tensor) -> Tensor:
    """Return hidden states from our embedding; PyTorch's masks are `True` where attention is forbidden."""

    def embedded(embedding: nn.Module, ids: Tensor) -> Tensor:
        return embedding(ids, torch.arange(ids.shape[1])[None])

    future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(diagonal=1)
    padding = source == SYMBOLS.pad
    return twin(
        embedded(model.source_embedding, source),
        embedded(model.target_embedding, target),
        tgt_mask=future,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
        tgt_key_padding_mask=target == SYMBOLS.pad,
    )


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_hidden_states_logits_and_gradients_equal_pytorch(norm_position: str, activation: str) -> None:
    model = ours(norm_position, activation)
    twin = torch_transformer(model, norm_position, activation)
    source, lengths = rectangle(SOURCES)
    target, target_lengths = rectangle([[SYMBOLS.bos, *row] for row in TARGETS])
    real = torch.arange(target.shape[1]) < target_lengths[:, None]
    mine, other = model.hidden(source, lengths, target)[real], torch_hidden(model, twin, source, target)[real]
    torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)
    unembedding = model.unembedding
    logits = other @ unembedding.weight.t() + unembedding.bias
    torch.testing.assert_close(model(source, lengths, target)[real], logits, atol=1e-4, rtol=1e-4)
    towards = torch.randn(mine.shape, generator=torch.Generator().manual_seed(1))
    embedding = model.source_embedding.tokens.weight
    [gradient], [their_gradient] = (torch.autograd.grad(out, [embedding], towards) for out in (mine, other))
    assert float((gradient - their_gradient).norm() / their_gradient.norm()) < 1e-4
