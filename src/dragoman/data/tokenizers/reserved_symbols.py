"""Reserved symbols in a vocabulary: characters of private use that mark parts of a text for a model.

A reserved symbol is one character, so that augmentation and control work on texts, and the tokenizer needs no other
interface. Unicode assigns no meaning to these characters, and texts do not have them: `remove_reserved_symbols`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from dragoman.data.tokenizers.language_tokenizer import LanguageTokenizer
from dragoman.data.tokenizers.normalization import SPACE
from dragoman.data.tokenizers.subword_tokenizer import SubwordTokenizer
from dragoman.data.tokenizers.tokenizer_pair import Tokenizer
from dragoman.data.tokenizers.vocabulary import BpeModel, SubwordModel, UnigramModel, WordModel
from dragoman.errors import ConfigError

TERM_SYMBOLS = ("\ue000", "\ue001", "\ue002")
"""Symbols before a term in a source, between the term and its translation, and after the translation."""
PLACEHOLDER_SYMBOLS = tuple(chr(0xE010 + number) for number in range(16))
"""Symbols that stand for placeholders, in sources and targets."""
SOURCE_CONTEXT_SYMBOLS = tuple(chr(0xE020 + number) for number in range(8))
"""Symbols after the last sentence of the context in a source, after the sentence before it, and so on."""
TARGET_CONTEXT_SYMBOLS = tuple(chr(0xE028 + number) for number in range(8))
"""The same symbols for a model that writes the translations of these sentences, too: in sources and targets."""
RESERVED_SYMBOLS = (*TERM_SYMBOLS, *PLACEHOLDER_SYMBOLS, *SOURCE_CONTEXT_SYMBOLS, *TARGET_CONTEXT_SYMBOLS)
REPLACEMENT = "\ufffd"
SYMBOL_SCORE = 0.0
"""Log-probability of a symbol in a unigram model, so that no other segmentation is better."""


def add_reserved_symbols(tokenizer: Tokenizer, symbols: Sequence[str]) -> Tokenizer:
    """Return a tokenizer whose vocabularies have a token for each symbol, alone and after a space.

    Tokens that the vocabulary has already keep their ids. Raises ConfigError for an imported tokenizer.
    """
    if has_reserved_symbols(tokenizer.source, symbols) and has_reserved_symbols(tokenizer.target, symbols):
        return tokenizer
    source = _with_symbols(tokenizer.source, symbols)
    target = source if tokenizer.source is tokenizer.target else _with_symbols(tokenizer.target, symbols)
    return Tokenizer(source, target, tokenizer.config, tokenizer.prefixes)


def has_reserved_symbols(side: LanguageTokenizer, symbols: Sequence[str]) -> bool:
    """Return whether a vocabulary has all of the symbols: whether its model may have been trained with them."""
    return set(symbols) <= set(side.tokens)


def is_reserved_symbol(token: str) -> bool:
    """Return whether a token is a reserved symbol, alone or after a space."""
    return token.removeprefix(SPACE) in RESERVED_SYMBOLS


def is_context_symbol(token: str) -> bool:
    """Return whether a token ends a sentence of the context, alone or after a space."""
    return token.removeprefix(SPACE) in (*SOURCE_CONTEXT_SYMBOLS, *TARGET_CONTEXT_SYMBOLS)


def remove_reserved_symbols(text: str, symbols: Iterable[str] = RESERVED_SYMBOLS) -> str:
    """Return a text where replacement characters stand for reserved symbols, which a model would misunderstand."""
    return text if text.isascii() else text.translate(dict.fromkeys(map(ord, symbols), REPLACEMENT))


def _with_symbols(side: LanguageTokenizer, symbols: Sequence[str]) -> SubwordTokenizer:
    if not isinstance(side, SubwordTokenizer):
        raise ConfigError(
            "data.augmentation and data.context: an imported tokenizer has no symbols for them, and its vocabulary is "
            "fixed. Leave them out."
        )
    known = frozenset(side.model.vocab)
    added = tuple(token for symbol in symbols for token in (symbol, SPACE + symbol) if token not in known)
    return SubwordTokenizer(_extend(side.model, added, symbols), side.normalizer)


def _extend(model: SubwordModel, added: tuple[str, ...], symbols: Sequence[str]) -> SubwordModel:
    vocab = model.vocab + added
    match model:
        case BpeModel(merges=merges):
            if SPACE not in vocab:  # as after training on single words
                return replace(model, vocab=vocab)
            new = [pair for symbol in symbols if (pair := (SPACE, symbol)) not in set(merges)]
            return replace(model, vocab=vocab, merges=(*merges, *new))
        case UnigramModel(scores=scores):
            return replace(model, vocab=vocab, scores=scores + (SYMBOL_SCORE,) * len(added))
        case WordModel():
            return replace(model, vocab=vocab)
        case _:
            assert_never(model)
