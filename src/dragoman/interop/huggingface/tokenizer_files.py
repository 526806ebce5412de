"""Tokenizers of Hugging Face models: `tokenizer.json`, or SentencePiece models with the ids that a family gives them.

| files | families | ids |
|-------|----------|-----|
| `source.spm`, `target.spm`, `vocab.json`, `target_vocab.json` | Marian | those of the vocabularies |
| `tokenizer.json` | all others | its own |
| `sentencepiece.bpe.model`, `vocab.json` | M2M100 | those of the vocabulary, then the languages |
| `sentencepiece.bpe.model` | mBART, NLLB | four symbols, the pieces from 3 on, the languages, `<mask>` |
| `spiece.model` | T5, Pegasus | those of the model, then `<extra_id_99>` to `<extra_id_0>` |
| `vocab.txt` | BERT, DistilBERT | one token a line, from 0 |
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from dragoman.data.tokenizers import ImportedTokenizer, tokenizer_from_json, tokenizer_from_sentencepiece
from dragoman.data.tokenizers.sentencepiece_library import MAX_MODEL, SentencePieceLibrary
from dragoman.data.tokenizers.tokenizer_pair import MAX_FILE
from dragoman.errors import DataError, shorten
from dragoman.interop.huggingface.foreign_config import read_optional_json
from dragoman.interop.huggingface.tokenizer_settings import check_tokenizer_settings
from dragoman.interop.huggingface.word_pieces import WORDS_FILE, word_piece_tokenizer
from dragoman.interop.text_template import first_symbol
from dragoman.untrusted_files import MEBIBYTE, FileKind

REMEDY = "download it again"
TOKENIZER_FILES = FileKind(MAX_FILE, REMEDY)
MODEL_FILES = FileKind(MAX_MODEL, REMEDY)
TOKENIZER_FILE = "tokenizer.json"
SETTINGS_FILE = "tokenizer_config.json"
SPECIAL_FILE = "special_tokens_map.json"
TEMPLATE_FILE = "chat_template.jinja"
TEMPLATE_FILES = FileKind(MEBIBYTE, REMEDY)
"""Templates of conversations; those with tools have 10 KB."""
FAIRSEQ_SYMBOLS: Final = ("<s>", "<pad>", "</s>", "<unk>")
"""First four symbols of the vocabularies of fairseq, as mBART and NLLB have them."""
PIECES_FROM: Final = 3
"""First piece of a SentencePiece model after `<unk>`, `<s>` and `</s>`."""
EXTRA_IDS: Final = 100
"""Sentinel symbols that T5 appends to its vocabulary unless its settings say another number."""

M2M100_LANGUAGES: Final = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
"""Languages whose symbols follow the vocabulary of M2M100, in the order of their ids, by `language_codes`."""

Build = Callable[[Iterable[int]], ImportedTokenizer]
"""Build the tokenizer of a side from the foreign id of each of our ids."""


@dataclass(frozen=True)
class TokenizerSide:
    """Tokenizer of the source or the target."""

    ids: Mapping[str, int]
    """Foreign id of each token."""
    build: Build


@dataclass(frozen=True)
class ForeignTokenizer:
    """Tokenizer of a model; both sides are the same object if they split texts alike."""

    source: TokenizerSide
    target: TokenizerSide
    files: tuple[Path, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Content of `tokenizer_config.json`."""
    special: Mapping[str, str] = field(default_factory=dict)
    """Token of each role, such as `unk_token`."""
    tree: Mapping[str, Any] = field(default_factory=dict)
    """Content of `tokenizer.json`; empty without this file."""
    chat_template: str | None = None
    """Jinja template of conversations."""

    @property
    def has_bos(self) -> bool:
        """Return whether the tokenizer puts the begin symbol before a text."""
        return self.begin is not None

    @property
    def begin(self) -> int | None:
        """Return the id of the symbol that the tokenizer puts before a text; None if there is none.

        The template in `tokenizer.json` decides. `add_bos_token` counts without one, and without this file.
        """
        symbol = first_symbol(self.tree)
        if symbol is None and self.has_added_symbols and self.settings.get("add_bos_token") is True:
            return self.symbol("bos_token", self.source, "<s>")
        return self.source.ids.get(symbol) if symbol else None

    @property
    def has_added_symbols(self) -> bool:
        """Return whether `add_bos_token` and `add_eos_token` count: in transformers, the class of Llama obeys them."""
        return not self.tree or str(self.settings.get("tokenizer_class")).startswith("Llama")

    def unknown(self) -> int | None:
        """Return the id of the symbol of text that the vocabulary cannot spell; None if there is no such text."""
        model = self.tree.get("model")
        token = model.get("unk_token") if isinstance(model, Mapping) else None
        return self.source.ids.get(token) if isinstance(token, str) else None

    def symbol(self, role: str, side: TokenizerSide, default: str) -> int | None:
        """Return the id of the symbol of a role, such as `unk_token`, or None if the vocabulary lacks it."""
        return side.ids.get(self.special.get(role, default))


