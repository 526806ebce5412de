"""Properties of decoding steps of the Transformer: cached = parallel, batch = alone, and `reorder`, `select`,
`concat`."""

import functools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.decoding import DecodingConfig
from dragoman.decoding.forced_decoding import score_outputs, score_targets
from dragoman.models.config import EncoderDecoderAttentionConfig, EncoderDecoderConfig, PositionsConfig
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.models.factory import build_encoder_decoder
from tests.attention_variants import attentions
from tests.fake_models import SYMBOLS, rectangle
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT
from tests.stepwise_scoring import score_stepwise
from tests.tensor_search import beam_search

SOURCE_VOCABULARY, TARGET_VOCABULARY = 17, 13
CLOSE = {"atol": 1e-4, "rtol": 1e-4}


@functools.lru_cache(maxsize=64)
def network(
    attention: tuple[PositionsConfig, EncoderDecoderAttentionConfig], norm_position: str, groups: int, seed: int
) -> EncoderDecoderTransformer:
    positions, roles = attention
    config = EncoderDecoderConfig(
        d_model=12,
        num_heads=6,
        num_kv_heads=groups,
        d_ff=19,
        encoder_layers=2,
        decoder_layers=3,
        norm_position=norm_position,
        positions=positions,
        attention=roles,
        tie_embeddings="none",
        dropout=NO_DROPOUT,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build_encoder_decoder(config, source_vocabulary=SOURCE_VOCABULARY, target_vocabulary=TARGET_VOCABULARY)
        for parameter in model.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)
    return model.eval()


Recipe = tuple[tuple[PositionsConfig, EncoderDecoderAttentionConfig], str, int, int]
recipes = st.tuples(attentions(), st.sampled_from(["pre", "post"]), st.sampled_from([2, 6]), st.integers(0, 2))


def ids(vocabulary: int, *, least: int = 0, most: int = 7) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(4, vocabulary - 1), min_size=least, max_size=most)


pairs = st.lists(st.tuples(ids(SOURCE_VOCABULARY), ids(TARGET_VOCABULARY)), min_size=1, max_size=5)
Pairs = list[tuple[list[int], list[int]]]


def sources(pairs: Pairs) -> tuple[Tensor, Tensor]:
    return rectangle([[*source, SYMBOLS.eos] for source, _ in pairs])


def targets(pairs: Pairs) -> Tensor:
    return rectangle([[SYMBOLS.bos, *target] for _, target in pairs])[0]


def stepped(model: EncoderDecoderTransformer, memory: object, tokens: Tensor, state: object) -> tuple[Tensor, object]:
    """Return the logits of `tokens` (batch, positions), given one position at a time to a beam of one."""
    columns = []
    for place in range(tokens.shape[1]):
        logits, state = model.step(tokens[:, place, None], memory, state)
        columns.append(logits[:, 0])
    return torch.stack(columns, dim=1), state


@examples(40)
@given(recipes, pairs)
@torch.no_grad()
def test_cached_steps_equal_parallel(recipe: Recipe, pairs: Pairs) -> None:
    model = network(*recipe)
    source, lengths = sources(pairs)
    target = targets(pairs)
    memory = model.encode(source, lengths)
    one_by_one, _ = stepped(model, memory, target, model.start(memory, beam_size=1))
    parallel = model.unembed(model.hidden(source, lengths, target))
    real = target != SYMBOLS.pad
    torch.testing.assert_close(one_by_one[real], parallel[real], **CLOSE)


@examples(40)
@given(recipes, pairs)
@torch.no_grad()
def test_a_step_leaves_its_state_unchanged(recipe: Recipe, pairs: Pairs) -> None:
    model = network(*recipe)
    memory = model.encode(*sources(pairs))
    tokens = torch.full((len(pairs), 1), SYMBOLS.bos)
    _, state = model.step(tokens, memory, model.start(memory, beam_size=1))
    once, _ = model.step(tokens + 2, memory, state)
    model.step(tokens + 3, memory, state)
    again, _ = model.step(tokens + 2, memory, state)
    torch.testing.assert_close(once, again, atol=0, rtol=0)


@examples(40)
@given(recipes, pairs, st.data())
@torch.no_grad()
def test_reordered_beams_continue_their_parents(recipe: Recipe, pairs: Pairs, data: st.DataObject) -> None:
    """After any reordering, the logits of a beam are those of its own prefix decoded again."""
    model = network(*recipe)
    batch, width = len(pairs), data.draw(st.sampled_from([1, 2, 3]))
    source, lengths = sources(pairs)
    memory = model.encode(source, lengths)
    state = model.start(memory, beam_size=width)
    prefixes = torch.empty(batch, width, 0, dtype=torch.long)
    tokens = torch.full((batch, width), SYMBOLS.bos)
    for _ in range(4):
        logits, state = model.step(tokens, memory, state)
        prefixes = torch.cat([prefixes, tokens[..., None]], dim=2)
        anew = [model.unembed(model.hidden(source, lengths, prefixes[:, beam]))[:, -1] for beam in range(width)]
        torch.testing.assert_close(logits, torch.stack(anew, dim=1), **CLOSE)
        wider = data.draw(st.sampled_from([1, 2, 3]))
        parents = torch.tensor(data.draw(matrix(batch, wider, st.integers(0, width - 1))))
        state, width = state.reorder(parents), wider
        prefixes = prefixes.gather(1, parents[..., None].expand(-1, -1, prefixes.shape[2]))
        tokens = torch.tensor(data.draw(matrix(batch, width, st.integers(4, TARGET_VOCABULARY - 1))))


