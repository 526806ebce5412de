"""Paragraphs, columns and wrapped lines of a text."""

import pytest

from dragoman.data.documents.line_breaks import cut_lines, join_lines

HELP = "  -h, --help          display this help\n  FILE                a file to read\n"
WRAPPED = (
    "This is free software that you may change and\nredistribute, as its license says.\n\nSecond paragraph.  Next."
)


@pytest.mark.parametrize("text", ["", "\n", "  a\n\n b \n", HELP, WRAPPED, "- one\n- two", "a\tb", "…", "%d%%"])
def test_the_same_texts_give_the_same_text(text: str) -> None:
    paragraphs = cut_lines(text)
    assert join_lines(paragraphs, [one.text for one in paragraphs]) == text


def test_columns_are_texts_of_their_own() -> None:
    assert [one.text for one in cut_lines(HELP) if one.text] == ["display this help", "FILE", "a file to read"]
    paragraphs = cut_lines(HELP)
    assert join_lines(paragraphs, [one.text.upper() for one in paragraphs]) == (
        "  -h, --help          DISPLAY THIS HELP\n  FILE                A FILE TO READ\n"
    )


def test_wrapped_lines_are_one_text() -> None:
    paragraphs = cut_lines(WRAPPED)
    assert [one.text for one in paragraphs if one.text] == [
        "This is free software that you may change and redistribute, as its license says.",
        "Second paragraph.  Next.",
    ]
    longer = join_lines(paragraphs, [f"Oh! {one.text}" for one in paragraphs])
    assert longer == (
        "Oh! This is free software that you may change\nand redistribute, as its license says.\n\n"
        "Oh! Second paragraph.  Next."
    )
