"""Glossaries: source phrases and the translations that they must have, may have, or may not have."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, final

from dragoman.data.terminology.matching import TermMatch, TermMatcher
from dragoman.data.terminology.source_variants import source_variants
from dragoman.data.terminology.word_units import find_literals
from dragoman.errors import DataError, shorten_text

CaseRule = Literal["smart", "exact", "ignore"]
"""Case in which a source phrase is found.

A phrase without capital letters is found in any case, and one with capitals exactly as it is (`smart`); every phrase
exactly (`exact`) or in any case (`ignore`).
"""
MAX_TERMS = 200_000
"""Entries of a glossary."""
MAX_FORMS = 50
"""Forms of a phrase."""
MAX_LENGTH = 500
"""Characters of a form."""
_BAR = re.compile(r"(?<!\\)\|")


@final
@dataclass(frozen=True, slots=True)
class Term:
    """Entry of a glossary.

    One of the `targets`, forms such as inflections, translates the `sources`. Without targets, the source stays
    untranslated. Of the `forbidden` phrases, none may appear: without targets the translation is otherwise free, and
    without sources they are forbidden in every translation.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    case: CaseRule = "smart"
    note: str = ""

    def __post_init__(self) -> None:
        if not self.sources and (self.targets or not self.forbidden):
            raise DataError("a term has no source phrase. Give one, or only forbidden phrases.")
        for forms in (self.sources, self.targets, self.forbidden):
            if len(forms) > MAX_FORMS:
                raise DataError(
                    f"the term {shorten_text(forms[0])!r} has {len(forms)} forms. Give {MAX_FORMS} at most."
                )
            for form in forms:
                _check_form(form)

    @classmethod
    def parse(
        cls, source: str, target: str = "", *, forbidden: str = "", case: CaseRule = "smart", note: str = ""
    ) -> Self:
        r"""Return the term of texts where `|` separates forms; `\|` is a bar in a form."""
        return cls(split_forms(source), split_forms(target), split_forms(forbidden), case, note)

    @property
    def is_untranslated(self) -> bool:
        """Return whether the source stays as it is."""
        return not self.targets and not self.forbidden


@final
@dataclass(frozen=True)
class Glossary:
    """Terms of a language pair. A source phrase that several terms have is translated by the targets of any of them."""

    terms: tuple[Term, ...]
    source_language: str | None = None
    target_language: str | None = None
    match_variants: bool = True
    """Whether a term is found in its regular plural, too: the source phrase with another ending."""

    def __post_init__(self) -> None:
        if len(self.terms) > MAX_TERMS:
            raise DataError(f"the glossary has {len(self.terms):,} terms. Give {MAX_TERMS:,} at most.")

    def __len__(self) -> int:
        return len(self.terms)

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), (self.terms, self.source_language, self.target_language, self.match_variants)

    @classmethod
    def from_pairs(
        cls,
        pairs: Mapping[str, str] | Iterable[tuple[str, str]],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> Self:
        """Return the glossary of (source, target) texts, which `Term.parse` reads."""
        rows = pairs.items() if isinstance(pairs, Mapping) else pairs
        return cls(tuple(Term.parse(source, target) for source, target in rows), source_language, target_language)

    @property
    def num_forms(self) -> int:
        """Number of forms of all sources and targets."""
        return sum(len(term.sources) + len(term.targets) for term in self.terms)

    @property
    def always_forbidden(self) -> tuple[str, ...]:
        """Phrases that are forbidden in every translation."""
        return tuple(dict.fromkeys(form for term in self.terms if not term.sources for form in term.forbidden))

    def find(self, text: str) -> list[TermMatch[Term]]:
        """Return the terms of a text from left to right: the longest at each place, without overlaps.

        The words of paths, URLs, options, identifiers and the like are no terms.
        """
        return self._matcher.find(text, literals=find_literals(text))

    @cached_property
    def _matcher(self) -> TermMatcher[Term]:
        matcher: TermMatcher[Term] = TermMatcher()
        for term in self.terms:
            for form in term.sources:
                matcher.add(form, term, any_case=accepts_any_case(term.case, form))
        if self.match_variants:
            for term in self.terms:
                for form in term.sources:
                    for variant in source_variants(form, self.source_language):
                        matcher.add(variant, term, any_case=accepts_any_case(term.case, form), is_variant=True)
        return matcher


def accepts_any_case(rule: CaseRule, form: str) -> bool:
    """Return whether a source phrase is found in any case."""
    return rule == "ignore" or (rule == "smart" and not any(map(str.isupper, form)))


def split_forms(text: str) -> tuple[str, ...]:
    r"""Return the different forms of a cell, which `|` separates, without white space around them."""
    parts = (" ".join(part.replace(r"\|", "|").split()) for part in _BAR.split(text))
    return tuple(dict.fromkeys(unicodedata.normalize("NFC", part) for part in parts if part))


def join_forms(forms: Iterable[str]) -> str:
    r"""Return the cell of forms, which `split_forms` reads."""
    return "|".join(form.replace("|", r"\|") for form in forms)


def _check_form(form: str) -> None:
    if len(form) > MAX_LENGTH:
        raise DataError(
            f"the form {shorten_text(form)!r} has {len(form):,} characters. Give phrases of {MAX_LENGTH} at most."
        )
    if not form.strip():
        raise DataError("a form of a term is empty. Remove it.")
    if not form.isprintable() and any(unicodedata.category(character) in ("Cc", "Co", "Cs") for character in form):
        raise DataError(f"the form {shorten_text(form)!r} has control characters. Remove them.")
