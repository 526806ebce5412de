import pytest

from dragoman.data.tokenizers import BpeConfig, Tokenizer
from dragoman.data.tokenizers.prefixes import NO_DIRECTION
from dragoman.data.tokenizers.reserved_symbols import SOURCE_CONTEXT_SYMBOLS, TERM_SYMBOLS, add_reserved_symbols
from dragoman.errors import ConfigError, DataError
from dragoman.inference.preceding_sentences import PrecedingSentences
from dragoman.inference.text_segmentation import whole_text

ONE, TWO, *_ = SOURCE_CONTEXT_SYMBOLS
PLAIN = Tokenizer.train(lambda: [("a b c d e", "a b c d e")] * 3, BpeConfig(vocab_size=300))
WITH_CONTEXT = add_reserved_symbols(PLAIN, (ONE, TWO))


def preceding(given, *, tokenizer=WITH_CONTEXT, max_length=64):
    return PrecedingSentences(given, tokenizer, direction=NO_DIRECTION, max_length=max_length, splitter=whole_text)


def joined(given, texts, **options):
    context = preceding(given, **options)
    found = []
    for text in texts:
        context.enter(text)
        found.append(context.join(text)[0] if text else "")
    return found


def test_previous_texts_are_context_until_a_blank_text():
    assert joined("previous", ["a", "b", "c", "d", "", "e"]) == [
        "a",
        f"a {ONE} b",
        f"a {TWO} b {ONE} c",
        f"b {TWO} c {ONE} d",
        "",
        "e",
    ]


def test_given_sentences_are_those_of_all_texts_or_of_each():
    assert joined(["a", "b"], ["c", "d"]) == [f"a {TWO} b {ONE} c", f"a {TWO} b {ONE} d"]
    assert joined([["a"], []], ["c", "d"]) == [f"a {ONE} c", "d"]


def test_segments_of_one_text_are_context_of_the_next():
    context = preceding([])
    context.enter("a b")
    assert [context.join(segment)[0] for segment in ("a", "b")] == ["a", f"a {ONE} b"]


def test_oldest_sentences_that_do_not_fit_are_left_out():
    length = len(WITH_CONTEXT.source.encode(f"b {ONE} c"))
    assert joined(["a", "b"], ["c"], max_length=length) == [f"b {ONE} c"]
    assert joined(["a", "b"], ["c"], max_length=length - 1) == ["c"]


def test_symbols_in_given_sentences_and_terms_in_previous_ones_are_removed():
    assert joined([f"a {ONE} b"], ["c"]) == [f"a \ufffd b {ONE} c"]
    begin, middle, end = TERM_SYMBOLS
    assert joined("previous", [f"{begin} a {middle} b {end} c", "d"])[1] == f"a c {ONE} d"


def test_model_without_context_is_refused():
    with pytest.raises(ConfigError, match="reads single sentences"):
        preceding("previous", tokenizer=PLAIN)
    assert preceding(None, tokenizer=PLAIN).form is None


def test_context_of_another_form_is_refused():
    with pytest.raises(ConfigError, match="is one text"):
        preceding("a b")
    with pytest.raises(TypeError, match="sentences and lists"):
        preceding(["a", ["b"]])


def test_context_of_another_number_of_texts_is_refused():
    with pytest.raises(DataError, match="1 text but 2 of `context`"):
        preceding([["a"], ["b"]]).check_count(1)
    with pytest.raises(DataError, match="2 texts but 1 of `context`"):
        joined([["a"]], ["b", "c"])
