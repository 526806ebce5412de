"""Elements of HTML by their layout, from the rendering section of the HTML standard (WHATWG, section 15.3)."""

import re
from typing import Final

_BLOCK = (
    "address article aside base blockquote body caption center col colgroup datalist dd details dialog dir div "
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
UNTRANSLATED: Final = frozenset(["script", "style", "code", "pre", "textarea", "kbd", "samp", "var"])
"""Elements whose text is not translated."""
_NO_TRANSLATION = re.compile(r"\btranslate\s*=\s*[\"']?no\b|\bclass\s*=\s*(?:\"[^\"]*|'[^']*|)\bnotranslate\b", re.I)


def is_not_translated(start_tag: str) -> bool:
    """Return whether a start tag says that the text of its element is not translated."""
    return _NO_TRANSLATION.search(start_tag) is not None
