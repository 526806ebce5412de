"""Stand-ins: words that a model can write, in place of placeholders that it would translate, move or lose.

Placeholders that touch each other, or a short unit, share one stand-in, so that `%dpx` and `{a}/{b}` stay together.
Placeholders at the ends of a text that say nothing about it, such as tags, stay outside of what is translated.
"""

import itertools
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple, final

from dragoman.data.placeholders.clusters import Cluster, cluster_placeholders, join_clusters, trim_clusters
from dragoman.data.placeholders.numbering import number_placeholders
from dragoman.data.placeholders.recognition import Placeholder, find_placeholders
from dragoman.data.text_places import KeptPart, Span, TextTrace, match_characters

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
    span: Span
    """Place in the whole text."""
    follows: bool = False
    """Whether it touches the slot before it."""
    numbered: str | None = None
    """The original with numbers in its placeholders, if it may change places then."""

    @property
    def is_attached(self) -> tuple[bool, bool]:
        """Return whether a word or mark touches the placeholder, before and after; spaces then part them."""
        touches_text = bool(self.before) and not self.before.isspace() and self.before not in _APART
        return touches_text or self.follows, self.after.isalnum()


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
    spans: tuple[Span, ...] = ()
    """Place of the placeholders of each slot."""
    removed: tuple[Span, ...] = ()
    """Stand-ins in the translation that the model wrote, and words like them."""
    ends: tuple[str, str] = ("", "")
    """What precedes and follows the translated text."""


def protect_placeholders(
    text: str,
    stand_ins: Sequence[str],
    *,
    cuts: Sequence[int] = (),
    placeholders: Sequence[Placeholder] | None = None,
    numbering: bool = False,
    whole_start: bool = False,
) -> ProtectedText:
    """Return a text with stand-ins in place of its placeholders, by default those of `find_placeholders`.

    No placeholder has any of the characters `cuts`, where tags stand, inside. Stand-ins that the text contains are left
    out. Where there are too few, the last one stands for all the rest of the text from its first placeholder on to its
    last. With `numbering`, placeholders that get their values by their order may change places, and are numbered then.
    With `whole_start`, nothing precedes what is translated.
    """
    found = find_between(text, cuts, find_placeholders) if placeholders is None else placeholders
    numbers = (number_placeholders(found) if numbering else None) or {}
    clusters = _clusters(text, found, cuts)
    start, end, clusters = trim_clusters(text, clusters, whole_start=whole_start, labels=not (numbers and cuts))
    ends = _with_numbers(text, 0, start, found, numbers), _with_numbers(text, end, len(text), found, numbers)
    if not clusters:
        return ProtectedText(text[start:end], (), text[:start], text[end:], ends)
    free = _free_stand_ins(text, stand_ins)
    if not free:
        return ProtectedText("", (), text, "")
    if len(clusters) > len(free):
        clusters = [*clusters[: len(free) - 1], join_clusters(clusters[len(free) - 1 :])]
    parts, slots, place = list[str](), list[Slot](), start
    for cluster, stand_in in zip(clusters, free, strict=False):
        slot = _slot(text, cluster, stand_in, follows=bool(slots) and place == cluster.start)
        if any(one.start in numbers for one in cluster.found):
            slot = replace(slot, numbered=_with_numbers(text, cluster.start, cluster.end, found, numbers))
        spaces = [" " if touches else "" for touches in slot.is_attached]
        parts += [text[place : cluster.start], spaces[0], stand_in, spaces[1]]
        slots.append(slot)
        place = cluster.end
    return ProtectedText("".join([*parts, text[place:end]]), tuple(slots), text[:start], text[end:], ends)


def find_between(text: str, cuts: Sequence[int], find: Callable[[str], Sequence[Placeholder]]) -> list[Placeholder]:
    """Return what `find` finds in each part of a text between cuts, with places in the whole text."""
    return [
        replace(one, start=one.start + start, end=one.end + start)
        for start, end in itertools.pairwise([0, *cuts, len(text)])
        for one in (find(text[start:end]) if start < end else ())
    ]


def _clusters(text: str, found: Sequence[Placeholder], cuts: Sequence[int]) -> list[Cluster]:
    """Return the clusters of placeholders, none of which has a cut inside."""
    if not cuts:
        return cluster_placeholders(text, found)
    clusters: list[Cluster] = []
    left = deque(found)
    for start, end in itertools.pairwise([0, *cuts, len(text)]):
        inside = []
        while left and left[0].end <= end:
            one = left.popleft()
            inside.append(replace(one, start=one.start - start, end=one.end - start))
        clusters += [one.moved(start) for one in cluster_placeholders(text[start:end], inside)]
    return clusters


