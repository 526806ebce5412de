"""Properties of every Transformer: causality, independence of padding and batch, and fused attention = the equation."""

from random import Random
from unittest.mock import patch

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.attention_functions import fused_attention, reference_attention
from tests.attention_variants import attentions
from tests.fake_models import SYMBOLS, rectangle
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT, random_transformer

SOURCE_VOCABULARY, TARGET_VOCABULARY = 17, 13
CLOSE = {"atol": 1e-8, "rtol": 1e-8}
Pairs = list[tuple[list[int], list[int]]]

seeds = st.integers(0, 2**32)
words = st.lists(st.integers(4, TARGET_VOCABULARY - 1), max_size=7)
pairs = st.lists(st.tuples(words, words), min_size=1, max_size=5)


@st.composite
def configs(draw: st.DrawFn) -> EncoderDecoderConfig:
    """Draw a configuration. `d_model` is the number of heads times a prime, or twice one with rotary positions; above
    2,
    because norms over two features leave only a sign."""
    positions, attention = draw(attentions())
    heads, key_value_heads = draw(st.sampled_from([(1, None), (2, 1), (3, None), (3, 1), (5, None), (6, 2), (6, 3)]))
    sizes = [2, 6, 10] if positions.kind == "rotary" else [2, 3, 5, 7]
    return EncoderDecoderConfig(
        d_model=heads * draw(st.sampled_from(sizes[1:] if heads == 1 else sizes)),
        num_heads=heads,
        num_kv_heads=key_value_heads,
        d_ff=11,
        encoder_layers=draw(st.integers(1, 2)),
        decoder_layers=draw(st.integers(1, 3)),
        activation=draw(st.sampled_from(["relu", "gelu", "silu"])),
        gated=draw(st.booleans()),
        norm=draw(st.sampled_from(["layer", "rms"])),
        norm_position=draw(st.sampled_from(["pre", "post"])),
        bias=draw(st.booleans()),
        positions=positions,
        attention=attention,
        scale_embedding=draw(st.booleans()),
        norm_embedding=draw(st.booleans()),
        dropout=NO_DROPOUT,
        tie_embeddings=draw(st.sampled_from(["all", "target", "none"])),
    )


Recipe = tuple[EncoderDecoderConfig, int]
recipes = st.tuples(configs(), seeds)


def network(recipe: Recipe) -> EncoderDecoderTransformer:
    config, seed = recipe
    source = TARGET_VOCABULARY if config.tie_embeddings == "all" else SOURCE_VOCABULARY
    model = random_transformer(config, source_vocabulary=source, target_vocabulary=TARGET_VOCABULARY, seed=seed)
    return (
        model.double()
    )  # in single precision some random networks magnify the last bit beyond any bound worth stating


