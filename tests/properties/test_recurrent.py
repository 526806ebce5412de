"""Properties of every recurrent model.

Causality, independence of padding and batch; PyTorch's loops compute the equations; steps equal the parallel pass;
and the contracts of `reorder`, `select` and `concat`.
"""

from random import Random
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.decoding import DecodingConfig
from dragoman.decoding.forced_decoding import score_outputs, score_targets
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.recurrent.encoder_decoder import RecurrentEncoderDecoder
from dragoman.nn import attention_functions
from dragoman.nn.recurrent.encoder import BidirectionalLayer
from dragoman.nn.recurrent.global_attention import AttentionMemory, SourceAttention
from tests.fake_models import SYMBOLS, rectangle
from tests.property_settings import examples
from tests.random_recurrent_models import random_recurrent, recurrent_configs
from tests.reference_layers import bidirectional_reference
from tests.stepwise_scoring import score_stepwise
from tests.tensor_search import search

SOURCE_VOCABULARY, TARGET_VOCABULARY = 17, 13
CLOSE = {"atol": 1e-8, "rtol": 1e-8}
Pairs = list[tuple[list[int], list[int]]]
Recipe = tuple[RecurrentConfig, int]

seeds = st.integers(0, 2**32)
recipes = st.tuples(recurrent_configs(), seeds)
words = st.lists(st.integers(4, TARGET_VOCABULARY - 1), max_size=7)
pairs = st.lists(st.tuples(words, words), min_size=1, max_size=5)


def network(recipe: Recipe) -> RecurrentEncoderDecoder:
    config, seed = recipe
    source = TARGET_VOCABULARY if config.tie_embeddings == "all" else SOURCE_VOCABULARY
    return random_recurrent(config, source_vocabulary=source, target_vocabulary=TARGET_VOCABULARY, seed=seed).double()


def sources(pairs: Pairs) -> tuple[Tensor, Tensor]:
    return rectangle([[*source, SYMBOLS.eos] for source, _ in pairs])


def inputs(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    """Draw sources with EOS, their lengths, and targets with BOS."""
    return *sources(pairs), rectangle([[SYMBOLS.bos, *target] for _, target in pairs])[0]


def widened(ids: Tensor, columns: int) -> Tensor:
    return torch.cat([ids, ids.new_full((len(ids), columns), SYMBOLS.pad)], dim=1)


def others(ids: Tensor, seed: int) -> Tensor:
    """Return random ids, each different from the given one."""
    shift = torch.randint(1, TARGET_VOCABULARY, ids.shape, generator=torch.Generator().manual_seed(seed))
    return (ids + shift) % TARGET_VOCABULARY


def stepped(model: RecurrentEncoderDecoder, memory: object, tokens: Tensor, state: object) -> tuple[Tensor, object]:
    """Return the logits of `tokens` (batch, positions), given one position at a time to a beam of one."""
    columns = []
    for place in range(tokens.shape[1]):
        logits, state = model.step(tokens[:, place, None], memory, state)
        columns.append(logits[:, 0])
    return torch.stack(columns, dim=1), state


def matrix(rows: int, columns: int, entries: st.SearchStrategy[int]) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(entries, min_size=columns, max_size=columns), min_size=rows, max_size=rows)


tokens_of_targets = st.integers(4, TARGET_VOCABULARY - 1)


@examples(20)
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


@examples(20)
@given(recipes, pairs, st.integers(1, 5))
@torch.no_grad()
def test_more_padding_changes_nothing(recipe: Recipe, pairs: Pairs, columns: int) -> None:
    model = network(recipe)
    source, lengths, target = inputs(pairs)
    plain = model(source, lengths, target)
    torch.testing.assert_close(model(widened(source, columns), lengths, target), plain, **CLOSE)
    both = model(widened(source, columns), lengths, widened(target, columns))
    torch.testing.assert_close(both[:, : target.shape[1]], plain, **CLOSE)


@examples(20)
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


@examples(20)
@given(recipes, pairs, st.randoms(use_true_random=False))
@torch.no_grad()
def test_batch_in_any_order_equals_alone(recipe: Recipe, pairs: Pairs, random: Random) -> None:
    model = network(recipe)
    order = random.sample(range(len(pairs)), len(pairs))
    together = model(*inputs([pairs[row] for row in order]))
    for place, row in enumerate(order):
        alone = model(*inputs([pairs[row]]))[0]
        torch.testing.assert_close(together[place, : len(alone)], alone, **CLOSE)


