"""Inline content of Markdown by place: emphasis, links, code spans, images and breaks.

Source: CommonMark 0.31, chapter 6 (inlines), and GitHub Flavored Markdown. The parser of markdown-it gives no places of
inline tokens: here its rules note where they begin and end.
"""

import html
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, final

from markdown_it import MarkdownIt, rules_inline
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from dragoman.data.documents.inline_units import Piece, text_pieces

_RULES: Final[dict[str, Callable[[StateInline, bool], bool]]] = {
    "newline": rules_inline.newline,
    "escape": rules_inline.escape,
    "backticks": rules_inline.backtick,
    "strikethrough": rules_inline.strikethrough.tokenize,
    "emphasis": rules_inline.emphasis.tokenize,
    "link": rules_inline.link,
    "image": rules_inline.image,
    "autolink": rules_inline.autolink,
    "html_inline": rules_inline.html_inline,
    "entity": rules_inline.entity,
}
_FOUND: Final = "found rules"
"""Key of the environment of the parser with what the rules noted."""
_OTHER_CODE = re.compile(
    r"\[\^[^\]\s]{1,80}\]:?|\A\[[ xX]\](?=\s)|\A\[![A-Z]{1,20}\]|\{[{%][^{}\n]{0,200}[%}]\}|\{[#.:][^{}\n]{0,80}\}"
)
"""Footnotes, check boxes and alerts of GitHub; templates of Jekyll, Hugo and Jinja; attributes of Pandoc."""
_HTML_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*+)[^>]*?(/?)>", re.DOTALL)


@final
@dataclass
class _Noted:
    """Notes of the rules about one text."""

    source: str
    events: list[tuple[int, int, str, int]] = field(default_factory=list)
    """Begin, end, rule, and the end of the label of a link."""
    delimiters: list[tuple[Token, int]] = field(default_factory=list)
    """Characters that may begin or end emphasis, with their places."""


def markdown_parser() -> MarkdownIt:
    """Return a parser of GitHub's Markdown whose inline rules note their places."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for name, rule in _RULES.items():
        parser.inline.ruler.at(name, _noting(name, rule))
    parser.inline.ruler2.disable("fragments_join")  # it would join the delimiters whose places are noted
    return parser


def inline_tokens(parser: MarkdownIt, raw: str, references: dict[str, Any]) -> list[Token]:
    """Return the tokens of inline content."""
    tokens: list[Token] = []
    parser.inline.parse(raw, parser, {"references": references}, tokens)
    return tokens


def inline_pieces(parser: MarkdownIt, raw: str, references: dict[str, Any]) -> list[Piece]:
    """Return the pieces of inline content. A line end is a space; a hard line break is a break."""
    noted = _Noted(raw)
    parser.inline.parse(raw, parser, {"references": references, _FOUND: noted}, [])
    codes = sorted([*_codes(noted), *_emphasis(noted)], key=lambda piece: (piece.start, piece.end))
    pieces: list[Piece] = []
    place = 0
    for code in codes:
        if code.start < place:
            continue  # inside of a code span, or of another code without text of its own
        pieces.extend(_texts(raw, place, code.start))
        pieces.append(code)
        place = code.end
    pieces.extend(_texts(raw, place, len(raw)))
    return pieces


def _noting(name: str, rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    def apply(state: StateInline, silent: bool) -> bool:
        begin, count = state.pos, len(state.tokens)
        done = rule(state, silent)
        noted = state.env.get(_FOUND)
        if not done or silent or noted is None or state.src is not noted.source:
            return done
        if name in ("emphasis", "strikethrough"):
            place = state.pos
            for token in reversed(state.tokens[count:]):
                if token.type == "text" and place > begin:
                    place -= len(token.content)
                    noted.delimiters.append((token, place))
        elif name == "newline" or len(state.tokens) > count:
            label = state.md.helpers.parseLinkLabel(state, begin, True) if name == "link" else -1
            kind = state.tokens[-1].type if len(state.tokens) > count else ""
            noted.events.append((begin, state.pos, kind if name in ("newline", "escape", "backticks") else name, label))
        return done

    return apply


def _codes(noted: _Noted) -> Iterator[Piece]:
    """Yield the pieces of what the rules noted, apart from emphasis."""
    raw = noted.source
    for begin, end, kind, label in noted.events:
        inside = raw[begin:end]
        match kind:
            case "link":
                name = f"link {begin}"
                yield Piece("open", begin, begin + 1, name=name)
                is_implicit = raw[label:end] in ("]", "][]")  # the text of the link is the name of its reference
                yield Piece("close", label, end, raw[begin + 1 : label] if is_implicit else "", name)
            case "code_inline":
                text = inside.strip("`").replace("\n", " ").strip()
                yield Piece("protected", begin, end, text=text, name="code")
            case "autolink":
                yield Piece("protected", begin, end, text=inside[1:-1])
            case "image":
                yield Piece("void", begin, end, name="image")
            case "html_inline":
                yield _html_piece(inside, begin, end)
            case "hardbreak" | "softbreak":
                begin -= len(raw[:begin]) - len(raw[:begin].rstrip(" "))
                yield Piece("break" if kind == "hardbreak" else "text", begin, end, text=" ")
            case "text_special":
                yield Piece("text", begin, end, text=inside[1:] if inside[1:] in string.punctuation else inside)
            case "entity":
                yield Piece("text", begin, end, text=html.unescape(inside))
            case _:
                pass


def _html_piece(tag: str, begin: int, end: int) -> Piece:
    found = _HTML_TAG.fullmatch(tag)
    if found is None or found[3] or found[2].lower() in ("br", "img", "input", "wbr"):
        is_break = found is not None and found[2].lower() == "br"
        return Piece("break" if is_break else "void", begin, end)
    return Piece("close" if found[1] else "open", begin, end, name=f"html {found[2].lower()}")


def _emphasis(noted: _Noted) -> Iterator[Piece]:
    """Yield the tags of emphasis: two characters for strong emphasis and strikethrough, one for emphasis."""
    for token, place in noted.delimiters:
        match token.type:
            case "strong_open":
                yield Piece("open", place - 1, place + 1, name="strong")
            case "strong_close":
                yield Piece("close", place, place + 2, name="strong")
            case "em_open":
                yield Piece("open", place, place + 1, name="em")
            case "em_close":
                yield Piece("close", place, place + 1, name="em")
            case "s_open":
                yield Piece("open", place, place + 2, name="s")
            case "s_close":
                yield Piece("close", place, place + 2, name="s")
            case _:
                pass


def _texts(raw: str, begin: int, end: int) -> Iterator[Piece]:
    """Yield the pieces of text between codes, with the codes of other programs in it."""
    place = begin
    for code in _OTHER_CODE.finditer(raw, begin, end):
        if code.start() > place:
            yield from text_pieces(raw[place : code.start()], place, str)
        yield Piece("void", code.start(), code.end())
        place = code.end()
    if end > place:
        yield from text_pieces(raw[place:end], place, str)
