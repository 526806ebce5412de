"""ICU messages: texts with branches for plural forms, ordinals and other choices.

A message is translated as whole sentences, one for each combination of branches, as the ICU documentation recommends:
the text around a choice moves into its branches. Arguments, selectors and the apostrophes of quoted text are kept.

Syntax: https://unicode-org.github.io/icu/userguide/format_parse/messages/
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, final

MAX_BRANCHES = 64
"""Combinations of branches of a message that is translated."""
_REMEMBERED = 256
"""Messages that are remembered: a file and the translator read the same ones."""
MAX_DEPTH = 16
"""Choices inside of each other."""
_CHOICE = re.compile(r"\{\s*+([^\s{},']++)\s*+,\s*+(plural|selectordinal|select)\s*+,(\s*+offset\s*+:\s*+\d++)?+\s*+")
_SELECTOR = re.compile(r"(?:=\d++|[^\s{}=']++)\s*+(?=\{)")
_QUOTED: Final = "{}#|"
"""Characters that an apostrophe before them quotes."""


@dataclass(frozen=True, slots=True)
class Text:
    """Literal text as the message writes it, apostrophes included."""

    source: str


@dataclass(frozen=True, slots=True)
class Argument:
    """Argument with its braces, or the number sign of a plural choice."""

    source: str
    number_of: "Choice | None" = None
    """Choice whose number the sign is."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Argument with branches; its parts, joined, are its source."""

    head: str
    """Brace, name and kind, up to the first selector."""
    name: str
    is_plural: bool
    has_offset: bool
    branches: list[tuple[str, "Message", str]] = field(default_factory=list)
    """Selector with the white space after it, message, and white space after the closing brace."""


