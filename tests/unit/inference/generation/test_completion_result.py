"""Text stream: certain pieces and stop strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.tokenizers import BpeConfig, CharacterConfig, LanguageTokenizer, Tokenizer
from dragoman.inference.generation.completion_result import TextStream, find_first_stop

TEXTS = ["two dogs and a cat", "  a\n\ncat 猫 ", "dogs é, dogs é"]
SIDES = {
    name: Tokenizer.train_on_texts(lambda: TEXTS, settings).target
    for name, settings in {
        "characters": CharacterConfig(),
        "characters, white space kept": CharacterConfig(whitespace="keep"),
        "bpe": BpeConfig(vocab_size=290, min_frequency=1),
        "bpe, white space kept": BpeConfig(vocab_size=290, min_frequency=1, whitespace="keep"),
    }.items()
}


def pieces_of(
    side: LanguageTokenizer, ids: list[int], stop: list[str], *, after: list[int] | None = None
) -> tuple[list[str], TextStream]:
    """Return the piece after each token, up to the end of the text."""
    writer = TextStream(side.streaming_decoder(after=after or []), stop)
    pieces = []
    for token in ids:
        over = writer.add(token)
        pieces.append(writer.take())
        if over:
            break
    writer.finish()
    return [*pieces, writer.take()], writer


@pytest.mark.parametrize("name", SIDES)
@given(data=st.data())
def test_pieces_join_to_the_text_before_the_stop_string(name, data):
    side = SIDES[name]
    ids = data.draw(st.lists(st.integers(0, len(side) - 1), max_size=31))
    whole = side.decode(ids)
    some = st.text(st.sampled_from(whole or "a"), min_size=1, max_size=4)
    stop = data.draw(st.lists(some, max_size=3))
    pieces, writer = pieces_of(side, ids, stop)
    ends = [whole[: end + 1] for end in range(len(whole)) if whole[: end + 1].endswith(tuple(stop))] if stop else []
    expected = ends[0] if ends else whole
    longest = max((len(one) for one in stop if expected.endswith(one)), default=0) if ends else 0
    assert writer.text == expected[: len(expected) - longest]
    assert writer.stopped == bool(ends)
    assert "".join(pieces) == writer.text


@pytest.mark.parametrize("name", SIDES)
@given(data=st.data())
def test_pieces_never_change_later(name, data):
    """After each token, the returned pieces are a prefix of every possible final text."""
    side = SIDES[name]
    token = st.integers(0, len(side) - 1)
    ids, others = data.draw(st.lists(token, max_size=13)), data.draw(st.lists(token, max_size=13))
    stop = data.draw(st.lists(st.text("dogs a", min_size=1, max_size=3), max_size=2))
    pieces, _ = pieces_of(side, ids, stop)
    given_out = "".join(pieces[:-1])
    _, other = pieces_of(side, ids + others, stop)
    assert other.text.startswith(given_out)


def test_multibyte_character_is_returned_whole():
    side = SIDES["characters"]
    ids = side.encode("猫é")
    assert len(ids) == 2
    unseen = side.encode("犬")
    assert len(unseen) > 1
    pieces, _ = pieces_of(side, [*ids, *unseen, *ids[:1]], [])
    assert [piece for piece in pieces if piece] == ["猫", "é", "犬", "猫"]


def test_word_begins_with_its_space():
    side = SIDES["bpe"]
    prompt, more = side.encode("two dogs"), side.encode("and a cat")
    pieces, writer = pieces_of(side, more, [], after=prompt)
    assert writer.text == " and a cat"
    assert "".join(pieces) == writer.text
    assert not any(piece.endswith(" ") for piece in pieces)


def test_possible_stop_string_is_held_back():
    side = SIDES["characters, white space kept"]
    pieces, writer = pieces_of(side, side.encode("a dog dots a"), ["dogs", "dots"])
    assert pieces == ["a", " ", "", "", "", "dog ", "", "", "", "", ""]
    assert writer.text == "a dog "
    assert writer.stopped


def test_held_back_text_is_returned_at_the_end():
    side = SIDES["characters, white space kept"]
    pieces, writer = pieces_of(side, side.encode("a do"), ["dogs"])
    assert pieces == ["a", " ", "", "", "do"]
    assert not writer.stopped


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("abcd", [], None),
        ("abcd", ["x"], None),
        ("abcd", ["cd", "b"], 1),
        ("abcd", ["abcd", "bc"], 1),
        ("abcd", ["bc", "abc"], 0),
        ("abab", ["ab"], 0),
    ],
)
def test_first_complete_stop_string_counts(text, stop, expected):
    assert find_first_stop(text, stop) == expected
