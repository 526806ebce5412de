"""String tables in JSON: nested objects, ARB of Flutter, messages.json of browser extensions, plurals of i18next."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # reads a string and returns its end
from typing import Any

from dragoman.data.documents.document import MAX_KEY, Unit, join_key
from dragoman.data.documents.plural_categories import PLURAL_CATEGORIES, is_plural_group, missing_categories
from dragoman.data.documents.text_edits import EditedDocument, Entry, LineNumbers, added, decode_text, replaced
from dragoman.errors import DataError, shorten

MAX_DEPTH = 100
"""Objects and arrays inside of each other."""
_SPACE = re.compile(r"[ \t\r\n]*")
_LITERAL = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLURAL_KEY = re.compile(rf".*_(?:ordinal_)?({'|'.join(PLURAL_CATEGORIES)}|plural)")


@dataclass(slots=True)
class JsonString:
    """String of a JSON text with its place, quotation marks included."""

    value: str
    start: int
    end: int


@dataclass(slots=True)
class JsonTable:
    """Object or array; the members of an array have their number as key."""

    members: dict[str, Any] = field(default_factory=dict)
    """Strings, tables, and None for numbers and constants."""
    keys: dict[str, JsonString] = field(default_factory=dict)
    """Keys of an object with their places."""
    start: int = 0
    end: int = 0


def open_json(content: bytes, name: str, *, target_language: str | None = None) -> EditedDocument:
    """Read a JSON file whose strings are texts. Raises DataError, with the line, if it is damaged.

    Plural forms that only the target language has are units, too: they are added to the file.
    """
    file = decode_text(content, name)
    root, lines = parse_json(file.text, name), LineNumbers(file.text)
    escape = _Escape(ensure_ascii=file.text.isascii() and "\\u" in file.text)
    entries: list[Entry] = []
    for unit, key, place, missing in _units(root, "", lines, target_language):
        for category in missing:
            entries.append(_added(unit, category, file.text, key, place, escape))
        entries.append(replaced(unit, place.start, place.end, escape))
    return EditedDocument("json", file, entries)


def _added(unit: Unit, category: str, text: str, key: JsonString, place: JsonString, escape: "_Escape") -> Entry:
    """Return the entry of a plural form that is added before the form `other`, written in the same way."""
    new_key = escape(key.value.removesuffix("other") + category)
    between = text[key.end : place.start]
    start = key.start
    while start and text[start - 1] in " \t\r\n":
        start -= 1
    space = text[start : key.start]
    return added(unit, category, key.start, lambda new: f"{new_key}{between}{escape(new)},{space}")


@dataclass(frozen=True, slots=True)
class _Escape:
    """Writes strings; a file without other characters than ASCII keeps that."""

    ensure_ascii: bool

    def __call__(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self.ensure_ascii)


_Found = tuple[Unit, JsonString, JsonString, Sequence[str]]
"""Unit, its key and text in the file, and the plural forms that are missing before it."""


def _units(table: JsonTable, path: str, lines: LineNumbers, language: str | None) -> Iterator[_Found]:
    """Yield the units of a table with their places; keys that begin with @ are about other keys, as in ARB."""
    message = table.members.get("message")
    if isinstance(message, JsonString) and path:  # of a browser extension, whose other members are no texts
        notes = table.members.get("description")
        yield from _unit(path, table, "message", lines, notes.value if isinstance(notes, JsonString) else "", ())
        return
    for key, member in table.members.items():
        inner = join_key(path, key) if path else key
        if key.startswith(("@", "$")):
            continue
        if isinstance(member, JsonTable):
            yield from _units(member, inner, lines, language)
        elif isinstance(member, JsonString):
            about = table.members.get(f"@{key}")
            notes = about.members.get("description") if isinstance(about, JsonTable) else None
            missing = _missing(table, key, language)
            yield from _unit(inner, table, key, lines, notes.value if isinstance(notes, JsonString) else "", missing)


def _missing(table: JsonTable, key: str, language: str | None) -> Sequence[str]:
    """Return the plural forms that are missing before a string: `other`, or one as `files_other` of i18next."""
    base = key.removesuffix("other")
    if base == key or (base and not base.endswith("_")) or base.endswith("_ordinal_"):
        return ()
    found = [one for one in PLURAL_CATEGORIES if isinstance(table.members.get(f"{base}{one}"), JsonString)]
    if len(found) < 2 or not (base or is_plural_group(table.members)):
        return ()
    return missing_categories(found, language)


def _unit(
    path: str, table: JsonTable, key: str, lines: LineNumbers, notes: str, missing: Sequence[str]
) -> Iterator[_Found]:
    place: JsonString = table.members[key]
    if place.value.strip():
        name = path if len(path) <= MAX_KEY else path[-MAX_KEY:]
        found = _PLURAL_KEY.fullmatch(name)
        last = name.rpartition(".")[2]
        plural = found[1] if found else last if last in PLURAL_CATEGORIES else None
        plural = "other" if plural == "plural" else plural
        line = lines.at(place.start)
        unit = Unit(source=place.value, key=path, notes=notes, plural=plural, line=line)
        yield unit, table.keys.get(key, place), place, missing


def parse_json(text: str, name: str) -> JsonTable:
    """Return the root of a JSON text, which is an object or an array."""
    parser = _Parser(text, name)
    root = parser.value(0)
    parser.skip()
    if parser.place != len(text):
        raise parser.error("after the end of the value")
    if not isinstance(root, JsonTable):
        raise DataError(f"{name}: is a single value, and no object of texts. Check the file.")
    return root


class _Parser:
    """Recursive-descent parser of RFC 8259 that knows the places of strings."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name, self.place = text, name, 0

    def skip(self) -> str:
        """Skip white space and return the next character, which is empty at the end."""
        found = _SPACE.match(self.text, self.place)
        assert found is not None
        self.place = found.end()
        return self.text[self.place : self.place + 1]

    def value(self, depth: int) -> Any:
        """Return the next value."""
        match self.skip():
            case '"':
                return self.string()
            case "{" | "[" if depth == MAX_DEPTH:
                raise DataError(f"{self.name}: has more than {MAX_DEPTH} objects inside of each other. Check the file.")
            case "{":
                return self.table("}", depth)
            case "[":
                return self.table("]", depth)
            case _:
                found = _LITERAL.match(self.text, self.place)
                if found is None:
                    raise self.error("where a value is expected")
                self.place = found.end()
                return None

    def string(self) -> JsonString:
        """Return the next string."""
        start = self.place
        try:
            value, self.place = scanstring(self.text, start + 1, True)
        except ValueError as error:
            raise self.error("is no string") from error
        if _SURROGATE.search(value):
            raise self.error("follows half of a character")
        return JsonString(value, start, self.place)

    def table(self, closing: str, depth: int) -> JsonTable:
        """Return the next object or array."""
        table = JsonTable(start=self.place)
        self.place += 1
        if self.skip() == closing:
            self.place += 1
            table.end = self.place
            return table
        while True:
            found = self.key() if closing == "}" else None
            key = found.value if found is not None else str(len(table.members))
            if key in table.members:  # which readers accept; the last one counts for them
                key = f"{key} ({len(table.members)})"
            if found is not None:
                table.keys[key] = found
            table.members[key] = self.value(depth + 1)
            char = self.skip()
            if char not in (closing, ",") or not char:
                raise self.error(f"where a comma or {closing} is expected")
            self.place += 1
            if char == closing:
                table.end = self.place
                return table

    def key(self) -> JsonString:
        """Return the next key, and skip its colon."""
        if self.skip() != '"':
            raise self.error("where a key is expected")
        key = self.string()
        if self.skip() != ":":
            raise self.error("where a colon is expected")
        self.place += 1
        return key

    def error(self, problem: str) -> DataError:
        line = LineNumbers(self.text).at(self.place)
        rest = shorten(self.text[self.place : self.place + 40])
        return DataError(
            f"{self.name}, line {line}: is not JSON ({rest} {problem}). Check the file with a JSON parser."
        )
