"""The whole way from text to ids and back: normalisation, casing, segmentation, in one `tokenizer.json`."""

from dragoman.data.tokenizer.decoder import Decoder
from dragoman.data.tokenizer.preparation import Casing, Normalisation, Preparation, Whitespace
from dragoman.data.tokenizer.segmentation import BEGIN, END, PAD, UNKNOWN
from dragoman.data.tokenizer.settings import Bpe, Characters, TokenizerSettings, Unigram, Words
from dragoman.data.tokenizer.side import Side
from dragoman.data.tokenizer.tokenizer import Tokenizer

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
