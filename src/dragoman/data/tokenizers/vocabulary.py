"""What was learnt from a corpus: the pieces of a vocabulary and how they are put together."""

from dataclasses import dataclass
from typing import final

import tokenizers
from tokenizers import Regex, models, pre_tokenizers

from dragoman.data.tokenizers.normalization import Preparation

PAD, UNKNOWN, BEGIN, END = range(4)
"""The ids with a meaning of their own, the same in every vocabulary."""

SPECIALS = (" <pad>", " <unknown>", " <begin>", " <end>")
"""Their entries hold ` <`, which no unit of a prepared text does: what a person writes can never become one of them."""

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


@final
@dataclass(frozen=True)
class Merges:
    """Byte pair encoding; without merges, characters."""

    pieces: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]


@final
@dataclass(frozen=True)
class Scores:
    """A unigram language model: the log-probability of every piece."""

    pieces: tuple[str, ...]
    scores: tuple[float, ...]


@final
@dataclass(frozen=True)
class WholeWords:
    """A piece is a word."""

    pieces: tuple[str, ...]


Segmentation = Merges | Scores | WholeWords


def has_bytes(pieces: tuple[str, ...]) -> bool:
    """Whether a vocabulary can spell any character in bytes."""
    return pieces[len(SPECIALS) : len(SPECIALS) + len(BYTES)] == BYTES


def build_engine(segmentation: Segmentation, preparation: Preparation) -> tokenizers.Tokenizer:
    """The library's tokenizer, without any registered special token."""
    match segmentation:
        case Merges(pieces=pieces, merges=merges):
            model: models.Model = models.BPE(
                vocab=_ids(pieces),
                merges=list(merges),
                unk_token=SPECIALS[UNKNOWN],
                fuse_unk=False,
                byte_fallback=has_bytes(pieces),
            )
        case Scores(pieces=pieces, scores=scores):
            vocabulary = list(zip(pieces, scores, strict=True))
            model = models.Unigram(vocab=vocabulary, unk_id=UNKNOWN, byte_fallback=has_bytes(pieces))
        case WholeWords(pieces=pieces):
            model = models.WordLevel(vocab=_ids(pieces), unk_token=SPECIALS[UNKNOWN])
    engine = tokenizers.Tokenizer(model)
    engine.pre_tokenizer = pre_tokenizers.Split(Regex(preparation.pattern()), behavior="isolated")
    return engine


def _ids(pieces: tuple[str, ...]) -> dict[str, int]:
    return {piece: index for index, piece in enumerate(pieces)}
