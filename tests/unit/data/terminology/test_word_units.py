"""The definition of a word, and the strings that have no words."""

import pytest

from dragoman.data.terminology.glossary import Glossary
from dragoman.data.terminology.target_forms import find_phrases
from dragoman.data.terminology.word_units import find_literals, split_units


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("light-blue l'eau", ["light-blue", "l", "'", "eau"]),
        ("(mais) snake_case", ["(", "mais", ")", "snake_case"]),
        ("die Hosen- und", ["die", "Hosen", "-", "und"]),
        ("我吃a", ["我", "吃", "a"]),
        ("a - b", ["a", "-", "b"]),
    ],
)
def test_a_text_has_these_units(text: str, units: list[str]) -> None:
    assert [unit for unit, _, _ in split_units(text)] == units


@pytest.mark.parametrize(
    "literal",
    [
        "/home/user/file",
        "C:\\user\\file",
        "https://example.com/user/file",
        "--file",
        "-file",
        "user@file.com",
        "user.file",
        "System.IO.File",
        "std::file",
        "file.txt",
        "{file}",
        "$file",
        "#file",
        "example.com/file",
    ],
)
def test_terms_do_not_match_inside_of_literals(literal: str) -> None:
    glossary = Glossary.from_pairs({"file": "Datei", "user": "Nutzer"})
    assert [match.start for match in glossary.find(f"file {literal} of a user")] == [0, len(literal) + 11]
    assert [match.text for match in Glossary.from_pairs({literal: "x"}).find(f"the {literal} of")] == [literal]


@pytest.mark.parametrize(
    "text", ["a file. The user", "10 a.m. or e.g. now", "file/user", "a file, 3.5 users: and/or", "file (user)"]
)
def test_prose_has_no_literals(text: str) -> None:
    assert find_literals(text) == []


@pytest.mark.parametrize(
    ("text", "phrase", "options", "count"),
    [
        ("(mais ajuda) „mais“", "mais", {}, 2),
        ("Jacke-Hose, Jacken", "Jacke", {}, 0),
        ("Jacke-Hose, Jacken", "Jacke", {"whole_words": False}, 2),
        ("Mais mais MAIS", "mais", {}, 1),
        ("Mais mais MAIS", "mais", {"smart_case": True}, 3),
        ("Mais mais MAIS", "Mais", {"smart_case": True}, 1),
        ("zwei\nHunde", "zwei Hunde", {}, 1),
        ("3 , 5", "3,5", {}, 0),
    ],
)
def test_phrases_are_found_as_whole_words(text: str, phrase: str, options, count: int) -> None:
    assert len(find_phrases(text, [phrase], **options)) == count