def read_tokenizer(folder: Path, family: str) -> ForeignTokenizer:
    """Read the tokenizer of a model. Raises DataError if it is missing or damaged, and ConfigError for its settings."""
    settings = read_optional_json(folder / SETTINGS_FILE)
    special = _special_tokens(settings, read_optional_json(folder / SPECIAL_FILE))
    names = (TOKENIZER_FILE, "source.spm", "sentencepiece.bpe.model", "spiece.model", WORDS_FILE)
    found = [folder / name for name in names if (folder / name).exists()]
    documents = [folder / name for name in (SETTINGS_FILE, SPECIAL_FILE) if (folder / name).exists()]
    if not found:
        raise DataError(f"{folder}: has no tokenizer ({', '.join(names)}); download the whole model.")
    tree: Mapping[str, Any] = {}
    if (folder / "source.spm").exists():
        source, target, files = _read_marian(folder)
    elif found[0].name == TOKENIZER_FILE:
        source, tree = _from_json(TOKENIZER_FILES.read_bytes(found[0]))
        target, files = source, (found[0],)
        check_tokenizer_settings(folder / SETTINGS_FILE, settings, special, tree, family=family)
    elif found[0].name == WORDS_FILE:
        source, tree = _from_json(word_piece_tokenizer(found[0], settings, special).encode())
        target, files = source, (found[0],)
    else:
        source, files = _read_sentencepiece(found[0], settings)
        target = source
    template = _chat_template(folder, settings)
    return ForeignTokenizer(source, target, (*files, *documents), settings, special, tree, template)


