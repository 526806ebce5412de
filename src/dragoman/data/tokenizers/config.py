"""Configuration of tokenizers."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.tokenizers.normalization import Casing, Normalization, TextNormalizer, Whitespace
from dragoman.data.tokenizers.vocabulary import BYTE_TOKENS, SPECIAL_TOKENS


class _BaseTokenizerConfig(Config):
    """Settings common to all kinds of tokenizer."""

    shared: bool = True
    """Whether source and target share one vocabulary, as tied embeddings need."""

    normalization: Normalization = "nfc"
    """Unicode normalization form; `nfkc` also folds full-width letters, ligatures and similar characters."""

    casing: Casing = "preserve"
    """Whether uppercase letters are preserved or lowercased, on both sides."""

    whitespace: Whitespace = "collapse"
    """Whether runs of spaces, tabs and line breaks become one space or are kept, as running text needs."""


class BpeConfig(_BaseTokenizerConfig):
    """Byte pair encoding (Sennrich et al., 2016)."""

    kind: Literal["bpe"] = "bpe"

    vocab_size: int = Field(8000, ge=8, le=1_000_000)
    """Size of each vocabulary, special and byte tokens included; a small corpus may give fewer tokens."""

    byte_fallback: bool = True
    """Spell unseen characters in bytes, so that no text is unknown; takes 256 tokens."""

    min_frequency: int = Field(2, ge=1)
    """Occurrences that a pair of tokens needs to be merged."""

    split_punctuation: bool = True
    """Never merge punctuation with letters."""

    split_digits: bool = True
    """Spell numbers digit by digit."""

    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """BPE dropout (Provilkov et al., 2020): probability to skip a merge in training, drawn anew in each epoch."""

    @model_validator(mode="after")
    def _check_vocab_size(self) -> Self:
        _require_room(self.vocab_size, self.byte_fallback)
        return self

    def normalizer(self) -> TextNormalizer:
        """Build the text normalizer of this tokenizer."""
        return _build_normalizer(self, split_punctuation=self.split_punctuation, split_digits=self.split_digits)


class UnigramConfig(_BaseTokenizerConfig):
    """Unigram language model over subwords (Kudo, 2018), trained by SentencePiece."""

    kind: Literal["unigram"] = "unigram"

    vocab_size: int = Field(8000, ge=8, le=1_000_000)
    """Size of each vocabulary, special and byte tokens included; a small corpus may give fewer tokens."""

    byte_fallback: bool = True
    """Spell unseen characters in bytes, so that no text is unknown; takes 256 tokens."""

    split_punctuation: bool = True
    """Never put punctuation and letters into one token."""

    split_digits: bool = True
    """Spell numbers digit by digit."""

    @model_validator(mode="after")
    def _check_vocab_size(self) -> Self:
        _require_room(self.vocab_size, self.byte_fallback)
        return self

    def normalizer(self) -> TextNormalizer:
        """Build the text normalizer of this tokenizer."""
        return _build_normalizer(self, split_punctuation=self.split_punctuation, split_digits=self.split_digits)


class CharacterConfig(_BaseTokenizerConfig):
    """One token per character, spaces included."""

    kind: Literal["characters"] = "characters"

    vocab_size: int = Field(8000, ge=8, le=1_000_000)
    """Maximum size of each vocabulary, special and byte tokens included; the most frequent characters are kept."""

    byte_fallback: bool = True
    """Spell unseen characters in bytes, so that no text is unknown; takes 256 tokens."""

    @model_validator(mode="after")
    def _check_vocab_size(self) -> Self:
        _require_room(self.vocab_size, self.byte_fallback)
        return self

    def normalizer(self) -> TextNormalizer:
        """Build the text normalizer of this tokenizer."""
        return _build_normalizer(self, split_punctuation=True, split_digits=True, add_prefix_space=False)


class WordConfig(_BaseTokenizerConfig):
    """One token per word, punctuation separated; unseen words are unknown and cannot be restored."""

    kind: Literal["words"] = "words"

    vocab_size: int = Field(32000, ge=8, le=1_000_000)
    """Maximum size of each vocabulary, special tokens included; the most frequent words are kept."""

    min_frequency: int = Field(1, ge=1)
    """Occurrences below which a word is unknown."""

    split_digits: bool = False
    """Spell numbers digit by digit."""

    @model_validator(mode="after")
    def _refuse_kept_whitespace(self) -> Self:
        if self.whitespace == "keep":
            raise ValueError(
                "whitespace = keep: whole words cannot spell unseen runs of spaces and line breaks; choose the kind "
                "bpe, unigram or characters"
            )
        return self

    def normalizer(self) -> TextNormalizer:
        """Build the text normalizer of this tokenizer."""
        return _build_normalizer(self, split_punctuation=True, split_digits=self.split_digits)


TokenizerConfig = Annotated[BpeConfig | UnigramConfig | CharacterConfig | WordConfig, Field(discriminator="kind")]


def reserved_tokens(byte_fallback: bool) -> tuple[str, ...]:
    """Return the first tokens of every vocabulary: the special tokens, then the byte tokens if there are any."""
    return SPECIAL_TOKENS + BYTE_TOKENS if byte_fallback else SPECIAL_TOKENS


def _require_room(vocab_size: int, byte_fallback: bool) -> None:
    reserved = len(reserved_tokens(byte_fallback))
    if vocab_size <= reserved:
        with_bytes = " and byte tokens (or set byte_fallback to false)" if byte_fallback else " tokens"
        raise ValueError(f"vocab_size = {vocab_size}: {reserved} are taken by the special{with_bytes}; choose more")


def _build_normalizer(
    config: _BaseTokenizerConfig, *, split_punctuation: bool, split_digits: bool, add_prefix_space: bool = True
) -> TextNormalizer:
    return TextNormalizer(
        normalization=config.normalization,
        casing=config.casing,
        add_prefix_space=add_prefix_space and config.whitespace == "collapse",
        split_punctuation=split_punctuation,
        split_digits=split_digits,
        whitespace=config.whitespace,
    )
