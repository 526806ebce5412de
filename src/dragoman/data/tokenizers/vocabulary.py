"""Trained subword models and the special tokens at the head of every vocabulary."""

from dataclasses import dataclass
from typing import final

import tokenizers
from tokenizers import Regex, models, pre_tokenizers

from dragoman.data.tokenizers.normalization import TextNormalizer
from dragoman.errors import DataError, shorten

PAD = 0
UNK = 1
BOS = 2
EOS = 3

SPECIAL_TOKENS = (" <pad>", " <unk>", " <bos>", " <eos>")
"""Indexed by PAD, UNK, BOS and EOS. No unit of a normalized text holds ` <`, so no text can spell a special token."""

SYMBOL_START = " <"
"""Beginning of the special tokens and of the tags of languages, which write no text."""

BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))


@final
@dataclass(frozen=True)
class BpeModel:
    """Byte pair encoding; a model without merges splits text into characters."""

    vocab: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]


@final
@dataclass(frozen=True)
class UnigramModel:
    """Unigram language model: the log-probability of every token."""

    vocab: tuple[str, ...]
    scores: tuple[float, ...]


@final
@dataclass(frozen=True)
class WordModel:
    """Whole words."""

    vocab: tuple[str, ...]


SubwordModel = BpeModel | UnigramModel | WordModel


def unknown_id(index: int) -> DataError:
    """Return the error of an id that is not in a vocabulary."""
    return DataError(f"{shorten(index)} is no token of the vocabulary. Give ids of the tokenizer of this model.")


def byte_token_ids(vocab: tuple[str, ...]) -> range:
    """Return the ids of the byte tokens, with which a vocabulary can spell any character; empty if it has none."""
    ids = range(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + len(BYTE_TOKENS))
    return ids if vocab[ids.start : ids.stop] == BYTE_TOKENS else range(0)


def build_hf_tokenizer(model: SubwordModel, normalizer: TextNormalizer) -> tokenizers.Tokenizer:
    """Build the tokenizer of the `tokenizers` library, without registered special tokens.

    Raises ValueError if a merge gives no token, and a plain Exception of the library for other invalid models.
    """
    ids = {token: index for index, token in enumerate(model.vocab)}
    unknown, byte_fallback = SPECIAL_TOKENS[UNK], bool(byte_token_ids(model.vocab))
    match model:
        case BpeModel(merges=merges):
            if not all(first + second in ids for first, second in merges):  # the library may panic
                raise ValueError("a merge gives no token of the vocabulary")
            hf_model: models.Model = models.BPE(
                vocab=ids, merges=list(merges), unk_token=unknown, fuse_unk=False, byte_fallback=byte_fallback
            )
        case UnigramModel(vocab=vocab, scores=scores):
            scored = list(zip(vocab, scores, strict=True))
            hf_model = models.Unigram(vocab=scored, unk_id=UNK, byte_fallback=byte_fallback)
        case WordModel():
            hf_model = models.WordLevel(vocab=ids, unk_token=unknown)
    return with_pretokenizer(tokenizers.Tokenizer(hf_model), normalizer)


def with_pretokenizer(tokenizer: tokenizers.Tokenizer, normalizer: TextNormalizer) -> tokenizers.Tokenizer:
    """Set the pre-tokenizer that splits text into the units inside which tokens are learned."""
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(normalizer.pretokenization_pattern()), behavior="isolated")
    return tokenizer
