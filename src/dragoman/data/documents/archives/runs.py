"""Paragraphs of DOCX and PPTX: runs of equally formatted text become one text with inline codes, and runs again.

Source: ECMA-376-1 (Office Open XML), 17.3 (WordprocessingML paragraphs), 17.16 (fields), 21.1.2 (DrawingML text). Word
cuts text into runs for its own purposes, such as spelling: runs with the same formatting are one text here.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

from dragoman.data.documents.archives.xml_syntax import Element, escape_xml, find_elements, unescape_xml
from dragoman.data.documents.document import Unit
from dragoman.data.documents.inline_units import WHITE, InlineUnit, Kind, Piece, split_pieces
from dragoman.data.documents.span_document import EditedText

_IRRELEVANT = re.compile(
    r"<\w+:(?:lang|noProof|webHidden)\b[^<>]*/>|\s(?:lang|altLang|dirty|err|noProof|smtClean|smtId|\w+:rsid\w*)=\"[^\"]*\""
)
"""Properties of a run that do not change how it looks: language, spelling marks, revision numbers."""
_FIELD = re.compile(r"""\bfldCharType\s*=\s*["'](begin|separate|end)["']""")
_HYPERLINK = re.compile(r"\s*HYPERLINK\b")


@final
@dataclass(frozen=True)
class RunNames:
    """Names of elements, with the prefixes that a file uses."""

    paragraph: str
    properties: str
    run: str
    run_properties: str
    text: str
    breaks: frozenset[str]
    containers: frozenset[str] = frozenset()
    """Elements around runs whose text is a part of the paragraph, such as links and inserted text."""
    controls: frozenset[str] = frozenset()
    """Elements with the runs in a grandchild: content controls."""
    dropped: frozenset[str] = frozenset()
    """Elements that a changed paragraph does without, such as marks of spelling errors."""
    field_character: str = ""
    field_code: str = ""
    space: str = ""
    """Attribute of a text that keeps its white space."""


@final
@dataclass(frozen=True)
class _Part:
    """Bytes of a code: outside of runs, or as the content of a run with some properties."""

    start: int
    end: int
    properties: str | None


@final
@dataclass
class _Content:
    """Pieces of a paragraph and what is needed to write them."""

    pieces: list[Piece] = field(default_factory=list)
    parts: dict[Piece, tuple[_Part, ...]] = field(default_factory=dict)
    formats: dict[Piece, str] = field(default_factory=dict)
    """Run properties of a text, and of the texts in a container."""
    run_starts: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """For the place of a piece in a run: the place of the run, and whether the piece is its first one."""
    run_ends: dict[int, tuple[int, bool, str]] = field(default_factory=dict)
    """For the end of a piece in a run: the end of the run, whether the piece is its last one, the properties."""
    contexts: dict[Piece, str] = field(default_factory=dict)
    """Run properties of text at the place of each piece."""
    nested: list[Element] = field(default_factory=list)
    """Paragraphs inside of codes: those of text boxes."""


def read_paragraphs(text: str, names: RunNames) -> Iterator["RunUnit"]:
    """Yield the units of all paragraphs of a file."""
    for outer in find_elements(text, frozenset([names.paragraph])):
        stack = [outer]
        while stack:
            content = _read_paragraph(text, stack.pop(), names)
            yield from (RunUnit(one, content, names) for one in split_pieces(content.pieces))
            stack.extend(content.nested)


@final
class RunUnit:
    """Unit of a paragraph: all of it, or a part between tabs and line breaks."""

    def __init__(self, inline: InlineUnit, content: _Content, names: RunNames) -> None:
        self._inline, self._content, self._names = inline, content, names
        self.start, self.end = inline.start, inline.end
        self._before = self._after = ""
        run_start, is_first = content.run_starts.get(self.start, (self.start, True))
        run_end, is_last, properties = content.run_ends.get(self.end, (self.end, True, ""))
        if is_first:
            self.start = run_start
        else:
            self._before = f"</{names.run}>"
        if is_last:
            self.end = run_end
        else:
            self._after = f"<{names.run}>{properties}"
        source = inline.source
        body = source.strip(WHITE)
        self._lead, self._tail = source[: source.index(body)], source[source.index(body) + len(body) :]
        self.unit = Unit(source=body, markup="xml" if inline.has_codes else None)

    def write(self, translation: str, text: EditedText) -> str:
        """Return the runs of a translation."""
        names, content = self._names, self._content
        formats = [content.contexts[self._inline.pieces[0]]]

        def run(properties: str, inner: str) -> str:
            return f"<{names.run}>{properties}{inner}</{names.run}>"

        def code(piece: Piece) -> str:
            if piece.kind == "open":
                formats.append(content.formats[piece])
            elif piece.kind == "close":
                formats.pop()
            written: list[str] = []
            for part in content.parts.get(piece, ()):
                inner = text.slice(part.start, part.end)
                written.append(inner if part.properties is None else run(part.properties, inner))
            return "".join(written)

        def characters(translated: str) -> str:
            inner = escape_xml(" ".join(translated.splitlines()) if "\n" in translated else translated)
            return run(formats[-1], f"<{names.text}{names.space}>{inner}</{names.text}>") if inner else ""

        complete = f"{self._lead}{translation}{self._tail}"
        return self._before + self._inline.render(complete, code, characters) + self._after


def _read_paragraph(text: str, paragraph: Element, names: RunNames) -> _Content:
    content = _Content()
    reader = _ParagraphReader(text, names, content)
    reader.read(paragraph.children)
    if names.field_character:
        _join_fields(content)
    _add_formats(content)
    return content


@final
class _ParagraphReader:
    """Collects the pieces of a paragraph."""

    def __init__(self, text: str, names: RunNames, content: _Content) -> None:
        self._text, self._names, self._content = text, names, content

    def read(self, children: Sequence[Element]) -> None:
        names = self._names
        for one in children:
            if one.name in (names.properties, "", "?") or one.name in names.dropped:
                continue
            if one.name == names.run:
                self._read_run(one)
            elif one.name in names.containers:
                self._read_container(one, one)
            elif one.name in names.controls:
                inner = next((child for child in one.children if child.name == f"{one.name}Content"), None)
                if inner is None:
                    self._add_code(one, None)
                else:
                    self._read_container(one, inner)
            else:
                self._add_code(one, None, "break" if one.name in names.breaks else "void")

    def _read_container(self, outer: Element, inner: Element) -> None:
        for kind, start, end in (("open", outer.start, inner.inner_start), ("close", inner.inner_end, outer.end)):
            if kind == "close":
                self.read(inner.children)
            if start < end:  # an element without an end tag has no content
                piece = Piece("open" if kind == "open" else "close", start, end, name=f"{outer.name} {outer.start}")
                self._add(piece, None)
        if outer.inner_end == outer.end and outer.inner_start == outer.end:
            self._content.pieces[-1] = piece = Piece("void", outer.start, outer.end)
            self._add_parts(piece, None)

    def _read_run(self, run: Element) -> None:
        names = self._names
        properties = next(
            (self._text[one.start : one.end] for one in run.children if one.name == names.run_properties), ""
        )
        inner = [one for one in run.children if one.name not in (names.run_properties, "", "?")]
        for number, one in enumerate(inner):
            self._content.run_starts[one.start] = (run.start, number == 0)
            self._content.run_ends[one.end] = (run.end, number == len(inner) - 1, properties)
            if one.name == names.text:
                raw = self._text[one.inner_start : one.inner_end]
                self._add(Piece("text", one.start, one.end, unescape_xml(raw)), properties)
            elif one.name == names.field_character:
                found = _FIELD.search(self._text[one.start : one.inner_start])
                self._add_code(one, properties, name=found[1] if found else "")
            elif one.name == names.field_code:
                code = unescape_xml(self._text[one.inner_start : one.inner_end])
                self._add_code(one, properties, name=f"code {code}")
            elif one.name not in names.dropped:
                self._add_code(one, properties, "break" if one.name in names.breaks else "void")

    def _add_code(self, one: Element, properties: str | None, kind: Kind = "void", name: str = "") -> None:
        self._add(Piece(kind, one.start, one.end, name=name), properties)
        self._content.nested.extend(one.find(self._names.paragraph))

    def _add(self, piece: Piece, properties: str | None) -> None:
        self._content.pieces.append(piece)
        if piece.kind == "text":
            self._content.formats[piece] = properties or ""
        self._add_parts(piece, properties)

    def _add_parts(self, piece: Piece, properties: str | None) -> None:
        self._content.parts[piece] = (_Part(piece.start, piece.end, properties),)


def _join_fields(content: _Content) -> None:
    """Make one code of each field that begins and ends in a paragraph; the text of a link stays text."""
    begins: list[int] = []
    pieces = content.pieces
    number = 0
    while number < len(pieces):
        if pieces[number].name == "begin":
            begins.append(number)
        elif pieces[number].name == "end" and begins:
            begin = begins.pop()
            field_pieces = pieces[begin : number + 1]
            joined = _join_field(field_pieces, content)
            pieces[begin : number + 1] = joined
            number = begin + len(joined) - 1
        number += 1


def _join_field(pieces: Sequence[Piece], content: _Content) -> list[Piece]:
    separate = next((number for number, piece in enumerate(pieces) if piece.name == "separate"), None)
    code = "".join(piece.name[5:] for piece in pieces[:separate] if piece.name.startswith("code "))
    depth = 0
    for piece in pieces:
        depth += {"open": 1, "close": -1}.get(piece.kind, 0)
        if depth < 0:
            break
    if depth:
        return [_renamed(piece, content) for piece in pieces]
    if separate is not None and _HYPERLINK.match(code) and not any(one.kind == "open" for one in pieces[:separate]):
        name = f"field {pieces[0].start}"
        begin = Piece("open", pieces[0].start, pieces[separate].end, name=name)
        end = Piece("close", pieces[-1].start, pieces[-1].end, name=name)
        content.parts[begin] = tuple(part for piece in pieces[: separate + 1] for part in content.parts[piece])
        content.parts[end] = content.parts[pieces[-1]]
        return [begin, *pieces[separate + 1 : -1], end]
    whole = Piece("void", pieces[0].start, pieces[-1].end)
    content.parts[whole] = tuple(part for piece in pieces for part in content.parts[piece])
    return [whole]


def _renamed(piece: Piece, content: _Content) -> Piece:
    """Return a piece of a field that is left as it is: a code without a role."""
    if piece.kind != "void":
        return piece
    plain = Piece("void", piece.start, piece.end)
    content.parts[plain] = content.parts[piece]
    return plain


def _add_formats(content: _Content) -> None:
    """Join texts of one format, and put tags around those in another one than most of the text around them."""
    groups = _formats_by_container(content)
    result: list[Piece] = []
    stack = [groups[None]]
    for piece in content.pieces:
        if piece.kind == "text":
            _add_text(piece, stack[-1], result, content)
            continue
        content.contexts[piece] = stack[-1]
        result.append(piece)
        if piece.kind == "open":
            stack.append(groups.get(piece, stack[-1]))
            content.formats[piece] = stack[-1]
        elif piece.kind == "close" and len(stack) > 1:
            stack.pop()
    content.pieces = result


def _formats_by_container(content: _Content) -> dict[Piece | None, str]:
    """Return the format of most characters, white space not counted, in each container and in the paragraph (None).

    The order of texts does not decide between two formats, so that a translation has the format of its source.
    """
    counts: dict[Piece | None, Counter[str]] = {None: Counter()}
    first: dict[str, str] = {"": ""}
    stack: list[Piece | None] = [None]
    for piece in content.pieces:
        if piece.kind == "text":
            looks = _looks(content.formats[piece])
            first.setdefault(looks, content.formats[piece])
            counts[stack[-1]][looks] += len("".join(piece.text.split()))
        elif piece.kind == "open":
            stack.append(piece)
            counts[piece] = Counter()
        elif piece.kind == "close" and len(stack) > 1:
            stack.pop()

    def most(some: Counter[str]) -> str:
        return first[min(some, key=lambda looks: (-some[looks], looks))] if some else ""

    return {piece: most(some) for piece, some in counts.items()}


def _add_text(piece: Piece, base: str, result: list[Piece], content: _Content) -> None:
    """Append a text: to the text before it, or as a new one, with tags around it where its format is another one."""
    format_ = content.formats[piece]
    last = result[-1] if result else None
    text = last if last is not None and last.kind == "text" else None
    if last is not None and last.name.startswith("format ") and last.kind == "close":
        text = result[-2]
    if text is not None:
        before = content.formats[text]
        if _looks(before) == _looks(format_) or not piece.text.strip():
            joined = Piece("text", text.start, piece.end, text.text + piece.text)
            content.formats[joined], content.contexts[joined] = before, content.contexts[text]
            result[result.index(text, len(result) - 2)] = joined
            if last is not text and last is not None:
                closing = Piece("close", piece.end, piece.end, name=last.name)
                content.contexts[closing] = before
                result[-1] = closing
            return
    content.contexts[piece] = format_
    if _looks(format_) == _looks(base) or not piece.text.strip():
        result.append(piece)
        return
    name = f"format {piece.start}"
    opening, closing = (
        Piece("open", piece.start, piece.start, name=name),
        Piece("close", piece.end, piece.end, name=name),
    )
    content.contexts[opening], content.contexts[closing] = base, format_
    content.formats[opening] = format_
    result.extend([opening, piece, closing])


@functools.lru_cache(maxsize=4096)
def _looks(properties: str) -> str:
    """Return the properties of a run that change how it looks; equal ones are one format."""
    return re.sub(r"<(\w+:\w+)\s*(?:/>|></\1>)", _drop_empty, _IRRELEVANT.sub("", properties))


def _drop_empty(found: re.Match[str]) -> str:
    """Return an empty element, or nothing if it is an empty list of properties."""
    return "" if found[1].endswith(":rPr") else found[0]
