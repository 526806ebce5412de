"""The whole way from text to ids and back: normalisation, casing, segmentation, in one `tokenizer.json`."""

from dragoman.data.tokenizers.config import Bpe, Characters, TokenizerSettings, Unigram, Words
from dragoman.data.tokenizers.language_tokenizer import Side
from dragoman.data.tokenizers.normalization import Casing, Normalisation, Preparation, Whitespace
from dragoman.data.tokenizers.streaming_decoder import Decoder
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.data.tokenizers.vocabulary import BEGIN, END, PAD, UNKNOWN

__all__ = [
    "BEGIN",
    "END",
    "PAD",
    "UNKNOWN",
    "Bpe",
    "Casing",
    "Characters",
    "Decoder",
    "Normalisation",
    "Preparation",
    "Side",
    "Tokenizer",
    "TokenizerSettings",
    "Unigram",
    "Whitespace",
    "Words",
]
