"""Inline content of a document: texts and codes between two block boundaries, and the units it is split into.

A reader of a format describes the content between two block boundaries as pieces: texts, tags that come in pairs, tags
that stand alone, and breaks. `split_pieces` makes units of them. A unit is an XML fragment, in which `<g id="1">…</g>`
stands for a pair of tags and `<x id="2"/>` for a tag without a partner; the ids lead back to the bytes of the tags.
"""

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, assert_never, final

Kind = Literal["text", "open", "close", "void", "protected", "break"]
WHITE = " \t\r\n\f"
"""White space that a reader of HTML or XML collapses; a no-break space is a character of the text."""
_TAG = re.compile(r'<(?:(?P<close>/g)|g id="(?P<open>\d{1,9})"[^<>]*|x id="(?P<void>\d{1,9})"\s*/)\s*>')


@final
@dataclass(frozen=True, slots=True)
class Piece:
    """Part of inline content, by its place in the text of the document."""

    kind: Kind
    start: int
    end: int
    text: str = ""
    """Characters of a `text` piece, or of a `protected` one, which takes part in a sentence but is not translated.

    A `close` piece has text if it is written otherwise once the text before it is translated.
    """
    name: str = ""
    """Name by which an `open` piece finds its `close` piece."""


@final
@dataclass(frozen=True)
class InlineUnit:
    """Unit of a document as pieces, of which the first and the last one are text, protected, or tags around text."""

    pieces: tuple[Piece, ...]
    mates: tuple[int, ...]
    """Index of the closing piece of each opening one; -1 for the others."""

    @property
    def start(self) -> int:
        """Return the place of the first character in the document."""
        return self.pieces[0].start

    @property
    def end(self) -> int:
        """Return the place behind the last character in the document."""
        return self.pieces[-1].end

    @property
    def has_codes(self) -> bool:
        """Return whether the fragment contains tags."""
        return any(piece.kind != "text" for piece in self.pieces)

    @property
    def source(self) -> str:
        """Return the text to translate: an XML fragment if it has codes, else plain text."""
        if not self.has_codes:
            return "".join(piece.text for piece in self.pieces)
        written: list[str] = []
        ids = {index: number for number, index in enumerate(self.codes, start=1)}
        for index, piece in enumerate(self.pieces):
            match piece.kind:
                case "text":
                    written.append(html.escape(piece.text, quote=False))
                case "open":
                    written.append(f'<g id="{ids[index]}">')
                case "close":
                    written.append("</g>")
                case "protected":
                    text = html.escape(piece.text, quote=False)
                    written.append(f'<g id="{ids[index]}" translate="no">{text}</g>')
                case "void":
                    written.append(f'<x id="{ids[index]}"/>')
                case "break":  # two words without a space would be read as one
                    written.append(f' <x id="{ids[index]}"/>')
                case _:
                    assert_never(piece.kind)
        return "".join(written)

    @property
    def codes(self) -> list[int]:
        """Return the indices of the pieces that have an id: the first one has the id 1."""
        return [index for index, piece in enumerate(self.pieces) if piece.kind not in ("text", "close")]

    def render(self, translation: str, write: Callable[[Piece], str], escape: Callable[[str], str]) -> str:
        """Return a translation in the format of the document.

        `write` returns the bytes of a code, and `escape` those of a text. A tag that the translation lacks is left out
        if it is one of a pair; a code that stands alone, such as an image, is added at the end. An unknown tag is text.
        """
        if not self.has_codes:
            return escape(translation)
        written: list[str] = []
        seen: set[int] = set()
        opened: list[int] = []
        codes = self.codes
        hidden = 0
        """Number of open elements inside of a protected one, whose own bytes are written already."""
        for kind, value in read_fragment(translation):
            number = int(value) if kind in ("open", "void") else 0
            index = codes[number - 1] if 0 < number <= len(codes) else -1
            piece = self.pieces[index] if index >= 0 else None
            if hidden:
                hidden += {"open": 1, "close": -1}.get(kind, 0)
            elif kind == "text":
                written.append(escape(value))
            elif kind == "close":
                mate = self.mates[opened.pop()] if opened else -1
                written.append(write(self.pieces[mate]) if mate >= 0 else "")
            elif piece is not None and piece.kind in ("void", "protected", "break"):
                written.append(write(piece) if index not in seen else "")
                hidden = int(kind == "open")
            elif kind == "open":
                known = piece is not None and piece.kind == "open"
                written.append(write(piece) if piece is not None and known else "")
                opened.append(index if known else -1)
            seen.add(index)
        written.extend(write(self.pieces[self.mates[index]]) for index in reversed(opened) if index >= 0)
        lost = (piece for number, piece in enumerate(self.pieces) if number not in seen)
        written.extend(write(piece) for piece in lost if piece.kind in ("void", "protected", "break"))
        return "".join(written)


