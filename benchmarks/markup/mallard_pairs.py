"""Pairs of marked-up paragraphs from pages of the GNOME help in two languages, with tags of HTML.

usage: python -m benchmarks.markup.mallard_pairs HELP_FOLDER LANGUAGE > pairs.tsv

`HELP_FOLDER` is /usr/share/help of Debian's package gnome-user-docs, whose pages people have translated.
"""

import random
import re
import sys
from collections import Counter
from pathlib import Path

from lxml import etree

NAMESPACE = "{http://projectmallard.org/1.0/}"
PARAGRAPHS = frozenset(NAMESPACE + name for name in ("p", "title", "desc"))
HTML_NAMES = {
    "gui": "b",
    "guiseq": "span",
    "link": "a",
    "em": "em",
    "key": "strong",
    "keyseq": "u",
    "app": "i",
    "file": "q",
}
"""Inline elements of Mallard, and elements of HTML that an engine for HTML keeps inside of a sentence."""
WORDS = range(4, 61)
TAG = re.compile(r"<(/?)([\w:.-]+)[^>]*?>")


def paragraphs(path: Path) -> list[etree._Element]:
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    return [one for one in etree.parse(path, parser).getroot().iter() if one.tag in PARAGRAPHS]


def fragment(paragraph: etree._Element) -> str | None:
    """Return the content of a paragraph with the tags of HTML; None with other elements."""
    inside = {etree.QName(one).localname if isinstance(one.tag, str) else "" for one in paragraph.iterdescendants()}
    if not inside or not inside <= HTML_NAMES.keys():
        return None
    source = etree.tostring(paragraph, encoding="unicode", with_tail=False)
    if "/>" in source:
        return None
    content = " ".join(source[source.index(">") + 1 : source.rindex("</")].split())
    return TAG.sub(lambda tag: f"<{tag[1]}{HTML_NAMES[tag[2]]}>", content)


def read_pairs(folder: Path, language: str) -> list[tuple[str, str]]:
    """Return pairs with the same tags on both sides, each once, in random order."""
    found: dict[tuple[str, str], None] = {}
    for page in sorted((folder / "C" / "gnome-help").glob("*.page")):
        other = folder / language / "gnome-help" / page.name
        if not other.exists():
            continue
        sides = paragraphs(page), paragraphs(other)
        if [one.tag for one in sides[0]] != [one.tag for one in sides[1]]:
            continue
        for one, two in zip(*sides, strict=True):
            source, target = fragment(one), fragment(two)
            if source is None or target is None or source == target:
                continue
            same_tags = Counter(TAG.findall(source)) == Counter(TAG.findall(target))
            if same_tags and len(TAG.sub("", source).split()) in WORDS:
                found[source, target] = None
    pairs = list(found)
    random.Random(1).shuffle(pairs)
    return pairs


if __name__ == "__main__":
    for pair in read_pairs(Path(sys.argv[1]), sys.argv[2]):
        print("\t".join(pair))
