"""Text to ids and back: normalization, casing and subword segmentation, stored in one `tokenizer.json`."""

from dragoman.data.tokenizers.config import (
    BpeConfig,
    CharacterConfig,
    ImportedTokenizerConfig,
    TokenizerConfig,
    UnigramConfig,
    WordConfig,
)
from dragoman.data.tokenizers.imported_tokenizer import (
    ImportedTokenizer,
    tokenizer_from_json,
    tokenizer_from_sentencepiece,
)
from dragoman.data.tokenizers.language_tokenizer import LanguageTokenizer, StreamingDecoder
from dragoman.data.tokenizers.normalization import Casing, Normalization, TextNormalizer, Whitespace
from dragoman.data.tokenizers.prefixes import Direction, DirectionWarning, Language, Prefixes
from dragoman.data.tokenizers.subword_tokenizer import SubwordTokenizer
from dragoman.data.tokenizers.tokenizer_pair import Tokenizer
from dragoman.data.tokenizers.vocabulary import BOS, EOS, PAD, UNK

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "BpeConfig",
    "Casing",
    "CharacterConfig",
    "Direction",
    "DirectionWarning",
    "ImportedTokenizer",
    "ImportedTokenizerConfig",
    "Language",
    "LanguageTokenizer",
    "Normalization",
    "Prefixes",
    "StreamingDecoder",
    "SubwordTokenizer",
    "TextNormalizer",
    "Tokenizer",
    "TokenizerConfig",
    "UnigramConfig",
    "Whitespace",
    "WordConfig",
    "tokenizer_from_json",
    "tokenizer_from_sentencepiece",
]
