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

    def normalizer(self) -> TextNormalizer:
        """Build the text normalizer of this tokenizer."""
        return TextNormalizer(
            normalization=self.normalization,
            casing=self.casing,
            add_prefix_space=self.whitespace == "collapse" and not isinstance(self, CharacterConfig),
            split_punctuation=getattr(self, "split_punctuation", True),
            split_digits=getattr(self, "split_digits", True),
            whitespace=self.whitespace,
        )


class _ByteFallbackConfig(_BaseTokenizerConfig):
    kind: str  # first, because the order of keys is part of the file format
    vocab_size: int = Field(default=8000, ge=8, le=1_000_000)
    """Maximum size of each vocabulary, special and byte tokens included; a small corpus may give fewer tokens."""
    byte_fallback: bool = True
    """Spell unseen characters in bytes, so that no text is unknown; takes 256 tokens."""

    @model_validator(mode="after")
    def _check_vocab_size(self) -> Self:
        reserved = len(reserved_tokens(self.byte_fallback))
        if self.vocab_size <= reserved:
            with_bytes = " and byte tokens (or set byte_fallback to false)" if self.byte_fallback else " tokens"
            raise ValueError(
                f"vocab_size = {self.vocab_size}: {reserved} are taken by the special{with_bytes}; choose more"
            )
        return self


class BpeConfig(_ByteFallbackConfig):
    """Byte pair encoding (Sennrich et al., 2016)."""

    kind: Literal["bpe"] = "bpe"
    min_frequency: int = Field(default=2, ge=1)
    """Occurrences that a pair of tokens needs to be merged."""
    split_punctuation: bool = True
    """Never merge punctuation with letters."""
    split_digits: bool = True
    """Spell numbers digit by digit."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """BPE dropout (Provilkov et al., 2020): probability to skip a merge in training, drawn anew in each epoch."""


class UnigramConfig(_ByteFallbackConfig):
    """Unigram language model over subwords (Kudo, 2018), trained by SentencePiece."""

    kind: Literal["unigram"] = "unigram"
    split_punctuation: bool = True
    """Never put punctuation and letters into one token."""
    split_digits: bool = True
    """Spell numbers digit by digit."""


class CharacterConfig(_ByteFallbackConfig):
    """One token per character, spaces included; the most frequent characters are kept."""

    kind: Literal["characters"] = "characters"


class ImportedTokenizerConfig(Config):
    """Tokenizer of another program, from an imported model; its settings are those of its file."""

    kind: Literal["imported"] = "imported"
    shared: bool = True
    """Whether source and target share one vocabulary, as tied embeddings need."""
    bos: bool = True
    """Whether the begin symbol precedes the prompts of a language model; an empty prompt always has it."""


class WordConfig(_BaseTokenizerConfig):
    """One token per word, punctuation separated; unseen words are unknown and cannot be restored."""

    kind: Literal["words"] = "words"
    vocab_size: int = Field(default=32000, ge=8, le=1_000_000)
    """Maximum size of each vocabulary, special tokens included; the most frequent words are kept."""
    min_frequency: int = Field(default=1, ge=1)
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


TrainedTokenizerConfig = BpeConfig | UnigramConfig | CharacterConfig | WordConfig
TokenizerConfig = Annotated[TrainedTokenizerConfig | ImportedTokenizerConfig, Field(discriminator="kind")]


def reserved_tokens(byte_fallback: bool) -> tuple[str, ...]:
    """Return the first tokens of every vocabulary: the special tokens, then the byte tokens if there are any."""
    return SPECIAL_TOKENS + BYTE_TOKENS if byte_fallback else SPECIAL_TOKENS
