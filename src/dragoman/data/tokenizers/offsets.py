"""Offsets of tokens in the original text, before normalization.

Normalization is aligned character by character. Characters that Unicode composes, such as a letter and its marks, are
normalized as a unit, and every resulting character has the span of the unit.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import tokenizers

from dragoman.data.tokenizers.normalization import (
    JOINER,
    SPACE,
    SURROGATE,
    UNICODE_FORMS,
    TextNormalizer,
    long_mark_runs,
)

Form = Literal["NFC", "NFKC"]
Span = tuple[int, int]
"""First character of a range of a text, and the character after the last."""


@dataclass(frozen=True, slots=True)
class AlignedText:
    """Normalized text with the span of the original text for each character."""

    text: str
    spans: list[Span]


def normalize_with_offsets(text: str, normalizer: TextNormalizer) -> AlignedText:
    """Normalize a text and return the span of the original text for each character.

    If white space is collapsed, the space between two words has the span of all white space between them.
    """
    aligned = AlignedText(text, [(place, place + 1) for place in range(len(text))])
    if not aligned.text.isascii():
        aligned = _folded(AlignedText(SURROGATE.sub("\ufffd", text), aligned.spans), normalizer)
    if normalizer.casing == "lower":
        aligned = _lowered(aligned)
        if not aligned.text.isascii():
            aligned = _folded(aligned, normalizer)
    return aligned if normalizer.whitespace == "keep" else _single_spaced(aligned)


def encode_with_offsets(
    text: str, *, tokenizer: tokenizers.Tokenizer, normalizer: TextNormalizer, byte_ids: range
) -> tuple[list[int], list[Span]]:
    """Return the ids of a text and the span of the original text for each id.

    White space around a word is not part of its span. A token of white space has the span of the white space, which is
    empty before the first word. Byte tokens have the span of their character.
    """
    aligned = normalize_with_offsets(text, normalizer)
    escaped = normalizer.escape_spaces(aligned.text)
    if len(escaped) > len(aligned.text):  # the prefix space before the first word
        begin = aligned.spans[0][0]
        aligned = AlignedText(f" {aligned.text}", [(begin, begin), *aligned.spans])
    encoding = tokenizer.encode(escaped, add_special_tokens=False)
    characters = _characters(encoding.ids, encoding.offsets, escaped, byte_ids)
    return encoding.ids, [_span(aligned, where) for where in characters]


def _characters(ids: Sequence[int], ends: Sequence[Span], escaped: str, byte_ids: range) -> Iterator[Span]:
    """Yield the range of escaped characters of each token; byte tokens are counted until a character is complete."""
    cursor = spelt = 0
    for index, (_, end) in zip(ids, ends, strict=True):
        if index not in byte_ids:
            yield cursor, end
            cursor = end
            continue
        yield cursor, cursor + 1
        spelt += 1
        if spelt == len(escaped[cursor].encode()):
            cursor, spelt = cursor + 1, 0


def _span(aligned: AlignedText, where: Span) -> Span:
    places = range(*where)
    visible = [place for place in places if not aligned.text[place].isspace()] or places
    return aligned.spans[visible[0]][0], aligned.spans[visible[-1]][1]


def _lowered(aligned: AlignedText) -> AlignedText:
    """Lowercase; the context of a letter may change its form (final sigma), but never its length."""
    pairs = zip(aligned.text, aligned.spans, strict=True)
    return AlignedText(aligned.text.lower(), [span for character, span in pairs for _ in character.lower()])


def _folded(aligned: AlignedText, normalizer: TextNormalizer) -> AlignedText:
    """Apply the Unicode form; if white space is collapsed, `▁` becomes an underscore."""
    form = UNICODE_FORMS.get(normalizer.normalization)
    folded = aligned if form is None else _with_joiners(_unicode_normalized(_with_joiners(aligned), form))
    text = folded.text if normalizer.whitespace == "keep" else folded.text.replace(SPACE, "_")
    return AlignedText(text, folded.spans)


def _with_joiners(aligned: AlignedText) -> AlignedText:
    """Separate long runs of combining marks; a joiner has the span of the mark after it."""
    places, spans = long_mark_runs(aligned.text), list[Span]()
    parts = [slice(*ends) for ends in pairwise([0, *places, len(aligned.text)])]
    for part in parts:
        joiner = aligned.spans[part.start : part.start + 1] if part.start else []
        spans += [*joiner, *aligned.spans[part]]
    return AlignedText(JOINER.join(aligned.text[part] for part in parts), spans)


def _unicode_normalized(aligned: AlignedText, form: Form) -> AlignedText:
    characters, spans = list[str](), list[Span]()
    for start, end in _clusters(aligned.text, form):
        cluster = aligned.text[start:end]
        folded = unicodedata.normalize(form, cluster)
        characters.append(folded)
        whole = (aligned.spans[start][0], aligned.spans[end - 1][1])
        spans += aligned.spans[start:end] if folded == cluster else [whole] * len(folded)
    return AlignedText("".join(characters), spans)


def _clusters(text: str, form: Form) -> Iterator[Span]:
    """Split a text wherever both sides can be normalized independently."""
    start = 0
    for place in range(1, len(text)):
        if _is_independent(text, start, place, form):
            yield start, place
            start = place
    if text:
        yield start, len(text)


def _is_independent(text: str, start: int, place: int, form: Form) -> bool:
    """Return whether the character at `place` is normalized independently of the characters before it."""
    character = text[place]
    if character.isascii():
        return True
    decomposed = unicodedata.normalize("NFD" if form == "NFC" else "NFKD", character)
    if unicodedata.combining(decomposed[0]):
        return False
    before = text[start:place]
    apart = unicodedata.normalize(form, before) + unicodedata.normalize(form, character)
    return unicodedata.normalize(form, before + character) == apart


def _single_spaced(aligned: AlignedText) -> AlignedText:
    words, spans = [match.span() for match in re.finditer(r"\S+", aligned.text)], list[Span]()
    for number, (start, end) in enumerate(words):
        if number:
            spans.append((aligned.spans[words[number - 1][1]][0], aligned.spans[start - 1][1]))
        spans += aligned.spans[start:end]
    return AlignedText(" ".join(aligned.text[start:end] for start, end in words), spans)
