"""Stand-ins: words that a model can write, in place of placeholders that it would translate, move or lose.

Placeholders that touch each other, or a short unit, share one stand-in, so that `%dpx` and `{a}/{b}` stay together.
Placeholders at the ends of a text that say nothing about it, such as tags, stay outside of what is translated.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from dragoman.data.placeholders.clusters import Cluster, cluster_placeholders, join_clusters, trim_clusters
from dragoman.data.placeholders.numbering import number_placeholders
from dragoman.data.placeholders.recognition import Placeholder, find_placeholders

_OPENING: Final = frozenset("([{\"'“‘«„‚¿¡<`")
_APART: Final = _OPENING | {">"}
"""Marks that a model reads apart from the word after them."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Place of one or several placeholders in a text."""

    stand_in: str
    """Word in the translated text."""
    original: str
    """The placeholders, and what belongs to them."""
    placeholders: tuple[str, ...]
    before: str
    """Character before, `` at the beginning."""
    after: str
    """Character after, `` at the end."""
    ordered: bool
    """Whether it may not change places with other slots that are ordered."""
    numbered: str | None = None
    """The original with numbers in its placeholders, if it may change places then."""

    @property
    def is_attached(self) -> tuple[bool, bool]:
        """Return whether a word or mark touches the placeholder, before and after; spaces then part them."""
        return bool(self.before) and not self.before.isspace() and self.before not in _APART, self.after.isalnum()


@final
@dataclass(frozen=True, slots=True)
class ProtectedText:
    """Text with stand-ins, and what they stand for."""

    text: str
    slots: tuple[Slot, ...] = ()
    start: str = ""
    """What precedes the translated text."""
    end: str = ""
    """What follows it."""
    numbered_ends: tuple[str, str] = ("", "")
    """Start and end with numbers in their placeholders."""


@dataclass(frozen=True, slots=True)
class RestoredText:
    """Translation with its placeholders."""

    text: str
    moved: tuple[str, ...] = ()
    """Placeholders that were missing or repeated in the translation, and were put in place by their order."""


def protect_placeholders(
    text: str,
    stand_ins: Sequence[str],
    *,
    markup: bool = False,
    placeholders: Sequence[Placeholder] | None = None,
    numbering: bool = False,
    whole_start: bool = False,
) -> ProtectedText:
    """Return a text with stand-ins in place of its placeholders, by default those of `find_placeholders`.

    Stand-ins that the text contains are left out. Where there are too few, the last one stands for all the rest of the
    text from its first placeholder on to its last. With `numbering`, placeholders that get their values by their
    order may change places, and are numbered then. With `whole_start`, nothing precedes what is translated.
    """
    found = find_placeholders(text, markup=markup) if placeholders is None else placeholders
    clusters = cluster_placeholders(text, found, markup=markup)
    start, end, clusters = trim_clusters(text, clusters, markup=markup, whole_start=whole_start)
    numbers = (number_placeholders(found) if numbering else None) or {}
    ends = _with_numbers(text, 0, start, found, numbers), _with_numbers(text, end, len(text), found, numbers)
    if not clusters:
        return ProtectedText(text[start:end], (), text[:start], text[end:], ends)
    lower = text.lower()
    free = [one for one in stand_ins if one.lower() not in lower]
    if not free:
        return ProtectedText("", (), text, "")
    if len(clusters) > len(free):
        clusters = [*clusters[: len(free) - 1], join_clusters(clusters[len(free) - 1 :])]
    parts, slots, place = [], [], start
    for cluster, stand_in in zip(clusters, free, strict=False):
        slot = _slot(text, cluster, stand_in)
        if any(one.start in numbers for one in cluster.found):
            slot = replace(slot, numbered=_with_numbers(text, cluster.start, cluster.end, found, numbers))
        spaces = [" " if touches else "" for touches in slot.is_attached]
        parts += [text[place : cluster.start], spaces[0], stand_in, spaces[1]]
        slots.append(slot)
        place = cluster.end
    return ProtectedText("".join([*parts, text[place:end]]), tuple(slots), text[:start], text[end:], ends)


