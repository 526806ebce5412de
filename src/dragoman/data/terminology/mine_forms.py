"""Inflections of the terms of a glossary, found in parallel text.

A phrase of a target is a form of a term if the source has the term, each word of the phrase shares its stem with a word
of the translation, and the phrase occurs with the term often enough. Forms of source phrases are found the same way,
with the sides exchanged.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dragoman.data.terminology.glossary import Glossary, Term
from dragoman.data.terminology.matching import TermMatcher
from dragoman.data.terminology.words import Word, shares_stems, split_words

MIN_COUNT = 2
"""Pairs that have a form at least."""
MIN_SHARE = 0.2
"""Share of the occurrences of a form that are in pairs with the term, at least."""
MAX_FORMS = 20
"""Forms of a term."""

Pair = tuple[str, str]


def mine_forms(glossary: Glossary, pairs: Sequence[Pair], *, min_count: int = MIN_COUNT) -> Glossary:
    """Return the glossary with the forms of the pairs, the most frequent first, after the given forms.

    Targets get their forms first; then sources get the forms that occur with any form of the target.
    """
    terms = _with_forms(glossary.terms, pairs, min_count)
    swapped = [_swap(term) for term in terms]
    swapped = _with_forms(swapped, [(target, source) for source, target in pairs], min_count)
    return replace(glossary, terms=tuple(map(_swap_back, terms, swapped)))


def _swap(term: Term) -> Term:
    return term if not term.sources or not term.targets else replace(term, sources=term.targets, targets=term.sources)


def _swap_back(term: Term, swapped: Term) -> Term:
    return term if not term.sources or not term.targets else replace(term, sources=swapped.targets)


def _with_forms(terms: Iterable[Term], pairs: Sequence[Pair], min_count: int) -> list[Term]:
    """Return the terms with more forms of their targets."""
    terms = list(terms)
    glossary = Glossary(tuple(terms))
    places = {id(term): place for place, term in enumerate(terms)}
    counts: list[Counter[str]] = [Counter() for _ in terms]
    phrases = [[[word.text for word in split_words(form)] for form in term.targets] for term in terms]
    for source, target in pairs:
        found = {places[id(term)] for match in glossary.find(source) for term in match.terms if term.targets}
        if found:
            words = split_words(target)
            for place in found:
                counts[place].update(_forms_in(target, words, phrases[place]))
    kept = [{form: count for form, count in some.items() if count >= min_count} for some in counts]
    totals = _count_phrases({form for some in kept for form in some}, (target for _, target in pairs))
    return [
        _extend(term, [form for form in _most_frequent(some) if some[form] >= MIN_SHARE * totals[form]])
        for term, some in zip(terms, kept, strict=True)
    ]


def has_inflection(text: str, forms: Iterable[str]) -> bool:
    """Return whether a text has a phrase that shares the stems of its words with one of the forms."""
    return bool(_forms_in(text, split_words(text), [[word.text for word in split_words(form)] for form in forms]))


def _forms_in(text: str, words: Sequence[Word], phrases: Iterable[Sequence[str]]) -> set[str]:
    """Return the phrases of a text that share their stems with one of the given ones."""
    found = set()
    for phrase in phrases:
        for start in range(len(words) - len(phrase) + 1):
            window = words[start : start + len(phrase)]
            if shares_stems([word.text for word in window], phrase):
                found.add(" ".join(text[window[0].start : window[-1].end].split()))
    return found


def _count_phrases(phrases: Iterable[str], texts: Iterable[str]) -> Counter[str]:
    """Return in how many texts each phrase occurs."""
    matcher: TermMatcher[str] = TermMatcher()
    for phrase in phrases:
        matcher.add(phrase, phrase, any_case=False)
    totals: Counter[str] = Counter()
    for text in texts:
        totals.update({phrase for match in matcher.find(text) for phrase in match.terms})
    return totals


def _most_frequent(counts: Mapping[str, int]) -> list[str]:
    return sorted(counts, key=lambda form: (-counts[form], form))


def _extend(term: Term, forms: Sequence[str]) -> Term:
    """Return a term with more forms of its target; forms that differ in case only count as one."""
    targets = {form.casefold(): form for form in term.targets}
    for form in forms:
        if len(targets) < MAX_FORMS:
            targets.setdefault(form.casefold(), form)
    return replace(term, targets=tuple(targets.values()))
