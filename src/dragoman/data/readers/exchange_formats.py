"""Translations that programs exchange, as parallel corpora: TMX, XLIFF, PO, and archives of two texts as in OPUS.

All are read as streams: memory holds one translation unit, whatever the size of the file.
"""

import io
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, Literal
from xml.parsers import expat

from dragoman.data.documents.bilingual.multilingual_xml import same_language
from dragoman.data.documents.bilingual.po import MessageReader, PoMessage
from dragoman.data.documents.xml_parser import secure_parser, xml_error
from dragoman.data.documents.xml_tree import MAX_DEPTH
from dragoman.data.readers.line_reader import ReadWarnings, open_binary, read_error, read_stream_lines
from dragoman.data.readers.pair_corpus import Files, PairCorpus, PairRow
from dragoman.errors import DataError, describe_unreadable

BLOCK = 2**16
"""Bytes that are parsed at a time."""
MAX_UNIT_LENGTH = 2**20
"""Characters of one translation unit; a longer one is no sentence or paragraph."""
_NATIVE_CODES = frozenset({"bpt", "ept", "ph", "it", "ut", "bx", "ex", "x", "sc", "ec", "cp", "ignorable"})
"""Inline elements whose content is code of another format."""
_SOURCES = ("source", "seg-source")
_UNREVIEWED = ("new", "needs-", "initial")
"""Beginnings of the states of targets that are no translations yet, or wait for a review."""


class ParallelTmx(PairCorpus):
    """Translation memories in TMX, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["tmx"] = "tmx"
    path: Files
    """File, list of files, or glob pattern."""
    from_language: str | None = None
    """Language of the sources in the file, such as `en`; by default the one that its header names."""
    to_language: str | None = None
    """Language of the targets in the file; by default the first other one of each unit."""


class ParallelXliff(PairCorpus):
    """XLIFF 1.2 or 2 files, plain or compressed."""

    kind: Literal["xliff"] = "xliff"
    path: Files
    """File, list of files, or glob pattern."""
    unreviewed: bool = False
    """Whether targets are read whose state says that they need a review."""


class ParallelPo(PairCorpus):
    """PO files of gettext in UTF-8, plain or compressed."""

    kind: Literal["po"] = "po"
    path: Files
    """File, list of files, or glob pattern."""
    unreviewed: bool = False
    """Whether fuzzy translations are read."""


class ParallelZip(PairCorpus):
    """ZIP archives with two aligned texts, as OPUS has them: `name.en` and `name.pt`."""

    kind: Literal["zip"] = "zip"
    path: Files
    """File, list of files, or glob pattern."""
    from_language: str
    """Ending of the text with the sources, such as `en`."""
    to_language: str
    """Ending of the text with the targets."""


def read_tmx(path: Path, corpus: ParallelTmx, warnings: ReadWarnings) -> Iterator[PairRow]:
    """Yield the pairs of a translation memory; units without one of the languages are left out."""
    return _read_xml(path, _TmxUnits(str(path), corpus.from_language, corpus.to_language), warnings)


def read_xliff(path: Path, corpus: ParallelXliff, warnings: ReadWarnings) -> Iterator[PairRow]:
    """Yield the pairs of an XLIFF file; units without a target are left out."""
    return _read_xml(path, _XliffUnits(str(path), corpus.unreviewed), warnings)


def read_po(path: Path, corpus: ParallelPo, warnings: ReadWarnings) -> Iterator[PairRow]:
    """Yield the translated messages of a PO file: of plural forms, the one of 1 and the last."""
    reader = MessageReader(str(path))
    with open_binary(path, warnings) as stream:
        for number, line in read_stream_lines(stream, path):  # blank lines separate messages, and are no warning
            for message in reader.read(f"{line}\n", number, 0):
                yield from _po_pairs(message, corpus)
    for message in reader.close():
        yield from _po_pairs(message, corpus)


def _po_pairs(message: PoMessage, corpus: ParallelPo) -> Iterator[PairRow]:
    if not message.value("msgid") or ("fuzzy" in message.flags and not corpus.unreviewed):
        return
    forms = message.forms()
    pairs = [("msgid", forms[0])] if len(forms) > 1 or "msgid_plural" not in message.fields else []
    pairs += [("msgid_plural", forms[len(forms) - 1])] if "msgid_plural" in message.fields else []
    for name, form in pairs:
        if form.text.strip():
            yield message.line, _one_line(message.value(name)), _one_line(form.text)


def read_zip(path: Path, corpus: ParallelZip, warnings: ReadWarnings) -> Iterator[PairRow]:
    """Yield the pairs of the two texts of an archive, whose names differ in the ending only."""
    try:
        with ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(path))
            names = _moses_names(archive, path, corpus)
            texts = [
                read_stream_lines(stack.enter_context(archive.open(name)), path / name, warnings) for name in names
            ]
            for left, right in zip_longest(*texts):
                if left is None or right is None:
                    raise DataError(
                        f"{path}: {names[0]} and {names[1]} have different numbers of lines. Copy it again."
                    )
                yield left[0], left[1], right[1]
    except OSError as error:
        raise DataError(describe_unreadable(path, error)) from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise DataError(
            f"{path}: is not a ZIP archive, or a damaged one ({error}); copy or download it again"
        ) from error


def zip_languages(path: Path) -> list[str]:
    """Return the endings of the texts in an archive that differ in their ending only: two, or none."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
    except (OSError, zipfile.BadZipFile):
        return []
    endings: dict[str, list[str]] = {}
    for name in names:
        stem, _, ending = name.rpartition(".")
        endings.setdefault(stem, []).append(ending)
    pairs = [found for stem, found in endings.items() if stem and len(found) == 2]
    return pairs[0] if len(pairs) == 1 else []


