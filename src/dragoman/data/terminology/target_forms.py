"""Forms of a term in a translation, and whether a translation has them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dragoman.data.terminology.glossary import Glossary, Term
from dragoman.data.terminology.matching import TermMatch, TermMatcher


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
    """Return the phrases that a translation may not have, also with a capital letter at the beginning."""
    return with_capitals(form for term in match.terms for form in term.forbidden)


def with_capitals(forms: Iterable[str]) -> tuple[str, ...]:
    """Return phrases, also with a capital where they begin with a lowercase letter."""
    found = list(forms)
    return tuple(dict.fromkeys([*found, *(form[0].upper() + form[1:] for form in found)]))


def check_terms(glossary: Glossary, source: str, translation: str) -> list[TermCheck]:
    """Return the terms of a source and whether its translation has them, in any form and case of the glossary.

    Reports count these; the search that meets terms compares tokens instead.
    """
    checks = []
    for match in glossary.find(source):
        forms, forbidden = required_forms(match), forbidden_forms(match)
        is_met = (not forms or has_phrase(translation, forms)) and not has_phrase(translation, forbidden)
        checks.append(TermCheck(match, forms, is_met))
    return checks


def has_phrase(text: str, phrases: Sequence[str]) -> bool:
    """Return whether a text has one of the phrases as whole words or parts of hyphenated words, in any case.

    A compound such as `Firefox-Browser` has the term `Firefox`, as the search counts it.
    """
    matcher: TermMatcher[str] = TermMatcher(split_hyphens=True)
    for phrase in phrases:
        matcher.add(phrase, phrase, any_case=True)
    return bool(matcher.find(text))
