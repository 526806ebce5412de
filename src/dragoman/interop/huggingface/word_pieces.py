"""Tokenizers of BERT and DistilBERT without a `tokenizer.json`: WordPiece with the tokens of `vocab.txt`, one a line.

Texts are cleaned, and by default lowercased and stripped of accents, split at white space and punctuation, and then
into the longest pieces (Wu et al., 2016; `BertTokenizer` of transformers 5).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from dragoman.data.tokenizers.tokenizer_pair import MAX_FILE
from dragoman.errors import ConfigError, DataError, shorten
from dragoman.interop.vocabulary_order import MAX_VOCABULARY
from dragoman.untrusted_files import FileKind

WORDS_FILE: Final = "vocab.txt"
WORD_FILES: Final = FileKind(MAX_FILE, "download it again", error=DataError)
_CLASSES: Final = ("BertTokenizer", "DistilBertTokenizer", "PreTrainedTokenizer", "TokenizersBackend")
_SYMBOLS: Final = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def word_piece_tokenizer(path: Path, settings: Mapping[str, Any], special: Mapping[str, str]) -> str:
    """Return the `tokenizer.json` of a vocabulary and the content of its `tokenizer_config.json`.

    Raises DataError if the vocabulary is damaged or lacks a symbol, and ConfigError for a tokenizer of another kind.
    """
    ids = _read_words(path)
    symbols = {role: special.get(role, symbol) for role, symbol in _SYMBOLS.items()}
    if missing := [one for one in symbols.values() if one not in ids]:
        raise WORD_FILES.damaged(path, f"it lacks the symbol {shorten(missing[0])}")
    _check_settings(path, settings)
    built = tokenizers.Tokenizer(models.WordPiece(ids, unk_token=symbols["unk_token"]))
    accents = settings.get("strip_accents")
    built.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars") is not False,
        strip_accents=accents if isinstance(accents, bool) else None,
        lowercase=settings.get("do_lower_case") is not False,
    )
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    built.decoder = decoders.WordPiece(prefix="##")
    begin, end = symbols["cls_token"], symbols["sep_token"]
    built.post_processor = processors.TemplateProcessing(
        f"{begin} $A {end}", f"{begin} $A {end} $B:1 {end}:1", [(begin, ids[begin]), (end, ids[end])]
    )
    built.add_special_tokens(list(symbols.values()))
    return built.to_str()


def _read_words(path: Path) -> dict[str, int]:
    """Return the id of each token. Raises DataError if two are equal, or if there are too many."""
    words = WORD_FILES.read_text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")
    if len(words) > MAX_VOCABULARY:
        raise WORD_FILES.damaged(path, f"it has more than {MAX_VOCABULARY:,} tokens")
    ids = {word: index for index, word in enumerate(words)}
    if len(ids) < len(words):
        place = next(index for index, word in enumerate(words) if ids[word] != index)
        raise WORD_FILES.damaged(path, f"the token {shorten(words[place])} of line {place + 1} comes again")
    return ids


def _check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    name = settings.get("tokenizer_class") or _CLASSES[0]
    if not isinstance(name, str) or name.removesuffix("Fast") not in _CLASSES:
        raise ConfigError(f"{path}: the tokenizer {shorten(name)} is not supported. Add its tokenizer.json.")
    if settings.get("do_basic_tokenize") is False or settings.get("never_split"):
        key = "never_split" if settings.get("never_split") else "do_basic_tokenize"
        raise ConfigError(
            f"{path.parent}: {key} = {shorten(settings.get(key))} of the tokenizer is not supported. Add its "
            "tokenizer.json."
        )