Message = tuple[Text | Argument | Choice, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One sentence of a message: its text as the message writes it, and the places of its arguments."""

    source: str
    arguments: tuple[tuple[int, int], ...]
    in_plural: bool
    """Whether a number sign has to be quoted."""


@final
@dataclass(frozen=True, slots=True)
class IcuMessage:
    """Message whose choices surround whole sentences."""

    leaves: tuple[Leaf, ...]
    doubles: bool
    """Whether the message doubles all of its apostrophes."""
    _parts: tuple[str, ...]
    """What surrounds the leaves: one more than leaves."""

    @classmethod
    def parse(cls, text: str, categories: Sequence[str] = ()) -> "IcuMessage | None":
        """Return the message; None if the text has no choice, is no message or has too many branches.

        A text with doubled apostrophes and an argument is a message, too. Choices by a cardinal number have a branch
        for each of the plural `categories`: missing ones are copies of `other`.
        """
        if not _CHOICE.search(text) and not ("''" in text and "{" in text):
            return None
        return _parse_once(text, tuple(categories))

    def fill(self, leaves: Sequence[str]) -> str:
        """Return the message with other sentences, as a message writes them."""
        between = zip(leaves, self._parts[1:], strict=True)
        return self._parts[0] + "".join(leaf + part for leaf, part in between)

    def quote(self, leaf: Leaf) -> Callable[[str], str]:
        """Return the function that quotes text of a leaf."""
        return lambda text: quote_text(text, in_plural=leaf.in_plural, doubles=self.doubles)


@lru_cache(_REMEMBERED)
def _parse_once(text: str, categories: tuple[str, ...]) -> IcuMessage | None:
    try:
        message, end = _parse(text, 0, None, 0)
        _add_categories(message, categories)
        pieces = list(_expand(message, None)) if end == len(text) else []
    except _NotTranslatableError:
        return None
    leaves = tuple(piece for piece in pieces if isinstance(piece, Leaf))
    if not leaves:
        return None
    parts = [""]
    for piece in pieces:
        if isinstance(piece, str):
            parts[-1] += piece
        else:
            parts.append("")
    return IcuMessage(leaves, "''" in text, tuple(parts))


def unquote_text(source: str, *, in_plural: bool) -> str:
    """Return literal text of a message without its apostrophes that quote."""
    found, place = "", 0
    quoted = False
    special = _QUOTED if in_plural else _QUOTED.replace("#", "")
    while place < len(source):
        char = source[place]
        if char != "'":
            found += char
        elif source[place + 1 : place + 2] == "'":
            found += "'"
            place += 1
        elif quoted:
            quoted = False
        elif source[place + 1 : place + 2] and source[place + 1] in special:
            quoted = True
        else:
            found += "'"
        place += 1
    return found


def quote_text(text: str, *, in_plural: bool, doubles: bool) -> str:
    """Return text as a message writes it; an apostrophe is doubled where `doubles`, and where it would quote."""
    special = "{}#" if in_plural else "{}"

    def quote(found: re.Match[str]) -> str:
        run = found[0]
        if any(char in special for char in run):
            return "'" + run.replace("'", "''") + "'"
        is_alone = run == "'" and not doubles and text[found.end() : found.end() + 1] not in ("", "|")
        return run if is_alone else run.replace("'", "''")

    return re.sub(f"['{special}]+", quote, text)


class _NotTranslatableError(Exception):
    """The text is no message, or one with too many branches."""


def _parse(text: str, place: int, choice: Choice | None, depth: int) -> tuple[Message, int]:
    """Return the message from a place on, and its end: that of the text, or the brace that closes its branch."""
    if depth > MAX_DEPTH:
        raise _NotTranslatableError
    nodes: list[Text | Argument | Choice] = []
    start = place
    while place < len(text) and not (text[place] == "}" and depth):
        char = text[place]
        if char == "'":
            place = _after_quote(text, place, in_plural=choice is not None and choice.is_plural)
            continue
        if char == "}":
            raise _NotTranslatableError
        is_number = char == "#" and choice is not None and choice.is_plural
        if char != "{" and not is_number:
            place += 1
            continue
        if start < place:
            nodes.append(Text(text[start:place]))
        node, place = (Argument("#", choice), place + 1) if is_number else _parse_argument(text, place, choice, depth)
        nodes.append(node)
        start = place
    if start < place:
        nodes.append(Text(text[start:place]))
    return tuple(nodes), place


def find_choices(text: str) -> list[tuple[int, int]]:
    """Return the places of the choices of a text that is no message, each up to its brace or the end of the text."""
    found: list[tuple[int, int]] = []
    for match in _CHOICE.finditer(text):
        if found and match.start() < found[-1][1]:
            continue
        depth, end = 0, match.start()
        while end < len(text):
            depth += (text[end] == "{") - (text[end] == "}")
            end += 1
            if not depth:
                break
        found.append((match.start(), end))
    return found


def _add_categories(message: Message, categories: Sequence[str]) -> None:
    """Add the branches of plural categories that a choice lacks, as copies of `other`, before it."""
    for node in message:
        if not isinstance(node, Choice):
            continue
        for _, branch, _ in node.branches:
            _add_categories(branch, categories)
        names = [selector.rstrip() for selector, _, _ in node.branches]
        if not node.is_plural or "selectordinal" in node.head or "other" not in names:
            continue
        place = names.index("other")
        selector, other, _ = node.branches[place]
        space = node.branches[place - 1][2] if place else " "
        node.branches[place:place] = [
            (selector.replace("other", name), other, space) for name in categories if name not in names
        ]


def _parse_argument(text: str, place: int, outer: Choice | None, depth: int) -> tuple[Argument | Choice, int]:
    """Return the argument at a brace, and the place after it."""
    found = _CHOICE.match(text, place)
    if found is None:
        end = text.find("}", place)
        if end < 0 or "{" in text[place + 1 : end]:
            raise _NotTranslatableError
        return Argument(text[place : end + 1]), end + 1
    is_select = found[2] == "select"
    choice = Choice(found.group(), found[1], not is_select, found[3] is not None)
    place = found.end()
    # The number sign inside of a select choice is that of the plural choice around it.
    inner = outer if is_select else choice
    while selector := _SELECTOR.match(text, place):
        message, place = _parse(text, selector.end() + 1, inner, depth + 1)
        if place >= len(text):
            raise _NotTranslatableError
        after = place + 1
        while after < len(text) and text[after].isspace():
            after += 1
        choice.branches.append((selector.group(), message, text[place + 1 : after]))
        place = after
    if text[place : place + 1] != "}" or not choice.branches:
        raise _NotTranslatableError
    return choice, place + 1


def _after_quote(text: str, place: int, *, in_plural: bool) -> int:
    """Return the place after an apostrophe, or after the text that it quotes."""
    after = text[place + 1 : place + 2]
    if after == "'":
        return place + 2
    if not after or after not in (_QUOTED if in_plural else _QUOTED.replace("#", "")):
        return place + 1
    end = place + 1
    while end < len(text):
        if text[end] != "'":
            end += 1
        elif text[end + 1 : end + 2] == "'":
            end += 2
        else:
            return end + 1
    return end


def _expand(message: Message, plural: Choice | None, count: int = 1, depth: int = 0) -> Iterator[str | Leaf]:
    """Yield the sentences of a message, and what surrounds them; `plural` is the innermost plural choice around it.

    `count` is the number of sentences, and `depth` of the choices before.
    """
    first = next((place for place, node in enumerate(message) if isinstance(node, Choice)), None)
    if first is None:
        yield _leaf(message, plural)
        return
    choice = message[first]
    assert isinstance(choice, Choice)
    count *= len(choice.branches)
    if count > MAX_BRANCHES or depth == MAX_BRANCHES:
        raise _NotTranslatableError
    yield choice.head
    for selector, branch, space in choice.branches:
        yield selector + "{"
        whole = (*message[:first], *branch, *message[first + 1 :])
        yield from _expand(whole, choice if choice.is_plural else plural, count, depth + 1)
        yield "}" + space
    yield "}"


def _leaf(message: Message, plural: Choice | None) -> Leaf:
    """Return the sentence of a message without choices, where a number sign is that of the plural choice around it."""
    source, arguments = "", []
    for node in message:
        assert not isinstance(node, Choice)
        text = node.source
        if isinstance(node, Argument):
            if node.number_of is not None and node.number_of is not plural:
                if node.number_of.has_offset:
                    raise _NotTranslatableError
                text = f"{{{node.number_of.name}, number}}"
            arguments.append((len(source), len(source) + len(text)))
        elif plural is not None:
            text = _quote_numbers(text)
        source += text
    return Leaf(source, tuple(arguments), plural is not None)


def _quote_numbers(source: str) -> str:
    """Return literal text with its number signs quoted, since it may have moved into a plural choice."""
    if "#" not in source:
        return source
    return quote_text(unquote_text(source, in_plural=True), in_plural=True, doubles="''" in source)
