"""Keys of `tokenizer_config.json` that change the tokens of `tokenizer.json` in transformers.

All other keys describe the class of the tokenizer in transformers, whose rules are those of `tokenizer.json`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from dragoman.errors import ConfigError, shorten
from dragoman.interop.key_table import KeyTable, Only, check_keys, computed

TOKENIZER_KEYS: Final[KeyTable] = {
    **computed(
        {
            "add_bos_token": "whether the prompt of a language model begins with the begin symbol",
            "add_prefix_space": "nothing: a value that contradicts `tokenizer.json` is refused",
            "legacy_behaviour": "the place of the language of an NLLB source",
            "extra_ids": "the number of sentinel symbols of `spiece.model`",
            "do_lower_case": "the normalization of `vocab.txt`",
            "strip_accents": "the normalization of `vocab.txt`",
            "tokenize_chinese_chars": "the normalization of `vocab.txt`",
            "model_max_length": "the longest text of a model without positions",
            "chat_template": "the chat template",
            "tokenizer_class": "the place of languages, and the kind of `vocab.txt`",
            "additional_special_tokens": "further symbols, such as languages",
            "extra_special_tokens": "further symbols, such as languages",
            "added_tokens_decoder": "the ids of further symbols",
            "language_codes": "the languages of M2M100",
            "bos_token": "the begin symbol",
            "eos_token": "the end symbol",
            "pad_token": "the padding symbol",
            "unk_token": "the unknown symbol",
            "cls_token": "the first symbol of an encoder",
            "sep_token": "the last symbol of an encoder",
            "mask_token": "the mask symbol",
        }
    ),
    "split_special_tokens": Only((False,), "special symbols in a text that are read as words"),
}


_SPLIT_BY_CLASS: Final = ("bart", "gpt2", "qwen2", "roberta")
"""Families whose class in transformers splits words by its settings, whatever `tokenizer.json` says."""


def check_tokenizer_settings(
    path: Path, settings: Mapping[str, Any], special: Mapping[str, str], tree: Mapping[str, Any], *, family: str
) -> None:
    """Raise ConfigError for settings with which transformers makes other tokens than `tokenizer.json` says.

    `special` is the token of each role, and `tree` the content of `tokenizer.json`.
    """
    known = {key: value for key, value in settings.items() if isinstance(TOKENIZER_KEYS.get(key), Only)}
    check_keys(known, TOKENIZER_KEYS, where=f"{path}: ")
    spaces = {part.get("add_prefix_space") for part in _byte_levels(tree.get("pre_tokenizer"))}
    wanted = settings.get("add_prefix_space")
    if family in _SPLIT_BY_CLASS and isinstance(wanted, bool) and spaces == {not wanted}:
        raise ConfigError(
            f"{path}: add_prefix_space = {str(wanted).lower()} contradicts tokenizer.json. Save the tokenizer again."
        )
    added = tree.get("added_tokens")
    names = (
        {token.get("content") for token in added if isinstance(token, Mapping)} if isinstance(added, list) else set()
    )
    for role, token in special.items():
        if token not in names and len(token) == 1 and role != "pad_token":
            raise ConfigError(
                f"{path}: {role} = {shorten(token)} is an ordinary token of tokenizer.json, and no special symbol. "
                "Save the tokenizer again."
            )


def _byte_levels(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the byte-level parts of a pre-tokenizer."""
    if not isinstance(tree, Mapping):
        return
    if tree.get("type") == "ByteLevel":
        yield tree
    members = tree.get("pretokenizers")
    for member in members if isinstance(members, list) else ():
        yield from _byte_levels(member)
