"""Words and their tokens: nothing is lost, and what is merged keeps its weight."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.tokenizers import BpeConfig, CharacterConfig, LanguageTokenizer, Tokenizer
from dragoman.interpret.word_merging import Words, merged, words_of_ids, words_of_text

TEXTS = ["the small dogs play .", "die kleinen Hunde spielen .", "(Ein Haus)", "Mann, oh Mann!", "a-b c'd 77"]


def side(settings=None) -> LanguageTokenizer:
    pairs = [(text, text) for text in TEXTS]
    return Tokenizer.train(lambda: pairs, settings or BpeConfig(vocab_size=120, byte_fallback=False)).source


SIDES = [side(), side(CharacterConfig())]
texts = st.lists(st.sampled_from(" ".join(TEXTS).split()), max_size=9).map(" ".join)


@given(st.sampled_from(SIDES), texts)
def test_words_of_a_text_are_those_between_white_space(one, text):
    ids, words = words_of_text(one, text)
    assert ids == one.encode(text)
    assert words.texts == tuple(text.split())
    told = [place for places in words.tokens for place in places]
    assert told == sorted(set(told))
    assert all(one.tokens([ids[place]]) == ["▁"] for place in set(range(len(ids))) - set(told))
    for spelt, places in zip(words.texts, words.tokens, strict=True):
        assert one.decode([ids[place] for place in places]).replace(" ", "") == spelt


@given(st.sampled_from(SIDES), texts)
def test_words_of_ids_spell_the_text(one, text):
    ids = one.encode(text)
    words = words_of_ids(one, ids)
    assert [place for places in words.tokens for place in places] == list(range(len(ids)))
    assert "".join(words.texts) == text.replace(" ", "")


def test_punctuation_stands_by_itself():
    one = SIDES[0]
    assert words_of_ids(one, one.encode("Mann, oh Mann!")).texts == ("Mann", ",", "oh", "Mann", "!")
    assert words_of_ids(one, one.encode("(Ein Haus)")).texts == ("(", "Ein", "Haus", ")")
    assert words_of_ids(one, []).texts == ()


def test_merged_by_hand():
    """Source words of 2 and 1 tokens are summed, target words of 1 and 2 tokens averaged; the last column is END."""
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2], [0.0, 0.3, 0.6, 0.1]])
    source, target = Words(("ab", "c"), ((0, 1), (2,))), Words(("x", "yz"), ((0,), (1, 2)))
    torch.testing.assert_close(
        merged(weights, target=target, source=source), torch.tensor([[0.3, 0.3], [(0.6 + 0.3) / 2, (0.2 + 0.6) / 2]])
    )


@pytest.mark.parametrize(("source", "target"), [((), ((0,),)), (((0, 1),), ()), ((), ())])
def test_no_words_have_no_weights(source, target):
    found = merged(
        torch.rand(1, 2), source=Words(("a",) * len(source), source), target=Words(("b",) * len(target), target)
    )
    assert found.shape == (len(target), len(source))


def test_a_word_without_tokens_has_no_weight():
    found = merged(torch.ones(1, 1), source=Words(("a", ""), ((0,), ())), target=Words(("", "b"), ((), (0,))))
    assert found.tolist() == [[0.0, 0.0], [1.0, 0.0]]
