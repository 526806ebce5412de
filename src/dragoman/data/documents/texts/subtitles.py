"""Subtitles: SubRip (SRT) and WebVTT, by place in the file.

Sources: https://matroska.org/technical/subtitles.html (SubRip), https://www.w3.org/TR/webvtt1/. A sentence that runs
over several cues is one unit, whose translation is cut at spaces in the proportions of the cues. Lines of a cue are
joined before translation, and the translation is wrapped again. The source alone decides which cues are joined; its
`cues_per_unit` reads a translation as the same units.
"""

import functools
import html
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, final

from dragoman.data.documents.document import Unit, UnitTranslation
from dragoman.data.documents.inline_units import InlineUnit, Kind, Piece, split_pieces, text_pieces
from dragoman.data.documents.span_document import EditedText, SpanText
from dragoman.data.documents.text_edits import decode_text
from dragoman.errors import DataError, shorten
from dragoman.number_words import counted

LINE_LENGTH: Final = 42
"""Characters of a line, as guides for subtitles ask (Netflix Timed Text Style Guide, BBC Subtitle Guidelines: 37)."""
MAX_PAUSE: Final = 2.0
"""Seconds between two cues above which a sentence does not continue."""
MAX_CUES: Final = 8
"""Cues of one sentence."""
MIN_PUNCTUATED: Final = 0.3
"""Share of cues that end a sentence from which on the file is taken as one with punctuation marks."""
_MAX_NEAR: Final = 64
"""Places on each side of the wanted one that are compared; tags take no characters, so that many may be as near."""
PUNCTUATION_BONUS: Final = 8
"""Characters that a cut may be off its place in order to follow a punctuation mark."""
_TIME = r"(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}"
_TIMING = re.compile(rf"[ \t]*({_TIME})[ \t]*-->[ \t]*({_TIME})(?:[ \t].*)?")
_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_TAG = re.compile(r"</?(?P<name>[A-Za-z]++)[^<>\r\n]*+>|<\d[\d:.]*+>|\{\\[^{}\r\n]*+\}")
_SENTENCE_END = re.compile(r"""[\s"'”’»]*+[.!?…。！？:♪♫*)\]]""")
"""End of a sentence, from the last character to the first."""
_SPEAKER = re.compile(r"(?:[-–—‐]|>>+)\s*")
"""Start of a line of another speaker."""
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff"
_WITHOUT_SPACE = re.compile(rf"[{_UNSPACED}\u3001-\u3003\u3008-\u3011\uff01-\uff1f]")
_NOT_FIRST = re.compile(rf"{_SPEAKER.pattern}|[,;:.!?…)\]»”’、。〉》」』】！），：；？]")
"""Marks that no cue or line begins with: a dash, by which readers tell speakers, and marks that belong to a word."""
_CLOSING = r"</[^<>\r\n]{0,80}>"
_OPENING = rf"(?!</)(?:{_TAG.pattern.replace('?P<name>', '?:')})"
_WORD = rf"(?!{_CLOSING})(?:[{_UNSPACED}]|[^\s<{{{_UNSPACED}]+|[<{{])"
_WORDS = re.compile(rf"\s*(?:{_OPENING})*+(?:{_WORD})?+(?:{_CLOSING})*+")
"""Words of a line with the space and the tags around each; a character of Chinese or Japanese is a word."""
Format = Literal["srt", "vtt"]


@final
@dataclass(frozen=True)
class _Cue:
    """Text of a cue by its place, its lines, and when it is shown."""

    begin: float
    end: float
    lines: tuple[tuple[int, int], ...]


@final
class Subtitles:
    """SRT or WebVTT file with its sentences as units."""

    def __init__(
        self,
        content: bytes,
        *,
        format: Format,  # noqa: A002
        name: str = "",
        cues_per_unit: Sequence[int] | None = None,
    ) -> None:
        """Raise DataError if the file has no cues or is not in UTF-8 or UTF-16.

        With the `cues_per_unit` of another file, of which this one is a translation, the cues are joined as there.
        """
        self.format = format
        self._file = decode_text(content, name)
        text = self._file.text
        if format == "vtt" and not re.match(r"WEBVTT(?:[ \t\r\n]|\Z)", text):
            raise DataError(f"{name}: does not begin with WEBVTT, but with {shorten(text[:20])}. Check the file.")
        cues = list(_cues(text))
        if not cues and text.strip() and format == "srt":
            raise DataError(f"{name}: has no cue: no line such as 00:00:01,000 --> 00:00:02,000. Check the file.")
        escape = _escape if format == "vtt" else _same
        newline = "\r\n" if "\r\n" in text else "\n"
        found = _read_cues(text, cues, format)
        groups = list(_sentences(text, found) if cues_per_unit is None else _grouped(found, cues_per_unit, name))
        self.cues_per_unit = tuple(map(len, groups))
        """Number of cues that the sentence of each unit runs over."""
        self._text = SpanText(text, [_Sentence(group, escape, newline) for group in groups])

    @property
    def units(self) -> Sequence[Unit]:
        """Return the sentences, or the cues with tags inside of the text."""
        return self._text.units

    def fill(self, translations: Sequence[UnitTranslation | None]) -> bytes:
        """Return the file with translations; numbers, times, settings, notes and styles stay byte for byte."""
        return replace(self._file, text=self._text.fill(translations)).encode()


