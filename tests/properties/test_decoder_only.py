"""Properties of every decoder-only model: causality, document boundaries, and cached steps after prompts = parallel."""

import math
from random import Random

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.decoding import DecodingConfig
from dragoman.models.config import DecoderOnlyConfig
from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.protocols import DecoderOnly
from tests.attention_variants import POSITIONS, self_attentions
from tests.fake_models import SYMBOLS, rectangle
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT, random_causal
from tests.tensor_search import search

VOCABULARY = 13
CLOSE = {"atol": 1e-8, "rtol": 1e-8}
seeds = st.integers(0, 2**32)
texts = st.lists(st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=11), min_size=1, max_size=5)
Texts = list[list[int]]


@st.composite
def configs(draw: st.DrawFn) -> DecoderOnlyConfig:
    kind = draw(st.sampled_from(list(POSITIONS)))
    heads, key_value_heads = draw(st.sampled_from([(1, None), (3, None), (3, 1), (6, 2)]))
    sizes = [2, 6] if kind == "rotary" else [2, 3, 5]
    return DecoderOnlyConfig(
        d_model=heads * draw(st.sampled_from(sizes[1:] if heads == 1 else sizes)),
        num_heads=heads,
        num_kv_heads=key_value_heads,
        d_ff=11,
        num_layers=draw(st.integers(1, 3)),
        activation=draw(st.sampled_from(["relu", "gelu_tanh", "silu"])),
        gated=draw(st.booleans()),
        norm=draw(st.sampled_from(["layer", "rms"])),
        norm_position=draw(st.sampled_from(["pre", "post"])),
        bias=draw(st.booleans()),
        positions=draw(st.sampled_from(POSITIONS[kind])),
        attention=draw(self_attentions(kind, masked=True)),
        tie_embeddings=draw(st.booleans()),
        dropout=NO_DROPOUT,
    )


Recipe = tuple[DecoderOnlyConfig, int]
recipes = st.tuples(configs(), seeds)


def network(recipe: Recipe) -> DecoderOnlyTransformer:
    config, seed = recipe
    return random_causal(config, vocabulary=VOCABULARY, seed=seed).double()


def test_models_satisfy_the_generation_protocol() -> None:
    assert isinstance(random_causal(DecoderOnlyConfig(d_model=6, num_heads=3), vocabulary=VOCABULARY), DecoderOnly)


@examples(40)
@given(recipes, texts, st.data(), seeds)
@torch.no_grad()
def test_future_tokens_change_nothing_before(recipe: Recipe, texts: Texts, data: st.DataObject, seed: int) -> None:
    model = network(recipe)
    tokens, _ = rectangle(texts)
    place = data.draw(st.integers(0, tokens.shape[1] - 1))
    shift = torch.randint(1, VOCABULARY, tokens[:, place:].shape, generator=torch.Generator().manual_seed(seed))
    changed = torch.cat([tokens[:, :place], (tokens[:, place:] + shift) % VOCABULARY], dim=1)
    before, after = model(tokens), model(changed)
    assert torch.equal(after[:, :place], before[:, :place])
    assert (after[:, place] != before[:, place]).any(dim=-1).all()


@examples(40)
@given(recipes)
@torch.no_grad()
def test_state_length_is_bounded_by_the_oldest_text(recipe: Recipe) -> None:
    """The engine's batch never empties here: a text of three tokens enters whenever another leaves."""
    model, read = network(recipe), [[4]]
    memory = model.encode(*rectangle(read))
    state = model.start(memory, beam_size=1)
    for step in range(9):
        _, state = model.step(last(read), memory, state)
        read = [[*text, 6] for text in read]
        if step % 2:
            other = model.encode(*rectangle([[5]]))
            memory, state = memory.concat(other), state.concat(model.start(other, beam_size=1))
            read = [*read, [5]][-2:]
            kept = torch.arange(len(state.lengths) - len(read), len(state.lengths))
            memory, state = memory.select(kept), state.select(kept)
        assert all(layer.length <= 5 for layer in state.layers)
    logits, _ = model.step(last(read), memory, state)
    for row, text in enumerate(read):
        torch.testing.assert_close(logits[row, 0], model(torch.tensor([text]))[0, -1], **CLOSE)


