"""Properties of every Transformer with tree positions: those of all Transformers, and that only a sentence's own tree
matters."""

from random import Random
from unittest.mock import patch

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.array_types import SourceFeatures
from dragoman.decoding import DecodingConfig
from dragoman.decoding.forced_decoding import score_outputs, score_targets
from dragoman.models.config import (
    CrossAttentionConfig,
    EncoderDecoderAttentionConfig,
    EncoderDecoderConfig,
    SelfAttentionConfig,
    TreeConfig,
)
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.nn import attention_functions
from dragoman.nn.attention import MultiHeadAttention
from tests.attention_variants import PATTERNS, SCORES
from tests.fake_models import SYMBOLS, rectangle
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT, random_transformer
from tests.stepwise_scoring import score_stepwise
from tests.tensor_search import beam_search, search
from tests.trees import Parsed, parsed, structure_of

VOCABULARY = 13
CLOSE = {"atol": 1e-8, "rtol": 1e-8}
Pairs = list[tuple[Parsed, list[int]]]

seeds = st.integers(0, 2**32)
words = st.lists(st.integers(4, VOCABULARY - 1), max_size=5)
pairs = st.lists(st.tuples(parsed(vocabulary=VOCABULARY), words), min_size=1, max_size=4)
scores_of_relations = st.sampled_from([SCORES[name] for name in ("dot", "scaled_dot", "multiplicative")])
all_scores = st.sampled_from(list(SCORES.values()))


@st.composite
def configs(draw: st.DrawFn) -> EncoderDecoderConfig:
    """Draw absolute tree positions, relative ones, or both; relations need full attention with inner products in the
    encoder."""
    absolute, relative = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    patterns = ["full"] if relative else ["full", "sliding_window", "linformer"]
    heads, key_value_heads = draw(st.sampled_from([(1, None), (2, 1), (3, None), (6, 2)]))
    return EncoderDecoderConfig(
        d_model=heads * draw(st.sampled_from([3, 5, 7])),
        num_heads=heads,
        num_kv_heads=key_value_heads,
        d_ff=11,
        encoder_layers=draw(st.integers(1, 2)),
        decoder_layers=draw(st.integers(1, 2)),
        norm_position=draw(st.sampled_from(["pre", "post"])),
        bias=draw(st.booleans()),
        norm_embedding=draw(st.booleans()),
        positions=TreeConfig(absolute=absolute, relative=relative, **({"max_distance": 3} if relative else {})),
        attention=EncoderDecoderAttentionConfig(
            encoder=SelfAttentionConfig(
                score=draw(scores_of_relations if relative else all_scores),
                pattern=PATTERNS[draw(st.sampled_from(patterns))],
            ),
            decoder=SelfAttentionConfig(
                score=draw(all_scores), pattern=PATTERNS[draw(st.sampled_from(["full", "sliding_window"]))]
            ),
            cross=CrossAttentionConfig(score=draw(all_scores)),
        ),
        dropout=NO_DROPOUT,
    )


Recipe = tuple[EncoderDecoderConfig, int]
recipes = st.tuples(configs(), seeds)


def network(recipe: Recipe) -> EncoderDecoderTransformer:
    config, seed = recipe
    sizes = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
    return random_transformer(config, **sizes, seed=seed).double()


def inputs(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor, SourceFeatures]:
    source, lengths = rectangle([[*one.ids, SYMBOLS.eos] for one, _ in pairs])
    target, _ = rectangle([[SYMBOLS.bos, *target] for _, target in pairs])
    return source, lengths, target, structure_of([one for one, _ in pairs])


def widened(ids: Tensor, columns: int) -> Tensor:
    return torch.cat([ids, ids.new_full((len(ids), columns), SYMBOLS.pad)], dim=1)


def others(ids: Tensor, seed: int, *, below: int) -> Tensor:
    """Return random ids, each different from the given one."""
    shift = torch.randint(1, max(2, below), ids.shape, generator=torch.Generator().manual_seed(seed))
    return (ids + shift) % below


