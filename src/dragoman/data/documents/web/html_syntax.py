"""Tags, comments and texts of HTML and XHTML by place, in linear time, whatever the page contains."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

from dragoman.data.markup.html_elements import VOID

TokenKind = Literal["text", "start", "end", "comment", "declaration", "raw"]
_TAG = re.compile(r"""<(?P<slash>/?)(?P<name>[A-Za-z][^\s/>]*+)(?:[^>=]|=\s*+(?:"[^"]*+"|'[^']*+')|=)*+>""")
_OTHER = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))|<!\[CDATA\[.*?(?:\]\]>|\Z)|<![^>]*(?:>|\Z)|<\?[^>]*(?:>|\Z)", re.DOTALL
)
_ODD_END_TAG = re.compile(r"</[^>]*+>")
ATTRIBUTE = re.compile(r"""(?P<name>[^\s=>/"']+)(?:\s*=\s*(?P<value>"[^"]*"|'[^']*'|[^\s>"']+))?""")
RAW_TEXT = frozenset(["script", "style", "xmp", "iframe", "noembed", "noframes", "title", "textarea"])
"""Elements of HTML whose content has no tags."""


@final
@dataclass(frozen=True, slots=True)
class Token:
    """Tag, comment or text by its place."""

    kind: TokenKind
    start: int
    end: int
    name: str = ""
    is_closed: bool = False
    """Whether a start tag ends its element: it has no content."""


def scan(page: str, *, xml: bool = False) -> Iterator[Token]:
    """Yield the tokens of a page, without a gap. A tag that never ends is text that nothing follows.

    In HTML the content of a script, a style and of similar elements is one `raw` token. In XML names keep their case.
    """
    place, last = 0, page.rfind(">")
    while (begin := page.find("<", place)) >= 0:
        tag = _TAG.match(page, begin)
        other = (
            None if tag else _OTHER.match(page, begin) or (_ODD_END_TAG.match(page, begin) if begin < last else None)
        )
        if tag is None and other is None:
            if re.match(r"</?[A-Za-z]", page[begin : begin + 3]):
                break  # a tag without an end: every later search would reach to the end of the page, too
            begin += 1
            following = page.find("<", begin)
            following = len(page) if following < 0 else following
            yield Token("text", place, following)
            place = following
            continue
        if begin > place:
            yield Token("text", place, begin)
        if tag is None:
            assert other is not None
            is_comment = page.startswith(("<!--", "<![CDATA["), begin) or xml
            yield Token("comment" if is_comment else "declaration", begin, other.end())
            place = other.end()
            continue
        name = tag["name"] if xml else tag["name"].lower()
        is_closed = tag[0].endswith("/>") if xml else name in VOID
        place = tag.end()
        if tag["slash"]:
            yield Token("end", begin, place, name)
            continue
        yield Token("start", begin, place, name, is_closed)
        if not xml and name in RAW_TEXT:
            closing = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(page, place)
            stop = closing.start() if closing else len(page)
            if stop > place:
                yield Token("raw", place, stop, name)
            place = stop
    if place < len(page):
        yield Token("text" if page.find("<", place) < 0 else "comment", place, len(page))
