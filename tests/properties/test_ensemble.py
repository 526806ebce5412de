"""Properties of ensembles: the mean of the members' distributions, in parallel and step by step."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.decoding import DecodingConfig
from dragoman.decoding.forced_decoding import score_targets
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.ensemble import Ensemble
from dragoman.models.protocols import EncoderDecoder
from dragoman.models.recurrent.config import RecurrentConfig
from tests.fake_models import SYMBOLS, rectangle
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT, random_transformer
from tests.random_recurrent_models import random_recurrent, recurrent_configs
from tests.stepwise_scoring import score_stepwise
from tests.tensor_search import search

SOURCE_VOCABULARY, TARGET_VOCABULARY = 17, 13
CLOSE = {"atol": 1e-8, "rtol": 1e-8}
words = st.lists(st.integers(4, TARGET_VOCABULARY - 1), max_size=6)
beams = st.integers(1, 3)
pairs = st.lists(st.tuples(words, words), min_size=1, max_size=5)
Pairs = list[tuple[list[int], list[int]]]


Recipe = tuple[EncoderDecoderConfig | RecurrentConfig, int]


@st.composite
def transformers(draw: st.DrawFn) -> EncoderDecoderConfig:
    return EncoderDecoderConfig(
        d_model=draw(st.sampled_from([4, 12])),
        num_heads=2,
        d_ff=7,
        encoder_layers=1,
        decoder_layers=draw(st.integers(1, 2)),
        tie_embeddings="none",
        dropout=NO_DROPOUT,
    )


recurrent = recurrent_configs().filter(lambda config: config.tie_embeddings != "all")
recipes = st.tuples(st.one_of(transformers(), recurrent), st.integers(0, 2**32))
several = st.lists(recipes, min_size=2, max_size=3)


def member(recipe: Recipe) -> EncoderDecoder:
    """Draw a model of either kind and any size in double precision."""
    config, seed = recipe
    build = random_transformer if isinstance(config, EncoderDecoderConfig) else random_recurrent
    return build(config, source_vocabulary=SOURCE_VOCABULARY, target_vocabulary=TARGET_VOCABULARY, seed=seed).double()


def together(recipes: list[Recipe]) -> Ensemble:
    return Ensemble([member(recipe) for recipe in recipes])


def inputs(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    """Draw sources with EOS, their lengths, and targets with BOS."""
    sources = rectangle([[*source, SYMBOLS.eos] for source, _ in pairs])
    return *sources, rectangle([[SYMBOLS.bos, *target] for _, target in pairs])[0]


def probabilities(network: EncoderDecoder, read: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    return network.unembed(network.hidden(*read)).softmax(dim=-1)


@examples(20)
@given(several, pairs)
def test_probabilities_are_the_mean_of_the_members(several: list[Recipe], pairs: Pairs) -> None:
    read = inputs(pairs)
    mean = sum(probabilities(member(recipe), read) for recipe in several) / len(several)
    ensemble = together(several)
    log_probs = ensemble.unembed(ensemble.hidden(*read))
    torch.testing.assert_close(log_probs.exp(), mean, **CLOSE)


@examples(20)
@given(several, pairs)
def test_cached_steps_equal_parallel(several: list[Recipe], pairs: Pairs) -> None:
    source, lengths, target = inputs(pairs)
    expected = rectangle([[*target, SYMBOLS.eos] for _, target in pairs])[0]
    known = {"target": target, "expected": expected}
    ensemble = together(several)
    at_once = score_targets(ensemble, source, lengths, **known)
    stepped = score_stepwise(ensemble, ensemble.encode(source, lengths), **known)
    torch.testing.assert_close(stepped, at_once, atol=1e-5, rtol=1e-5)  # log-probabilities are handed out in 32 bits


def found(ensemble: EncoderDecoder, pairs: Pairs, beam: int) -> list[list[tuple[int, ...]]]:
    source, lengths, _ = inputs(pairs)
    limits, wanted = torch.full((len(pairs),), 7), DecodingConfig(beam_size=beam, n_best=beam)
    hypotheses = search(ensemble, ensemble.encode(source, lengths), limits=limits, config=wanted)
    return [[one.tokens for one in best] for best in hypotheses]


@examples(20)
@given(recipes, pairs, beams)
def test_ensemble_of_copies_equals_the_model(recipe: Recipe, pairs: Pairs, beam: int) -> None:
    assert found(together([recipe, recipe]), pairs, beam) == found(member(recipe), pairs, beam)


@examples(20)
@given(several, pairs, beams)
def test_batch_equals_alone(several: list[Recipe], pairs: Pairs, beam: int) -> None:
    """Search reorders and selects rows in every member."""
    ensemble = together(several)
    assert found(ensemble, pairs, beam) == [found(ensemble, [pair], beam)[0] for pair in pairs]


@examples(20)
@given(several, pairs, pairs)
def test_concatenated_sentences_continue_as_alone(several: list[Recipe], first: Pairs, second: Pairs) -> None:
    ensemble = together(several)
    begun = []
    for some, places in ((first, 2), (second, 1)):
        memory = ensemble.encode(*inputs(some)[:2])
        state, tokens = ensemble.start(memory, beam_size=1), torch.full((len(some), 1), SYMBOLS.bos)
        for _ in range(places):
            logits, state = ensemble.step(tokens, memory, state)
            tokens = logits.argmax(dim=-1)
        begun.append((tokens, memory, state))
    alone = torch.cat([ensemble.step(*one)[0] for one in begun])
    (tokens, memory, state), (more, other, another) = begun
    joined, _ = ensemble.step(torch.cat([tokens, more]), memory.concat(other), state.concat(another))
    torch.testing.assert_close(joined, alone, **CLOSE)


def test_max_length_is_the_smallest_of_the_members() -> None:
    def knowing(positions: dict[str, object]) -> Recipe:
        sizes = {"d_model": 4, "num_heads": 2, "d_ff": 7, "encoder_layers": 1, "decoder_layers": 1}
        return EncoderDecoderConfig(**sizes, tie_embeddings="none", positions=positions), 0

    endless = knowing({"kind": "sinusoidal"})
    short, long = knowing({"kind": "learned", "max_length": 9}), knowing({"kind": "learned", "max_length": 11})
    assert together([endless, long, short]).max_length == 9
    assert together([endless, endless]).max_length is None
