"""Where each token stands in the text that a person wrote, before it was normalised.

Normalising is followed character by character. What Unicode composes, such as a letter and the marks after it, is
normalised as a whole, and all that comes of it stands for all of it.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import tokenizers

from dragoman.data.tokenizers.normalization import SPACE, Preparation

Form = Literal["NFC", "NFKC"]
Span = tuple[int, int]
"""The first character of a text that is meant, and the one after the last."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A text with the span of another text that each of its characters stands for."""

    text: str
    spans: list[Span]


def trace(text: str, preparation: Preparation) -> Traced:
    """`preparation.normalise(text)`, each character with the span of `text` that it stands for.

    Where white space is collapsed, the space between two words stands for all that was between them.
    """
    traced = Traced(text, [(place, place + 1) for place in range(len(text))])
    if not traced.text.isascii():
        traced = _folded(Traced(_without_surrogates(text), traced.spans), preparation)
    if preparation.casing == "lower":
        traced = _lowered(traced)
        if not traced.text.isascii():
            traced = _folded(traced, preparation)
    return traced if preparation.whitespace == "keep" else _single_spaced(traced)


def encode_with_offsets(
    text: str, *, engine: tokenizers.Tokenizer, preparation: Preparation, byte_ids: range
) -> tuple[list[int], list[Span]]:
    """The ids of a text, and the span of it that each of them stands for.

    White space around a word is no part of its span; a token of nothing but white space has the span of that, which is
    empty before the first word. The tokens of one character, such as its bytes, all have its span.
    """
    traced = trace(text, preparation)
    marked = preparation.mark(traced.text)
    if len(marked) > len(traced.text):  # by the space that words begin with, before the first
        begin = traced.spans[0][0]
        traced = Traced(f" {traced.text}", [(begin, begin), *traced.spans])
    encoding = engine.encode(marked, add_special_tokens=False)
    characters = _characters(encoding.ids, encoding.offsets, marked, byte_ids)
    return encoding.ids, [_span(traced, where) for where in characters]


def _characters(ids: Sequence[int], ends: Sequence[Span], marked: str, byte_ids: range) -> Iterator[Span]:
    """The characters of the marked text that each token spells; bytes are counted here, until a character is whole."""
    cursor = spelt = 0
    for index, (_, end) in zip(ids, ends, strict=True):
        if index not in byte_ids:
            yield cursor, end
            cursor = end
            continue
        yield cursor, cursor + 1
        spelt += 1
        if spelt == len(marked[cursor].encode()):
            cursor, spelt = cursor + 1, 0


def _span(traced: Traced, where: Span) -> Span:
    places = range(*where)
    visible = [place for place in places if not traced.text[place].isspace()] or places
    return traced.spans[visible[0]][0], traced.spans[visible[-1]][1]


def _without_surrogates(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)


def _lowered(traced: Traced) -> Traced:
    """In lower case; what stands around a letter may change what it becomes (the final sigma), never its length."""
    pairs = zip(traced.text, traced.spans, strict=True)
    return Traced(traced.text.lower(), [span for character, span in pairs for _ in character.lower()])


def _folded(traced: Traced, preparation: Preparation) -> Traced:
    """In the Unicode form; where spaces become `▁`, the sign itself becomes an underscore."""
    match preparation.normalisation:
        case "none":
            folded = traced
        case "nfc":
            folded = _normalised(traced, "NFC")
        case "nfkc":
            folded = _normalised(traced, "NFKC")
        case _:
            assert_never(preparation.normalisation)
    text = folded.text if preparation.whitespace == "keep" else folded.text.replace(SPACE, "_")
    return Traced(text, folded.spans)


def _normalised(traced: Traced, form: Form) -> Traced:
    characters: list[str] = []
    spans: list[Span] = []
    for start, end in _clusters(traced.text, form):
        cluster = traced.text[start:end]
        folded = unicodedata.normalize(form, cluster)
        characters.append(folded)
        if folded == cluster:
            spans += traced.spans[start:end]
        else:
            spans += [(traced.spans[start][0], traced.spans[end - 1][1])] * len(folded)
    return Traced("".join(characters), spans)


def _clusters(text: str, form: Form) -> Iterator[Span]:
    """The text cut wherever both sides can be normalised apart."""
    start = 0
    for place in range(1, len(text)):
        if _apart(text, start, place, form):
            yield start, place
            start = place
    if text:
        yield start, len(text)


def _apart(text: str, start: int, place: int, form: Form) -> bool:
    """Whether the character at `place` neither moves among the marks before it nor composes with what is before it."""
    character = text[place]
    if character.isascii():
        return True
    decomposed = unicodedata.normalize("NFD" if form == "NFC" else "NFKD", character)
    if unicodedata.combining(decomposed[0]):
        return False
    before = text[start:place]
    apart = unicodedata.normalize(form, before) + unicodedata.normalize(form, character)
    return unicodedata.normalize(form, before + character) == apart


def _single_spaced(traced: Traced) -> Traced:
    characters: list[str] = []
    spans: list[Span] = []
    gap: Span | None = None
    for character, span in zip(traced.text, traced.spans, strict=True):
        if character.isspace():
            gap = span if gap is None else (gap[0], span[1])
            continue
        if gap is not None and characters:
            characters.append(" ")
            spans.append(gap)
        gap = None
        characters.append(character)
        spans.append(span)
    return Traced("".join(characters), spans)
