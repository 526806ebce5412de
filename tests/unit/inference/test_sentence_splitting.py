"""Splitting of texts into sentences, and joining their translations."""

from inspect import unwrap
from itertools import chain, zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.inference.text_segmentation import Layout, build_splitter

WHITE = st.sampled_from(["", " ", "\t", "  ", "\n", "\n\n", "\r\n", "\n    ", "\u3000", "\x0c", "\u2028"])
SENTENCES = st.sampled_from(
    ["Two dogs play.", "Was?", "…", "Dr. Smith and I sat by the sea", "z.B. 3.5 %!", "猫が好き。", '"Go."', "·", "- a"]
)
TEXTS = st.lists(st.tuples(WHITE, SENTENCES | st.text(max_size=5))).map(lambda rows: "".join(chain(*rows)))
CODES = st.sampled_from([None, "en", "de", "ja", "ar", "gsw", "pt-BR"])


def taken_apart(text: str, language: str | None = None) -> Layout:
    return build_splitter("sentences", language)(text)


@given(TEXTS, CODES)
def test_sentences_and_gaps_join_to_the_text(text: str, language: str | None) -> None:
    layout = taken_apart(text, language)
    pieces = chain.from_iterable(zip_longest(layout.gaps, layout.sentences, fillvalue=""))
    assert "".join(pieces) == text
    assert len(layout.gaps) == len(layout.sentences) + 1
    assert all(gap.strip() == "" for gap in layout.gaps)
    assert all(sentence and sentence == sentence.strip() for sentence in layout.sentences)
    assert not any("\n" in sentence for sentence in layout.sentences)


@given(TEXTS)
def test_text_without_splitting_is_one_sentence(text: str) -> None:
    layout = build_splitter(None, None)(text)
    sentences = [text] if text.strip() else []
    assert list(layout.sentences) == sentences
    assert layout.fill(sentences) == text


def test_abbreviations_depend_on_the_language() -> None:
    text = "Am 3. Mai kam er. Sie auch."
    assert taken_apart(text, "de").sentences == ("Am 3. Mai kam er.", "Sie auch.")
    assert taken_apart(text).sentences == ("Am 3.", "Mai kam er.", "Sie auch.")
    assert taken_apart("He met Dr. Smith. She did not.").sentences == ("He met Dr. Smith.", "She did not.")


@pytest.mark.parametrize("code", ["DE", "de-AT", "de_AT", "de-Latn-CH"])
def test_region_and_case_of_a_language_do_not_matter(code: str) -> None:
    assert taken_apart("Am 3. Mai kam er. Sie auch.", code).sentences == ("Am 3. Mai kam er.", "Sie auch.")


@pytest.mark.parametrize("code", ["german", "xx", "", "d", "de AT", "de-", "deutsch-AT"])
def test_unknown_languages_are_refused(code: str) -> None:
    with pytest.raises(ConfigError, match=f"language = '{code}' is no language code of ISO 639; give one such as"):
        build_splitter("sentences", code)


def test_paragraphs_and_indentation_are_kept() -> None:
    text = "  One. Two.\n\n\tThree!   Four?\n"
    layout = taken_apart(text)
    assert layout.sentences == ("One.", "Two.", "Three!", "Four?")
    assert layout.fill(["1", "2", "3", "4"]) == "  1 2\n\n\t3   4\n"
    assert taken_apart(" \n \n").fill([]) == " \n \n"


@pytest.mark.parametrize(
    ("source", "translations", "expected"),
    [
        ("猫が好き。犬も好き。", ["Ich mag Katzen.", "Hunde auch."], "Ich mag Katzen. Hunde auch."),
        ("猫が好き。犬も好き。", ["我喜欢猫。", "我也喜欢狗。"], "我喜欢猫。我也喜欢狗。"),
        ("猫が好き。犬も好き。", ["", "Hunde auch."], "Hunde auch."),
        ("I like cats. Dogs, too.", ["我喜欢猫。", "我也喜欢狗。"], "我喜欢猫。 我也喜欢狗。"),
    ],
)
def test_spaces_depend_on_both_scripts(source, translations, expected):
    assert taken_apart(source).fill(translations) == expected


def test_invalid_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="language = de has no effect without split"):
        build_splitter(None, "de")
    with pytest.raises(ConfigError, match="split = words is unknown"):
        unwrap(build_splitter)("words", None)  # elsewhere no type is checked