def _cues(text: str) -> Iterator[_Cue]:
    """Yield the cues: a line with times and the lines below it until an empty one."""
    timing: re.Match[str] | None = None
    lines: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        found = _TIMING.fullmatch(line[1])
        if timing is not None and line[1].strip() and not found:
            lines.append(line.span(1))
            continue
        if found and lines and text[slice(*lines[-1])].strip().isdecimal():
            lines.pop()  # the number of this cue, without an empty line above
        if timing is not None and lines:
            yield _Cue(_seconds(timing[1]), _seconds(timing[2]), tuple(lines))
        timing, lines = found, []


def _seconds(time: str) -> float:
    seconds = 0.0
    for part in time.replace(",", ".").split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


@final
class _Sentence:
    """Unit of one cue, or of several that a sentence runs over."""

    def __init__(self, cues: Sequence[tuple[_Cue, InlineUnit]], escape: Callable[[str], str], newline: str) -> None:
        self._cues, self._escape, self._newline = tuple(cues), escape, newline
        self.start, self.end = cues[0][1].start, cues[-1][1].end
        first = cues[0][1]
        source = functools.reduce(_join, (one.source for _, one in cues))
        self.unit = Unit(source=source, markup="xml" if first.has_codes else None)

    def write(self, translation: str, text: EditedText) -> str:
        """Return the translation, cut where one cue ends, and wrapped."""
        inline = self._cues[0][1]
        line = inline.render(translation, lambda piece: text.slice(piece.start, piece.end), self._escape)
        shares = [len(one.source) for _, one in self._cues]
        written: list[str] = []
        place = self.start
        for (cue, one), part in zip(self._cues, cut_text(line, shares), strict=True):
            written.append(text.slice(place, one.start))
            written.append(self._wrap(part, [end - start for start, end in cue.lines]))
            place = one.end
        return "".join(written)

    def _wrap(self, line: str, lengths: Sequence[int]) -> str:
        """Return a text as lines of about equal length; one line of a dialog stays one line."""
        limit = max(LINE_LENGTH, *lengths)
        count = math.ceil(len(_TAG.sub("", line)) / limit)
        return self._newline.join(cut_text(line, [1] * count)) if count > 1 else line


def cut_text(text: str, shares: Sequence[int]) -> list[str]:
    """Cut a text at spaces in proportions, preferably after a punctuation mark.

    Each part has at least one word. A text of fewer words than parts is the content of every part.
    """
    words = _WORDS.findall(text)
    words = [word for word in words if word.strip()]
    if len(shares) == 1:
        return [" ".join(text.split())]
    if len(words) < len(shares):
        return [text.strip()] * len(shares)
    ends = [0]
    for word in words:
        ends.append(ends[-1] + len(_TAG.sub("", word)))
    good = [place for place, word in enumerate(words) if _NOT_FIRST.match(word.lstrip()) is None]
    parts: list[str] = []
    begin, share, total = 0, 0, sum(shares)
    for number, part in enumerate(shares[:-1], start=1):
        share += part
        wanted = ends[-1] * share / total
        possible = range(begin + 1, len(words) - (len(shares) - number) + 1)

        def cost(stop: int, wanted: float = wanted) -> float:
            bonus = PUNCTUATION_BONUS if words[stop - 1][-1:] in ",;:.!?…–—" else 0
            is_bad = _NOT_FIRST.match(words[stop].lstrip()) is not None
            return abs(ends[stop] - wanted) - bonus + ends[-1] * is_bad

        near = {*_near(possible, possible, ends, wanted), *_near(good, possible, ends, wanted)}
        stop = min(sorted(near), key=cost)
        parts.append("".join(words[begin:stop]).strip())
        begin = stop
    return [*parts, "".join(words[begin:]).strip()]


