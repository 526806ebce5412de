"""Symbols of languages in the vocabularies of multilingual models, whatever format they come in."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from dragoman.data.tokenizers import Language, Prefixes
from dragoman.interop.imported_model import ImportOptions
from dragoman.interop.vocabulary_order import VocabularyOrder

MARIAN_TAG: Final = re.compile(">>([^<>]{1,40})<<")
"""Tag of the target language before a source, as in OPUS-MT."""
PAIR_TAGS: Final = (
    re.compile("__([a-z]{2,8})__"),
    re.compile("([a-z]{3}_[A-Z][a-z]{3})"),
    re.compile("([a-z]{2,3}_[A-Z]{2})"),
)
"""Tags of M2M100, NLLB and mBART, of both languages."""
MIN_PAIR_TAGS: Final = 4
"""Fewest tags of a multilingual model in a format that does not name the family; fewer may be ordinary tokens."""


def find_tags(ids: Mapping[str, int], pattern: re.Pattern[str], order: VocabularyOrder) -> dict[str, Language]:
    """Return the languages whose symbols match a pattern, with our ids."""
    tags = sorted((index, match[1]) for token, index in ids.items() if (match := pattern.fullmatch(token)))
    return {code: Language(int(order.our_ids[index])) for index, code in tags}


def find_pair_tags(ids: Mapping[str, int], order: VocabularyOrder) -> dict[str, Language]:
    """Return the languages of M2M100, NLLB or mBART, whichever symbols the vocabulary has the most of."""
    return max((find_tags(ids, pattern, order) for pattern in PAIR_TAGS), key=len)


def with_default_languages(prefixes: Prefixes, options: ImportOptions) -> Prefixes:
    """Return the prefixes with the languages that the user names as defaults.

    A model without languages gets them as a description, and one that reads no source language keeps none. Raises
    ConfigError if the model lacks one.
    """
    given = {"source_language": options.source_language, "target_language": options.target_language}
    named: Any = {name: code for name, code in given.items() if code is not None}
    if not prefixes.languages:
        languages = {code: Language() for code in named.values()}
        pair = (options.source_language, options.target_language)
        directions = ((pair[0], pair[1]),) if pair[0] is not None and pair[1] is not None else ()
        return replace(prefixes, languages=languages, directions=directions, **named)
    defaults: Any = {name: prefixes.code_of(name, code) for name, code in named.items() if name in prefixes.needed}
    return replace(prefixes, **defaults)
