"""Stand-ins: words that a model can write, in place of placeholders that it would translate, move or lose.

Placeholders that touch each other, or a short unit, share one stand-in, so that `%dpx` and `{a}/{b}` stay together.
Placeholders at the ends of a text that say nothing about it, such as tags, stay outside of what is translated.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

from dragoman.data.placeholders.recognition import Placeholder, PlaceholderKind, find_placeholders

MAX_UNIT = 3
"""Letters that belong to a placeholder which they touch: `%dpx`, `v%s`; more are a word, as in `file%s`."""
_JOINING: Final = frozenset("/:×*+-–_=#%°|\\~^&€$£¥.,'’")
"""Marks between two placeholders that keep them together."""
_SYMBOLS: Final = frozenset("%°€$£¥#~±^*_/\\=+|@")
"""Marks next to a placeholder that belong to it."""
_PAIRS: Final = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "<": ">", "`": "`"}
_OPENING: Final = frozenset("([{\"'“‘«„‚¿¡<`")
_APART: Final = _OPENING | {">"}
"""Marks that a model reads apart from the word after them."""
_OUTSIDE: Final[frozenset[PlaceholderKind]] = frozenset({"tag", "entity", "escape"})
"""Kinds that are left outside of the translated text at its ends."""
_ORDERED = re.compile(r"%(?!\d+\$|L?\d\d?$|\(|%|[\w#]+[@%])[^%]*|\{(?:[:!][^}]*)?\}", re.DOTALL)
"""Placeholders that get their values by their order."""
_ALONE = re.compile(r"<(?!bpt|ept|sc|ec|bx|ex)[^>]*/>|<(?:br|hr|img|wbr|input)\b.*>|<!--.*", re.DOTALL | re.IGNORECASE)
"""Tags without a partner, which may change places."""


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

    @property
    def is_attached(self) -> tuple[bool, bool]:
        """Whether a word, or a mark before it, touches it, before and after; spaces separate the stand-in from it."""
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


@dataclass(frozen=True, slots=True)
class RestoredText:
    """Translation with its placeholders."""

    text: str
    moved: tuple[str, ...] = ()
    """Placeholders that were missing or repeated in the translation, and were put in place by their order."""


def protect_placeholders(
    text: str, stand_ins: Sequence[str], *, markup: bool = False, placeholders: Sequence[Placeholder] | None = None
) -> ProtectedText:
    """Return a text with stand-ins in place of its placeholders, by default those of `find_placeholders`.

    Stand-ins that the text contains are left out. Where there are too few, the last one stands for all the rest of the
    text from its first placeholder on to its last.
    """
    found = find_placeholders(text, markup=markup) if placeholders is None else placeholders
    clusters = _cluster(text, found, markup=markup)
    start, end, clusters = _trim(text, clusters, markup=markup)
    if not clusters:
        return ProtectedText(text[start:end], (), text[:start], text[end:])
    lower = text.lower()
    free = [one for one in stand_ins if one.lower() not in lower]
    if not free:
        return ProtectedText("", (), text, "")
    if len(clusters) > len(free):
        rest = clusters[len(free) - 1 :]
        clusters = [*clusters[: len(free) - 1], _Cluster(rest[0].start, rest[-1].end, sum((c.found for c in rest), ()))]
    parts, slots, place = [], [], start
    for cluster, stand_in in zip(clusters, free, strict=False):
        slot = _slot(text, cluster, stand_in)
        spaces = [" " if touches else "" for touches in slot.is_attached]
        parts += [text[place : cluster.start], spaces[0], stand_in, spaces[1]]
        slots.append(slot)
        place = cluster.end
    return ProtectedText("".join([*parts, text[place:end]]), tuple(slots), text[:start], text[end:])


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
    for start, end in reversed(find_invented(protected.text, translation, written)):
        translation = translation[:start].rstrip() + translation[end:]
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
    pieces = [escape(piece) for piece in pieces]
    text = pieces[0].lstrip()
    for number, piece in zip(numbers, pieces[1:], strict=True):
        text = _join(text, slots[number], piece)
    text = text.rstrip() if pieces[-1] else text
    return RestoredText(protected.start + text + protected.end, tuple(dict.fromkeys(moved)))


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


@dataclass(frozen=True, slots=True)
class _Cluster:
    start: int
    end: int
    found: tuple[Placeholder, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The placeholders."""
        return tuple(one.text for one in self.found)

    @property
    def is_ordered(self) -> bool:
        """Whether it has placeholders that get their values by their order, or tags whose partners are elsewhere."""
        if any(one.kind in ("printf", "brace") and _ORDERED.fullmatch(one.text) for one in self.found):
            return True
        tags = [one.text for one in self.found if one.kind == "tag" and not _ALONE.fullmatch(one.text)]
        closed = [tag.startswith("</") for tag in tags]
        return bool(tags) and not (closed == [False, True] and _name_of_tag(tags[0]) == _name_of_tag(tags[1]))


def _cluster(text: str, found: Sequence[Placeholder], *, markup: bool) -> list[_Cluster]:
    """Return the placeholders with what belongs to them, in order."""
    clusters = [_Cluster(one.start, one.end, (one,)) for one in found]
    clusters = _join_touching(text, clusters, tags=False)
    clusters = _join_touching(text, _join_elements(clusters), tags=True)
    bounds = [0, *(place for one in clusters for place in (one.start, one.end)), len(text)]
    return [
        _widen(text, one, low=bounds[2 * number], high=bounds[2 * number + 3], markup=markup)
        for number, one in enumerate(clusters)
    ]