@examples(20)
@given(recipes, pairs)
def test_packed_loop_equals_the_equations(recipe: Recipe, pairs: Pairs) -> None:
    """Through the whole model, forward and backward."""
    model = network(recipe)

    def ran() -> tuple[Tensor, list[Tensor | None]]:
        model.zero_grad()
        logits = model(*inputs(pairs))
        logits.square().mean().backward()
        return logits, [parameter.grad for parameter in model.parameters()]

    fast, fast_gradients = ran()
    with patch.object(BidirectionalLayer, "forward", bidirectional_reference):
        slow, slow_gradients = ran()
    torch.testing.assert_close(fast, slow, **CLOSE)
    torch.testing.assert_close(fast_gradients, slow_gradients, **CLOSE)


@examples(20)
@given(recipes, pairs, st.sampled_from([1, 40, 10**6]))
def test_every_attention_path_equals_the_equation(recipe: Recipe, pairs: Pairs, chunk: int) -> None:
    """Through the whole model, forward and backward, for any limit on memory."""
    model = network(recipe)

    def equation(self: SourceAttention, query: Tensor, view: AttentionMemory) -> Tensor:
        return self.weights(query, view) @ view.states.values[:, 0]

    def ran() -> tuple[Tensor, list[Tensor | None]]:
        model.zero_grad()
        logits = model(*inputs(pairs))
        logits.square().mean().backward()
        return logits, [parameter.grad for parameter in model.parameters()]

    with patch.object(attention_functions, "MAX_CHUNK_ELEMENTS", chunk):
        fast, fast_gradients = ran()
    with patch.object(SourceAttention, "context", equation):
        slow, slow_gradients = ran()
    torch.testing.assert_close(fast, slow, **CLOSE)
    torch.testing.assert_close(fast_gradients, slow_gradients, **CLOSE)


@examples(20)
@given(recipes, pairs)
@torch.no_grad()
def test_cached_steps_equal_parallel(recipe: Recipe, pairs: Pairs) -> None:
    model = network(recipe)
    source, lengths, target = inputs(pairs)
    memory = model.encode(source, lengths)
    one_by_one, _ = stepped(model, memory, target, model.start(memory, beam_size=1))
    torch.testing.assert_close(one_by_one, model(source, lengths, target), **CLOSE)


@examples(20)
@given(recipes, pairs)
@torch.no_grad()
def test_a_step_leaves_its_state_unchanged(recipe: Recipe, pairs: Pairs) -> None:
    model = network(recipe)
    memory = model.encode(*sources(pairs))
    tokens = torch.full((len(pairs), 1), SYMBOLS.bos)
    _, state = model.step(tokens, memory, model.start(memory, beam_size=1))
    once, _ = model.step(tokens + 2, memory, state)
    model.step(tokens + 3, memory, state)
    again, _ = model.step(tokens + 2, memory, state)
    torch.testing.assert_close(once, again, atol=0, rtol=0)


@examples(20)
@given(recipes, pairs, st.data())
@torch.no_grad()
def test_reordered_beams_continue_their_parents(recipe: Recipe, pairs: Pairs, data: st.DataObject) -> None:
    """After any reordering, the logits of a beam are those of its own prefix decoded again."""
    model = network(recipe)
    batch, width = len(pairs), data.draw(st.sampled_from([1, 2, 3]))
    source, lengths = sources(pairs)
    memory = model.encode(source, lengths)
    state = model.start(memory, beam_size=width)
    prefixes = torch.empty(batch, width, 0, dtype=torch.long)
    tokens = torch.full((batch, width), SYMBOLS.bos)
    for _ in range(4):
        logits, state = model.step(tokens, memory, state)
        prefixes = torch.cat([prefixes, tokens[..., None]], dim=2)
        anew = [model(source, lengths, prefixes[:, beam])[:, -1] for beam in range(width)]
        torch.testing.assert_close(logits, torch.stack(anew, dim=1), **CLOSE)
        wider = data.draw(st.sampled_from([1, 2, 3]))
        parents = torch.tensor(data.draw(matrix(batch, wider, st.integers(0, width - 1))))
        state, width = state.reorder(parents), wider
        prefixes = prefixes.gather(1, parents[..., None].expand(-1, -1, prefixes.shape[2]))
        tokens = torch.tensor(data.draw(matrix(batch, width, tokens_of_targets)))