def inputs(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    """Draw sources with EOS, their lengths, and targets with BOS."""
    source, lengths = rectangle([[*source, SYMBOLS.eos] for source, _ in pairs])
    target, _ = rectangle([[SYMBOLS.bos, *target] for _, target in pairs])
    return source, lengths, target


def widened(ids: Tensor, columns: int) -> Tensor:
    return torch.cat([ids, ids.new_full((len(ids), columns), SYMBOLS.pad)], dim=1)


def others(ids: Tensor, seed: int) -> Tensor:
    """Return random ids, each different from the given one."""
    shift = torch.randint(1, TARGET_VOCABULARY, ids.shape, generator=torch.Generator().manual_seed(seed))
    return (ids + shift) % TARGET_VOCABULARY


@examples(40)
@given(recipes, pairs, st.data(), seeds)
@torch.no_grad()
def test_future_tokens_change_nothing_before(recipe: Recipe, pairs: Pairs, data: st.DataObject, seed: int) -> None:
    """Bit for bit, and the change has an effect at its own position."""
    model = network(recipe)
    source, lengths, target = inputs(pairs)
    place = data.draw(st.integers(0, target.shape[1] - 1))
    changed = torch.cat([target[:, :place], others(target[:, place:], seed)], dim=1)
    before, after = model(source, lengths, target), model(source, lengths, changed)
    assert torch.equal(after[:, :place], before[:, :place])
    assert (after[:, place] != before[:, place]).any(dim=-1).all()


@examples(40)
@given(recipes, pairs, st.data())
@torch.no_grad()
def test_a_truncated_target_keeps_its_beginning(recipe: Recipe, pairs: Pairs, data: st.DataObject) -> None:
    model = network(recipe)
    source, lengths, target = inputs(pairs)
    place = data.draw(st.integers(1, target.shape[1]))
    cut = model(source, lengths, target[:, :place])
    torch.testing.assert_close(cut, model(source, lengths, target)[:, :place], **CLOSE)


@examples(40)
@given(recipes, pairs, st.integers(1, 5))
@torch.no_grad()
def test_more_padding_changes_nothing(recipe: Recipe, pairs: Pairs, columns: int) -> None:
    model = network(recipe)
    source, lengths, target = inputs(pairs)
    plain = model(source, lengths, target)
    torch.testing.assert_close(model(widened(source, columns), lengths, target), plain, **CLOSE)
    both = model(widened(source, columns), lengths, widened(target, columns))
    torch.testing.assert_close(both[:, : target.shape[1]], plain, **CLOSE)


@examples(40)
@given(recipes, pairs, seeds)
@torch.no_grad()
def test_padding_ids_change_nothing(recipe: Recipe, pairs: Pairs, seed: int) -> None:
    """Bit for bit, at every real position."""
    model = network(recipe)
    source, lengths, target = inputs(pairs)
    target_lengths = torch.tensor([len(one) + 1 for _, one in pairs])
    source_padding = torch.arange(source.shape[1]) >= lengths[:, None]
    target_padding = torch.arange(target.shape[1]) >= target_lengths[:, None]
    scribbled = model(
        source.where(~source_padding, others(source, seed)),
        lengths,
        target.where(~target_padding, others(target, seed)),
    )
    plain = model(source, lengths, target)
    assert torch.equal(scribbled[~target_padding], plain[~target_padding])


@examples(40)
@given(recipes, pairs)
@torch.no_grad()
def test_batch_equals_alone(recipe: Recipe, pairs: Pairs) -> None:
    model = network(recipe)
    together = model(*inputs(pairs))
    for row, pair in enumerate(pairs):
        alone = model(*inputs([pair]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, **CLOSE)


@examples(40)
@given(recipes, pairs, st.randoms(use_true_random=False))
@torch.no_grad()
def test_outputs_follow_the_order_of_the_batch(recipe: Recipe, pairs: Pairs, random: Random) -> None:
    model = network(recipe)
    order = random.sample(range(len(pairs)), len(pairs))
    source, lengths, target = inputs(pairs)
    shuffled = model(source[order], lengths[order], target[order])
    torch.testing.assert_close(shuffled, model(source, lengths, target)[order], **CLOSE)


@examples(40)
@given(recipes, pairs)
def test_fused_kernels_equal_the_equation(recipe: Recipe, pairs: Pairs) -> None:
    """Through the whole model, forward and backward."""
    model = network(recipe)

    def ran() -> tuple[Tensor, list[Tensor | None]]:
        model.zero_grad()
        logits = model(*inputs(pairs))
        logits.square().mean().backward()
        return logits, [parameter.grad for parameter in model.parameters()]

    fused, fused_gradients = ran()
    with patch.object(MultiHeadAttention, "attend", MultiHeadAttention.attend_in_chunks):
        plain, plain_gradients = ran()
    torch.testing.assert_close(fused, plain, **CLOSE)
    torch.testing.assert_close(fused_gradients, plain_gradients, atol=1e-3, rtol=1e-3)


@examples(40)
@given(
    rows=st.sampled_from([1, 2]),
    heads=st.sampled_from([(1, 1), (3, 3), (3, 1), (6, 2)]),
    places=st.tuples(st.sampled_from([1, 2, 5, 37]), st.sampled_from([1, 3, 7, 41])),
    sizes=st.tuples(st.sampled_from([1, 2, 3, 11]), st.sampled_from([1, 2, 3, 11])),
    broadcast=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    share=st.sampled_from([0.1, 0.5, 0.9]),
    biased=st.booleans(),
    seed=seeds,
)
def test_fused_attention_equals_the_equation(rows, heads, places, sizes, broadcast, share, biased, seed) -> None:
    """Values and all three gradients, also for queries that may attend to nothing."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(heads[0], places[0], sizes[0]), (heads[1], places[1], sizes[0]), (heads[1], places[1], sizes[1])]
    tensors = [torch.randn(rows, *shape, generator=generator).requires_grad_() for shape in shapes]
    full = (rows, heads[0], places[0])
    shape = [1 if one else size for one, size in zip(broadcast, full, strict=True)]
    allowed = torch.rand(*shape, places[1], generator=generator) < share
    bias = torch.randn(1, *full[1:], places[1], generator=generator) if biased else None
    outputs = [
        implementation(*tensors, mask=allowed, bias=bias) for implementation in (fused_attention, reference_attention)
    ]
    torch.testing.assert_close(*outputs, atol=1e-5, rtol=1e-5)
    towards = torch.randn(outputs[0].shape, generator=generator)
    fused, plain = (torch.autograd.grad(output, tensors, towards) for output in outputs)
    torch.testing.assert_close(fused, plain, atol=1e-4, rtol=1e-4)