@examples(40)
@given(recipes, texts)
@torch.no_grad()
def test_batch_equals_alone(recipe: Recipe, texts: Texts) -> None:
    model = network(recipe)
    together = model(rectangle(texts)[0])
    for row, text in enumerate(texts):
        torch.testing.assert_close(together[row, : len(text)], model(torch.tensor([text]))[0], **CLOSE)


@examples(40)
@given(recipes, texts)
@torch.no_grad()
def test_packed_documents_equal_single_documents(recipe: Recipe, texts: Texts) -> None:
    """Packed documents do not see each other, and positions restart with each document."""
    model = network(recipe)
    packed = torch.tensor([[token for text in texts for token in text]])
    documents = torch.tensor([[number for number, text in enumerate(texts) for _ in text]])
    together = model(packed, documents)[0].split([len(text) for text in texts])
    for part, text in zip(together, texts, strict=True):
        torch.testing.assert_close(part, model(torch.tensor([text]))[0], **CLOSE)


@examples(40)
@given(recipes, texts, st.data())
@torch.no_grad()
def test_prompt_then_steps_equal_parallel(recipe: Recipe, texts: Texts, data: st.DataObject) -> None:
    """Prompts of different lengths form one batch, and each continues with the same words."""
    model = network(recipe)
    more = data.draw(st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=5))
    prompt, lengths = rectangle(texts)
    memory = model.encode(prompt, lengths)
    state = model.start(memory, beam_size=1)
    given_tokens = [torch.tensor([[text[-1]] for text in texts]), *(torch.full((len(texts), 1), word) for word in more)]
    for step, tokens in enumerate(given_tokens):
        logits, state = model.step(tokens, memory, state)
        for row, text in enumerate(texts):
            whole = model(torch.tensor([[*text, *more[:step]]]))[0, -1]
            torch.testing.assert_close(logits[row, 0], whole, **CLOSE)


@examples(40)
@given(recipes, texts, texts, st.data())
@torch.no_grad()
def test_prompts_may_enter_a_running_batch(recipe: Recipe, older: Texts, younger: Texts, data: st.DataObject) -> None:
    model = network(recipe)
    words = data.draw(st.lists(st.integers(4, VOCABULARY - 1), min_size=2, max_size=2))
    first, second = (model.encode(*rectangle(some)) for some in (older, younger))
    _, state = model.step(last(older), first, model.start(first, beam_size=1))
    memory, state = first.concat(second), state.concat(model.start(second, beam_size=1))
    tokens = torch.cat([torch.full((len(older), 1), words[0]), last(younger)])
    logits, state = model.step(tokens, memory, state)
    grown = [[*text, words[0]] for text in older] + younger
    for row, text in enumerate(grown):
        torch.testing.assert_close(logits[row, 0], model(torch.tensor([text]))[0, -1], **CLOSE)
    kept = torch.tensor(Random(words[1]).sample(range(len(grown)), max(1, len(grown) // 2)))
    after, _ = model.step(torch.full((len(kept), 1), words[1]), memory.select(kept), state.select(kept))
    for row, number in enumerate(kept.tolist()):
        whole = model(torch.tensor([[*grown[number], words[1]]]))[0, -1]
        torch.testing.assert_close(after[row, 0], whole, **CLOSE)


@examples(40)
@given(recipes, texts)
@torch.no_grad()
def test_greedy_takes_the_likeliest_token(recipe: Recipe, texts: Texts) -> None:
    model = network(recipe)
    memory = model.encode(*rectangle(texts))
    limits = torch.full((len(texts),), 5)
    first = last(texts)[:, 0]
    found = search(model, memory, limits=limits, config=DecodingConfig(beam_size=1), start_tokens=first)
    for text, [hypothesis] in zip(texts, found, strict=True):
        written = list(text)
        for token in [*hypothesis.tokens, *([SYMBOLS.eos] if hypothesis.finished else [])]:
            logits = model(torch.tensor([written]))[0, -1]
            logits[[SYMBOLS.pad, SYMBOLS.bos]] = -math.inf  # no search ever writes these
            assert float(logits[token]) >= float(logits.max()) - 1e-6
            written.append(token)


def last(texts: Texts) -> Tensor:
    return torch.tensor([[text[-1]] for text in texts])
