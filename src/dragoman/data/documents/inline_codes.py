"""Inline codes of a file format as tags of a fragment: `a <g id="1">b</g> <x id="2"/>`.

`g` is a pair whose content is translated, and `x` stands for anything else. What a file writes for them is kept, so
that it is the same in the translation.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dragoman.data.documents.xml_tree import XmlElement, XmlOther, XmlText, escape
from dragoman.errors import DataError, shorten

_TAG = re.compile(r"""<(?:(/)g\s*|(g|x)\s+id=["'](\d+)["']\s*(/?))>""")
_REFERENCES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_REFERENCE = re.compile(r"&(amp|lt|gt|quot|apos);")


@dataclass(frozen=True, slots=True)
class InlineNames:
    """Names of the inline elements of a format; all other elements are opaque: they stay as they are."""

    pairs: frozenset[str]
    """Elements whose content is translated."""
    starts: tuple[str, ...] = ()
    """Void elements or codes that start a pair."""
    ends: tuple[str, ...] = ()
    """Elements that end a pair, in the order of `starts`."""
    links: tuple[str, ...] = ("rid", "id")
    """Attributes of which the first that is there names the pair."""
    end_links: tuple[str, ...] = ("rid", "id")
    repeats: bool = False
    """Whether a pair may be there twice, as where its words are apart in the translation."""


@dataclass
class InlineCodes:
    """Codes that the tags of a fragment replace, by their number."""

    names: InlineNames
    text: str
    """Text of the file."""
    read_text: Callable[[str], str] = str
    """Removes the escapes that a format has besides those of XML."""
    write_text: Callable[[str], str] = str
    """Adds them."""
    codes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Start and end as they are written; the end of a void code is empty."""
    own: frozenset[str] = frozenset()
    """Numbers of the codes of the source, which its translation has, too."""
    _numbers: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Numbers of each code."""

    def read(self, element: XmlElement) -> str:
        """Return the content of an element as a fragment; the first that is read is the source.

        Equal codes of a source and its target have one number.
        """
        used: Counter[tuple[str, str]] = Counter()
        fragment = "".join(self._read(element.children, used))
        self.own = self.own or frozenset(one for code, count in used.items() for one in self._numbers[code][:count])
        return fragment

    def write(self, fragment: str, key: str) -> str:
        """Return a fragment as it is written in the file. Raises DataError if its tags are not those of its source.

        A code that was there before is left out, since a format has each once, and a missing one is added at the end.
        """
        parts: list[str] = []
        opened: list[tuple[str, bool]] = []
        used: set[str] = set()
        last = 0
        for tag in _TAG.finditer(fragment):
            parts.append(self._write_text(fragment[last : tag.start()], key))
            last = tag.end()
            closing, name, number, void = tag.groups()
            if (closing and not opened) or (not closing and number not in self.codes):
                raise _error(key, fragment)
            if closing:
                number, is_new = opened.pop()
                parts += [self.codes[number][1]] if is_new else []
                continue
            is_new = self.names.repeats or number not in used
            used.add(number)
            start, end = self.codes[number]
            opened += [(number, is_new)] if name == "g" and not void else []
            parts += [start] + [end] * bool(void and name == "g") if is_new else []
        if opened:
            raise _error(key, fragment)
        missing = [
            start + end for number, (start, end) in self.codes.items() if number in self.own and number not in used
        ]
        return "".join([*parts, self._write_text(fragment[last:], key), *missing])

    def _write_text(self, text: str, key: str) -> str:
        if "<" in text:
            raise _error(key, text)
        return escape(self.write_text(_REFERENCE.sub(lambda found: _REFERENCES[found[1]], text)))

    def _read(
        self, children: Sequence[XmlElement | XmlText | XmlOther], used: Counter[tuple[str, str]]
    ) -> Iterator[str]:
        pairs = self._linked(children)
        ends = {id(end) for end in pairs.values()}
        for place, child in enumerate(children):
            if isinstance(child, XmlText):
                yield escape(self.read_text(child.text))
            elif isinstance(child, XmlOther):
                yield f'<x id="{self._number(child.raw, "", used)}"/>'
            elif place in pairs:
                yield f'<g id="{self._number(self._raw(child), self._raw(pairs[place]), used)}">'
            elif id(child) in ends:
                yield "</g>"
            elif child.name in self.names.pairs and child.inner < child.end and not _is_protected(child):
                start, end = self.text[child.start : child.inner], self.text[child.inner_end : child.end]
                yield f'<g id="{self._number(start, end, used)}">'
                yield from self._read(child.children, used)
                yield "</g>"
            else:
                yield f'<x id="{self._number(self._raw(child), "", used)}"/>'

    def _raw(self, element: XmlElement) -> str:
        return self.text[element.start : element.end]

    def _number(self, start: str, end: str, used: Counter[tuple[str, str]]) -> str:
        """Return the number of a code: that of an equal one that this text has not used, or a new one."""
        code = (start, end)
        numbers = self._numbers.setdefault(code, [])
        if used[code] == len(numbers):
            numbers.append(str(len(self.codes) + 1))
            self.codes[numbers[-1]] = code
        used[code] += 1
        return numbers[used[code] - 1]

    def _linked(self, children: Sequence[XmlElement | XmlText | XmlOther]) -> dict[int, XmlElement]:
        """Return the end of each start that is among the same children, by place; pairs may not cross."""
        found: dict[int, XmlElement] = {}
        opened: list[tuple[int, tuple[str, str]]] = []
        waiting: Counter[tuple[str, str]] = Counter()
        """Number of open codes by the name and link of their ends, so that an end without a start searches none."""
        for place, child in enumerate(children):
            if not isinstance(child, XmlElement):
                continue
            if child.name in self.names.starts:
                expected = self.names.ends[self.names.starts.index(child.name)]
                opened.append((place, (expected, _link(child, self.names.links))))
                waiting[opened[-1][1]] += 1
            elif child.name in self.names.ends:
                wanted = (child.name, _link(child, self.names.end_links))
                while waiting[wanted]:
                    start, end = opened.pop()
                    waiting[end] -= 1
                    if end == wanted:
                        found[start] = child
                        break
        return found


def _is_protected(element: XmlElement) -> bool:
    return element.attributes.get("translate") == "no" or element.attributes.get("mtype") == "protected"


def _link(element: XmlElement, names: Sequence[str]) -> str:
    return next((element.attributes[name] for name in names if name in element.attributes), "")


def _error(key: str, fragment: str) -> DataError:
    return DataError(
        f"translation of {shorten(key)}: its tags ({shorten(fragment)}) are not the ones of its source. Keep all tags."
    )