@examples(20)
@given(recipes, pairs, st.data())
@torch.no_grad()
def test_selected_sentences_continue_as_alone(recipe: Recipe, pairs: Pairs, data: st.DataObject) -> None:
    model = network(recipe)
    rows = torch.tensor(data.draw(st.lists(st.sampled_from(range(len(pairs))), min_size=1, unique=True)))
    tokens = torch.tensor(data.draw(matrix(len(pairs), 5, tokens_of_targets)))
    memory = model.encode(*sources(pairs))
    whole, _ = stepped(model, memory, tokens, model.start(memory, beam_size=1))
    _, state = stepped(model, memory, tokens[:, :2], model.start(memory, beam_size=1))
    rest, _ = stepped(model, memory.select(rows), tokens[rows, 2:], state.select(rows))
    torch.testing.assert_close(rest, whole[rows, 2:], **CLOSE)


@examples(20)
@given(recipes, pairs, pairs, st.data())
@torch.no_grad()
def test_concatenated_sentences_continue_as_alone(
    recipe: Recipe, older: Pairs, younger: Pairs, data: st.DataObject
) -> None:
    model = network(recipe)
    ages = data.draw(st.sampled_from([(5, 0), (3, 2), (1, 4), (0, 3), (2, 2), (0, 0)]))
    memories, states, tokens, alone = [], [], [], []
    for some, age in zip((older, younger), ages, strict=True):
        mine = torch.tensor(data.draw(matrix(len(some), age + 3, tokens_of_targets)))
        memory = model.encode(*sources(some))
        state = model.start(memory, beam_size=1)
        if age:
            _, state = stepped(model, memory, mine[:, :age], state)
        memories.append(memory)
        states.append(state)
        tokens.append(mine[:, age:])
        alone.append(stepped(model, memory, mine[:, age:], state)[0])
    together, _ = stepped(model, memories[0].concat(memories[1]), torch.cat(tokens), states[0].concat(states[1]))
    torch.testing.assert_close(together, torch.cat(alone), **CLOSE)


@examples(20)
@given(recipes, pairs)
@torch.no_grad()
def test_step_weights_cover_only_the_source(recipe: Recipe, pairs: Pairs) -> None:
    model = network(recipe)
    if recipe[0].attention.kind == "none":
        return
    source, lengths = sources(pairs)
    memory = model.encode(source, lengths)
    _, state = model.step(torch.full((len(pairs), 3), SYMBOLS.bos), memory, model.start(memory, beam_size=3))
    weights = model.alignment(memory, state)
    assert weights.shape == (len(pairs), 3, source.shape[1])
    torch.testing.assert_close(weights.sum(dim=2), torch.ones_like(weights[..., 0]), **CLOSE)
    padding = torch.arange(source.shape[1]) >= lengths[:, None]
    assert not weights.transpose(1, 2)[padding].any()


@examples(20)
@given(recipes, pairs)
def test_parallel_scores_equal_step_scores(recipe: Recipe, pairs: Pairs) -> None:
    model = network(recipe)
    source, lengths, target = inputs(pairs)
    expected, _ = rectangle([[*target, SYMBOLS.eos] for _, target in pairs])
    given_ = {"target": target, "expected": expected}
    at_once = score_targets(model, source, lengths, **given_)
    with torch.inference_mode():
        memory = model.encode(source, lengths)
    torch.testing.assert_close(at_once, score_stepwise(model, memory, **given_), atol=1e-5, rtol=1e-5)


@examples(20)
@given(recipes, pairs, st.sampled_from([1, 2, 5]))
def test_returned_score_equals_forced_score(recipe: Recipe, pairs: Pairs, beam: int) -> None:
    model = network(recipe)
    wanted = DecodingConfig(beam_size=beam, n_best=beam)
    source, lengths = sources(pairs)
    with torch.inference_mode():
        memory = model.encode(source, lengths)
    found = search(model, memory, limits=torch.full_like(lengths, 11), config=wanted)
    assert len(found) == len(pairs)
    finished = [(row, one) for row, hypotheses in enumerate(found) for one in hypotheses if one.finished]
    if not finished:
        return
    rows = [row for row, _ in finished]
    forced = score_outputs(
        model, source[rows], lengths[rows], outputs=[one.tokens for _, one in finished], penalty=wanted.penalty
    )
    for (_, one), again in zip(finished, forced, strict=True):
        assert again.score == pytest.approx(one.score, abs=1e-4)
        assert again.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-3)
