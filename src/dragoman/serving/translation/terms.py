"""Glossaries of a translation: the glossary of the request, and glossaries of the server for a language pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any, final

from dragoman.data.terminology.glossary import Glossary, Term
from dragoman.data.terminology.glossary_files import read_glossary
from dragoman.errors import ConfigError
from dragoman.inference.control.glossary_terms import GlossaryMode
from dragoman.serving.config import GlossaryConfig
from dragoman.serving.http.errors import invalid
from dragoman.serving.served_models import Hop, LanguagePair, ModelStore

_CACHED = 32
"""Joined glossaries whose automata are kept."""


@final
@dataclass(frozen=True)
class AppliedGlossary:
    """Glossary, and how its terms are applied."""

    glossary: Glossary
    mode: GlossaryMode = "hard"

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `translate`."""
        return {"glossary": self.glossary, "glossary_mode": self.mode}


@final
@dataclass(frozen=True)
class GlossaryEntries:
    """Terms of a request as texts, which are read where its texts are translated."""

    dictionaries: tuple[tuple[tuple[str, ...], ...], ...]
    """Source, target and forbidden phrases of each entry; entries of the first dictionary precede those of others."""
    mode: GlossaryMode = "hard"
    has_forms: bool = True
    """Whether `|` separates the forms of a phrase."""
    pair: LanguagePair | None = None
    """Language pair, by which plurals of the terms are found; None where it is not known."""

    def __len__(self) -> int:
        return sum(map(len, self.dictionaries))

    def read(self) -> AppliedGlossary:
        """Return the glossary. Raises DataError for an invalid term."""
        glossaries = [_read_entries(entries, self.has_forms, self.pair) for entries in self.dictionaries]
        return AppliedGlossary(reduce(join_glossaries, glossaries), self.mode)


@lru_cache(_CACHED)
def _read_entries(entries: tuple[tuple[str, ...], ...], has_forms: bool, pair: tuple[str, str] | None) -> Glossary:
    terms = (
        Term.parse(source, target, forbidden="".join(forbidden)) if has_forms else Term((source,), (target,))
        for source, target, *forbidden in entries
    )
    return Glossary(tuple(terms), *(pair or ()))


@final
class GlossaryChoice:
    """Chooses the glossary of a translation."""

    def __init__(self, always: Mapping[LanguagePair, AppliedGlossary]) -> None:
        """`always` are the glossaries that the server applies, by language pair."""
        self._always = dict(always)

    def of(self, hops: Sequence[Hop], entries: GlossaryEntries | None) -> list[AppliedGlossary | None]:
        """Return the glossary of each model that translates a text. Terms of the request precede those of the server.

        Raises RequestError where the request has a glossary and two models translate, since its source terms are not
        in the text between them.
        """
        always = [self._always.get(hop.pair) for hop in hops]
        if entries is None:
            return list(always)
        if len(hops) > 1:
            pair = f"{hops[0].pair[0]} to {hops[-1].pair[1]}"
            raise invalid(f"Glossaries are not supported for {pair}: no model translates it directly.", "glossary")
        [own], asked = always, entries.read()
        return [asked if own is None else replace(asked, glossary=join_glossaries(asked.glossary, own.glossary))]


@lru_cache(_CACHED)
def join_glossaries(first: Glossary, second: Glossary) -> Glossary:
    """Return the terms of two glossaries. Source phrases of the first hide the same ones of the second."""
    taken = {source for term in first.terms for source in term.sources}

    def rest(term: Term) -> Term | None:
        sources = tuple(one for one in term.sources if one not in taken)
        return term if sources == term.sources else replace(term, sources=sources) if sources else None

    return replace(first, terms=(*first.terms, *filter(None, map(rest, second.terms))))


def read_glossaries(configs: Sequence[GlossaryConfig], store: ModelStore) -> GlossaryChoice:
    """Read the glossaries that always apply.

    Raises DataError for an invalid file, and ConfigError for a language pair that no model translates directly, or that
    has two glossaries.
    """
    found: dict[LanguagePair, AppliedGlossary] = {}
    for one in configs:
        pair = one.source_language, one.target_language
        if pair not in store.direct_pairs():
            known = ", ".join(f"{source} to {target}" for source, target in sorted(store.direct_pairs()))
            raise ConfigError(f"{one.path}: no model translates {' to '.join(pair)} directly. Give one of: {known}.")
        if pair in found:
            raise ConfigError(f"{one.path}: {' to '.join(pair)} has a glossary already. Join both files.")
        glossary = read_glossary(Path(one.path), source_language=pair[0], target_language=pair[1])
        found[pair] = AppliedGlossary(glossary, one.mode)
    return GlossaryChoice(found)