def protect_prefix(protected: ProtectedText, prefix: str, *, written: Sequence[str]) -> str:
    """Return the beginning of a translation with stand-ins in place of the placeholders of its source.

    `written` are the stand-ins as the model writes them. Placeholders that the source does not have stay.
    """
    for slot, word in zip(protected.slots, written, strict=True):
        before, original, after = prefix.partition(slot.original)
        if original:
            spaces = [" " if touching.isalnum() else "" for touching in (before[-1:], after[:1])]
            prefix = f"{before}{spaces[0]}{word}{spaces[1]}{after}"
    return prefix


def restore_placeholders(
    protected: ProtectedText,
    translation: str,
    *,
    written: Sequence[str],
    escape: Callable[[str], str] = lambda text: text,
) -> RestoredText:
    """Return a translation with the placeholders in place of stand-ins, each once and byte for byte.

    `written` are the stand-ins as the model writes them, and `escape` writes the text between them. Missing ones are
    inserted between their neighbors, where their share of the words before them is that of the source, and all but the
    first of repeated ones are removed.
    """
    slots = protected.slots
    translation = _separate(translation, written)
    for low, high in reversed(find_invented(protected.text, translation, written)):
        translation = translation[:low].rstrip() + translation[high:]
    moved: list[str] = []
    places = [find_stand_in(translation, word) for word in written]
    kept: list[tuple[int, int, int]] = []
    for number, (slot, found) in enumerate(zip(slots, places, strict=True)):
        if len(found) != 1:
            moved += slot.placeholders
        kept += [(*span, number) for span in found[:1]]
    removed = [span for found in places for span in found[1:]]
    pieces, numbers = _pieces(translation, sorted(kept), removed)
    for number, slot in enumerate(slots):
        if number not in numbers:
            _insert(pieces, numbers, number, share=_share(protected, slot))
    moved += _restore_order(slots, numbers)
    start, end = protected.start, protected.end
    counted = [number for number in numbers if slots[number].numbered is not None]
    if counted != sorted(counted):
        slots = tuple(slot if slot.numbered is None else replace(slot, original=slot.numbered) for slot in slots)
        start, end = protected.numbered_ends
    pieces = [escape(piece) for piece in pieces]
    text = pieces[0].lstrip()
    for number, piece in zip(numbers, pieces[1:], strict=True):
        text = _join(text, slots[number], piece)
    text = text.rstrip() if pieces[-1] else text
    return RestoredText(start + text + end, tuple(dict.fromkeys(moved)))


def are_in_place(slots: Sequence[Slot], source: str, translation: str, *, written: Sequence[str]) -> bool:
    """Return whether a translation has each stand-in once, ordered ones in their order, and no word like them.

    `source` is the text with the stand-ins.
    """
    translation = _separate(translation, written)
    if find_invented(source, translation, written):
        return False
    places = [find_stand_in(translation, word) for word in written]
    if any(len(found) != 1 for found in places):
        return False
    numbers = [number for number, _ in sorted(enumerate(places), key=lambda one: one[1])]
    return not _restore_order(slots, numbers)


def _slot(text: str, cluster: Cluster, stand_in: str) -> Slot:
    before, after = text[max(0, cluster.start - 1) : cluster.start], text[cluster.end : cluster.end + 1]
    return Slot(stand_in, text[cluster.start : cluster.end], cluster.texts, before, after, cluster.is_ordered)


def find_stand_in(text: str, word: str) -> list[tuple[int, int]]:
    """Return the places of a stand-in, where it is no part of a longer word."""
    pattern = re.escape(word)
    if word[:1].isalnum():
        pattern = rf"(?<!\w){pattern}"
    if word[-1:].isalnum():
        pattern = rf"{pattern}(?!\w)"
    return [found.span() for found in re.finditer(pattern, text)]


