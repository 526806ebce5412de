"""String tables as lines of keys and values: Java .properties and Apple .strings."""

import re
from collections.abc import Iterator

from dragoman.data.documents.document import Unit
from dragoman.data.documents.text_edits import EditedDocument, Entry, LineNumbers, decode_text, replaced
from dragoman.errors import DataError, shorten

_PROPERTY = re.compile(
    r"""[ \t\f]*+(?:(?P<comment>[#!][^\n]*+)
    |(?P<key>(?:[^\\\s=:]|\\(?:\r\n|[^\r]))++)[ \t\f]*+(?:[=:][ \t\f]*+)?+
    (?P<value>(?:[^\\\r\n]|\\(?:\r\n|.))*+))?+(?:\r?\n|\r|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_PROPERTY_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(\r\n|\n|\r)[ \t\f]*|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_ARGUMENT = re.compile(r"\{\d")
_APPLE = re.compile(
    r"""\s*+(?:(?P<comment>/\*.*?\*/|//[^\n]*+)
    |(?P<key>"(?:[^"\\]|\\.)*+"|[\w.$-]++)\s*+(?:=\s*+"(?P<value>(?:[^"\\]|\\.)*+)"\s*+)?+;)""",
    re.VERBOSE | re.DOTALL,
)
_APPLE_ESCAPE = re.compile(r"\\(?:U([0-9A-Fa-f]{4})|(.))", re.DOTALL)


def open_properties(content: bytes, name: str) -> EditedDocument:
    """Read a .properties file of Java, in UTF-8 or else in Latin-1.

    Where all characters of the file are ASCII or Latin-1, other characters are written as `\\\\uXXXX`, which every
    version of Java reads.
    """
    try:
        file = decode_text(content, name)
    except DataError:
        file = decode_text(content, name, encoding="latin-1")
    is_unicode = not file.text.isascii() and file.encoding != "latin-1"
    entries, place, notes, lines = list[Entry](), 0, "", LineNumbers(file.text)
    while place < len(file.text):
        found = _PROPERTY.match(file.text, place)
        if found is None or found.end() == place:
            raise _error(file.text, place, name, "a line of a key and a value")
        place = found.end()
        if found["comment"]:
            notes = found["comment"][1:].strip()
        elif found["key"]:
            entry = _property(found, notes, lines.at(found.start("key")), is_unicode=is_unicode)
            entries += [entry] if entry is not None else []
            notes = ""
    return EditedDocument("properties", file, entries)


def _property(found: re.Match[str], notes: str, line: int, *, is_unicode: bool) -> Entry | None:
    source = _join_surrogates(_PROPERTY_ESCAPE.sub(_unescape_property, found["value"]))
    if not source.strip():
        return None
    is_message = _ARGUMENT.search(source) is not None and "'" not in source.replace("''", "")
    # java.text.MessageFormat reads two apostrophes as one
    text = source.replace("''", "'") if is_message else source

    def write(new: str) -> str:
        return escape_property(new.replace("'", "''") if is_message else new, is_unicode=is_unicode)

    key = _PROPERTY_ESCAPE.sub(_unescape_property, found["key"])
    return replaced(Unit(source=text, key=key, notes=notes, line=line), found.start("value"), found.end("value"), write)


def _unescape_property(found: re.Match[str]) -> str:
    code, line, letter = found.groups()
    return chr(int(code, 16)) if code else "" if line else _LETTERS.get(letter, letter)


def _join_surrogates(text: str) -> str:
    """Return a text with characters in place of the two escapes that Java writes for some."""
    if max(text, default="") < "\ud800":
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def escape_property(text: str, *, is_unicode: bool) -> str:
    """Return a value with the escapes of a .properties file."""
    escaped = text.replace("\\", r"\\")
    for letter, char in _LETTERS.items():
        escaped = escaped.replace(char, f"\\{letter}")
    if escaped[:1] == " ":
        escaped = f"\\{escaped}"
    if is_unicode:
        return escaped
    return "".join(char if char.isascii() else _utf_16_escapes(char) for char in escaped)


def _utf_16_escapes(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def open_strings(content: bytes, name: str) -> EditedDocument:
    """Read a .strings file of Apple, in UTF-8 or UTF-16."""
    unmarked = {0: "utf-16-be", 1: "utf-16-le"}.get(content[:2].find(b"\0"))
    file = decode_text(content, name, encoding=unmarked)
    text, entries, place, notes = file.text, list[Entry](), 0, ""
    lines, end = LineNumbers(text), len(text.rstrip())
    while place < end:
        found = _APPLE.match(text, place)
        if found is None:
            raise _error(text, place, name, 'a comment or `"key" = "value";`')
        place = found.end()
        if found["comment"]:
            notes = found["comment"].strip("/* \n\t")
        else:
            entries.extend(_apple_entry(found, notes, lines.at(found.start("key"))))
            notes = ""
    return EditedDocument("strings", file, entries)


def _apple_entry(found: re.Match[str], notes: str, line: int) -> Iterator[Entry]:
    value = found["value"] or ""
    source = _APPLE_ESCAPE.sub(_unescape_apple, value)
    if source.strip():
        key = found["key"].strip('"')
        unit = Unit(source=source, key=key, notes=notes, line=line, numbering=True)
        yield replaced(unit, found.start("value"), found.end("value"), escape_apple)


def _unescape_apple(found: re.Match[str]) -> str:
    code, letter = found.groups()
    return chr(int(code, 16)) if code else _LETTERS.get(letter, letter)


def escape_apple(text: str) -> str:
    """Return a value with the escapes of a .strings file."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return escaped.replace("\n", r"\n").replace("\t", r"\t").replace("\r", r"\r")


def _error(text: str, place: int, name: str, expected: str) -> DataError:
    line, rest = LineNumbers(text).at(place), text[place : place + 200].strip().partition("\n")[0]
    return DataError(f"{name}, line {line}: {shorten(rest)} is not {expected}. Check the file, or copy it again.")
