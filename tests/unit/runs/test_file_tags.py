"""Tags in plain texts of files: placed by alignment, and reported where they lose their words."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dragoman
from dragoman.runs.file_tags import TaggedText
from tests.property_settings import examples

PIECES = ["a", " ", "<b>", "</b>", '<a href="%s">', "</a>", "<br>", "&amp;", "&", "<", "<code>", "</code>", "%s", "\n"]


@examples(300)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_a_text_comes_back_from_its_fragment(text: str) -> None:
    tagged = TaggedText.of(text)
    if tagged is not None:
        assert tagged.restore(tagged.fragment) == text
        assert tagged.keeps_order(tagged.fragment)
        assert tagged.fragment.count("<g ") == len(tagged.codes) == tagged.fragment.count("</g>")


@pytest.mark.parametrize(
    "text", ["no tags", "Usage: %s <file>", "<br>a", "<i></i> Save", "a </b>", "<b>" * 300 + "</b>"]
)
def test_texts_without_pairs_of_tags_stay_plain(text: str) -> None:
    assert TaggedText.of(text) is None


def test_values_of_tags_keep_their_order() -> None:
    tagged = TaggedText.of('%s <a href="%s">a</a> <b>b</b>')
    assert tagged is not None
    assert tagged.keeps_order('<g id="1">B</g> %s <g id="0">A</g>')
    assert not tagged.keeps_order('<g id="0">A</g> %s <g id="1">B</g>')


def test_elements_of_a_po_file_keep_words_or_are_reported(tmp_path: Path) -> None:
    texts = ["the <b>small</b> cat", 'a <a href=\\"%s\\">dog</a> sleeps', "<em>two cats</em> play & see", "a <br> cat"]
    po = "\n".join(f'msgid "{text}"\nmsgstr ""\n' for text in texts)
    translator = dragoman.load(Path(__file__).parents[2] / "golden" / "run-1", dragoman.Translator)
    report = dragoman.translate_file(translator, po.encode(), name="de.po").report
    for segment in report.segments:
        assert re.findall(r"<[^<>]*>", segment.text) == re.findall(r"<[^<>]*>", segment.source)
        is_emptied = re.search(r"<(\w+)[^<>]*>\s*</\1>", segment.text) is not None
        assert is_emptied <= (segment.needs_review and "no text in <" in " ".join(segment.warnings))
    assert "& " in report.segments[2].text
    assert "amp;" not in report.segments[2].text


def test_an_emptied_element_of_a_memory_is_reported() -> None:
    translator = dragoman.load(Path(__file__).parents[2] / "golden" / "run-1", dragoman.Translator)
    memory = dragoman.TranslationMemory([("the <b>cat</b>", "die Katze <b></b>")])
    options = dragoman.FileOptions(memory=memory)
    po = b'msgid "the <b>cat</b>"\nmsgstr ""\n'
    [segment] = dragoman.translate_file(translator, po, options, name="de.po").report.segments
    assert segment.needs_review
    assert segment.warnings == ("the translation has no text in <b>",)
