"""Words with characters that a model cannot read, which it would lose: they are kept as placeholders are.

An unknown word in the source mostly is a name, a key or a symbol, and stays as it is in a translation: models that copy
such words do so (Luong et al., 2015, Addressing the Rare Word Problem in Neural Machine Translation).
"""

import itertools
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal

from dragoman.data.placeholders.recognition import Placeholder
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.models.special_symbols import UNK

MAX_WORD = 24
"""Letters of a word that is kept as a whole; in a longer one, only what cannot be read is kept."""
_QUOTES = "`\u00b4"
"""Accents that serve as quotation marks."""
_PAIRED = frozenset({"Ps", "Pe", "Pi", "Pf", "Pd"})
"""Categories of quotation marks, brackets and dashes, which tags often separate from their words."""
_WORD = re.compile(r"\S+")


def find_unreadable(
    text: str, found: Sequence[Placeholder], source: LanguageTokenizer, *, cuts: Sequence[int] = ()
) -> list[Placeholder]:
    """Return the words between the placeholders of a text that the tokenizer of the source cannot read.

    Marks that it cannot read, next to words that it can, are none: models translate without them. Tags stand at the
    characters `cuts`, and end words.
    """
    if UNK not in source.encode(text):
        return []
    ends = [0, *cuts, len(text)]
    words = (word.span() for gap in _gaps(text, found) for word in _WORD.finditer(text, *gap))
    spans = [part for word in words for part in _parts(text, *word, ends)]
    encoded = source.encode_batch([text[slice(*span)] for span in spans])
    unread = [span for span, ids in zip(spans, encoded, strict=True) if UNK in ids]
    kept = (part for span in unread for part in _unreadable_parts(text, *span, source))
    return [Placeholder("unreadable", start, end, text[start:end]) for start, end in kept]


def _gaps(text: str, found: Sequence[Placeholder]) -> Iterator[tuple[int, int]]:
    place = 0
    for one in found:
        yield place, one.start
        place = one.end
    yield place, len(text)


def _parts(text: str, start: int, end: int, cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a word between tags; quotation marks, brackets and dashes by themselves are none."""
    inside = cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]
    for part in itertools.pairwise([start, *inside, end]):
        if not inside or any(unicodedata.category(one) not in _PAIRED for one in text[slice(*part)]):
            yield part


def _unreadable_parts(text: str, start: int, end: int, source: LanguageTokenizer) -> Iterator[tuple[int, int]]:
    """Yield what has to be kept of a word: the word without marks at its ends, or the symbols that are unknown."""
    word = text[start:end]
    kinds = [_kind(one) for one in word]
    letters = sorted(set(word))  # a long word has few different ones
    unread = {one for one, ids in zip(letters, source.encode_batch(letters), strict=True) if UNK in ids}
    unknown = [one in unread for one in word]
    if all(kind == "mark" for kind in kinds):
        yield start, end
        return
    is_spaced = len(word) <= MAX_WORD and not any(unicodedata.east_asian_width(one) in "WF" for one in word)
    whole = is_spaced and any(no and kind == "letter" for no, kind in zip(unknown, kinds, strict=True))
    kept = [kind != "mark" and (no or whole) for no, kind in zip(unknown, kinds, strict=True)]
    pattern = "1.*1|1" if whole else "1+"
    for run in re.finditer(pattern, "".join("1" if one else "0" for one in kept)):
        yield start + run.start(), start + run.end()


def _kind(character: str) -> Literal["letter", "symbol", "mark"]:
    """Return whether a character makes a word of its own with the letters next to it, stands for itself, or neither."""
    category = unicodedata.category(character)
    if category[0] in "PZC" or character in _QUOTES:
        return "mark"
    return "symbol" if category in ("So", "Sc") else "letter"
