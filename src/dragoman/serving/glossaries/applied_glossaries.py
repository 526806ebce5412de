"""Stored glossaries, as translation applies them."""

from collections.abc import Sequence
from functools import lru_cache, reduce

from dragoman.data.terminology.glossary import Glossary, Term
from dragoman.serving.glossaries.glossary_store import GlossaryDictionary
from dragoman.serving.translation.terms import AppliedGlossary, join_glossaries

_CACHED = 64
"""Dictionaries whose automata are kept."""


def apply_dictionaries(dictionaries: Sequence[GlossaryDictionary]) -> AppliedGlossary:
    """Return the glossary of dictionaries of one language pair. The entries of the first precede those of others."""
    return AppliedGlossary(reduce(join_glossaries, map(_as_glossary, dictionaries)))


@lru_cache(_CACHED)
def _as_glossary(dictionary: GlossaryDictionary) -> Glossary:
    """Return a glossary in which every entry has one form: `|` has no meaning in the glossaries of DeepL."""
    terms = tuple(Term((source,), (target,)) for source, target in dictionary.entries)
    return Glossary(terms, dictionary.source, dictionary.target)
