"""Elements of HTML by what they are in a text.

Source: HTML Living Standard, sections 3.2.5.2.5 (phrasing content), 4.5 (text-level semantics) and 15.3 (rendering).
"""

import re
from typing import Final

_BLOCK = (
    "address article aside base blockquote body button caption center col colgroup datalist dd details dialog dir div "
    "dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html "
    "legend li link listing main menu meta nav noframes noscript ol optgroup option p param plaintext pre "
    "script search section select slot style summary table tbody td template textarea tfoot th thead title tr "
    "track ul xmp"
)
BLOCK: Final = frozenset(_BLOCK.split())
"""Elements that split a text: blocks, parts of lists and tables, and elements without a place in the text."""
_VOID = "area base br col embed hr img input link meta param source track wbr"
VOID: Final = frozenset(_VOID.split())
"""Elements without an end tag."""
PROTECTED: Final = frozenset(["code", "kbd", "samp", "var"])
"""Elements whose text takes part in a sentence, but is not translated."""
OPAQUE: Final = frozenset([
    "applet", "audio", "canvas", "embed", "iframe", "img", "input", "map", "math", "meter", "noembed", "object",
    "picture", "progress", "script", "style", "svg", "template", "video", "wbr", "xmp",
])  # fmt: skip
"""Elements that are one code in a sentence, whatever they contain."""
RAW_TEXT: Final = frozenset(["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"])
"""Elements whose content has no tags."""
UNTOUCHED: Final = frozenset(["pre", "textarea", "plaintext", "listing", "noframes"])
"""Block elements whose text is not translated."""
UNTRANSLATED: Final = PROTECTED | UNTOUCHED | (OPAQUE - VOID)
"""Elements whose text is not translated."""
_NO_TRANSLATION = re.compile(r"\btranslate\s*=\s*[\"']?no\b|\bclass\s*=\s*(?:\"[^\"]*|'[^']*|)\bnotranslate\b", re.I)


def is_not_translated(start_tag: str) -> bool:
    """Return whether a start tag says that the text of its element is not translated."""
    return _NO_TRANSLATION.search(start_tag) is not None
