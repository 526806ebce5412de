"""Forms of a term in a translation, and whether a translation has them."""

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.data.terminology.glossary import Glossary, Term, accepts_any_case
from dragoman.data.terminology.matching import TermMatch, TermMatcher
from dragoman.data.terminology.word_units import Span, find_copies, literal_texts

_APOSTROPHES = {ord("’"): "'"}
"""Characters of one meaning, which typography exchanges."""


class TermCheck(NamedTuple):
    """Term of a source, and whether its translation has one of its forms and none of its forbidden ones."""

    match: TermMatch[Term]
    forms: tuple[str, ...]
    is_met: bool


def required_forms(match: TermMatch[Term]) -> tuple[str, ...]:
    """Return the forms of which one translates a term, those of the glossary first; none if it only forbids some.

    Where the case of the source does not count, a form may also begin with a capital letter, as at the beginning of a
    sentence, and a source in capitals may have a translation in capitals. An untranslated term is written as in the
    source.
    """
    forms = [form for term in match.terms for form in ((match.text,) if term.is_untranslated else term.targets)]
    if all(term.case != "exact" for term in match.terms):
        forms += [form[0].upper() + form[1:] for form in forms if form[0].islower()]
        if match.text.isupper() and len(match.text) > 1:
            forms += [form.upper() for form in forms]
    return tuple(dict.fromkeys(forms))


def forbidden_forms(match: TermMatch[Term]) -> tuple[str, ...]:
    """Return the phrases that a translation may not have."""
    return tuple(dict.fromkeys(form for term in match.terms for form in term.forbidden))


def lacks_plural(match: TermMatch[Term]) -> bool:
    """Return whether a text has the plural of a term, for which the glossary has one form only."""
    forms = {form for term in match.terms for form in term.targets}
    return match.is_variant and len(forms) == 1


def check_terms(glossary: Glossary, source: str, translation: str) -> list[TermCheck]:
    """Return the terms of a source and whether its translation has them, in any form and case of the glossary."""
    checks = []
    literals = find_copies(translation, literal_texts(source))
    for match in glossary.find(source):
        forms, forbidden = required_forms(match), forbidden_forms(match)
        is_met = (not forms or has_phrase(translation, forms, literals)) and not has_phrase(
            translation, forbidden, literals
        )
        checks.append(TermCheck(match, forms, is_met))
    return checks


def has_phrase(text: str, phrases: Sequence[str], literals: Sequence[Span] = ()) -> bool:
    """Return whether a text has one of the phrases as whole words, in any case, outside of its `literals`."""
    matcher: TermMatcher[str] = TermMatcher()
    for phrase in phrases:
        matcher.add(phrase, phrase, any_case=True)
    return bool(matcher.find(text, literals=literals))


def find_phrases(
    text: str,
    phrases: Sequence[str],
    *,
    whole_words: bool = True,
    smart_case: bool = False,
    literals: Sequence[Span] = (),
) -> list[Span]:
    """Return the places of phrases in a text, with their white space: the longest first, without overlaps.

    With `smart_case`, a phrase without capital letters is found in any case; otherwise phrases have their own case.
    Without `whole_words`, phrases are found inside of words and `literals`, too.
    """
    any_case = {_spaced(phrase): smart_case and accepts_any_case("smart", phrase) for phrase in phrases}
    text = text.translate(_APOSTROPHES)
    if not whole_words:
        ordered = sorted(any_case, key=len, reverse=True)
        parts = (re.escape(phrase).replace(r"\ ", r"\s+") for phrase in ordered)
        options = ("(?i:" if any_case[phrase] else "(?:" for phrase in ordered)
        return [match.span() for match in re.finditer("|".join(map("{}{})".format, options, parts)), text)]
    matcher: TermMatcher[str] = TermMatcher()
    for phrase, accepts in any_case.items():
        matcher.add(phrase, phrase, any_case=accepts)
    spaces = {phrase.count(" ") for phrase in any_case}
    matches = matcher.find(text, literals=literals)
    return [(match.start, match.end) for match in matches if _spaced(match.text).count(" ") in spaces]


def _spaced(text: str) -> str:
    return unicodedata.normalize("NFC", " ".join(text.translate(_APOSTROPHES).split()))
