"""Properties of every encoder-decoder model: Transformers, Transformers with tree positions, and recurrent models.

Causality, independence of padding and batch, fast attention = the equations, decoding steps = the parallel pass, and
the contracts of `reorder`, `select` and `concat`.
"""

from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
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
from dragoman.models.protocols import source_arguments
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.nn import attention_functions
from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.attention_functions import fused_attention, reference_attention
from dragoman.nn.recurrent.encoder import RecurrentEncoderLayer
from dragoman.nn.recurrent.global_attention import AttentionMemory, SourceAttention
from tests.attention_variants import PATTERNS, SCORES, attentions
from tests.fake_models import SYMBOLS, rectangle
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT, random_transformer
from tests.random_recurrent_models import random_recurrent, recurrent_configs
from tests.reference_layers import bidirectional_reference
from tests.stepwise_scoring import score_stepwise
from tests.tensor_search import beam_search, search
from tests.trees import Parsed, parsed, structure_of

SOURCE_VOCABULARY, TARGET_VOCABULARY = 17, 13
CLOSE = {"atol": 1e-8, "rtol": 1e-8}
Pairs = list[tuple[Parsed, list[int]]]

seeds = st.integers(0, 2**32)
tokens = st.integers(4, TARGET_VOCABULARY - 1)
words = st.lists(tokens, max_size=7)
scores_of_relations = st.sampled_from([SCORES[name] for name in ("dot", "scaled_dot", "multiplicative")])
all_scores = st.sampled_from(list(SCORES.values()))


@st.composite
def transformer_configs(draw: st.DrawFn) -> EncoderDecoderConfig:
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
        head_size=draw(st.sampled_from([None, 2, 6])),
        d_ff=11,
        encoder_layers=draw(st.integers(1, 2)),
        decoder_layers=draw(st.integers(1, 3)),
        activation=draw(st.sampled_from(["relu", "gelu", "silu"])),
        gated=draw(st.booleans()),
        norm=draw(st.sampled_from(["layer", "rms"])),
        norm_position=draw(st.sampled_from(["pre", "post"])),
        bias=draw(st.booleans()),
        qkv_bias=draw(st.sampled_from([None, True, False])),
        output_bias=draw(st.sampled_from([None, True, False])),
        positions=positions,
        attention=attention,
        scale_embedding=draw(st.booleans()),
        norm_embedding=draw(st.booleans()),
        dropout=NO_DROPOUT,
        tie_embeddings=draw(st.sampled_from(["all", "target", "none"])),
    )


@st.composite
def ssru_configs(draw: st.DrawFn) -> EncoderDecoderConfig:
    """Draw any configuration, with an SSRU in place of the decoder's self-attention."""
    config = draw(st.one_of(transformer_configs(), tree_configs()))
    attention = {**config.attention.model_dump(), "decoder": {}}
    return EncoderDecoderConfig(**{**config.model_dump(), "attention": attention, "decoder_layer": "ssru"})


@st.composite
def tree_configs(draw: st.DrawFn) -> EncoderDecoderConfig:
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


CONFIGS = {
    "transformer": transformer_configs(),
    "tree": tree_configs(),
    "ssru": ssru_configs(),
    "recurrent": recurrent_configs(),
}
EVERY_MODEL = pytest.mark.parametrize("kind", CONFIGS)
TRANSFORMERS = pytest.mark.parametrize("kind", ["transformer", "tree", "ssru"])


def network(config: EncoderDecoderConfig | RecurrentConfig, seed: int) -> Any:
    """Return a model in double precision: some random networks magnify the last bit beyond any bound worth stating."""
    source = TARGET_VOCABULARY if config.tie_embeddings == "all" else SOURCE_VOCABULARY
    build: Any = random_recurrent if isinstance(config, RecurrentConfig) else random_transformer
    return build(config, source_vocabulary=source, target_vocabulary=TARGET_VOCABULARY, seed=seed).double()


