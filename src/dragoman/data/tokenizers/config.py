"""The choice of a tokenizer, as configuration."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.tokenizers.normalization import Casing, Normalisation, Preparation, Whitespace
from dragoman.data.tokenizers.vocabulary import BYTES, SPECIALS


class _Common(Config):
    """What every kind of tokenizer may choose."""

    shared: bool = True
    """One vocabulary for both languages, needed to tie both embeddings; else one for each."""

    normalisation: Normalisation = "nfc"
    """The Unicode form; `nfkc` also folds full-width letters, ligatures and the like."""

    casing: Casing = "preserve"
    """Whether upper case letters stay or are lowered, on both sides."""

    whitespace: Whitespace = "collapse"
    """Whether runs of spaces, tabs and line breaks become one space, or stay as they are, as running text needs."""


class Bpe(_Common):
    """Byte pair encoding (Sennrich et al., 2016)."""

    kind: Literal["bpe"] = "bpe"

    vocabulary: int = Field(8000, ge=8, le=1_000_000)
    """Entries of each vocabulary, symbols and bytes included; a small corpus may give fewer."""

    byte_fallback: bool = True
    """Spell unseen characters in bytes, so that nothing is ever unknown; takes 256 entries."""

    minimum_count: int = Field(2, ge=1)
    """A pair of pieces seen less often is not merged."""

    split_punctuation: bool = True
    """Punctuation is never merged with letters."""

    split_digits: bool = True
    """A number is spelt digit by digit."""

    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Probability to leave out a merge in training (BPE dropout, Provilkov et al., 2020); segments anew each epoch."""

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        _require_room(self.vocabulary, self.byte_fallback)
        return self

    def preparation(self) -> Preparation:
        """How texts are made ready for this tokenizer."""
        return _preparation(self, split_punctuation=self.split_punctuation, split_digits=self.split_digits)


class Unigram(_Common):
    """Unigram language model over pieces (Kudo, 2018)."""

    kind: Literal["unigram"] = "unigram"

    vocabulary: int = Field(8000, ge=8, le=1_000_000)
    """Entries of each vocabulary, symbols and bytes included; a small corpus may give fewer."""

    byte_fallback: bool = True
    """Spell unseen characters in bytes, so that nothing is ever unknown; takes 256 entries."""

    split_punctuation: bool = True
    """Punctuation is never in one piece with letters."""

    split_digits: bool = True
    """A number is spelt digit by digit."""

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        _require_room(self.vocabulary, self.byte_fallback)
        return self

    def preparation(self) -> Preparation:
        """How texts are made ready for this tokenizer."""
        return _preparation(self, split_punctuation=self.split_punctuation, split_digits=self.split_digits)


class Characters(_Common):
    """One piece a character; a space is one too."""

    kind: Literal["characters"] = "characters"

    vocabulary: int = Field(8000, ge=8, le=1_000_000)
    """Entries of each vocabulary at most, symbols and bytes included; the most frequent characters are kept."""

    byte_fallback: bool = True
    """Spell unseen characters in bytes, so that nothing is ever unknown; takes 256 entries."""

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        _require_room(self.vocabulary, self.byte_fallback)
        return self

    def preparation(self) -> Preparation:
        """How texts are made ready for this tokenizer."""
        return _preparation(self, split_punctuation=True, split_digits=True, words_begin_with_space=False)


class Words(_Common):
    """One piece a word, punctuation apart; unseen words are unknown and cannot be written back."""

    kind: Literal["words"] = "words"

    vocabulary: int = Field(32000, ge=8, le=1_000_000)
    """Entries of each vocabulary at most, symbols included; the most frequent words are kept."""

    minimum_count: int = Field(1, ge=1)
    """A word seen less often is unknown."""

    split_digits: bool = False
    """A number is spelt digit by digit."""

    @model_validator(mode="after")
    def _can_be_written_back(self) -> Self:
        if self.whitespace == "keep":
            raise ValueError(
                "whitespace = keep: whole words cannot spell the runs of spaces and the line breaks that they never "
                "saw; choose the kind bpe, unigram or characters"
            )
        return self

    def preparation(self) -> Preparation:
        """How texts are made ready for this tokenizer."""
        return _preparation(self, split_punctuation=True, split_digits=self.split_digits)


TokenizerSettings = Annotated[Bpe | Unigram | Characters | Words, Field(discriminator="kind")]


def reserved(byte_fallback: bool) -> tuple[str, ...]:
    """The entries at the head of every vocabulary: the special symbols, then the bytes if there are any."""
    return SPECIALS + BYTES if byte_fallback else SPECIALS


def _require_room(vocabulary: int, byte_fallback: bool) -> None:
    taken = len(reserved(byte_fallback))
    if vocabulary <= taken:
        bytes_too = " and bytes (or turn byte_fallback off)" if byte_fallback else ""
        raise ValueError(f"vocabulary = {vocabulary}: {taken} are taken by the symbols{bytes_too}; choose more")


def _preparation(
    settings: _Common, *, split_punctuation: bool, split_digits: bool, words_begin_with_space: bool = True
) -> Preparation:
    return Preparation(
        normalisation=settings.normalisation,
        casing=settings.casing,
        words_begin_with_space=words_begin_with_space and settings.whitespace == "collapse",
        split_punctuation=split_punctuation,
        split_digits=split_digits,
        whitespace=settings.whitespace,
    )
