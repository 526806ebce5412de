"""Texts between the tags of HTML and XML: they are translated, and everything else stays byte for byte."""

import html
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Self, final

Markup = Literal["html", "xml"]
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<![^>]*(?:>|\Z)|<\?.*?(?:>|\Z)"
    r"|</?(?P<name>[A-Za-z_][^\s<>/]*)(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>",
    re.DOTALL,
)
"""Markup that is no text; a comment without an end reaches to the end, so that the search takes linear time."""
_NOT_TRANSLATED = frozenset(["script", "style", "code", "pre", "textarea", "kbd", "samp", "var"])
"""Elements of HTML whose text is not translated."""
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
"""Elements of HTML without an end tag."""
_NO_TRANSLATION = re.compile(r"\btranslate\s*=\s*[\"']?no\b|\bclass\s*=\s*(?:\"[^\"]*|'[^']*|)\bnotranslate\b", re.I)


@final
@dataclass(frozen=True)
class MarkupText:
    """A fragment of markup as pieces, every second of which is a text to translate."""

    pieces: tuple[str, ...]

    @classmethod
    def parse(cls, content: str, *, markup: Markup = "html", ignored: Collection[str] = ()) -> Self:
        """Split a fragment, which may be malformed. The text of elements in `ignored` is not translated."""
        splitter = _Splitter(markup, frozenset(ignored))
        splitter.read(content)
        return cls(tuple(splitter.pieces))

    @property
    def texts(self) -> list[str]:
        """Texts to translate, without character references and without the white space around them."""
        return [html.unescape(piece).strip() for piece in self.pieces[1::2]]

    def fill(self, translations: Sequence[str]) -> str:
        """Return the fragment with translations in the place of its texts."""
        result = list(self.pieces)
        for number, (text, translation) in enumerate(zip(self.texts, translations, strict=True)):
            if translation != text:
                piece = result[2 * number + 1]
                begin, end = piece[: len(piece) - len(piece.lstrip())], piece[len(piece.rstrip()) :]
                result[2 * number + 1] = f"{begin}{html.escape(translation, quote=False)}{end}"
        return "".join(result)


class _Splitter:
    """Collects the pieces of a fragment: markup, text, markup, and so on."""

    def __init__(self, markup: Markup, ignored: frozenset[str]) -> None:
        self.pieces = [""]
        self._is_html = markup == "html"
        self._ignored = ignored | (_NOT_TRANSLATED if self._is_html else frozenset())
        self._inside: list[str] = []
        """Open elements from the outermost whose text is not translated."""

    def read(self, content: str) -> None:
        end = 0
        for tag in _TAG.finditer(content):
            self._add_text(content[end : tag.start()])
            self._add_markup(tag[0])
            if tag["name"] is not None:
                self._follow(tag["name"].lower() if self._is_html else tag["name"], tag[0])
            end = tag.end()
        self._add_text(content[end:])

    def _follow(self, name: str, tag: str) -> None:
        """Note where the text of an element is not translated, and where it ends."""
        if tag.startswith("</"):
            if name in self._inside:
                del self._inside[len(self._inside) - 1 - self._inside[::-1].index(name) :]
        elif tag.endswith("/>") or (self._is_html and name in _VOID):
            return
        elif self._inside or name in self._ignored or (self._is_html and _NO_TRANSLATION.search(tag)):
            self._inside.append(name)

    def _add_markup(self, markup: str) -> None:
        if len(self.pieces) % 2 == 0:
            self.pieces.append("")
        self.pieces[-1] += markup

    def _add_text(self, text: str) -> None:
        if self._inside or not html.unescape(text).strip():
            self._add_markup(text)
        else:
            self.pieces.append(text)