@examples(15)
@given(recipes, pairs)
@torch.no_grad()
def test_batch_equals_alone(recipe: Recipe, pairs: Pairs) -> None:
    model = network(recipe)
    together = model(*inputs(pairs))
    for row, pair in enumerate(pairs):
        alone = model(*inputs([pair]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, **CLOSE)


@examples(15)
@given(recipes, pairs, st.randoms(use_true_random=False))
@torch.no_grad()
def test_outputs_follow_the_order_of_the_batch(recipe: Recipe, pairs: Pairs, random: Random) -> None:
    model = network(recipe)
    order = random.sample(range(len(pairs)), len(pairs))
    source, lengths, target, trees = inputs(pairs)
    features = SourceFeatures(trees.words[order], trees.heads[order])
    shuffled = model(source[order], lengths[order], target[order], features)
    torch.testing.assert_close(shuffled, model(source, lengths, target, trees)[order], **CLOSE)


@examples(15)
@given(recipes, pairs, st.integers(0, 5), st.integers(0, 5))
@torch.no_grad()
def test_more_padding_changes_nothing(recipe: Recipe, pairs: Pairs, places: int, more_words: int) -> None:
    """Neither more token positions nor more words."""
    model = network(recipe)
    source, lengths, target, trees = inputs(pairs)
    wider = structure_of([one for one, _ in pairs], places=places, words=more_words)
    padded = model(widened(source, places), lengths, target, wider)
    torch.testing.assert_close(padded, model(source, lengths, target, trees), **CLOSE)


@examples(15)
@given(recipes, pairs, seeds)
@torch.no_grad()
def test_padding_ids_change_nothing(recipe: Recipe, pairs: Pairs, seed: int) -> None:
    """Bit for bit, for any words and heads assigned to the padding."""
    model = network(recipe)
    source, lengths, target, trees = inputs(pairs)
    of_tokens = torch.arange(source.shape[1]) >= lengths[:, None]
    counts = torch.tensor([len(one.heads) for one, _ in pairs])
    of_words = torch.arange(trees.heads.shape[1]) > counts[:, None]
    words_there = others(trees.words, seed, below=trees.heads.shape[1])
    heads_there = torch.arange(trees.heads.shape[1]).sub(1).clamp(min=0).expand_as(trees.heads)  # each on the last
    scribbled = model(
        source.where(~of_tokens, others(source, seed, below=VOCABULARY)),
        lengths,
        target,
        SourceFeatures(trees.words.where(~of_tokens, words_there), trees.heads.where(~of_words, heads_there)),
    )
    assert torch.equal(scribbled, model(source, lengths, target, trees))


@examples(15)
@given(recipes, pairs, st.data(), seeds)
@torch.no_grad()
def test_future_tokens_change_nothing_before(recipe: Recipe, pairs: Pairs, data: st.DataObject, seed: int) -> None:
    model = network(recipe)
    source, lengths, target, trees = inputs(pairs)
    place = data.draw(st.integers(0, target.shape[1] - 1))
    changed = torch.cat([target[:, :place], others(target[:, place:], seed, below=VOCABULARY)], dim=1)
    before, after = model(source, lengths, target, trees), model(source, lengths, changed, trees)
    assert torch.equal(after[:, :place], before[:, :place])
    assert (after[:, place] != before[:, place]).any(dim=-1).all()


@examples(15)
@given(recipes, pairs, parsed(vocabulary=VOCABULARY))
@torch.no_grad()
def test_trees_of_other_sentences_change_nothing(recipe: Recipe, pairs: Pairs, other: Parsed) -> None:
    model = network(recipe)
    target = pairs[0][1]
    beside, alone = model(*inputs([pairs[0], (other, [])])), model(*inputs([pairs[0]]))
    torch.testing.assert_close(beside[0, : len(target) + 1], alone[0], **CLOSE)


@examples(15)
@given(recipes, pairs)
def test_fused_and_chunked_attention_equal_the_equation(recipe: Recipe, pairs: Pairs) -> None:
    """Through the whole model, forward and backward."""
    model = network(recipe)

    def ran() -> tuple[Tensor, list[Tensor | None]]:
        model.zero_grad()
        logits = model(*inputs(pairs))
        logits.square().mean().backward()
        return logits, [parameter.grad for parameter in model.parameters()]

    fused, fused_gradients = ran()
    for chunk in (attention_functions.MAX_CHUNK_ELEMENTS, 1):
        with (
            patch.object(MultiHeadAttention, "attend", MultiHeadAttention.attend_in_chunks),
            patch.object(attention_functions, "MAX_CHUNK_ELEMENTS", chunk),
        ):
            plain, plain_gradients = ran()
        torch.testing.assert_close(fused, plain, **CLOSE)
        torch.testing.assert_close(fused_gradients, plain_gradients, atol=1e-6, rtol=1e-6)


@examples(15)
@given(recipes, pairs)
@torch.no_grad()
def test_cached_steps_equal_parallel(recipe: Recipe, pairs: Pairs) -> None:
    model = network(recipe)
    source, lengths, target, trees = inputs(pairs)
    expected, _ = rectangle([[*one, SYMBOLS.eos] for _, one in pairs])
    given_ = {"target": target, "expected": expected}
    parallel = score_targets(model, source, lengths, source_features=trees, **given_)
    by_steps = score_stepwise(model, model.encode(source, lengths, trees), **given_)
    torch.testing.assert_close(parallel, by_steps, atol=1e-4, rtol=1e-4)


@examples(15)
@given(recipes, pairs, st.sampled_from([1, 2, 5]))
def test_returned_score_equals_forced_score(recipe: Recipe, pairs: Pairs, beam: int) -> None:
    model = network(recipe)
    source, lengths, _, trees = inputs(pairs)
    wanted = DecodingConfig(beam_size=beam, n_best=beam)
    with torch.inference_mode():
        memory = model.encode(source, lengths, trees)
    limits = torch.full_like(lengths, 7)
    found = beam_search(model, memory, limits=limits, config=wanted)
    for rank in range(beam):
        ranked = [row[min(rank, len(row) - 1)] for row in found]
        outputs = [one.tokens for one in ranked]
        again = score_outputs(model, source, lengths, outputs=outputs, penalty=wanted.penalty, source_features=trees)
        for one, other in zip(ranked, again, strict=True):
            if one.finished:
                torch.testing.assert_close(other.score, one.score, atol=1e-4, rtol=1e-4)


@examples(15)
@given(recipes, pairs, seeds)
@torch.no_grad()
def test_search_in_a_batch_equals_alone(recipe: Recipe, pairs: Pairs, seed: int) -> None:
    model = network(recipe)

    def best(some: Pairs) -> list[tuple[int, ...]]:
        source, lengths, _, trees = inputs(some)
        memory = model.encode(source, lengths, trees)
        limits = torch.full_like(lengths, 5)
        found = search(model, memory, limits=limits, config=DecodingConfig(beam_size=2))
        return [row[0].tokens for row in found]

    assert best(pairs) == [best([pair])[0] for pair in pairs]
