"""Pairs of tags in plain texts of files, such as `<a href="%s">here</a>` in PO, which stand around translated words."""

import html
import re
from dataclasses import dataclass
from typing import Self, final

from dragoman.data.markup.elements import pair_tags
from dragoman.data.markup.tags import MarkupRules
from dragoman.data.placeholders.recognition import find_placeholders
from dragoman.errors import DataError

_HTML = MarkupRules("html")
_CODE = re.compile(r"""<g id="(?P<number>\d+)"(?P<kept> translate="no")?>|</g>""")
_BY_ORDER = re.compile(r"%(?![%(]|\d+\$).*|\{(?:![rsa])?(?::.*)?\}", re.DOTALL)
"""Placeholder that gets its value by its order."""


@final
@dataclass(frozen=True, slots=True)
class TaggedText:
    """Plain text whose pairs of tags are codes of an XML fragment: `a <g id="0">b</g>`.

    Other tags stay characters of the text, which are protected as placeholders: they may be the name of a value.
    """

    fragment: str
    codes: tuple[tuple[str, str], ...]
    """Start and end tag of each pair; of an element that is not translated, all of it and nothing."""

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Return a text with codes; None if it has no pair of tags with words between them."""
        if "</" not in text:
            return None
        try:
            parts, _ = pair_tags(text, _HTML)
        except DataError:  # nested too deep
            return None
        codes: list[tuple[str, str]] = []
        written: list[str] = []
        for part in parts:
            if part.kind == "start":
                written.append(f'<g id="{len(codes)}">')
                codes.append((part.source, parts[part.partner].source))
            elif part.kind == "end":
                written.append("</g>")
            elif part.kind == "empty" and part.text:
                written.append(f'<g id="{len(codes)}" translate="no">{html.escape(part.text, quote=False)}</g>')
                codes.append((part.source, ""))
            else:
                written.append(html.escape(part.source, quote=False))
        return cls("".join(written), tuple(codes)) if codes else None

    def restore(self, fragment: str) -> str:
        """Return the text of a translated fragment."""
        written: list[str] = []
        opened: list[tuple[str, bool]] = []
        end = hidden = 0
        for code in _CODE.finditer(fragment):
            if not hidden:
                written.append(html.unescape(fragment[end : code.start()]))
            end = code.end()
            if code["number"] is None:
                closing, is_kept = opened.pop()
                hidden -= is_kept
                written.append("" if hidden else closing)
            else:
                start, closing = self.codes[int(code["number"])]
                written.append("" if hidden else start)
                is_kept = code["kept"] is not None
                hidden += is_kept
                opened.append((closing, is_kept))
        return "".join([*written, html.unescape(fragment[end:])])

    def name(self, problem: str) -> str:
        """Return a message about a fragment with the tags of the text."""
        return _CODE.sub(lambda code: self.codes[int(code["number"])][0] if code["number"] else "", problem)

    def keeps_order(self, fragment: str) -> bool:
        """Return whether placeholders that get their values by their order stand in it, those in tags among them."""
        return self._values(fragment) == self._values(self.fragment)

    def _values(self, fragment: str) -> list[str]:
        values: list[str] = []
        end = 0
        for code in _CODE.finditer(fragment):
            values += _by_order(html.unescape(fragment[end : code.start()]))
            end = code.end()
            if code["number"] is not None:
                tag = self.codes[int(code["number"])][0]
                values += [f"{code['number']} {value}" for value in _by_order(tag.strip("<>"))]
        return [*values, *_by_order(html.unescape(fragment[end:]))]


def _by_order(text: str) -> list[str]:
    return [one.text for one in find_placeholders(text) if _BY_ORDER.fullmatch(one.text)]
