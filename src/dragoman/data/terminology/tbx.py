"""TBX, the exchange format of terminology (ISO 30042), in the shapes of versions 2 and 3.

An entry holds the terms of several languages: `termEntry`, `langSet` and `tig` or `ntig` in version 2 and TBX-Basic,
`conceptEntry`, `langSec` and `termSec` in version 3. Several terms of the target language are forms of one translation,
the preferred ones first. Deprecated terms are forbidden.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, final
from xml.parsers import expat

from dragoman.data.documents.xml_parser import decode_xml_text, secure_parser
from dragoman.data.terminology.glossary import Glossary, Term, split_forms
from dragoman.errors import DataError, shorten_text
from dragoman.number_words import counted

_ENTRIES: Final = {"termEntry", "conceptEntry"}
_SECTIONS: Final = {"langSet", "langSec"}
_GROUPS: Final = {"tig", "ntig", "termSec"}
_STATUS: Final = {"administrativeStatus", "normativeAuthorization"}
_DEPRECATED: Final = ("deprecated", "superseded", "obsolete", "forbidden", "rejected")
_LANGUAGE: Final = "http://www.w3.org/XML/1998/namespace lang"
MAX_DEPTH = 100
"""Nesting of elements."""


@dataclass(slots=True)
class _Found:
    """Term of a language."""

    language: str
    texts: list[str] = field(default_factory=list)
    status: str = ""

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def is_deprecated(self) -> bool:
        return self.status.strip().lower().startswith(_DEPRECATED)

    @property
    def is_preferred(self) -> bool:
        return self.status.strip().lower().startswith("preferred")


@dataclass(slots=True)
class _Entry:
    line: int
    terms: list[_Found] = field(default_factory=list)


def parse_tbx(content: bytes, languages: tuple[str | None, str | None], *, name: str = "glossary") -> Glossary:
    """Return the terms of a TBX file for a source and a target language; one of two languages follows from the other.

    Files that define entities are refused, and nothing outside of the file is read. Raises DataError if the file is no
    TBX, or it is not clear which languages are asked for.
    """
    entries = _Reader(name).read(content)
    pair = _choose_languages({found.language for entry in entries for found in entry.terms}, languages, name)
    terms = []
    for entry in entries:
        sources = _texts(entry.terms, pair[0], deprecated=False)
        targets, forbidden = (_texts(entry.terms, pair[1], deprecated=deprecated) for deprecated in (False, True))
        if not sources or not (targets or forbidden):
            continue
        try:
            terms.append(Term(sources, targets, forbidden))
        except DataError as error:
            raise DataError(f"{name}, line {entry.line}: {error}") from error
    if not terms:
        raise DataError(f"{name}: has no terms in both {pair[0]} and {pair[1]}. Give the languages of the glossary.")
    return Glossary(tuple(terms), *pair)


@final
class _Reader:
    """Reads the entries of a file, element by element."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._entries: list[_Entry] = []
        self._path: list[str] = []
        self._language = ""
        self._capture: str | None = None
        """What the text of the present element is: `text` of a term, or its `status`."""
        self._parser = secure_parser(name)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text

    def read(self, content: bytes) -> list[_Entry]:
        """Return the entries. Raises DataError on anything else than TBX."""
        try:
            self._parser.Parse(decode_xml_text(content, self._name).text.encode(), True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise DataError(f"{self._name}, line {error.lineno}: is no valid XML: {reason}. Fix the file.") from error
        return self._entries

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]
        if not self._path and tag not in ("martif", "tbx"):
            raise DataError(f"{self._name}: is no TBX, since its root is <{shorten_text(tag)}>. Give a TBX file.")
        if len(self._path) == MAX_DEPTH:
            raise DataError(f"{self._where()}: elements nest deeper than {MAX_DEPTH}. Give a TBX file.")
        self._path.append(tag)
        if tag in _ENTRIES:
            self._entries.append(_Entry(self._parser.CurrentLineNumber))
        elif not _ENTRIES.isdisjoint(self._path):
            self._start_part(tag, attributes)

    def _start_part(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an element of an entry."""
        terms = self._entries[-1].terms
        if tag in _SECTIONS:
            self._language = (attributes.get(_LANGUAGE) or attributes.get("lang") or "").strip()
            if not self._language:
                raise DataError(f"{self._where()}: a <{tag}> has no xml:lang. Add its language.")
        elif tag in _GROUPS:
            terms.append(_Found(self._language))
        elif terms and not _GROUPS.isdisjoint(self._path):
            if tag == "term":
                self._capture = "text"
            elif attributes.get("type", tag) in _STATUS:
                self._capture = "status"

    def _end(self, tag: str) -> None:
        self._path.pop()
        if tag.rpartition(" ")[2] not in ("hi", "ph"):  # a part of a term that is set apart
            self._capture = None

    def _text(self, text: str) -> None:
        match self._capture:
            case "text":
                self._entries[-1].terms[-1].texts.append(text)
            case "status":
                self._entries[-1].terms[-1].status += text

    def _where(self) -> str:
        return f"{self._name}, line {self._parser.CurrentLineNumber}"


def _texts(found: Iterable[_Found], language: str, *, deprecated: bool) -> tuple[str, ...]:
    """Return the terms of a language, the preferred ones first."""
    chosen = [one for one in found if one.language == language and one.is_deprecated == deprecated]
    ordered = sorted(chosen, key=lambda one: not one.is_preferred)
    return split_forms("|".join(one.text.replace("|", r"\|") for one in ordered))


def _choose_languages(known: set[str], given: tuple[str | None, str | None], name: str) -> tuple[str, str]:
    """Return the source and the target language of the file. Raises DataError if they are not clear."""
    chosen = [None if code is None else _known(code, known, name) for code in given]
    rest = sorted(known - {*chosen})
    if chosen.count(None) == 1 and len(rest) == 1:
        chosen = [rest[0] if code is None else code for code in chosen]
    source, target = chosen
    if source is None or target is None:
        shown = f"{counted(len(known), 'languages')} ({_shown(known)})" if known else "no terms"
        raise DataError(f"{name}: has {shown}. Give the source and the target language of the glossary.")
    return source, target


def _known(code: str, known: set[str], name: str) -> str:
    """Return the language of the file that a code means: itself, or the only one with the same first part."""
    folded = {language.replace("_", "-").lower(): language for language in known}
    wanted = code.replace("_", "-").lower()
    if wanted in folded:
        return folded[wanted]
    similar = [own for key, own in folded.items() if key.split("-")[0] == wanted.split("-")[0]]
    if len(similar) != 1:
        raise DataError(f"{name}: has no terms in {shorten_text(code)}. Its languages are {_shown(known) or 'none'}.")
    return similar[0]


def _shown(known: set[str]) -> str:
    return ", ".join(shorten_text(code) for code in sorted(known)[:20])