@dataclass
class Case:
    """A random model and pairs of sources and targets; the trees of sources are used by tree positions only."""

    config: EncoderDecoderConfig | RecurrentConfig
    seed: int
    pairs: Pairs

    @cached_property
    def model(self) -> Any:
        return network(self.config, self.seed)

    def source(self, pairs: Pairs | None = None, **padding: int) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Return sources with EOS, their lengths, and their trees as arguments."""
        sources = [one for one, _ in (self.pairs if pairs is None else pairs)]
        ids, lengths = rectangle([[*one.ids, SYMBOLS.eos] for one in sources])
        has_trees = self.config.kind == "encoder_decoder" and self.config.positions.kind == "tree"
        features = structure_of(sources, **padding) if has_trees else None
        return ids, lengths, source_arguments(self.model, features)

    def __call__(self, pairs: Pairs) -> Tensor:
        """Return the logits of some pairs."""
        source, lengths, trees = self.source(pairs)
        return self.model(source, lengths, targets(pairs), **trees)

    def encode(self, pairs: Pairs | None = None) -> Any:
        source, lengths, trees = self.source(pairs)
        with torch.inference_mode():
            return self.model.encode(source, lengths, **trees)


def targets(pairs: Pairs) -> Tensor:
    """Return targets with BOS."""
    return rectangle([[SYMBOLS.bos, *target] for _, target in pairs])[0]


@st.composite
def several_pairs(draw: st.DrawFn) -> Pairs:
    return draw(st.lists(st.tuples(parsed(vocabulary=TARGET_VOCABULARY), words), min_size=1, max_size=4))


@st.composite
def cases(draw: st.DrawFn, kind: str) -> Case:
    return Case(draw(CONFIGS[kind]), draw(seeds), draw(several_pairs()))


def widened(ids: Tensor, columns: int) -> Tensor:
    return torch.cat([ids, ids.new_full((len(ids), columns), SYMBOLS.pad)], dim=1)


def others(ids: Tensor, seed: int, *, below: int = TARGET_VOCABULARY) -> Tensor:
    """Return random ids, each different from the given one."""
    shift = torch.randint(1, max(2, below), ids.shape, generator=torch.Generator().manual_seed(seed))
    return (ids + shift) % below


def stepped(model: Any, memory: Any, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Return the logits of `tokens` (batch, positions), given one position at a time to a beam of one."""
    columns = []
    for place in range(tokens.shape[1]):
        logits, state = model.step(tokens[:, place, None], memory, state)
        columns.append(logits[:, 0])
    return torch.stack(columns, dim=1), state


def matrix(rows: int, columns: int, entries: st.SearchStrategy[int]) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(entries, min_size=columns, max_size=columns), min_size=rows, max_size=rows)


def forward_backward(case: Case) -> tuple[Tensor, list[Tensor | None]]:
    case.model.zero_grad()
    logits = case(case.pairs)
    logits.square().mean().backward()
    return logits, [parameter.grad for parameter in case.model.parameters()]


@EVERY_MODEL
@examples(25)
@given(st.data())
@torch.no_grad()
def test_future_tokens_change_nothing_before(kind: str, data: st.DataObject) -> None:
    """Bit for bit, and the change has an effect at its own position."""
    case = data.draw(cases(kind))
    source, lengths, trees = case.source()
    target = targets(case.pairs)
    place = data.draw(st.integers(0, target.shape[1] - 1))
    changed = torch.cat([target[:, :place], others(target[:, place:], data.draw(seeds))], dim=1)
    before, after = (case.model(source, lengths, one, **trees) for one in (target, changed))
    assert torch.equal(after[:, :place], before[:, :place])
    assert (after[:, place] != before[:, place]).any(dim=-1).all()


