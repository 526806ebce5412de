"""Beam search under constraints: exhaustive search with the widest beam, and all phrases with any beam."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.decoding import DecodingConfig, Hypothesis, OutputStart
from dragoman.decoding.constraints import Phrase, PhraseAutomaton
from dragoman.decoding.constraints.phrase_automaton import BOUNDARY, HYPHEN, INSIDE, TokenEdges
from tests.fake_models import PrefixModel, Sources
from tests.properties.test_beam_search import assert_same, every_output, networks
from tests.property_settings import examples
from tests.tensor_search import beam_search

FIRST = 4
"""The first token that is no special symbol."""


Drawn = tuple[tuple[tuple[int, ...], ...], str, bool]


def phrases(words: int, longest: int, most: int = 3) -> st.SearchStrategy[list[Drawn]]:
    """Draw the fields of phrases."""
    forms = st.lists(st.integers(FIRST, FIRST + words - 1), min_size=1, max_size=longest).map(tuple)
    phrase = st.tuples(
        st.lists(forms, min_size=1, max_size=2, unique=True).map(tuple),
        st.sampled_from(["required", "required", "once", "forbidden"]),
        st.booleans(),
    )
    return st.lists(phrase, min_size=1, max_size=most)


def build(drawn: list[Drawn]) -> list[Phrase]:
    return [Phrase(forms, kind, str(number), whole) for number, (forms, kind, whole) in enumerate(drawn)]


def boundaries(words: int) -> st.SearchStrategy[TokenEdges]:
    """Draw the edges of the tokens of a vocabulary of this many words."""
    kinds = st.sampled_from([INSIDE, HYPHEN, BOUNDARY])
    tokens = st.lists(st.tuples(kinds, st.booleans()), min_size=words, max_size=words)
    return tokens.map(lambda drawn: edges([INSIDE] * FIRST + [kind for kind, _ in drawn], [end for _, end in drawn]))


def edges(starts: list[int], word_ends: list[bool]) -> TokenEdges:
    return TokenEdges(np.array(starts), np.array([False] * FIRST + word_ends))


def counts(output: tuple[int, ...], phrase: Phrase, ends: TokenEdges) -> int:
    """Count, by definition, the places where a form ends, between the ends of words if it is of whole words.

    A hyphen ends a word for phrases that may not appear.
    """
    over = (HYPHEN, BOUNDARY) if phrase.kind == "forbidden" else (BOUNDARY,)

    def is_whole(first: int, place: int) -> bool:
        begins = ends.starts[output[first]] == BOUNDARY or first == 0 or ends.ends[output[first - 1]]
        stops = ends.ends[output[place - 1]] or place == len(output) or ends.starts[output[place]] in over
        return bool(begins and stops)

    return sum(
        any(
            output[first:place] in phrase.forms and (not phrase.whole_words or is_whole(first, place))
            for first in range(place)
        )
        for place in range(1, len(output) + 1)
    )


def obeys(output: tuple[int, ...], constraints: list[Phrase], ends: TokenEdges) -> bool:
    found = [counts(output, one, ends) for one in constraints]
    allowed = {"required": lambda n: n > 0, "once": lambda n: n == 1, "forbidden": lambda n: n == 0}
    return all(allowed[one.kind](number) for one, number in zip(constraints, found, strict=True))


def run(
    network: PrefixModel, rows: list[list[int]], automata: list[PhraseAutomaton | None], limit: int, **options: object
) -> list[list[Hypothesis]]:
    return beam_search(
        network,
        Sources(tuple(map(tuple, rows))),
        limits=torch.full((len(rows),), limit),
        config=DecodingConfig(**options),
        starts=[OutputStart(constraints=one) for one in automata],
    )


@examples(100)
@given(networks(words=2), phrases(2, 2), boundaries(2), st.integers(1, 4))
def test_widest_beam_equals_exhaustive_search_under_the_constraints(network, drawn, ends, best):
    constraints = build(drawn)
    limit, source = 3, [4, 5]
    wanted = DecodingConfig(beam_size=3**4, n_best=best, early_stopping=False)
    automaton = PhraseAutomaton(constraints, ends)
    [found] = run(network, [source], [automaton], limit, beam_size=3**4, n_best=best, early_stopping=False)
    outputs = [one for one in every_output(network, source, limit, wanted) if obeys(one.tokens, constraints, ends)]
    expected = sorted(outputs, key=lambda one: -one.score)[:best]
    assert_same([[one for one in found if one.finished]], [expected])


@given(phrases(3, 3, 4), boundaries(3), st.lists(st.integers(FIRST, FIRST + 2), max_size=9))
def test_the_automaton_counts_phrases_as_defined(drawn, ends, output):
    constraints = build(drawn)
    automaton = PhraseAutomaton(constraints, ends)
    broken = [str(number) for number, one in enumerate(constraints) if not obeys(tuple(output), [one], ends)]
    assert list(automaton.unmet(output)) == broken


@given(
    networks(words=6),
    st.lists(st.lists(st.integers(FIRST, FIRST + 5), min_size=1, max_size=3), min_size=1, max_size=4),
    st.integers(2, 5),
    st.booleans(),
)
def test_required_phrases_appear_with_any_beam(network, forms, beam, whole_words):
    # Every token ends a word, so that a phrase never hinders another.
    ends = edges([INSIDE] * FIRST + [BOUNDARY] * 6, [True] * 6)
    automaton = PhraseAutomaton([Phrase((tuple(one),), whole_words=whole_words) for one in forms], ends)
    [found] = run(network, [[4, 5]], [automaton], automaton.total + 4, beam_size=beam)
    assert not automaton.unmet(found[0].tokens)


@given(networks(words=4), phrases(4, 2), boundaries(4), st.integers(2, 5), st.sampled_from(["last", "ranked", "ended"]))
def test_outputs_never_break_a_rule(network, drawn, ends, beam, cut_off):
    constraints = build(drawn)
    options = {"beam_size": beam, "n_best": beam, "cut_off": cut_off}
    [found] = run(network, [[4, 5]], [PhraseAutomaton(constraints, ends)], 8, **options)
    never = [one for one in constraints if one.kind == "forbidden" and not one.whole_words]
    for one in found:
        if one.finished:
            assert obeys(one.tokens, constraints, ends)
        else:
            assert obeys(one.tokens, never, ends)
    if any(one.finished for one in found):
        assert obeys(found[0].tokens, constraints, ends)


@given(networks(words=4), phrases(4, 2), boundaries(4), st.integers(2, 5))
def test_sentences_with_and_without_constraints_share_a_batch(network, drawn, ends, beam):
    constraints = build(drawn)
    rows = [[4, 5], [6], [7, 4, 5]]
    automata = [None, PhraseAutomaton(constraints, ends), None]
    together = run(network, rows, automata, 6, beam_size=beam, n_best=2)
    alone = [
        run(network, [row], [one], 6, beam_size=beam, n_best=2)[0] for row, one in zip(rows, automata, strict=True)
    ]
    free = run(network, rows, [None] * 3, 6, beam_size=beam, n_best=2)
    assert together == alone
    assert [together[0], together[2]] == [free[0], free[2]]


def preferred(drawn: list[Drawn], bonus: float) -> list[Phrase]:
    return [Phrase(forms, "preferred", str(number), whole, bonus) for number, (forms, _, whole) in enumerate(drawn)]


@given(networks(words=4), phrases(4, 2), boundaries(4), st.integers(2, 5), st.booleans())
def test_a_bonus_of_nothing_changes_nothing(network, drawn, ends, beam, early_stopping):
    automaton = PhraseAutomaton(preferred(drawn, 0.0), ends)
    options = {"beam_size": beam, "n_best": beam, "early_stopping": early_stopping, "keep_greedy": False}
    rows = [[4, 5], [6]]
    assert run(network, rows, [automaton, None], 6, **options) == run(network, rows, [None, None], 6, **options)


@examples(50)
@given(networks(words=2), phrases(2, 2), boundaries(2))
def test_a_huge_bonus_equals_required_phrases(network, drawn, ends):
    options = {"beam_size": 3**4, "early_stopping": False}
    needed = [Phrase(forms, "required", whole_words=whole) for forms, _, whole in drawn]
    automata = [PhraseAutomaton(needed, ends), PhraseAutomaton(preferred(drawn, 1e4), ends)]
    required, rewarded = (run(network, [[4, 5]], [one], 3, **options)[0] for one in automata)
    assume(required[0].finished)
    assert_same([rewarded], [required])


@examples(50)
@given(networks(words=2), phrases(2, 2), boundaries(2), st.floats(0, 5))
def test_a_bonus_ranks_as_defined(network, drawn, ends, bonus):
    constraints = preferred(drawn, bonus)
    options = {"beam_size": 3**4, "early_stopping": False}
    limit, source = 3, [4, 5]
    [[found]] = run(network, [source], [PhraseAutomaton(constraints, ends)], limit, **options)
    scores = {
        one.tokens: (one.log_prob - bonus * sum(not counts(one.tokens, phrase, ends) for phrase in constraints))
        / one.length
        for one in every_output(network, source, limit, DecodingConfig(**options))
    }
    assert found.score == pytest.approx(max(scores.values()), abs=1e-5)
    assert scores[found.tokens] == pytest.approx(found.score, abs=1e-5)
    assert found.log_prob == pytest.approx(sum(found.token_log_probs), abs=1e-5)


def test_invalid_phrases_are_refused():
    ends = edges([BOUNDARY] * 6, [True] * 2)
    with pytest.raises(ValueError, match="bonus"):
        PhraseAutomaton([Phrase(((4,),), bonus=1.0)], ends)
    with pytest.raises(ValueError, match="bonus"):
        PhraseAutomaton([Phrase(((4,),), "preferred", bonus=-1.0)], ends)
    with pytest.raises(ValueError, match="no form"):
        PhraseAutomaton([Phrase(())], ends)
    with pytest.raises(ValueError, match="without tokens"):
        PhraseAutomaton([Phrase(((),))], ends)
    with pytest.raises(ValueError, match="63 phrases"):
        PhraseAutomaton([Phrase(((4,),))] * 63, ends)
