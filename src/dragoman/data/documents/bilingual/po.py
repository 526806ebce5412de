"""PO and POT files of GNU gettext, written entry by entry.

Comments, obsolete entries, references and the line breaks of other entries keep their bytes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dragoman.data.documents.bilingual.gettext_plurals import GERMANIC, PluralForms, language_plurals, parse_plurals
from dragoman.data.documents.document import State, Unit, UnitTranslation
from dragoman.data.documents.text_edits import (
    Edit,
    EditedDocument,
    Entry,
    TextFile,
    decode_text,
    line_end,
)
from dragoman.errors import DataError, shorten

WIDTH = 80
"""Columns after which gettext wraps lines."""
_NUMBERING = frozenset(
    f"{name}-format" for name in ("c", "objc", "java-printf", "php", "perl", "javascript", "python-brace")
)
"""Flags of formats whose placeholders may be numbered."""
_CHARSET = re.compile(rb"charset=([A-Za-z0-9_.:-]+)")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d{1,2})\])?)\s*(?=\")")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(?:([abfnrtv\\\"'?])|([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
_UNESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = {ord(char): f"\\{letter}" for letter, char in _UNESCAPED.items()} | {ord("\\"): r"\\", ord('"'): r"\""}


@dataclass(slots=True)
class _Field:
    """Value of a keyword, such as msgid, and its place."""

    start: int
    end: int = 0
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass(slots=True)
class PoMessage:
    """Message of a PO file; places are those of characters in the file."""

    line: int
    start: int
    """Start of the first keyword."""
    comments: list[tuple[int, int, str]] = field(default_factory=list)
    """Start, end with line end, and text of the comment lines before."""
    fields: dict[str, _Field] = field(default_factory=dict)

    @property
    def flags(self) -> set[str]:
        """Flags, such as `fuzzy` and `c-format`."""
        lines = [text[2:] for _, _, text in self.comments if text.startswith("#,")]
        return {flag.strip() for line in lines for flag in line.split(",")}

    def value(self, name: str) -> str:
        """Return the string of a keyword; an empty one where it is missing."""
        return self.fields[name].text if name in self.fields else ""

    def forms(self) -> dict[int, _Field]:
        """Return the translations by their number."""
        found = {name: one for name, one in self.fields.items() if name.startswith("msgstr")}
        return {int(name[7:-1]) if "[" in name else 0: one for name, one in found.items()}


def open_po(content: bytes, name: str, *, target_language: str | None = None) -> EditedDocument:
    """Read a PO or POT file. Raises DataError, with the line, if it is none.

    `target_language` fills the header of a template, which does not say its language yet.
    """
    found = _CHARSET.search(content[:20_000])
    charset = found[1].decode() if found else "utf-8"
    file = decode_text(content, name, declared="utf-8" if charset == "CHARSET" else charset)
    messages = list(_parse(file.text, name))
    header = next((one for one in messages if not one.value("msgid") and "msgctxt" not in one.fields), None)
    fields = _header_fields(header)
    plurals, header_edits = _plural_forms(fields, header, file, target_language, name)
    style = _Style(line_end(file.text), _is_wrapped(file.text))
    entries = [_entry(one, plurals, style) for one in messages if one is not header]
    return EditedDocument("po", file, entries, lambda: header_edits, _Encoder(charset))


@dataclass(frozen=True)
class _Encoder:
    """Encoding of a file, which becomes UTF-8 where its charset has not all characters of the translations."""

    charset: str

    def __call__(self, file: TextFile) -> bytes:
        try:
            return file.encode()
        except UnicodeEncodeError:
            text = file.text.replace(f"charset={self.charset}", "charset=UTF-8", 1)
            return text.encode()


def _parse(text: str, name: str) -> Iterator[PoMessage]:
    """Yield the messages of a file, the header among them."""
    parser, place = MessageReader(name), 0
    for number, line in enumerate(_LINE.findall(text), 1):
        yield from parser.read(line, number, place)
        place += len(line)
    yield from parser.close()


@dataclass(slots=True)
class MessageReader:
    """Reader of lines, which yields one message at a time."""

    name: str
    message: PoMessage | None = None
    comments: list[tuple[int, int, str]] = field(default_factory=list)
    current: _Field | None = None

    def read(self, line: str, number: int, place: int) -> Iterator[PoMessage]:
        """Read a line with its number and place, and yield the message before if the line ends it."""
        body, indent = line.strip(), len(line) - len(line.lstrip())
        if not body or body.startswith("#"):
            yield from self.close(only_complete=True)
            if body.startswith("#~"):
                self.comments = []
            elif body and self.message is None:
                self.comments.append((place + indent, place + len(line), body))
            return
        if (keyword := _KEYWORD.match(body)) is not None:
            if not keyword[1].startswith("msgstr"):
                yield from self.close(only_complete=True)
            self._start(keyword[1], number, place + indent)
            body = body[keyword.end() :]
        string = _STRING.fullmatch(body)
        if self.current is None or string is None:
            raise _error(self.name, number, f"{shorten(body)} is neither a comment nor a keyword with a string")
        self.current.parts.append(_unescape(string[1]))
        self.current.end = place + len(line.rstrip())

    def close(self, *, only_complete: bool = False) -> Iterator[PoMessage]:
        """Yield the message that was read, and expect another one; with `only_complete`, if it has a translation."""
        if self.message is not None and (self.message.forms() or not only_complete):
            yield _checked(self.message, self.name)
            self.message, self.current = None, None

    def _start(self, keyword: str, number: int, place: int) -> None:
        if self.message is None:
            self.message, self.comments = PoMessage(number, place, self.comments), []
        if keyword in self.message.fields:
            raise _error(self.name, number, f"{keyword} is there twice")
        self.current = self.message.fields[keyword] = _Field(place)


def _error(name: str, line: int, problem: str) -> DataError:
    return DataError(
        f"{name}, line {line}: {problem}; is not a PO file, or a damaged one. Check it with msgfmt --check."
    )


def _checked(message: PoMessage, name: str) -> PoMessage:
    forms = message.forms()
    if "msgid" not in message.fields or not forms:
        missing = "msgstr" if "msgid" in message.fields else "msgid"
        raise _error(name, message.line, f"{missing} is missing")
    is_plural = "msgid_plural" in message.fields
    if is_plural == ("msgstr" in message.fields) or sorted(forms) != list(range(len(forms))):
        raise _error(name, message.line, "msgid_plural and the numbers of msgstr do not fit each other")
    return message


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        letter, octal, hexadecimal, other = found.groups()
        if octal or hexadecimal:
            return chr(int(octal, 8) & 0xFF if octal else int(hexadecimal, 16))
        return other if letter is None else _UNESCAPED.get(letter, letter)

    return _ESCAPE.sub(one, text) if "\\" in text else text


def _is_wrapped(text: str) -> bool:
    """Return whether a file wraps its strings, as gettext does by default."""
    return not any(len(line) > WIDTH + 2 and line.startswith(('"', "msg")) for line in text.split("\n"))


def _header_fields(header: PoMessage | None) -> dict[str, str]:
    lines = header.value("msgstr").split("\n") if header is not None else []
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _plural_forms(
    fields: dict[str, str], header: PoMessage | None, file: TextFile, language: str | None, name: str
) -> tuple[PluralForms, list[Edit]]:
    """Return the plural forms of a file, and the edits that complete the header of a template."""
    given = fields.get("Plural-Forms", "")
    is_open = "EXPRESSION" in given or not given
    known = language_plurals(language or fields.get("Language", "") or "en") if is_open else given
    forms = known or GERMANIC
    edits: list[Edit] = []
    if header is not None and language is not None:
        edits = list(_header_edits(header, file.text, language.replace("-", "_"), forms))
    return parse_plurals(forms, name), edits


def _header_edits(header: PoMessage, text: str, language: str, forms: str) -> Iterator[Edit]:
    """Yield the edits of header fields that a template leaves open."""
    value = header.fields["msgstr"]
    written = {
        r"Content-Type: [^\\]{0,200}charset=(CHARSET)": "UTF-8",
        r"Plural-Forms: ([^\\\"]{0,200}EXPRESSION[^\\\"]*)": forms,
        r'"Language:( *)\\n': f" {language}",
    }
    for pattern, new in written.items():
        if found := re.compile(pattern).search(text, value.start, value.end):
            yield Edit(*found.span(1), new)
    if "fuzzy" in header.flags:
        yield from _without_fuzzy(header)


@dataclass(frozen=True, slots=True)
class _Style:
    """Style of the strings of a file."""

    newline: str
    wraps: bool

    def string(self, keyword: str, text: str) -> str:
        """Return a keyword with a string, on several lines where gettext would write it so."""
        lines = text.split("\n")
        lines = [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] or len(lines) == 1 else [])
        pieces = [piece for line in lines for piece in (self._wrap(line.translate(_ESCAPED)))]
        if len(pieces) == 1 and (not self.wraps or len(keyword) + 3 + len(pieces[0]) <= WIDTH):
            return f'{keyword} "{pieces[0]}"'
        return self.newline.join([f'{keyword} ""', *(f'"{one}"' for one in pieces)])

    def _wrap(self, text: str) -> Iterator[str]:
        """Yield an escaped text in pieces, each up to a space, that fit on a line."""
        piece = ""
        for word in re.findall(r"[^ ]* +|[^ ]+", text) if self.wraps else [text]:
            if piece and len(piece) + len(word) > WIDTH - 3:
                yield piece
                piece = ""
            piece += word
        yield piece


def _entry(message: PoMessage, plurals: PluralForms, style: _Style) -> Entry:
    """Return an entry with one unit, or one for each plural form."""
    is_plural = "msgid_plural" in message.fields
    count = plurals.count if is_plural else 1
    like = _unit(message)
    plural = message.value("msgid_plural") if is_plural else None
    units = tuple(_form(like, plural, number, message.forms().get(number), plurals) for number in range(count))

    def write(translations: Sequence[UnitTranslation | None]) -> Iterator[Edit]:
        forms = message.forms()
        for number, one in enumerate(translations):
            keyword = f"msgstr[{number}]" if is_plural else "msgstr"
            if number in forms:
                if one is not None and one.text != forms[number].text:
                    yield Edit(forms[number].start, forms[number].end, style.string(keyword, one.text))
            else:
                end = forms[len(forms) - 1].end
                yield Edit(end, end, style.newline + style.string(keyword, "" if one is None else one.text))
        if surplus := [form for number, form in forms.items() if number >= count]:
            yield Edit(forms[count - 1].end, surplus[-1].end, "")
        yield from _mark(message, translations, style)

    return Entry(units, write)


def _form(like: Unit, plural: str | None, number: int, form: _Field | None, plurals: PluralForms) -> Unit:
    """Return the unit of a translation: of the plural form with a number, if the message has a `plural`."""
    target = form.text if form is not None else ""
    state: State = "untranslated" if not target else like.state
    if plural is None:
        return replace(like, target=target, state=state)
    takes_number = "%" in plural and "%" not in like.source
    is_plural = number != plurals.singular or (takes_number and not plurals.only_one)
    source = plural if is_plural else like.source
    return replace(like, source=source, target=target, state=state, plural=str(number))


def _unit(message: PoMessage) -> Unit:
    """Return what all plural forms of a message share, and the state of those that have a translation."""
    source, context, flags = message.value("msgid"), message.value("msgctxt"), message.flags
    return Unit(
        source=source,
        state="needs_review" if "fuzzy" in flags else "translated",
        key=context or source,
        context=context,
        notes="\n".join(text[2:].strip() for _, _, text in message.comments if text[:2] in ("#.", "# ")),
        line=message.line,
        numbering=bool(flags & _NUMBERING),
    )


def _mark(message: PoMessage, translations: Sequence[UnitTranslation | None], style: _Style) -> Iterator[Edit]:
    """Yield the edits of the fuzzy flag: set if a translation needs review, removed if all forms have a new one."""
    is_fuzzy = "fuzzy" in message.flags
    if any(one is not None and one.needs_review for one in translations):
        if not is_fuzzy:
            yield _with_fuzzy(message, style)
    elif is_fuzzy and all(one is not None for one in translations):
        yield from _without_fuzzy(message)


def _with_fuzzy(message: PoMessage, style: _Style) -> Edit:
    for start, _, text in message.comments:
        if text.startswith("#,"):
            return Edit(start + 2, start + 2, " fuzzy,")
        if text.startswith("#|"):
            return Edit(start, start, f"#, fuzzy{style.newline}")
    return Edit(message.start, message.start, f"#, fuzzy{style.newline}")


def _without_fuzzy(message: PoMessage) -> Iterator[Edit]:
    for start, end, text in message.comments:
        if text.startswith("#|"):  # the source of which the fuzzy translation is one
            yield Edit(start, end, "")
        elif text.startswith("#,") and "fuzzy" in text:
            others = [flag.strip() for flag in text[2:].split(",") if flag.strip() != "fuzzy"]
            if others:
                yield Edit(start, start + len(text), f"#, {', '.join(others)}")
            else:
                yield Edit(start, end, "")