def read_fragment(fragment: str) -> Iterator[tuple[Literal["text", "open", "close", "void"], str]]:
    """Yield the texts and tags of a translated fragment: the characters of a text, the id of a tag."""
    end = 0
    for tag in _TAG.finditer(fragment):
        if tag.start() > end:
            yield "text", html.unescape(fragment[end : tag.start()])
        if tag["close"]:
            yield "close", ""
        elif tag["open"]:
            yield "open", tag["open"]
        else:
            yield "void", tag["void"]
        end = tag.end()
    if end < len(fragment):
        yield "text", html.unescape(fragment[end:])


def split_pieces(pieces: Sequence[Piece]) -> list[InlineUnit]:
    """Return the units of the content between two block boundaries.

    A break, and a tag whose partner is outside of the content, ends a unit. Inside of a pair of tags they do not, since
    splitting there would tear the pair apart. White space, codes without text and pairs of tags around the whole text
    are not part of a unit. A text without letters is no unit.
    """
    mates = _match(pieces)
    openers = {mate: number for number, mate in enumerate(mates) if mate >= 0}
    some = list(pieces)
    ends: list[int] = []
    depth = 0
    for number, piece in enumerate(pieces):
        if mates[number] >= 0:
            depth += 1
        elif number in openers:
            depth -= 1
        elif piece.kind in ("open", "close", "break"):
            if not depth:
                ends.append(number)
            elif piece.kind != "break":
                some[number] = replace(piece, kind="void")
    units: list[InlineUnit] = []
    begin = 0
    for end in [*ends, len(some)]:
        start, stop = _trim(some, mates, openers, begin, end)
        if any(piece.kind == "text" and any(map(str.isalpha, piece.text)) for piece in some[start:stop]):
            own = (mate - start if mate >= 0 else -1 for mate in mates[start:stop])
            units.append(InlineUnit(tuple(some[start:stop]), tuple(own)))
        begin = end + 1
    return units


def _match(pieces: Sequence[Piece]) -> list[int]:
    """Return the index of the closing piece of each opening one, -1 for all others."""
    mates = [-1] * len(pieces)
    stack: list[int] = []
    opened: dict[str, int] = {}
    """Number of open pieces of a name in the stack, so that a tag without a partner does not search the stack."""
    for number, piece in enumerate(pieces):
        if piece.kind == "open":
            stack.append(number)
            opened[piece.name] = opened.get(piece.name, 0) + 1
        elif piece.kind == "close" and opened.get(piece.name):
            while pieces[stack[-1]].name != piece.name:
                opened[pieces[stack.pop()].name] -= 1
            opened[piece.name] -= 1
            mates[stack.pop()] = number
    return mates


def _trim(
    pieces: Sequence[Piece], mates: Sequence[int], openers: Mapping[int, int], begin: int, end: int
) -> tuple[int, int]:
    """Return the range of pieces without white space, lone codes, and pairs of tags around everything or nothing."""
    filled = [0]
    """Number of pieces with text before each piece, from `first`."""
    first = begin
    for piece in pieces[begin:end]:
        filled.append(filled[-1] + (piece.kind in ("text", "protected") and piece.text.strip(WHITE) != ""))

    def is_empty(start: int, stop: int) -> bool:
        return filled[start - first] == filled[stop - first]

    while begin < end:
        head, tail = pieces[begin], pieces[end - 1]
        if head.kind == "open" and mates[begin] == end - 1 and not tail.text:
            begin, end = begin + 1, end - 1
        elif head.kind in ("text", "void", "break") and is_empty(begin, begin + 1):
            begin += 1
        elif tail.kind in ("text", "void", "break") and is_empty(end - 1, end):
            end -= 1
        elif head.kind == "open" and is_empty(begin, mates[begin]):
            begin = mates[begin] + 1
        elif tail.kind == "close" and is_empty(openers[end - 1], end):
            end = openers[end - 1]
        else:
            break
    return begin, end


def text_pieces(raw: str, start: int, decode: Callable[[str], str]) -> Iterator[Piece]:
    """Yield the pieces of a text of the document: its characters, and the white space before and after them."""
    body = raw.strip(WHITE)
    if not body:
        yield Piece("text", start, start + len(raw), " ")
        return
    lead = len(raw) - len(raw.lstrip(WHITE))
    if lead:
        yield Piece("text", start, start + lead, " ")
    stop = start + lead + len(body)
    yield Piece("text", start + lead, stop, decode(body))
    if stop < start + len(raw):
        yield Piece("text", stop, start + len(raw), " ")