def _moses_names(archive: zipfile.ZipFile, path: Path, corpus: ParallelZip) -> tuple[str, str]:
    names = set(archive.namelist())
    for name in sorted(names):
        stem, _, ending = name.rpartition(".")
        other = f"{stem}.{corpus.to_language}"
        if ending == corpus.from_language and other in names:
            return name, other
    raise DataError(
        f"{path}: has no two texts NAME.{corpus.from_language} and NAME.{corpus.to_language}; "
        f"it has {', '.join(sorted(names)[:8])}. Set from_language and to_language."
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Units:
    """Events of an XML parser as pairs; the base of the two formats."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pairs: list[PairRow] = []
        self.path: list[str] = []
        self.parts: list[str] | None = None
        """Characters of the text that is open."""
        self.length = 0
        self.parser = secure_parser(name)
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2]
        self.path.append(local)
        if len(self.path) > MAX_DEPTH:
            raise DataError(f"{self.name}: has more than {MAX_DEPTH} elements inside of each other. Check the file.")
        self.opened(local, {key.rpartition(" ")[2]: value for key, value in attributes.items()})

    def end(self, _: str) -> None:
        self.closed(self.path.pop())

    def characters(self, text: str) -> None:
        if self.parts is not None and self.path[-1] not in _NATIVE_CODES:
            self.length += len(text)
            if self.length > MAX_UNIT_LENGTH:
                line = self.parser.CurrentLineNumber
                raise DataError(f"{self.name}:{line}: a unit has more than {MAX_UNIT_LENGTH:,} characters. Split it.")
            self.parts.append(text)

    def open_text(self) -> None:
        self.parts, self.length = [], 0

    def close_text(self) -> str:
        text, self.parts = _one_line("".join(self.parts or ())), None
        return text

    def add(self, source: str, target: str, line: int) -> None:
        if source and target:
            self.pairs.append((line, source, target))

    def opened(self, name: str, attributes: dict[str, str]) -> None:
        """Handle the start of an element."""
        raise NotImplementedError

    def closed(self, name: str) -> None:
        """Handle the end of an element."""
        raise NotImplementedError


class _TmxUnits(_Units):
    """Pairs of a translation memory."""

    def __init__(self, name: str, source: str | None, target: str | None) -> None:
        super().__init__(name)
        self.source, self.target, self.header, self.line = source, target, "", 0
        self.texts: list[tuple[str, str]] = []
        """Language and text of each side of the unit."""

    def opened(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "header":
                self.header = attributes.get("srclang", "")
            case "tu":
                self.texts, self.line = [], self.parser.CurrentLineNumber
            case "tuv":
                self.texts.append((attributes.get("lang", ""), ""))
            case "seg":
                self.open_text()

    def closed(self, name: str) -> None:
        if name == "seg":
            text = self.close_text()
            if self.texts:
                self.texts[-1] = (self.texts[-1][0], text)
        elif name == "tu":
            wanted = self.source or self.header
            if not wanted or wanted == "*all*":
                raise DataError(f"{self.name}: does not name the language of its sources. Set from_language.")
            source = self._find(wanted)
            others = [one for one in self.texts if not same_language(one[0], wanted)]
            target = self._find(self.target) if self.target is not None else next(iter(others), None)
            if source is not None and target is not None:
                self.add(source[1], target[1], self.line)

    def _find(self, language: str) -> tuple[str, str] | None:
        exact = (one for one in self.texts if one[0].lower() == language.lower())
        return next(exact, None) or next((one for one in self.texts if same_language(one[0], language)), None)


class _XliffUnits(_Units):
    """Pairs of an XLIFF file."""

    def __init__(self, name: str, unreviewed: bool) -> None:
        super().__init__(name)
        self.unreviewed, self.line = unreviewed, 0
        self.source = self.state = ""
        self.is_skipped = 0
        """Open elements with proposals, whose texts are not those of the unit."""

    def opened(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "trans-unit" | "segment":
                self.source, self.line = "", self.parser.CurrentLineNumber
                self.state = attributes.get("state", "")
            case "alt-trans" | "matches" | "ignorable":
                self.is_skipped += 1
            case "source" | "target" if not self.is_skipped:
                self.state = attributes.get("state", self.state)
                self.open_text()

    def closed(self, name: str) -> None:
        match name:
            case "alt-trans" | "matches" | "ignorable":
                self.is_skipped -= 1
            case "source" if not self.is_skipped:
                self.source = self.close_text()
            case "target" if not self.is_skipped:
                target = self.close_text()
                if self.unreviewed or not self.state.startswith(_UNREVIEWED):
                    self.add(self.source, target, self.line)


def _read_xml(path: Path, units: _Units, warnings: ReadWarnings) -> Iterator[PairRow]:
    """Yield the pairs of a file block by block."""
    with open_binary(path, warnings) as stream:
        yield from read_xml_stream(stream, path, units)


def read_xml_stream(stream: BinaryIO, path: Path, units: _Units) -> Iterator[PairRow]:
    """Yield the pairs of a stream, which messages call `path`."""
    text = io.TextIOWrapper(stream, encoding=_encoding(stream), errors="strict")
    block = "?"
    while block:
        try:
            block = text.read(BLOCK)
            units.parser.Parse(block.encode(), not block)
        except (expat.ExpatError, UnicodeError) as error:
            raise xml_error(str(path), error) from error
        except (EOFError, OSError) as error:
            raise read_error(f"{path}:{units.parser.CurrentLineNumber}", error) from error
        yield from units.pairs
        units.pairs.clear()


def _encoding(stream: BinaryIO) -> str:
    """Return the encoding of an XML file: that of its byte order mark, or UTF-8."""
    head = stream.peek(2)[:2] if isinstance(stream, io.BufferedReader) else b""
    return "utf-16" if head in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
