"""Small tokenizers of other libraries, one of each kind that published models use."""

import io
import json
from functools import cache
from typing import Any

import numpy as np
import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

from dragoman.data.tokenizers import ImportedTokenizer, tokenizer_from_json, tokenizer_from_sentencepiece

TEXTS = (
    "The quick brown fox jumps over the lazy dog.\nA second line, with words!",
    "Größe und Übermut; déjà vu, naïve café.",
    "don't stop: 12 345 apples (or so) aren't 'many'",
    "日本語 と 中文 。 привет мир",
    "the the the dog dogs doing does undo",
)
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
JSON_KINDS = ("byte_level", "wordpiece", "unigram", "byte_fallback", "suffix", "words")


@cache
def library(kind: str) -> tokenizers.Tokenizer:
    """Return a trained tokenizer whose symbols in `SPECIAL` have the ids 2, 0, 3 and 1, and `<extra>` the last one."""
    tokenizer = _BUILD[kind]()
    extra = AddedToken("<extra>", special=True)
    tokenizer.add_special_tokens([*(AddedToken(one, special=True) for one in SPECIAL), extra])
    tokenizer.add_tokens([AddedToken("plain_token", special=False)])
    return tokenizer


def order_of(tokenizer: tokenizers.Tokenizer) -> list[int]:
    """Return the order of the ids of a tokenizer: special symbols first."""
    head = [tokenizer.token_to_id(one) for one in SPECIAL]
    return [*head, *(n for n in range(tokenizer.get_vocab_size()) if n not in head)]


@cache
def imported(kind: str) -> ImportedTokenizer:
    tokenizer = library(kind)
    return tokenizer_from_json(tokenizer.to_str(), order=order_of(tokenizer))


def _trained(tokenizer: tokenizers.Tokenizer, trainer: Any) -> tokenizers.Tokenizer:
    tokenizer.train_from_iterator(TEXTS * 4, trainer)
    return tokenizer


_FOREIGN = ["<unk>", "</s>", "<pad>", "<s>"]


def _byte_level() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=_FOREIGN, initial_alphabet=alphabet, show_progress=False
    )
    return _trained(tokenizer, trainer)


def _wordpiece() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    return _trained(tokenizer, trainers.WordPieceTrainer(vocab_size=220, special_tokens=_FOREIGN, show_progress=False))


def _unigram() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(vocab_size=260, special_tokens=_FOREIGN, unk_token="<unk>", show_progress=False)
    return _trained(tokenizer, trainer)


def _byte_fallback() -> tokenizers.Tokenizer:
    """Return a tokenizer like that of Llama 2."""
    words = tokenizers.Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.Metaspace()
    trained = _trained(words, trainers.BpeTrainer(vocab_size=150, limit_alphabet=60, show_progress=False))
    tree = json.loads(trained.to_str())["model"]
    pieces = {one: n for n, one in enumerate([*_FOREIGN, *(f"<0x{byte:02X}>" for byte in range(256)), "▁"])}
    for piece in tree["vocab"]:
        pieces.setdefault(piece, len(pieces))
    merges = [tuple(pair) for pair in tree["merges"]]
    model = models.BPE(vocab=pieces, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def _suffix() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(
        vocab_size=200, special_tokens=_FOREIGN, end_of_word_suffix="</w>", show_progress=False
    )
    return _trained(tokenizer, trainer)


def _words() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return _trained(tokenizer, trainers.WordLevelTrainer(special_tokens=_FOREIGN, show_progress=False))


_BUILD = {
    "byte_level": _byte_level,
    "wordpiece": _wordpiece,
    "unigram": _unigram,
    "byte_fallback": _byte_fallback,
    "suffix": _suffix,
    "words": _words,
}


@cache
def sentencepiece_model(**options: Any) -> bytes:
    """Return a trained SentencePiece model; `options` are those of its trainer."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 4),
        model_writer=content,
        **{"vocab_size": 400, "hard_vocab_limit": False, "minloglevel": 2, "num_threads": 1, **options},
    )
    return content.getvalue()


SENTENCEPIECE_KINDS: dict[str, dict[str, Any]] = {
    "sp_unigram": {},
    "sp_bytes": {"byte_fallback": True, "vocab_size": 330},
    "sp_bpe": {"model_type": "bpe", "vocab_size": 150},
    "sp_plain": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
    },
}


def processor(kind: str) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(**SENTENCEPIECE_KINDS[kind]))


@cache
def imported_sentencepiece(kind: str, *, shift: int = 0) -> ImportedTokenizer:
    """Return an imported model without a pad symbol; `shift` numbers its pieces from there, last piece first."""
    model = processor(kind)
    size = model.get_piece_size()
    pieces = [model.id_to_piece(index) for index in range(size)]
    vocabulary = {piece: size + shift - n for n, piece in enumerate(pieces)} if shift else None
    ids = list(range(size)) if vocabulary is None else list(vocabulary.values())
    head = [-1, ids[0], ids[1], ids[2]]
    order = [*head, *np.setdiff1d(ids, head).tolist()]
    content = sentencepiece_model(**SENTENCEPIECE_KINDS[kind])
    return tokenizer_from_sentencepiece(content, order=order, vocabulary=vocabulary)