def find_invented(source: str, translation: str, written: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of words that resemble stand-ins, but are neither stand-ins nor in the source.

    They are reserved symbols that stand for nothing, and, where stand-ins are numbers, words with a number of four
    different digits or more that no number of the source has.
    """
    digits = re.sub(r"\D", "", source)
    found = [
        one.span() for one in re.finditer(r" ?[\ue010-\ue01f]", translation) if one[0][-1] not in (*written, *source)
    ]
    if not any(word.isdigit() for word in written):
        return found
    numbers = [(one, re.sub(r"\D", "", one[0])) for one in re.finditer(r"\w*\d{4}\w*", translation)]
    found += [
        one.span()
        for one, number in numbers
        if one[0] not in written and len(set(number)) >= 4 and number not in digits
    ]
    return sorted(found)


def _separate(text: str, words: Sequence[str]) -> str:
    """Return a translation where stand-ins are words, if the model has written several as one, or with a letter."""
    if not words:
        return text
    one = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    several = rf"(?<!\w)(?:{one}){{2,}}(?!\w)|(?<!\w)(?:{one})[^\W\d_]{{1,2}}(?!\w)"
    return re.sub(several, lambda found: " ".join(re.findall(one, found[0])), text)


def _pieces(
    text: str, kept: Sequence[tuple[int, int, int]], removed: Sequence[tuple[int, int]]
) -> tuple[list[str], list[int]]:
    """Return the text between the stand-ins, without repeated ones, and the numbers of the slots."""
    pieces, place = [""], 0
    numbers = []
    marks = sorted([*kept, *((*span, -1) for span in removed)])
    for start, end, number in marks:
        pieces[-1] += text[place:start]
        if number < 0:
            pieces[-1] = pieces[-1].rstrip()
        else:
            pieces.append("")
            numbers.append(number)
        place = end
    pieces[-1] += text[place:]
    return pieces, numbers


def _share(protected: ProtectedText, slot: Slot) -> float:
    """Return which share of the words of the source precedes a slot."""
    before, _, after = protected.text.partition(slot.stand_in)
    words = len(before.split()), len(after.split())
    return words[0] / max(1, sum(words))


def _insert(pieces: list[str], numbers: list[int], number: int, *, share: float) -> None:
    """Insert a missing slot between the slots that precede and follow it in the source, at its share of the words."""
    low = max((place + 1 for place, one in enumerate(numbers) if one < number), default=0)
    high = min((place for place, one in enumerate(numbers) if one > number), default=len(numbers))
    low, high = min(low, high), max(low, high)
    counts = [len(piece.split()) for piece in pieces]
    target = round(share * sum(counts))
    place, before = low, sum(counts[:low])
    while place < high and before + counts[place] < target:
        before += counts[place]
        place += 1
    words = [found.end() for found in re.finditer(r"\S+", pieces[place])]
    wanted = min(max(0, target - before), len(words))
    cut = words[wanted - 1] if wanted else 0
    if cut and wanted == len(words):  # before a final punctuation mark
        cut -= len(pieces[place][:cut]) - len(pieces[place][:cut].rstrip(".!?…。,;:"))
    pieces[place : place + 1] = [f"{pieces[place][:cut]} ", f" {pieces[place][cut:].lstrip()}"]
    if pieces[place + 1][1:2] in ".!?…。,;:":
        pieces[place + 1] = pieces[place + 1][1:]
    numbers.insert(place, number)


def _restore_order(slots: Sequence[Slot], numbers: list[int]) -> list[str]:
    """Put ordered slots into the order of the source, and return their placeholders if they were in another one."""
    places = [place for place, number in enumerate(numbers) if slots[number].ordered and slots[number].numbered is None]
    found = [numbers[place] for place in places]
    for place, number in zip(places, sorted(found), strict=True):
        numbers[place] = number
    changed = [number for number, other in zip(found, sorted(found), strict=True) if number != other]
    if len({slots[number].original for number in changed}) <= 1:
        return []
    return [text for number in changed for text in slots[number].placeholders]


def _with_numbers(text: str, start: int, end: int, found: Sequence[Placeholder], numbers: Mapping[int, str]) -> str:
    """Return a part of a text with numbered placeholders, given by the starts of the originals."""
    parts, place = [], start
    for one in found:
        if start <= one.start < end and one.start in numbers:
            parts += [text[place : one.start], numbers[one.start]]
            place = one.end
    return "".join([*parts, text[place:end]])


def _join(before: str, slot: Slot, after: str) -> str:
    """Return the text around a slot with the slot, with the spaces of the source where a word or mark touches it."""
    attached = slot.is_attached
    opens = slot.before in _OPENING and before.rstrip()[-1:] in _OPENING and bool(before.rstrip())
    if attached[0] or opens:
        before = before.rstrip()
    mark = after.lstrip()[:1]
    closes = (
        bool(mark) and mark == slot.after and unicodedata.category(mark)[0] == "P" and mark not in _OPENING - set("\"'")
    )
    if attached[1] or closes:
        after = after.lstrip()
    return before + slot.original + after