def _join_elements(clusters: Sequence[_Cluster]) -> list[_Cluster]:
    """Return the clusters, with those that are all that an element has joined with its tags: `<ph>%s</ph>`."""
    joined: list[_Cluster] = []
    for one in clusters:
        joined.append(one)
        if len(joined) < 3:
            continue
        start, inner, end = joined[-3:]
        tags = [text for cluster in (start, end) for text in cluster.texts]
        if (
            start.end == inner.start
            and inner.end == end.start
            and len(tags) == 2
            and _name_of_tag(tags[0]) == _name_of_tag(tags[1])
            and [tag.startswith("</") for tag in tags] == [False, True]
        ):
            joined[-3:] = [_Cluster(start.start, end.end, (*start.found, *inner.found, *end.found))]
    return joined


def _name_of_tag(text: str) -> str | None:
    found = re.match(r"</?([\w:.-]+)", text)
    return None if found is None else found[1]


def _join_touching(text: str, clusters: Sequence[_Cluster], *, tags: bool) -> list[_Cluster]:
    """Return the clusters, with those that stay together joined: tags, or what is no tag."""
    joined: list[_Cluster] = []
    for one in clusters:
        last = joined[-1] if joined else None
        if (
            last is not None
            and (one.found[0].kind == "tag") == tags
            and _touches(text[last.end : one.start], last.found[-1], one.found[0])
        ):
            joined[-1] = _Cluster(last.start, one.end, (*last.found, *one.found))
        else:
            joined.append(one)
    return joined


def _touches(gap: str, first: Placeholder, second: Placeholder) -> bool:
    """Return whether two placeholders stay together, with nothing or few marks between them."""
    if "tag" in (first.kind, second.kind) and first.kind != second.kind:
        return False
    return len(gap) <= 2 and all(mark in _JOINING for mark in gap)


def _widen(text: str, cluster: _Cluster, *, low: int, high: int, markup: bool) -> _Cluster:
    """Return a cluster with the units, symbols and pairs of brackets that touch it, between `low` and `high`."""
    start, end = cluster.start, cluster.end
    if cluster.found[0].kind not in _OUTSIDE:
        start -= _length(text[max(low, start - MAX_UNIT - 2) : start][::-1], markup=markup)
    if cluster.found[-1].kind not in _OUTSIDE:
        end += _length(text[end : min(high, end + MAX_UNIT + 2)], markup=markup)
    while (
        low < start
        and end < high
        and _PAIRS.get(text[start - 1]) == text[end]
        and not (markup and text[start - 1] in "<>")
    ):
        start, end = start - 1, end + 1
    return _Cluster(start, end, cluster.found)


def _length(near: str, *, markup: bool) -> int:
    """Return how many characters next to a placeholder, nearest first, belong to it."""
    symbols = len(near) - len(near.lstrip("".join(_SYMBOLS - set("&<>" if markup else ""))))
    if symbols > 2:
        return 0
    rest = near[symbols:]
    letters = 0
    while letters < len(rest) and rest[letters].isalnum():
        letters += 1
    return symbols + (letters if letters <= MAX_UNIT else 0)


def _trim(text: str, clusters: list[_Cluster], *, markup: bool) -> tuple[int, int, list[_Cluster]]:
    """Return the start and end of what is translated, and the placeholders in it.

    Outside of it are white space, tags and the like at the ends, and a label or a value: `%s: no space` and `Name: %s`.
    """
    if not _has_letters(text, clusters, markup=markup):
        return len(text), len(text), []
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    left = list(clusters)
    while left and left[0].start == start:
        first = left[0]
        is_label = text[first.end : first.end + 2] == ": "
        if not is_label and not all(one.kind in _OUTSIDE for one in first.found):
            break
        start = first.end + is_label
        start += len(text[start:]) - len(text[start:].lstrip())
        left = left[1:]
    while left and left[-1].end == end and start < left[-1].start:
        last = left[-1]
        is_value = text[max(start, last.start - 2) : last.start] == ": "
        if not is_value and not all(one.kind in _OUTSIDE for one in last.found):
            break
        end = start + len(text[start : last.start].rstrip())
        left = left[:-1]
    return start, end, left


def _has_letters(text: str, clusters: Sequence[_Cluster], *, markup: bool) -> bool:
    """Return whether there is something to translate besides placeholders."""
    place, rest = 0, []
    for one in clusters:
        rest.append(text[place : one.start])
        place = one.end
    left = "".join([*rest, text[place:]])
    return any(map(str.isalpha, re.sub(r"<[^<>]*+>", "", left) if markup else left))


def _slot(text: str, cluster: _Cluster, stand_in: str) -> Slot:
    before, after = text[: cluster.start][-1:], text[cluster.end :][:1]
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
    places = [place for place, number in enumerate(numbers) if slots[number].ordered]
    found = [numbers[place] for place in places]
    for place, number in zip(places, sorted(found), strict=True):
        numbers[place] = number
    changed = [number for number, other in zip(found, sorted(found), strict=True) if number != other]
    if len({slots[number].original for number in changed}) <= 1:
        return []
    return [text for number in changed for text in slots[number].placeholders]


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
