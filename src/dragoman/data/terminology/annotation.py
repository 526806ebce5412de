"""Terms written into a source: each is followed by its translation, between reserved symbols."""

from collections.abc import Iterable
from dataclasses import dataclass

from dragoman.data.tokenizers.reserved_symbols import TERM_SYMBOLS


@dataclass(frozen=True, slots=True)
class Annotation:
    """Translation of a part of a source."""

    start: int
    end: int
    translation: str
    is_masked: bool = False
    """Whether the translation stands alone, without the words of the source."""


def annotate_terms(source: str, terms: Iterable[Annotation]) -> str:
    """Return a source with the translations of its terms, which do not overlap."""
    begin, middle, end = TERM_SYMBOLS
    parts, place = [], 0
    for term in sorted(terms, key=lambda one: one.start):
        words = "" if term.is_masked else source[term.start : term.end]
        parts += [source[place : term.start], begin, words, middle, term.translation, end]
        place = term.end
    return " ".join(filter(None, (part.strip() for part in (*parts, source[place:]))))
