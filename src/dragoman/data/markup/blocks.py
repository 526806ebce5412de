"""Blocks of a fragment: block elements split a text, inline elements do not."""

from dataclasses import dataclass, field
from typing import assert_never, final

from dragoman.data.markup.elements import check_depth
from dragoman.data.markup.html_elements import BLOCK
from dragoman.data.markup.tags import MarkupRules, Tag, decode_text, has_text, read_tags


def split_blocks(content: str, rules: MarkupRules) -> tuple[str, ...]:
    """Return the pieces of a fragment: every second one is an inline fragment to translate, without outer white space.

    The other pieces are markup. Joined, the pieces are the content, byte for byte, which may be malformed.
    """
    pieces = list(read_tags(content, rules.markup))
    splitting = _splitting_elements(pieces, rules)
    breaks = rules.markup == "html" and rules.outline_detection and "br" not in rules.non_splitting
    found, inline, ignored, opened = [list[str]()], list[str](), _Ignored(), _OpenElements()
    for piece in pieces:
        source = piece if isinstance(piece, str) else piece.source
        splits = ignored.is_open
        if isinstance(piece, Tag):
            ignored.read(piece, rules, splitting)
            opened.read(piece)
            splits |= piece.name in splitting or (piece.name == "br" and breaks and not opened.names)
        if splits or ignored.is_open:
            _flush(found, "".join(inline), rules)
            inline, opened = [], _OpenElements()
            found[-1].append(source)
        else:
            inline.append(source)
    _flush(found, "".join(inline), rules)
    return tuple(map("".join, found))


@dataclass
class _OpenElements:
    """Names of the open inline elements of a block; a line break inside of one does not split the text."""

    names: list[str] = field(default_factory=list)

    def read(self, tag: Tag) -> None:
        if tag.kind == "start":
            self.names.append(tag.name)
            check_depth(len(self.names))
        elif tag.kind == "end" and tag.name in self.names:
            while self.names.pop() != tag.name:
                pass


@dataclass
class _Ignored:
    """Names of open elements, from the outermost block whose text is not translated."""

    open_elements: list[str] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return bool(self.open_elements)

    def read(self, tag: Tag, rules: MarkupRules, splitting: frozenset[str]) -> None:
        match tag.kind:
            case "start":
                if self.open_elements or (tag.name in splitting and rules.is_ignored(tag.name, tag.source)):
                    self.open_elements.append(tag.name)
                    check_depth(len(self.open_elements))
            case "end":
                if tag.name in self.open_elements:
                    place = len(self.open_elements) - 1 - self.open_elements[::-1].index(tag.name)
                    del self.open_elements[place:]
            case "empty" | "comment":
                pass
            case _:
                assert_never(tag.kind)


def _flush(found: list[list[str]], inline: str, rules: MarkupRules) -> None:
    """Add an inline fragment to the pieces, or to the markup before it if it has no words."""
    if not _has_words(inline, rules):
        found[-1].append(inline)
        return
    text = inline.strip()
    begin = inline.index(text)
    found[-1].append(inline[:begin])
    found += [text], [inline[begin + len(text) :]]


def _has_words(inline: str, rules: MarkupRules) -> bool:
    """Return whether a fragment has letters outside of elements that are not translated."""
    ignored = _Ignored()
    for piece in read_tags(inline, rules.markup):
        if isinstance(piece, Tag):
            ignored.read(piece, rules, frozenset([piece.name]))
        elif not ignored.is_open and any(map(str.isalpha, decode_text(piece, rules.markup))):
            return True
    return False


def _splitting_elements(pieces: list[Tag | str], rules: MarkupRules) -> frozenset[str]:
    if not rules.outline_detection:
        return rules.splitting - rules.non_splitting
    found = BLOCK if rules.markup == "html" else _outline(pieces)
    return (found | rules.splitting) - rules.non_splitting


@final
@dataclass
class _Element:
    """Open element of XML: the names of its children, and whether text stands next to them."""

    children: set[str] = field(default_factory=set)
    has_text: bool = False


def _outline(pieces: list[Tag | str]) -> frozenset[str]:
    """Return the elements of XML that never stand next to text, so that they are the structure of a document."""
    names: set[str] = set()
    inline: set[str] = set()
    opened: list[tuple[str, _Element]] = [("", _Element())]

    def close() -> None:
        _, element = opened.pop()
        if element.has_text:
            inline.update(element.children)

    for piece in pieces:
        if isinstance(piece, str):
            opened[-1][1].has_text |= has_text(piece)
        elif piece.kind in ("start", "empty"):
            names.add(piece.name)
            opened[-1][1].children.add(piece.name)
            if piece.kind == "start":
                opened.append((piece.name, _Element()))
                check_depth(len(opened) - 1)
        elif piece.kind == "end" and any(name == piece.name for name, _ in opened):
            while opened[-1][0] != piece.name:
                close()
            close()
    while opened:
        close()
    return frozenset(names - inline)
