"""Tokenizers in GGUF files: byte-level BPE, with the way to split words that the file names."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from dragoman.data.tokenizers import ImportedTokenizer, tokenizer_from_json
from dragoman.errors import ConfigError, shorten
from dragoman.interop.gguf.gguf_file import GGUF_FILES, GgufFile
from dragoman.interop.huggingface.foreign_config import ForeignConfig

CONTROL, USER_DEFINED = 3, 4
"""Types of tokens that are found in texts before words are split: special symbols, and words of the user."""
_LLAMA3: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BYTES: Final = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


PRE_TOKENIZERS: Final[Mapping[str, tuple[dict[str, Any], ...]]] = {
    "gpt-2": ({**_BYTES, "use_regex": True},),
    "smollm": ({"type": "Digits", "individual_digits": True}, {**_BYTES, "use_regex": True}),
    "llama-bpe": (_split(_LLAMA3), {**_BYTES, "use_regex": False}),
    "qwen2": (_split(_LLAMA3.replace("{1,3}", "")), {**_BYTES, "use_regex": False}),
}
"""Ways to split words by their names in `tokenizer.ggml.pre`."""
_LLAMA3_KINDS: Final = ("llama-bpe",)
"""Names for which llama.cpp puts the begin symbol before a text, and reads a word of the vocabulary without merges."""


@final
@dataclass(frozen=True)
class GgufTokens:
    """Vocabulary of a file."""

    texts: list[str]
    kinds: list[int]
    merges: list[str]
    pre_tokenizer: str
    eos: int
    ends: tuple[int, ...]
    """Further symbols that end an output."""
    bos: int | None
    pad: int | None
    unk: int | None
    has_bos: bool
    """Whether texts begin with the begin symbol."""
    chat_template: str | None

    def check_rows(self, header: GgufFile, rows: int) -> None:
        """Raise DataError if the vocabulary does not have as many tokens as the model has embeddings."""
        if len(self.texts) != rows:
            raise GGUF_FILES.damaged(header.path, f"{len(self.texts):,} tokens and {rows:,} embeddings")


def read_tokens(header: GgufFile, settings: ForeignConfig) -> GgufTokens:
    """Return the vocabulary. Raises DataError if it is damaged, ConfigError if it is of another kind."""

    def get(name: str, kind: type, default: Any) -> Any:
        value = settings.value(f"tokenizer.{name}")
        value = default if value is None else value
        if value is not None and type(value) is not kind:
            raise GGUF_FILES.damaged(header.path, f"tokenizer.{name} is {shorten(value)}")
        return value

    model, pre = get("ggml.model", str, ""), get("ggml.pre", str, "gpt-2")
    if model != "gpt2" or pre not in PRE_TOKENIZERS:
        raise ConfigError(
            f"{header.path}: the tokenizer {shorten(model)} ({shorten(pre)}) is not supported, but byte-level BPE is "
            f"({', '.join(PRE_TOKENIZERS)}). Import the model from its Hugging Face folder."
        )
    texts, kinds, merges = (get(f"ggml.{name}", list, []) for name in ("tokens", "token_type", "merges"))
    kinds = kinds or [1] * len(texts)
    lists = ((texts, str), (merges, str), (kinds, int))
    if len(kinds) != len(texts) or any(type(one) is not kind for values, kind in lists for one in values):
        raise GGUF_FILES.damaged(header.path, "tokens, token types and merges do not belong together")
    bos, eos, pad, turn = (get(f"ggml.{name}_token_id", int, None) for name in ("bos", "eos", "padding", "eot"))
    if eos is None:
        raise GGUF_FILES.damaged(header.path, "tokenizer.ggml.eos_token_id is missing")
    ends = () if turn in (None, eos) else (turn,)
    has_bos, template = get("ggml.add_bos_token", bool, pre in _LLAMA3_KINDS), get("chat_template", str, None)
    # Byte-level BPE spells every text, so that no symbol has the role of UNK.
    return GgufTokens(texts, kinds, merges, pre, eos, ends, bos, pad, None, has_bos, template)


def build_tokenizer(tokens: GgufTokens, order: Iterable[int]) -> ImportedTokenizer:
    """Build the tokenizer with our order of the ids. Raises DataError if the library refuses it."""
    added = [
        {"id": index, "content": text, "special": kind == CONTROL}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for index, (text, kind) in enumerate(zip(tokens.texts, tokens.kinds, strict=True))
        if kind in (CONTROL, USER_DEFINED) and text
    ]
    tree = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if tokens.pre_tokenizer == "qwen2" else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(PRE_TOKENIZERS[tokens.pre_tokenizer])},
        "decoder": {**_BYTES, "use_regex": True},
        "model": {
            "type": "BPE",
            "ignore_merges": tokens.pre_tokenizer in _LLAMA3_KINDS,
            "vocab": {text: index for index, text in enumerate(tokens.texts)},
            "merges": [one.split(" ", 1) for one in tokens.merges],
        },
    }
    return tokenizer_from_json(json.dumps(tree), order=order)
