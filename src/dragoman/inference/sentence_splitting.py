"""Texts of several sentences, translated sentence by sentence, and what stands between the sentences, kept."""

import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

from dragoman.errors import ConfigError, MissingExtraError

Split = Literal["sentences"]
"""What texts are cut into before they are translated."""
LANGUAGE = "en"
"""The language whose abbreviations are known where none is named."""


class Layout(NamedTuple):
    """The sentences of a text, without white space around them, and the `gaps` before each and after the last."""

    sentences: tuple[str, ...]
    gaps: tuple[str, ...]

    def around(self, sentences: Sequence[str]) -> str:
        """Other sentences, one for each, in the places of these.

        Where nothing stood between two sentences, as in Chinese, a space comes there unless the other script, too, is
        of wide characters.
        """
        text = self.gaps[0]
        for number, (sentence, gap) in enumerate(zip(sentences, self.gaps[1:], strict=True)):
            touching = number > 0 and not self.gaps[number]
            text += " " + sentence if touching and sentence and text and not _is_wide(text[-1]) else sentence
            text += gap
        return text


def whole(text: str) -> Layout:
    """The text as it is."""
    return Layout((text,), ("", ""))


def cutting(split: Split | None, language: str | None) -> Callable[[str], Layout]:
    """How texts are cut that are translated like this; `language` is the code of that which they are in.

    Codes that the splitter does not know are split by the rules that all languages share. Raises ConfigError on what
    cannot be done or has no effect, MissingExtraError where the splitter is not installed.
    """
    if split is None:
        if language is not None:
            raise ConfigError(f"language = {language} has no effect on texts that are not split; say split = sentences")
        return whole
    if split != "sentences":
        raise ConfigError(f"split = {split}: texts are cut into sentences alone; say split = sentences")
    try:
        from sentencex import segment  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError(feature="Splitting texts into sentences", extra="sentences") from error
    return partial(_laid_out, cut=partial(segment, language or LANGUAGE))


def _laid_out(text: str, cut: Callable[[str], Sequence[str]]) -> Layout:
    """No sentence goes on in the next line; `cut` leaves nothing out of a line."""
    sentences, gaps = [], [""]
    for piece in (piece for line in text.splitlines(keepends=True) for piece in cut(line)):
        sentence = piece.strip()
        if not sentence:
            gaps[-1] += piece
            continue
        begin = piece.index(sentence)
        gaps[-1] += piece[:begin]
        sentences.append(sentence)
        gaps.append(piece[begin + len(sentence) :])
    return Layout(tuple(sentences), tuple(gaps))


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in ("W", "F")