def _free_stand_ins(text: str, stand_ins: Sequence[str]) -> list[str]:
    """Return the stand-ins that are no part of a text, nor of its digits, which a translation may group otherwise."""
    lower, digits = text.lower(), re.sub(r"\D", "", text)
    return [word for word in stand_ins if word.lower() not in lower and not (word.isdigit() and word in digits)]


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
    marks = find_marks(protected.text, translation, written)
    counts = Counter(number for mark in marks for number in mark.numbers)
    moved = [text for number, slot in enumerate(slots) if counts[number] != 1 for text in slot.placeholders]
    pieces, numbers = _pieces(translation, marks)
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
    spans = [(0, 0)] * len(slots)
    text = start + pieces[0].lstrip()
    for number, piece in zip(numbers, pieces[1:], strict=True):
        before, after = _around(text, slots[number], piece)
        spans[number] = (len(before), len(before) + len(slots[number].original))
        text = before + slots[number].original + after
    core = text[len(start) :]
    text = start + (core.rstrip() if pieces[-1] else core) + end
    removed = tuple((mark.start, mark.end) for mark in marks)
    return RestoredText(text, tuple(dict.fromkeys(moved)), tuple(spans), removed, (start, end))


def trace_part(protected: ProtectedText, original: str, translation: str, restored: RestoredText) -> TextTrace:
    """Return the places of the words of a text with stand-ins, and of its translation, in those with placeholders."""
    stand_ins = [span for slot in protected.slots for span in find_stand_in(protected.text, slot.stand_in)]
    kept = [KeptPart(slot.span, span) for slot, span in zip(protected.slots, restored.spans, strict=True)]
    kept += _kept_ends(protected, original, restored)
    return TextTrace(
        match_characters(protected.text, original, replaced=stand_ins, inserted=[one.source for one in kept]),
        match_characters(translation, restored.text, replaced=restored.removed, inserted=[one.target for one in kept]),
        tuple(kept),
    )


def _kept_ends(protected: ProtectedText, original: str, restored: RestoredText) -> list[KeptPart]:
    """Return what precedes and follows the translated text."""
    start, end = restored.ends
    parts = [
        KeptPart((0, len(protected.start)), (0, len(start))),
        KeptPart(
            (len(original) - len(protected.end), len(original)), (len(restored.text) - len(end), len(restored.text))
        ),
    ]
    texts = original, restored.text
    stripped = [
        KeptPart(*(_strip_span(*one) for one in zip(texts, (part.source, part.target), strict=True))) for part in parts
    ]
    return [part for part in stripped if part.source[0] < part.source[1]]


def _strip_span(text: str, span: Span) -> Span:
    """Return a span without white space at its ends."""
    inside = text[slice(*span)]
    start = span[0] + len(inside) - len(inside.lstrip())
    return start, start + len(inside.strip())


def are_in_place(slots: Sequence[Slot], source: str, translation: str, *, written: Sequence[str]) -> bool:
    """Return whether a translation has each stand-in once, ordered ones in their order, and no word like them.

    `source` is the text with the stand-ins.
    """
    marks = find_marks(source, translation, written)
    numbers = [number for mark in marks for number in mark.numbers]
    if not all(mark.numbers for mark in marks) or sorted(numbers) != list(range(len(slots))):
        return False
    return not _restore_order(slots, numbers)


def _slot(text: str, cluster: Cluster, stand_in: str, *, follows: bool) -> Slot:
    before, after = text[max(0, cluster.start - 1) : cluster.start], text[cluster.end : cluster.end + 1]
    return Slot(
        stand_in,
        text[cluster.start : cluster.end],
        cluster.texts,
        before,
        after,
        cluster.is_ordered,
        (cluster.start, cluster.end),
        follows,
    )


def find_stand_in(text: str, word: str) -> list[tuple[int, int]]:
    """Return the places of a stand-in, where it is no part of a longer word."""
    pattern = re.escape(word)
    if word[:1].isalnum():
        pattern = rf"(?<!\w){pattern}"
    if word[-1:].isalnum():
        pattern = rf"{pattern}(?!\w)"
    return [found.span() for found in re.finditer(pattern, text)]