def _near(places: Sequence[int], possible: range, ends: Sequence[int], wanted: float) -> Sequence[int]:
    """Return the possible ones of the places that are nearest to the wanted number of characters.

    Places that are farther than the nearest one by more than a punctuation mark counts are left out.
    """

    def count(place: int) -> int:
        return ends[place]

    low, high = bisect_left(places, possible.start), bisect_left(places, possible.stop)
    if low == high:
        return ()
    middle = bisect_left(places, wanted, low, high, key=count)
    nearest = ends[places[max(low, middle - 1)]], ends[places[min(high - 1, middle)]]
    start = bisect_left(places, nearest[0] - PUNCTUATION_BONUS, low, high, key=count)
    stop = bisect_right(places, nearest[1] + PUNCTUATION_BONUS, low, high, key=count)
    return places[max(start, middle - _MAX_NEAR) : min(stop, middle + _MAX_NEAR)]


_Lines = tuple[_Cue, InlineUnit]
"""Cue and one of its units: a cue of a dialog has several."""


def _read_cues(text: str, cues: Sequence[_Cue], format: Format) -> list[tuple[_Cue, list[InlineUnit]]]:  # noqa: A002
    decode = html.unescape if format == "vtt" else _same
    return [(cue, split_pieces(list(_pieces(text, cue, decode)))) for cue in cues]


def _sentences(text: str, found: Sequence[tuple[_Cue, list[InlineUnit]]]) -> Iterator[list[_Lines]]:
    """Yield the cues of each sentence."""
    ends = [_ends_sentence(units[-1].source) for _, units in found if units]
    is_punctuated = sum(ends) >= MIN_PUNCTUATED * len(ends)
    sentence: list[_Lines] = []
    for cue, units in found:
        alone = units[0] if len(units) == 1 and not units[0].has_codes else None
        if sentence and alone and _continues(text, sentence, (cue, alone), is_punctuated=is_punctuated):
            sentence.append((cue, alone))
            continue
        if sentence:
            yield sentence
        sentence = [(cue, alone)] if alone else []
        if not alone:
            yield from ([(cue, one)] for one in units)
    if sentence:
        yield sentence


def _grouped(
    found: Sequence[tuple[_Cue, list[InlineUnit]]], cues_per_unit: Sequence[int], name: str
) -> Iterator[list[_Lines]]:
    """Yield the cues of each sentence of another file."""
    flat = [(cue, one) for cue, units in found for one in units]
    if len(flat) != sum(cues_per_unit):
        raise DataError(
            f"{name}: has {counted(len(flat), 'texts')} of cues, and its source {sum(cues_per_unit):,}. Give the "
            "translation of the same file."
        )
    place = 0
    for count in cues_per_unit:
        yield flat[place : place + count]
        place += count


def _continues(text: str, sentence: Sequence[_Lines], following: _Lines, *, is_punctuated: bool) -> bool:
    """Return whether a cue continues the sentence of the cues before."""
    (before, first), (cue, unit) = sentence[-1], following
    if len(sentence) >= MAX_CUES or _ends_sentence(first.source) or not -1 <= cue.begin - before.end <= MAX_PAUSE:
        return False
    start = text[cue.lines[0][0] : unit.start]
    if start != text[before.lines[0][0] : first.start] or _SPEAKER.search(start):
        return False
    return unit.source[0].islower() or first.source[-1] in ",;" or is_punctuated


def _ends_sentence(text: str) -> bool:
    return _SENTENCE_END.match(text[::-1]) is not None


def _pieces(text: str, cue: _Cue, decode: Callable[[str], str]) -> Iterator[Piece]:
    """Yield the pieces of a cue: a line of another speaker begins a unit, other lines continue one."""
    speakers = [_SPEAKER.match(text[start:end]) for start, end in cue.lines]
    for number, ((start, end), speaker) in enumerate(zip(cue.lines, speakers, strict=True)):
        if number:
            kind: Kind = "break" if speaker else "text"
            last = cue.lines[number - 1]
            yield Piece(kind, last[1], start, text=_space(text[slice(*last)].rstrip(), text[start:end].lstrip()))
        place = start
        if speaker:
            place += speaker.end()
            yield Piece("void", start, place)
        for tag in _TAG.finditer(text, place, end):
            if tag.start() > place:
                yield from text_pieces(text[place : tag.start()], place, decode)
            yield _tag_piece(tag)
            place = tag.end()
        if end > place:
            yield from text_pieces(text[place:end], place, decode)


def _tag_piece(tag: re.Match[str]) -> Piece:
    kind: Kind = "void" if not tag["name"] else "close" if tag[0].startswith("</") else "open"
    return Piece(kind, tag.start(), tag.end(), name=(tag["name"] or "").lower())


def _join(first: str, second: str) -> str:
    """Return two texts as one, with a space between them unless they are Chinese or Japanese."""
    return f"{first}{_space(first, second)}{second}"


def _space(first: str, second: str) -> str:
    return "" if _WITHOUT_SPACE.match(first[-1:]) and _WITHOUT_SPACE.match(second[:1]) else " "


def _escape(text: str) -> str:
    return html.escape(" ".join(text.splitlines()), quote=False)


def _same(text: str) -> str:
    return text
