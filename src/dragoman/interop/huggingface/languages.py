"""Languages and symbols before the texts of Hugging Face models, by family.

| family | before a source | output begins with | languages |
|--------|-----------------|--------------------|-----------|
| Marian | `>>fra<<`, the target, if the vocabulary has such symbols | | `fra` |
| BART | `<s>` | `forced_bos_token_id` | |
| mBART-50 | `en_XX`, the source | `fr_XX`, the target | `en_XX` |
| M2M100 | `__en__`, the source | `__fr__`, the target | `en` |
| NLLB | `eng_Latn`, the source | `fra_Latn`, the target | `eng_Latn` |
| NLLB with `legacy_behaviour` | nothing; `</s> eng_Latn` after it | `fra_Latn`, the target | `eng_Latn` |
| mBART-25 | nothing; `</s> en_XX` after it | | `en_XX` |
| T5 | `translate English to French: ` in words, if the configuration says so | | `en` |
| MADLAD | `<2fr> ` in the text | | `fr` |

An mBART-25 model translates into one language, whose symbol is the start symbol of its decoder.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dragoman.data.tokenizers import BOS, EOS, Language, Prefixes
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.huggingface.generation_settings import Symbols
from dragoman.interop.huggingface.tokenizer_files import ForeignTokenizer
from dragoman.interop.imported_model import ImportOptions
from dragoman.interop.language_tags import MARIAN_TAG, find_pair_tags, find_tags, with_default_languages
from dragoman.interop.vocabulary_order import VocabularyOrder

MADLAD_TAG: Final = re.compile("<2([a-z]{2,3}(?:_[A-Za-z]+)?)>")
_WORDS: Final = re.compile(r"translate ([A-Za-z ]{1,40}) to ([A-Za-z ]{1,40}): ")
_LAST: Final = (EOS, "source_language")
_BOTH: Final[Any] = {"source": ("source_language",), "target": ("target_language",)}

Orders = Mapping[str, VocabularyOrder]


def read_prefixes(
    config: ForeignConfig, symbols: Symbols, tokenizer: ForeignTokenizer, orders: Orders, options: ImportOptions
) -> tuple[Prefixes, list[str]]:
    """Return the symbols and words around texts, and a note on a symbol that is not used.

    Raises ConfigError if an option names a language that the model lacks.
    """
    prefixes = _family_prefixes(config, tokenizer, orders)
    prefixes, notes = _with_forced(prefixes, [int(orders["target"].our_ids[index]) for index in symbols.first])
    return with_default_languages(prefixes, options), notes


def _family_prefixes(config: ForeignConfig, tokenizer: ForeignTokenizer, orders: Orders) -> Prefixes:
    """Return the symbols and words of a family."""
    family = str(config.tree.get("model_type"))
    match family:
        case "marian":
            tags = find_tags(tokenizer.source.ids, MARIAN_TAG, orders["source"])
            return Prefixes(source=("target_language",) if tags else (), languages=tags)
        case "bart":
            begin = tokenizer.symbol("bos_token", tokenizer.source, "<s>")
            return Prefixes(source=() if begin is None else (int(orders["source"].our_ids[begin]),))
        case "m2m_100" | "mbart":
            if languages := find_pair_tags(tokenizer.source.ids, orders["source"]):
                return _tagged_prefixes(family, tokenizer, languages)
        case "t5":
            return _t5_prefixes(config, tokenizer)
    return Prefixes()


def _with_forced(prefixes: Prefixes, forced: Sequence[int]) -> tuple[Prefixes, list[str]]:
    """Return the prefixes with the symbols that outputs begin with.

    Where outputs begin with the target language, the symbol is the default language, or a note says that it is none.
    """
    if not forced:
        return prefixes, []
    if "target_language" not in prefixes.target:
        return replace(prefixes, target=tuple(forced)), []
    code = next((code for code, language in prefixes.languages.items() if language.tag == forced[0]), None)
    note = "forced_bos_token_id names no language and is not used; outputs begin with the target language"
    return replace(prefixes, target_language=code), [] if code else [note]


def _tagged_prefixes(family: str, tokenizer: ForeignTokenizer, languages: Mapping[str, Language]) -> Prefixes:
    """Return the symbols around the texts of a model with a symbol for each language."""
    name = tokenizer.settings.get("tokenizer_class")
    if family == "mbart" and isinstance(name, str) and not name.startswith("MBart50"):
        target = next((code for code, language in languages.items() if language.tag == BOS), None)
        directions = () if target is None else tuple((code, target) for code in languages)
        return Prefixes(source_end=_LAST, languages=languages, directions=directions, target_language=target)
    if str(name).startswith("Nllb") and tokenizer.settings.get("legacy_behaviour") is True:
        return Prefixes(source_end=_LAST, target=("target_language",), languages=languages)
    return Prefixes(**_BOTH, languages=languages)


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
    tasks = config.value("task_specific_params")
    for name, settings in tasks.items() if isinstance(tasks, Mapping) else ():
        words = settings.get("prefix") if isinstance(settings, Mapping) else None
        codes = re.fullmatch("translation_([a-z]{2,3})_to_([a-z]{2,3})", name)
        if codes and isinstance(words, str) and (match := _WORDS.fullmatch(words)):
            yield (codes[1], codes[2]), (match[1], match[2])
