"""Places of terms in translations: which terms a translation lacks, and where they belong by word alignment."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from dragoman.data.markup import TokenAlignment
from dragoman.data.markup.token_alignment import find_atoms
from dragoman.data.terminology.matching import TermMatch, TermMatcher
from dragoman.data.terminology.words import shares_stems
from dragoman.data.text_places import Span

MIN_SHARE: Final = 0.5
"""Share of the attention of a word from which it translates a term that stands elsewhere in the translation, too."""
MAX_GAP: Final = 2
"""Words between two translations of the words of one term."""
_APOSTROPHES: Final = "'’"


@final
@dataclass(frozen=True, slots=True)
class SourceTerm:
    """Term in a segment, and the forms of which one translates it."""

    start: int
    end: int
    forms: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class TermPlace:
    """Words of a translation in place of which a term belongs."""

    before: str
    """The translation up to the word before them."""
    gap: str
    """The word before them, such as an article, which may change with the term; empty where it stays."""
    words: str
    after: str
    """The translation after them."""
    forms: tuple[str, ...]
    """Forms of the term, in the case of the words."""


@final
@dataclass(frozen=True, slots=True)
class Translated:
    """Segment, its terms, and a translation with the alignment of their words."""

    source: str
    terms: Sequence[SourceTerm]
    output: str
    alignment: TokenAlignment

    def find(self) -> list[TermMatch[tuple[str, ...]]]:
        """Return the terms that the translation has; their `terms` are all forms of each."""
        return find_forms(self.output, [term.forms for term in self.terms])

    def missing_place(self, done: int) -> TermPlace | None:
        """Return the first place of a missing term that begins at the character `done` or later, None without any."""
        present = self.find()
        places = []
        for term in missing_terms(self.terms, present):
            own = [one for one in present if term.forms in one.terms]
            span, share = self._aligned(term)
            if span is None or any(one.start < span[1] and span[0] < one.end for one in present):
                continue
            is_clear = share >= MIN_SHARE and not _is_inflection(self.output[slice(*span)], term.forms)
            if span[0] >= done and (not own or is_clear):
                places.append((span, term))
        if not places:
            return None
        span, term = min(places, key=lambda place: place[0])
        return self._place(span, term, max([done, *(one.end for one in present if one.end <= span[0])]))

    def _aligned(self, term: SourceTerm) -> tuple[Span | None, float]:
        """Return the words that translate a term, and the share of the attention of the best one."""
        sources, targets = find_atoms(self.source), find_atoms(self.output)
        columns = [place for place, (start, end) in enumerate(sources) if start < term.end and term.start < end]
        if not columns or not targets:
            return None, 0.0
        weights = self.alignment.of_atoms(sources, targets)[:, columns]
        is_word = np.array([any(map(str.isalnum, self.output[start:end])) for start, end in targets])
        weights = np.where(is_word[:, None], weights, 0)
        total = weights.sum(axis=1)
        best = int(total.argmax())
        if total[best] <= 0:
            return None, 0.0
        first = last = best
        for row in sorted(map(int, weights.argmax(axis=0)), key=lambda row: abs(row - best)):
            if total[row] >= MIN_SHARE and first - MAX_GAP <= row <= last + MAX_GAP:
                first, last = min(first, row), max(last, row)
        return (targets[first][0], targets[last][1]), float(total[best])

    def _place(self, span: Span, term: SourceTerm, least: int) -> TermPlace:
        start, end = span
        words = self.output[start:end]
        begin = _word_before(self.output, start, least)
        forms = _in_case(term.forms, words, at_start=start == 0)
        return TermPlace(self.output[:begin], self.output[begin:start], words, self.output[end:], forms)


def find_forms(text: str, terms: Sequence[tuple[str, ...]]) -> list[TermMatch[tuple[str, ...]]]:
    """Return the forms of terms in a text; the `terms` of each are all forms of the terms that it is a form of."""
    matcher: TermMatcher[tuple[str, ...]] = TermMatcher()
    for forms in dict.fromkeys(terms):
        for form in forms:
            matcher.add(form, forms, any_case=False)
    return matcher.find(text)


def missing_terms(terms: Sequence[SourceTerm], present: Sequence[TermMatch[tuple[str, ...]]]) -> list[SourceTerm]:
    """Return the terms that a translation has less often than their source has them."""
    needed = Counter(term.forms for term in terms)
    found = Counter(forms for one in present for forms in one.terms)
    return [term for term in terms if found[term.forms] < needed[term.forms]]


def _is_inflection(words: str, forms: Sequence[str]) -> bool:
    """Return whether words look like a form of a term that the glossary does not have."""
    return any(shares_stems(words.split(), form.split()) for form in forms)


def _word_before(text: str, start: int, least: int) -> int:
    """Return where the word before a place begins, not before `least`; the place itself where the word stays.

    A mark between both ends what the word depends on.
    """
    before = text[least:start]
    kept = before.rstrip()
    is_joined = kept == before
    if not kept or not (kept[-1].isalnum() or (is_joined and kept[-1] in _APOSTROPHES)):
        return start
    inside = len(kept) - len(kept.split()[-1])
    is_whole = inside > 0 or least == 0 or text[least].isspace()
    # Scripts without spaces have no words to tell: a whole clause would be left out.
    return least + inside if is_whole and len(kept) - inside <= _LONGEST_WORD else start


_LONGEST_WORD: Final = 20
"""Letters of the longest word that may change with a term."""


def _in_case(forms: tuple[str, ...], words: str, *, at_start: bool) -> tuple[str, ...]:
    """Return the forms in the case of the words that they replace: capitals of a beginning only where it is one."""
    capitals = {form for form in forms if form[0].isupper() and form[0].lower() + form[1:] in forms}
    if not words[0].isupper():
        return tuple(form for form in forms if form not in capitals) or forms
    if at_start:
        return tuple(form for form in forms if form[0].isupper()) or forms
    return forms