class Mark(NamedTuple):
    """Place of stand-ins in a translation, several where the model writes them as one; none of a word like them."""

    start: int
    end: int
    numbers: tuple[int, ...]
    """Slots that the stand-ins stand for."""


def find_marks(source: str, translation: str, written: Sequence[str]) -> list[Mark]:
    """Return the stand-ins in a translation in order, also those with letters next to them, and words like them.

    `source` has the stand-ins. No text outside of the marks has any of the `written` stand-ins.
    """
    marks = []
    if written:
        stand_in = re.compile("|".join(sorted(map(re.escape, written), key=len, reverse=True)))
        for several in _stand_in_pattern(tuple(written)).finditer(translation):
            numbers = tuple(written.index(word) for word in stand_in.findall(several[0]))
            marks.append(Mark(*several.span(), numbers))
    free = "".join(
        character if free else " " for character, free in zip(translation, _is_free(translation, marks), strict=True)
    )
    marks += [Mark(*span, ()) for span in _find_invented(source, free, written)]
    return sorted(marks)


def _is_free(text: str, marks: Sequence[Mark]) -> list[bool]:
    free = [True] * len(text)
    for mark in marks:
        free[mark.start : mark.end] = [False] * (mark.end - mark.start)
    return free


@lru_cache(maxsize=256)
def _stand_in_pattern(written: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of stand-ins: runs of symbols, numbers with up to two letters, and names with an ending."""

    def alternatives(words: Sequence[str]) -> str:
        return "|".join(sorted(map(re.escape, words), key=len, reverse=True))

    numbers = [word for word in written if word[-1].isdigit()]
    names = [word for word in written if word[-1].isalpha()]
    symbols = [word for word in written if not word[-1].isalnum()]
    patterns = [
        rf"(?:{alternatives(symbols)})++" if symbols else "",
        rf"(?<!\d)(?:{alternatives(numbers)})++(?!\d)(?:[^\W\d_]{{1,2}}(?!\w))?+" if numbers else "",
        rf"(?:{alternatives(names)})\w*+" if names else "",
    ]
    return re.compile("|".join(filter(None, patterns)))


def _find_invented(source: str, translation: str, written: Sequence[str]) -> list[Span]:
    """Return the places of words that resemble stand-ins, but are neither stand-ins nor in the source.

    They are reserved symbols that stand for nothing, and, where stand-ins are numbers, words with a number of four
    different digits or more that no number of the source has.
    """
    found = [
        one.span() for one in re.finditer(r" ?[\ue010-\ue01f]", translation) if one[0][-1] not in (*written, *source)
    ]
    if not any(word.isdigit() for word in written):
        return found
    for word in written:
        source = source.replace(word, " ")
    digits = re.sub(r"\D", "", source)
    for match in re.finditer(r"\w++", translation):
        number = re.sub(r"\D", "", match[0])
        if re.search(r"\d{4}", match[0]) and len(set(number)) >= 4 and number not in digits:
            found.append(match.span())
    return sorted(found)


def _pieces(text: str, marks: Sequence[Mark]) -> tuple[list[str], list[int]]:
    """Return the text between the stand-ins and the numbers of their slots, without repeated and invented ones."""
    pieces, place = [""], 0
    numbers: list[int] = []
    for mark in marks:
        pieces[-1] += text[place : mark.start]
        new = [number for number in dict.fromkeys(mark.numbers) if number not in numbers]
        if not new:
            pieces[-1] = pieces[-1].rstrip()
        pieces += [" "] * len(new)  # between stand-ins that the model wrote as one
        if new:
            pieces[-1] = ""
        numbers += new
        place = mark.end
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


def _around(before: str, slot: Slot, after: str) -> tuple[str, str]:
    """Return the text around a slot, with the spaces of the source where a word or mark touches it."""
    attached = slot.is_attached
    opens = slot.before in _OPENING and before.rstrip()[-1:] in _OPENING and bool(before.rstrip())
    if attached[0] or opens:
        before = before.rstrip()
    elif slot.before.isspace() and before[-1:].isalnum():
        before += " "
    mark = after.lstrip()[:1]
    closes = (
        bool(mark) and mark == slot.after and unicodedata.category(mark)[0] == "P" and mark not in _OPENING - set("\"'")
    )
    if attached[1] or closes:
        after = after.lstrip()
    elif slot.after.isspace() and after[:1].isalnum():
        after = f" {after}"
    return before, after
