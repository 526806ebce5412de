"""Languages and symbols before the texts of Hugging Face models, by family.

| family | before a source | output begins with | languages |
|--------|-----------------|--------------------|-----------|
| Marian | `>>fra<<`, the target, if the vocabulary has such symbols | | `fra` |
| BART | `<s>` | `forced_bos_token_id` | |
| mBART-50 | `en_XX`, the source | `fr_XX`, the target | `en_XX` |
| M2M100 | `__en__`, the source | `__fr__`, the target | `en` |
| NLLB | `eng_Latn`, the source | `fra_Latn`, the target | `eng_Latn` |
| T5 | `translate English to French: ` in words, if the configuration says so | | `en` |
| MADLAD | `<2fr> ` in the text | | `fr` |

The first mBART and NLLB with `legacy_behaviour` put the language of the source after its end symbol, where our models
have none.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from dragoman.data.tokenizers import Language, Prefixes
from dragoman.errors import shorten
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.huggingface.generation_settings import Symbols
from dragoman.interop.huggingface.tokenizer_files import ForeignTokenizer, TokenizerSide
from dragoman.interop.imported_model import ImportOptions
from dragoman.interop.vocabulary_order import VocabularyOrder

MARIAN_TAG: Final = re.compile(">>([^<>]{1,40})<<")
M2M100_TAG: Final = re.compile("__([a-z]{2,8})__")
NLLB_TAG: Final = re.compile("([a-z]{3}_[A-Z][a-z]{3})")
MBART_TAG: Final = re.compile("([a-z]{2,3}_[A-Z]{2})")
MADLAD_TAG: Final = re.compile("<2([a-z]{2,3}(?:_[A-Za-z]+)?)>")
_WORDS: Final = re.compile(r"translate ([A-Za-z ]{1,40}) to ([A-Za-z ]{1,40}): ")
_BOTH: Final[Any] = {"source": ("source_language",), "target": ("target_language",)}

Orders = Mapping[str, VocabularyOrder]


def read_prefixes(
    config: ForeignConfig, symbols: Symbols, tokenizer: ForeignTokenizer, orders: Orders, options: ImportOptions
) -> tuple[Prefixes, list[str]]:
    """Return the symbols and words before texts, and notes on what has no counterpart.

    Raises ConfigError if an option names a language that the model lacks.
    """
    family, notes = str(config.tree.get("model_type")), list[str]()
    prefixes = Prefixes()
    match family:
        case "marian":
            tags = _languages(tokenizer.source, MARIAN_TAG, orders["source"])
            prefixes = Prefixes(source=("target_language",) if tags else (), languages=tags)
        case "bart":
            begin = tokenizer.symbol("bos_token", tokenizer.source, "<s>")
            source = () if begin is None else (int(orders["source"].our_ids[begin]),)
            target = tuple(int(orders["target"].our_ids[index]) for index in symbols.first)
            prefixes = Prefixes(source=source, target=target)
        case "m2m_100" | "mbart":
            if problem := _language_after_end(family, tokenizer):
                notes.append(problem)
            else:
                languages = _tagged(tokenizer, orders["source"])
                prefixes = Prefixes(**_BOTH, languages=languages) if languages else prefixes
        case "t5":
            prefixes = _t5_prefixes(config, tokenizer)
    return _with_defaults(prefixes, options), notes


def _tagged(tokenizer: ForeignTokenizer, order: VocabularyOrder) -> dict[str, Language]:
    """Return the languages of M2M100, NLLB or mBART-50, whichever symbols the vocabulary has the most of."""
    found = [_languages(tokenizer.source, pattern, order) for pattern in (M2M100_TAG, NLLB_TAG, MBART_TAG)]
    return max(found, key=len)


def _languages(side: TokenizerSide, pattern: re.Pattern[str], order: VocabularyOrder) -> dict[str, Language]:
    """Return the languages whose symbols match a pattern, with our ids."""
    tags = sorted((index, match[1]) for token, index in side.ids.items() if (match := pattern.fullmatch(token)))
    return {code: Language(int(order.our_ids[index])) for index, code in tags}


def _language_after_end(family: str, tokenizer: ForeignTokenizer) -> str | None:
    """Return a note if the tokenizer puts the language of a source after its end symbol."""
    name = tokenizer.settings.get("tokenizer_class")
    is_first_mbart = family == "mbart" and isinstance(name, str) and not name.startswith("MBart50")
    if is_first_mbart or tokenizer.settings.get("legacy_behaviour") is True:
        return (
            f"{shorten(name)} puts the language of a source after its end symbol, where dragoman has none: texts have "
            "no languages here"
        )
    return None


def _t5_prefixes(config: ForeignConfig, tokenizer: ForeignTokenizer) -> Prefixes:
    """Return the words before a source; a text without languages, such as one to summarize, has none."""
    codes = sorted(match[1] for token in tokenizer.source.ids if (match := MADLAD_TAG.fullmatch(token)))
    if codes:
        return Prefixes(text="<2{target_language}> ", languages={code: Language(name=code) for code in codes})
    pairs = dict(_t5_directions(config))
    names = {code: name for pair, both in pairs.items() for code, name in zip(pair, both, strict=True)}
    if not names:
        return Prefixes()
    return Prefixes(
        text="translate {source_language} to {target_language}: ",
        languages={code: Language(name=name) for code, name in names.items()},
        directions=tuple(pairs),
        is_optional=True,
    )


def _t5_directions(config: ForeignConfig) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Yield the codes and names of the languages of each translation in `task_specific_params`."""
    tasks = config.tree.get("task_specific_params")
    for name, settings in tasks.items() if isinstance(tasks, Mapping) else ():
        words = settings.get("prefix") if isinstance(settings, Mapping) else None
        codes = re.fullmatch("translation_([a-z]{2,3})_to_([a-z]{2,3})", name)
        if codes and isinstance(words, str) and (match := _WORDS.fullmatch(words)):
            yield (codes[1], codes[2]), (match[1], match[2])


def _with_defaults(prefixes: Prefixes, options: ImportOptions) -> Prefixes:
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
