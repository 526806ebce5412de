"""Terms that a document should translate by one word each, where a glossary gives several words for them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from dragoman.data.terminology.glossary import Glossary, Term
from dragoman.data.terminology.target_forms import has_phrase
from dragoman.data.terminology.words import shares_stems


@final
@dataclass(frozen=True, slots=True)
class TermChoice:
    """Term with several words for its translation, the word that a document has, and where it has another one."""

    source: str
    forms: tuple[str, ...]
    """The word that most texts have, in all its forms; of equally frequent ones, the first in the document."""
    terms: tuple[Term, ...]
    """Terms of the glossary with the source phrase."""
    texts: int
    """Texts with one of the words."""
    others: tuple[int, ...]
    """Places of the texts that have another of the words."""


def choose_words(
    glossary: Glossary, pairs: Sequence[tuple[str, str]], *, given: Sequence[TermChoice] = ()
) -> list[TermChoice]:
    """Return the choices for the terms of texts, which are given with their translations in the order of a document.

    Words of `given` choices stay chosen.
    """
    found: dict[tuple[Term, ...], dict[int, set[tuple[str, ...]]]] = {}
    names: dict[tuple[Term, ...], str] = {}
    for place, (source, translation) in enumerate(pairs):
        for match in glossary.find(source):
            words = group_forms([form for term in match.terms for form in term.targets])
            if len(words) > 1 and (own := {forms for forms in words if has_phrase(translation, forms)}):
                found.setdefault(match.terms, {})[place] = own
                names.setdefault(match.terms, match.terms[0].sources[0])
    known = {one.terms: one.forms for one in given}
    choices = []
    for terms, texts in found.items():
        # Of equally frequent words, a counter has the one first that it met first.
        counts = Counter(forms for own in texts.values() for forms in sorted(own))
        chosen = known.get(terms) or counts.most_common(1)[0][0]
        others = tuple(place for place, own in texts.items() if own != {chosen})
        choices.append(TermChoice(names[terms], chosen, terms, len(texts), others))
    return choices


def with_choices(glossary: Glossary, choices: Sequence[TermChoice]) -> Glossary:
    """Return a glossary that has only the chosen words for terms."""
    forms: dict[Term, set[str]] = {}
    for choice in choices:
        for term in choice.terms:
            forms.setdefault(term, set()).update(choice.forms)
    terms = []
    for term in glossary.terms:
        if term not in forms or not term.targets:
            terms.append(term)
        elif targets := tuple(form for form in term.targets if form in forms[term]):
            terms.append(replace(term, targets=targets))
    return replace(glossary, terms=tuple(terms))


def group_forms(forms: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the forms of each word, which share their stems with its first form."""
    words: list[list[str]] = []
    for form in dict.fromkeys(forms):
        own = next((word for word in words if shares_stems(word[0].split(), form.split())), None)
        if own is None:
            words.append([form])
        else:
            own.append(form)
    return [tuple(word) for word in words]