@EVERY_MODEL
@examples(25)
@given(st.data())
@torch.no_grad()
def test_a_truncated_target_keeps_its_beginning(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    source, lengths, trees = case.source()
    target = targets(case.pairs)
    place = data.draw(st.integers(1, target.shape[1]))
    cut, whole = (case.model(source, lengths, one, **trees) for one in (target[:, :place], target))
    torch.testing.assert_close(cut, whole[:, :place], **CLOSE)


@EVERY_MODEL
@examples(25)
@given(st.data(), st.integers(0, 5), st.integers(0, 5))
@torch.no_grad()
def test_more_padding_changes_nothing(kind: str, data: st.DataObject, columns: int, more_words: int) -> None:
    """Of sources, of the words of their trees, and of targets."""
    case = data.draw(cases(kind))
    plain, target = case(case.pairs), targets(case.pairs)
    source, lengths, trees = case.source(places=columns, words=more_words)
    for wider in (target, widened(target, columns)):
        padded = case.model(widened(source, columns), lengths, wider, **trees)
        torch.testing.assert_close(padded[:, : target.shape[1]], plain, **CLOSE)


@EVERY_MODEL
@examples(25)
@given(st.data(), seeds)
@torch.no_grad()
def test_padding_ids_change_nothing(kind: str, data: st.DataObject, seed: int) -> None:
    """Bit for bit at every real position, for any ids, words and heads of the padding."""
    case = data.draw(cases(kind))
    source, lengths, trees = case.source()
    target = targets(case.pairs)
    target_padding = torch.arange(target.shape[1]) >= torch.tensor([len(one) + 1 for _, one in case.pairs])[:, None]
    source_padding = torch.arange(source.shape[1]) >= lengths[:, None]
    scribbled = dict(trees)
    if tree := trees.get("source_features"):
        word_padding = torch.arange(tree.heads.shape[1]) > torch.tensor([[len(one.heads)] for one, _ in case.pairs])
        previous = torch.arange(tree.heads.shape[1]).sub(1).clamp(min=0).expand_as(tree.heads)
        scribbled["source_features"] = SourceFeatures(
            tree.words.where(~source_padding, others(tree.words, seed, below=tree.heads.shape[1])),
            tree.heads.where(~word_padding, previous),
        )
    ids = source.where(~source_padding, others(source, seed)), lengths
    changed = case.model(*ids, target.where(~target_padding, others(target, seed)), **scribbled)
    assert torch.equal(changed[~target_padding], case(case.pairs)[~target_padding])


@EVERY_MODEL
@examples(25)
@given(st.data(), st.randoms(use_true_random=False))
@torch.no_grad()
def test_batch_in_any_order_equals_alone(kind: str, data: st.DataObject, random: Random) -> None:
    case = data.draw(cases(kind))
    order = random.sample(case.pairs, len(case.pairs))
    together = case(order)
    for row, pair in enumerate(order):
        alone = case([pair])[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, **CLOSE)


@TRANSFORMERS
@examples(25)
@given(st.data(), st.sampled_from([1, 40, 2**24]))
def test_attention_equals_the_equation(kind: str, data: st.DataObject, chunk: int) -> None:
    """Through the whole model, forward and backward, for any size of a chunk."""
    case = data.draw(cases(kind))
    fused, fused_gradients = forward_backward(case)
    with (
        patch.object(MultiHeadAttention, "attend", MultiHeadAttention.attend_in_chunks),
        patch.object(attention_functions, "MAX_CHUNK_ELEMENTS", chunk),
    ):
        plain, plain_gradients = forward_backward(case)
    torch.testing.assert_close(fused, plain, **CLOSE)
    torch.testing.assert_close(fused_gradients, plain_gradients, atol=1e-6, rtol=1e-6)


@examples(25)
@given(cases("recurrent"))
def test_packed_loop_equals_the_equations(case: Case) -> None:
    """Through the whole model, forward and backward."""
    fast, fast_gradients = forward_backward(case)
    with patch.object(RecurrentEncoderLayer, "forward", bidirectional_reference):
        slow, slow_gradients = forward_backward(case)
    torch.testing.assert_close(fast, slow, **CLOSE)
    torch.testing.assert_close(fast_gradients, slow_gradients, **CLOSE)


@examples(25)
@given(cases("recurrent"), st.sampled_from([1, 40, 10**6]))
def test_recurrent_attention_equals_the_equation(case: Case, chunk: int) -> None:
    """Through the whole model, forward and backward, for any limit on memory."""

    def equation(self: SourceAttention, query: Tensor, view: AttentionMemory) -> Tensor:
        return self.weights(query, view) @ view.states.values[:, 0]

    with patch.object(attention_functions, "MAX_CHUNK_ELEMENTS", chunk):
        fast, fast_gradients = forward_backward(case)
    with patch.object(SourceAttention, "context", equation):
        slow, slow_gradients = forward_backward(case)
    torch.testing.assert_close(fast, slow, **CLOSE)
    torch.testing.assert_close(fast_gradients, slow_gradients, **CLOSE)


@EVERY_MODEL
@examples(25)
@given(st.data())
@torch.no_grad()
def test_cached_steps_equal_parallel(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    memory, target = case.encode(), targets(case.pairs)
    one_by_one, _ = stepped(case.model, memory, target, case.model.start(memory, beam_size=1))
    real = target != SYMBOLS.pad
    torch.testing.assert_close(one_by_one[real], case(case.pairs)[real], **CLOSE)


@EVERY_MODEL
@examples(25)
@given(st.data())
@torch.no_grad()
def test_a_step_leaves_its_state_unchanged(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    memory, first = case.encode(), torch.full((len(case.pairs), 1), SYMBOLS.bos)
    _, state = case.model.step(first, memory, case.model.start(memory, beam_size=1))
    once, _, again = (case.model.step(first + word, memory, state)[0] for word in (2, 3, 2))
    torch.testing.assert_close(once, again, atol=0, rtol=0)


@EVERY_MODEL
@examples(25)
@given(st.data())
@torch.no_grad()
def test_reordered_beams_continue_their_parents(kind: str, data: st.DataObject) -> None:
    """After any reordering, the logits of a beam are those of its own prefix decoded again."""
    case = data.draw(cases(kind))
    batch, width = len(case.pairs), data.draw(st.sampled_from([1, 2, 3]))
    source, lengths, trees = case.source()
    memory = case.encode()
    state = case.model.start(memory, beam_size=width)
    prefixes, new = torch.empty(batch, width, 0, dtype=torch.long), torch.full((batch, width), SYMBOLS.bos)
    for _ in range(4):
        logits, state = case.model.step(new, memory, state)
        prefixes = torch.cat([prefixes, new[..., None]], dim=2)
        anew = [case.model(source, lengths, prefixes[:, beam], **trees)[:, -1] for beam in range(width)]
        torch.testing.assert_close(logits, torch.stack(anew, dim=1), **CLOSE)
        wider = data.draw(st.sampled_from([1, 2, 3]))
        parents = torch.tensor(data.draw(matrix(batch, wider, st.integers(0, width - 1))))
        state, width = state.reorder(parents), wider
        prefixes = prefixes.gather(1, parents[..., None].expand(-1, -1, prefixes.shape[2]))
        new = torch.tensor(data.draw(matrix(batch, width, tokens)))


@EVERY_MODEL
@examples(25)
@given(st.data())
@torch.no_grad()
def test_selected_sentences_continue_as_alone(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    rows = torch.tensor(data.draw(st.lists(st.sampled_from(range(len(case.pairs))), min_size=1, unique=True)))
    target = torch.tensor(data.draw(matrix(len(case.pairs), 5, tokens)))
    memory = case.encode()
    whole, _ = stepped(case.model, memory, target, case.model.start(memory, beam_size=1))
    _, state = stepped(case.model, memory, target[:, :2], case.model.start(memory, beam_size=1))
    rest, _ = stepped(case.model, memory.select(rows), target[rows, 2:], state.select(rows))
    torch.testing.assert_close(rest, whole[rows, 2:], **CLOSE)


@EVERY_MODEL
@examples(25)
@given(st.data(), several_pairs())
@torch.no_grad()
def test_concatenated_sentences_continue_as_alone(kind: str, data: st.DataObject, younger: Pairs) -> None:
    case = data.draw(cases(kind))
    ages = data.draw(st.sampled_from([(5, 0), (3, 2), (1, 4), (0, 3), (2, 2), (0, 0)]))
    memories, states, rest, alone = [], [], [], []
    for some, age in zip((case.pairs, younger), ages, strict=True):
        mine = torch.tensor(data.draw(matrix(len(some), age + 3, tokens)))
        memory = case.encode(some)
        state = case.model.start(memory, beam_size=1)
        if age:
            _, state = stepped(case.model, memory, mine[:, :age], state)
        memories.append(memory)
        states.append(state)
        rest.append(mine[:, age:])
        alone.append(stepped(case.model, memory, mine[:, age:], state)[0])
    together, _ = stepped(case.model, memories[0].concat(memories[1]), torch.cat(rest), states[0].concat(states[1]))
    torch.testing.assert_close(together, torch.cat(alone), **CLOSE)


@EVERY_MODEL
@examples(25)
@given(st.data(), several_pairs())
@torch.no_grad()
def test_memory_shrinks_to_its_longest_source(kind: str, data: st.DataObject, younger: Pairs) -> None:
    case = data.draw(cases(kind))
    longest = Parsed((4,) * 19, (19,), (0,)), []
    kept = torch.arange(len(case.pairs))
    memory = case.encode([*case.pairs, longest]).select(kept).concat(case.encode(younger))
    lengths = [len(source.ids) + 1 for source, _ in [*case.pairs, *younger]]
    assert memory.lengths.tolist() == lengths
    for cache in memory.layers if kind != "recurrent" else [memory.encoder_states]:
        assert cache is None or cache.length == max(lengths)
    first, whole = torch.full((len(lengths), 1), SYMBOLS.bos), case.encode([*case.pairs, *younger])
    after, expected = (case.model.step(first, one, case.model.start(one, beam_size=1))[0] for one in (memory, whole))
    torch.testing.assert_close(after, expected, **CLOSE)


@examples(25)
@given(cases("recurrent"))
@torch.no_grad()
def test_step_weights_cover_only_the_source(case: Case) -> None:
    if case.config.attention.kind == "none":
        return
    source, lengths, _ = case.source()
    memory, rows = case.encode(), len(case.pairs)
    _, state = case.model.step(torch.full((rows, 3), SYMBOLS.bos), memory, case.model.start(memory, beam_size=3))
    weights = case.model.alignment(memory, state)
    assert weights.shape == (rows, 3, source.shape[1])
    torch.testing.assert_close(weights.sum(dim=2), torch.ones_like(weights[..., 0]), **CLOSE)
    padding = torch.arange(source.shape[1]) >= lengths[:, None]
    assert not weights.transpose(1, 2)[padding].any()


@EVERY_MODEL
@examples(25)
@given(st.data())
def test_parallel_scores_equal_step_scores(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    source, lengths, trees = case.source()
    expected, _ = rectangle([[*target, SYMBOLS.eos] for _, target in case.pairs])
    given_ = {"target": targets(case.pairs), "expected": expected}
    at_once = score_targets(case.model, source, lengths, **given_, **trees)
    torch.testing.assert_close(at_once, score_stepwise(case.model, case.encode(), **given_), atol=1e-5, rtol=1e-5)


@EVERY_MODEL
@examples(25)
@given(st.data(), st.sampled_from([1, 2, 5]), st.sampled_from([search, beam_search]))
def test_returned_score_equals_forced_score(kind: str, data: st.DataObject, beam: int, run: Any) -> None:
    case = data.draw(cases(kind))
    config = DecodingConfig(beam_size=beam, n_best=beam)
    found = run(case.model, case.encode(), limits=torch.full((len(case.pairs),), 11), config=config)
    assert len(found) == len(case.pairs)
    finished = [(row, one) for row, hypotheses in enumerate(found) for one in hypotheses if one.finished]
    if not finished:
        return
    source, lengths, trees = case.source([case.pairs[row] for row, _ in finished])
    outputs = [one.tokens for _, one in finished]
    forced = score_outputs(case.model, source, lengths, outputs=outputs, penalty=config.penalty, **trees)
    for (_, one), again in zip(finished, forced, strict=True):
        assert again.score == pytest.approx(one.score, abs=1e-4)
        assert again.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-3)


@EVERY_MODEL
@examples(25)
@given(st.data())
def test_search_in_a_batch_equals_alone(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))

    def best(some: Pairs) -> list[tuple[int, ...]]:
        limits = torch.full((len(some),), 5)
        found = search(case.model, case.encode(some), limits=limits, config=DecodingConfig(beam_size=2))
        return [row[0].tokens for row in found]

    assert best(case.pairs) == [best([pair])[0] for pair in case.pairs]


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