def matrix(rows: int, columns: int, entries: st.SearchStrategy[int]) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(entries, min_size=columns, max_size=columns), min_size=rows, max_size=rows)


@examples(40)
@given(recipes, pairs, st.data())
@torch.no_grad()
def test_selected_sentences_continue_as_alone(recipe: Recipe, pairs: Pairs, data: st.DataObject) -> None:
    model = network(*recipe)
    rows = torch.tensor(data.draw(st.lists(st.sampled_from(range(len(pairs))), min_size=1, unique=True)))
    tokens = torch.tensor(data.draw(matrix(len(pairs), 5, st.integers(4, TARGET_VOCABULARY - 1))))
    memory = model.encode(*sources(pairs))
    whole, _ = stepped(model, memory, tokens, model.start(memory, beam_size=1))
    _, state = stepped(model, memory, tokens[:, :2], model.start(memory, beam_size=1))
    rest, _ = stepped(model, memory.select(rows), tokens[rows, 2:], state.select(rows))
    torch.testing.assert_close(rest, whole[rows, 2:], **CLOSE)


@examples(40)
@given(recipes, pairs, pairs, st.data())
@torch.no_grad()
def test_concatenated_sentences_continue_as_alone(
    recipe: Recipe, older: Pairs, younger: Pairs, data: st.DataObject
) -> None:
    model = network(*recipe)
    ages = data.draw(st.sampled_from([(5, 0), (3, 2), (1, 4), (0, 3), (2, 2), (0, 0)]))
    memories, states, tokens, alone = [], [], [], []
    for some, age in zip((older, younger), ages, strict=True):
        mine = torch.tensor(data.draw(matrix(len(some), age + 3, st.integers(4, TARGET_VOCABULARY - 1))))
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


@examples(40)
@given(recipes, pairs)
@torch.no_grad()
def test_batch_equals_alone(recipe: Recipe, pairs: Pairs) -> None:
    model = network(*recipe)
    logits = model(*sources(pairs), targets(pairs))
    for row, pair in enumerate(pairs):
        alone = model(*sources([pair]), targets([pair]))[0]
        torch.testing.assert_close(logits[row, : len(alone)], alone, **CLOSE)


@examples(40)
@given(recipes, pairs)
def test_parallel_scores_equal_step_scores(recipe: Recipe, pairs: Pairs) -> None:
    model = network(*recipe)
    source, lengths = sources(pairs)
    expected, _ = rectangle([[*target, SYMBOLS.eos] for _, target in pairs])
    given_ = {"target": targets(pairs), "expected": expected}
    parallel = score_targets(model, source, lengths, **given_)
    with torch.inference_mode():
        memory = model.encode(source, lengths)
    torch.testing.assert_close(parallel, score_stepwise(model, memory, **given_), **CLOSE)


@examples(40)
@given(recipes, pairs, st.sampled_from([1, 2, 5]))
def test_returned_score_equals_forced_score(recipe: Recipe, pairs: Pairs, beam: int) -> None:
    model = network(*recipe)
    wanted = DecodingConfig(beam_size=beam, n_best=beam)
    source, lengths = sources(pairs)
    with torch.inference_mode():
        memory = model.encode(source, lengths)
    limits = torch.full_like(lengths, 11)
    found = beam_search(model, memory, limits=limits, config=wanted)
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


@examples(40)
@given(recipes, pairs, pairs)
@torch.no_grad()
def test_memory_shrinks_to_its_longest_source(recipe: Recipe, left: Pairs, last: Pairs) -> None:
    model = network(*recipe)
    long = model.encode(*sources([*left, ([4] * 9, [])]))
    memory = long.select(torch.arange(len(left))).concat(model.encode(*sources(last)))
    lengths = [len(source) + 1 for source, _ in [*left, *last]]
    assert memory.lengths.tolist() == lengths
    assert all(layer.length == max(lengths) for layer in memory.layers)
    tokens = torch.full((len(lengths), 1), SYMBOLS.bos)
    after, _ = stepped(model, memory, tokens, model.start(memory, beam_size=1))
    whole = model.encode(*sources([*left, *last]))
    expected, _ = stepped(model, whole, tokens, model.start(whole, beam_size=1))
    torch.testing.assert_close(after, expected, **CLOSE)