def _special_tokens(*trees: Mapping[str, Any]) -> dict[str, str]:
    """Return the token of each role; a token is a text, or an object with its text."""
    found: dict[str, str] = {}
    for tree in reversed(trees):
        for role, token in tree.items():
            text = token.get("content") if isinstance(token, Mapping) else token
            if role.endswith("_token") and isinstance(text, str):
                found[role] = text
    return found


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Return the template of conversations; of several named ones, the default."""
    path = folder / TEMPLATE_FILE
    if path.exists():
        return TEMPLATE_FILES.read_text(path)
    given = settings.get("chat_template")
    if isinstance(given, list):
        named = [one for one in given if isinstance(one, Mapping) and one.get("name") == "default"]
        given = named[0].get("template") if named else None
    return given if isinstance(given, str) else None


def _from_json(content: bytes) -> tuple[TokenizerSide, Mapping[str, Any]]:
    """Return the side and the tree of the content of a `tokenizer.json`."""
    library = tokenizer_from_json(content, order=[-1, -1, -1, -1]).library
    ids = {token: index for index, token in enumerate(library.tokens) if token}
    tree = json.loads(library.to_json()["tokenizer"])
    return TokenizerSide(ids, lambda order: tokenizer_from_json(content, order=order)), tree


def _read_marian(folder: Path) -> tuple[TokenizerSide, TokenizerSide, tuple[Path, ...]]:
    """Return both sides of Marian: each has a SentencePiece model, and both or each have a vocabulary."""
    models, vocab, target_vocab = (
        [folder / "source.spm", folder / "target.spm"],
        folder / "vocab.json",
        folder / "target_vocab.json",
    )
    vocabs = [vocab, target_vocab if target_vocab.exists() else vocab]
    source, target = (_pieces(model, _read_vocabulary(path)) for model, path in zip(models, vocabs, strict=True))
    return source, target, tuple(dict.fromkeys([*models, *vocabs]))


def _read_sentencepiece(path: Path, settings: Mapping[str, Any]) -> tuple[TokenizerSide, tuple[Path, ...]]:
    vocab = path.parent / "vocab.json"
    added = _added_tokens(settings)
    if vocab.exists():
        codes = M2M100_LANGUAGES.get(str(settings.get("language_codes", "m2m100")), "").split()
        ids = _append(_read_vocabulary(vocab), [*(f"__{code}__" for code in codes), *added])
        return _pieces(path, ids), (path, vocab)
    pieces = SentencePieceLibrary(MODEL_FILES.read_bytes(path)).tokens
    if path.name == "spiece.model":
        extra = _extra_ids(settings)
        ids = {piece: index for index, piece in enumerate(pieces)}
        ids |= {f"<extra_id_{extra - 1 - place}>": len(pieces) + place for place in range(extra)}
    else:
        ids = {piece: index for index, piece in enumerate([*FAIRSEQ_SYMBOLS, *pieces[PIECES_FROM:]])}
        ids = _append(ids, [*added, "<mask>"])
    return _pieces(path, ids | _numbered_tokens(settings)), (path,)


def _pieces(path: Path, ids: Mapping[str, int]) -> TokenizerSide:
    """Return the tokenizer of a SentencePiece model with these ids; symbols that are no pieces write no text."""
    content = MODEL_FILES.read_bytes(path)
    pieces = frozenset(SentencePieceLibrary(content).tokens)
    hidden = [index for token, index in ids.items() if token not in pieces and is_symbol(token)]

    def build(order: Iterable[int]) -> ImportedTokenizer:
        return tokenizer_from_sentencepiece(content, order=order, vocabulary=ids, hidden=hidden)

    return TokenizerSide(ids, build)


def is_symbol(token: str) -> bool:
    """Return whether a token that is no piece is a symbol, such as `<mask>`, `__en__`, `>>fra<<` or `en_XX`."""
    return token[:1] in "<>_[" or (token[2:3] == "_" or token[3:4] == "_")


def _append(ids: Mapping[str, int], tokens: Iterable[str]) -> dict[str, int]:
    """Return the ids with those of further tokens, in order, after the greatest."""
    new = [token for token in dict.fromkeys(tokens) if token not in ids]
    return {**ids, **dict(zip(new, count(1 + max(ids.values(), default=-1)), strict=False))}


def _read_vocabulary(path: Path) -> dict[str, int]:
    """Return the id of each piece in a JSON file. Raises DataError if it is damaged."""
    ids = TOKENIZER_FILES.read_json_object(path)
    if not ids or not all(type(index) is int and index >= 0 for index in ids.values()):
        raise TOKENIZER_FILES.damaged(path, "it is no mapping of pieces to ids")
    if len(set(ids.values())) < len(ids):
        raise TOKENIZER_FILES.damaged(path, "two pieces have the same id")
    return ids


def _added_tokens(settings: Mapping[str, Any]) -> list[str]:
    """Return the additional symbols, such as languages, in their order."""
    for key in ("additional_special_tokens", "extra_special_tokens"):
        tokens = settings.get(key)
        if isinstance(tokens, list):
            texts = [one.get("content") if isinstance(one, Mapping) else one for one in tokens]
            return [one for one in texts if isinstance(one, str)]
    return []


def _numbered_tokens(settings: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids of the added tokens in `added_tokens_decoder`."""
    tokens = settings.get("added_tokens_decoder")
    found = {}
    for index, token in tokens.items() if isinstance(tokens, Mapping) else ():
        text = token.get("content") if isinstance(token, Mapping) else None
        if not index.isdecimal() or len(index) > 9 or not isinstance(text, str):
            raise DataError(f"{SETTINGS_FILE}: added_tokens_decoder names {shorten(index)} wrongly; {REMEDY}.")
        found[text] = int(index)
    return found


def _extra_ids(settings: Mapping[str, Any]) -> int:
    extra = settings.get("extra_ids", EXTRA_IDS)
    if type(extra) is not int or not 0 <= extra <= 10 * EXTRA_IDS:
        raise DataError(f"{SETTINGS_FILE}: extra_ids = {shorten(extra)} is no number of symbols; {REMEDY}.")
    return extra
