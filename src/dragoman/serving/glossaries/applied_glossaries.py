"""Stored glossaries, as translation applies them."""

from collections.abc import Sequence

from dragoman.serving.glossaries.glossary_store import GlossaryDictionary
from dragoman.serving.translation.terms import GlossaryEntries


def apply_dictionaries(dictionaries: Sequence[GlossaryDictionary]) -> GlossaryEntries:
    """Return the entries of dictionaries of one language pair. Those of the first precede those of others.

    Every entry has one form: `|` has no meaning in the glossaries of DeepL.
    """
    return GlossaryEntries(tuple(one.entries for one in dictionaries), has_forms=False, pair=dictionaries[0].pair)
