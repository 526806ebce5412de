"""Properties of token offsets, context windows and answer spans, for any text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.datasets.qa import WindowConfig, answer_tokens, make_windows
from dragoman.data.datasets.tagged import encode_words
from dragoman.data.readers.qa import AnswerSpan
from dragoman.data.tokenizers import (
    BOS,
    EOS,
    UNK,
    BpeConfig,
    CharacterConfig,
    LanguageTokenizer,
    TextNormalizer,
    Tokenizer,
    UnigramConfig,
    WordConfig,
)
from dragoman.data.tokenizers.offsets import normalize_with_offsets
from tests.property_settings import examples

PAIRS = [("Two dogs play.", "Zwei Hunde spielen."), ("The dog's 12 cats", "die 12 Katzen des Hundes")] * 3
SIDES = {
    f"{choice.kind}-{choice.normalization}-{choice.casing}-{choice.whitespace}": Tokenizer.train(
        lambda: PAIRS, choice
    ).source
    for choice in (
        BpeConfig(vocab_size=300),
        BpeConfig(vocab_size=300, normalization="nfkc", casing="lower"),
        BpeConfig(vocab_size=300, whitespace="keep"),
        BpeConfig(vocab_size=90, byte_fallback=False),
        UnigramConfig(vocab_size=300),
        UnigramConfig(vocab_size=90, byte_fallback=False, casing="lower"),
        CharacterConfig(casing="lower"),
        WordConfig(),
    )
}
any_text = st.text(st.characters(exclude_categories=())) | st.text(
    st.sampled_from("ab▁ <>0x4F1dogsıİßΣﬁ´\u0301\u0323\u0344\u1112\u1161\u11ab\u00a0\r\n\t.日👩\ud83d")
)
preparations = st.builds(
    TextNormalizer,
    normalization=st.sampled_from(["none", "nfc", "nfkc"]),
    casing=st.sampled_from(["preserve", "lower"]),
    whitespace=st.sampled_from(["collapse", "keep"]),
)


@examples(300)
@given(text=any_text, preparation=preparations)
def test_offsets_follow_normalization(text: str, preparation: TextNormalizer) -> None:
    traced = normalize_with_offsets(text, preparation)
    assert traced.text == preparation.normalize(text)
    assert len(traced.spans) == len(traced.text)
    assert all(0 <= start < end <= len(text) for start, end in traced.spans)
    for one, other in pairwise(traced.spans):
        assert one[0] <= other[0]
        assert one[1] <= other[1]


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@given(text=any_text)
def test_tokens_and_gaps_are_the_text(side: LanguageTokenizer, text: str) -> None:
    ids, spans = side.encode_with_offsets(text)
    assert ids == side.encode(text)
    reassembled, place = "", 0
    for start, end in spans:
        if end > place:
            assert text[place:start].strip() == ""
            reassembled += text[place:end]
            place = end
        assert start <= place
    assert text[place:].strip() == ""
    assert reassembled + text[place:] == text


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@given(words=st.lists(any_text.filter(bool), max_size=7))
def test_every_word_has_a_first_token_of_its_own(side: LanguageTokenizer, words: list[str]) -> None:
    ids, firsts = encode_words(side, words)
    assert len(firsts) == len(words)
    assert all(one < other for one, other in pairwise(firsts))
    assert all(0 <= first < len(ids) for first in firsts)
    known = side.encode(" ".join(words))
    assert [index for index in ids if index != UNK] == [index for index in known if index != UNK]


@st.composite
def layouts(draw: st.DrawFn) -> WindowConfig:
    question, room = draw(st.integers(1, 5)), draw(st.integers(1, 13))
    return WindowConfig(max_length=room + question + 3, max_question_length=question, stride=draw(st.integers(1, room)))


@given(question=st.lists(st.integers(4, 9), max_size=7), size=st.integers(0, 61), layout=layouts())
def test_windows_cover_the_context(question: list[int], size: int, layout: WindowConfig) -> None:
    context = list(range(100, 100 + size))
    found = make_windows(question, context, layout)
    held = [range(window.first_token, window.first_token + window.num_context_tokens) for window in found]
    assert sorted({token for some in held for token in some}) == list(range(size))
    assert [window.first_token for window in found] == sorted({window.first_token for window in found})
    for window in found:
        assert len(window.tokens) <= layout.max_length
        head = [BOS, *question[: layout.max_question_length], EOS]
        assert window.tokens == [
            *head,
            *context[window.first_token : window.first_token + window.num_context_tokens],
            EOS,
        ]
        assert window.context_start == len(head)


@given(data=st.data(), size=st.integers(1, 61), layout=layouts())
def test_a_short_answer_lies_in_one_window(data: st.DataObject, size: int, layout: WindowConfig) -> None:
    """Neighboring windows share all tokens of a window beyond the stride."""
    question = [7] * layout.max_question_length
    shared = layout.max_length - 3 - layout.max_question_length - layout.stride
    start = data.draw(st.integers(0, size - 1))
    end = data.draw(st.integers(start, min(size - 1, start + shared)))
    context = list(range(100, 100 + size))
    places = [(window, window.locate(start, end)) for window in make_windows(question, context, layout)]
    inside = [(window, place) for window, place in places if place != (0, 0)]
    assert inside
    for window, (first, last) in inside:
        assert window.tokens[first : last + 1] == context[start : end + 1]


@pytest.mark.parametrize(
    "side", [SIDES["bpe-nfkc-lower-collapse"], SIDES["words-nfc-preserve-collapse"]], ids=["bpe", "words"]
)
@given(
    words=st.lists(
        st.sampled_from(["Two", "dogs", "play", "Ünïcode", "日本", "12", "«x»", "ﬁne"]), min_size=1, max_size=23
    ),
    gaps=st.lists(st.sampled_from([" ", "  ", "\n", "\u00a0 "]), min_size=23, max_size=23),
    data=st.data(),
    layout=layouts(),
)
def test_answers_of_whole_words_are_recovered(side, words, gaps, data, layout) -> None:
    context = "".join(gap + word for gap, word in zip(gaps, words, strict=False))
    begin = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(begin, len(words) - 1))
    prefix = "".join(gap + word for gap, word in zip(gaps, words[:begin], strict=False)) + gaps[begin]
    answer = words[begin] + "".join(
        gap + word for gap, word in zip(gaps[begin + 1 :], words[begin + 1 : end + 1], strict=False)
    )
    assert context.startswith(answer, len(prefix))
    ids, spans = side.encode_with_offsets(context)
    first, last = answer_tokens(AnswerSpan(answer, len(prefix)), spans)
    for window in make_windows(side.encode("dogs play"), ids, layout):
        places = window.locate(first, last)
        if places != (0, 0):
            found = [place - window.context_start + window.first_token for place in places]
            assert context[spans[found[0]][0] : spans[found[1]][1]] == answer
