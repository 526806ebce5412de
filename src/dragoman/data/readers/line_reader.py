"""Lines of a text file, plain or compressed, in UTF-8 or Latin-1, and the warnings that reading gives."""

import bz2
import errno
import gzip
import hashlib
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeVar, cast

from dragoman.config import Config
from dragoman.data.fingerprints import changed_file_error
from dragoman.errors import DataError, MissingExtraError, describe_unreadable
from dragoman.number_words import counted

MAX_LINE_BYTES = 16 * 2**20
"""Size above which a line is refused: the file is not text in lines."""
LINES_PER_REPORT = 1_000_000
SAMPLE = 100
"""Lines that are read to recognize a format."""
MOST = 0.9
"""Share of lines that shows a format in spite of exceptions."""

Encoding = Literal["utf-8", "latin-1"]
WarningKind = Literal["bom", "crlf", "c1", "blank"]

_MESSAGES: dict[WarningKind, str] = {
    "bom": "byte order mark removed",
    "crlf": "Windows line end (CRLF) read as LF",
    "c1": "line with a control character (U+0080 to U+009F), as CP1252 text gives when it is converted as ISO-8859-1; "
    "convert the original file: iconv -f CP1252 -t UTF-8",
    "blank": "blank line; cleaning removes the pair",
}
_C = TypeVar("_C", bound=Config)
_BUFFER = 2**20
_ZSTANDARD_PIECE = 2**10
"""Compressed bytes that are decompressed at a time: a block of 4 bytes may give 128 KiB."""
_ZSTANDARD_WINDOW = 2**27
"""Greatest window of a .zst file in bytes, as in the program `zstd` without `--long=28` or more."""
_BOM = b"\xef\xbb\xbf"
_C1: dict[Encoding, re.Pattern[bytes]] = {
    "utf-8": re.compile(rb"\xc2[\x80-\x9f]"),
    "latin-1": re.compile(rb"[\x80-\x9f]"),
}
_FOREIGN = {
    re.compile(rb"PK\x03\x04"): "a ZIP archive or an office document, such as .xlsx or .docx",
    re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"): "an office document, such as .xls or .doc",
    re.compile(rb"%PDF-\d"): "a PDF document",
}
"""Beginnings of files that contain text but are no text files."""
OTHER_FORMATS = {
    ".csv": "comma- or semicolon-separated columns",
    **dict.fromkeys((".tmx", ".xml", ".xlf", ".xliff", ".sdlxliff", ".mqxliff"), "TMX, XLIFF and other XML files"),
    **dict.fromkeys((".po", ".pot"), "PO files"),
}
"""Formats of translations that are not read as text in lines, by ending."""
_MAGIC = {
    ".gz": re.compile(rb"\x1f\x8b"),
    ".bz2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),  # the second alternative is an empty file
    ".xz": re.compile(rb"\xfd7zXZ\x00"),
    ".zst": re.compile(rb"\x28\xb5\x2f\xfd"),
}
_Stream = gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile
_STREAMS: dict[str, Callable[[BinaryIO], _Stream]] = {
    ".gz": lambda plain: gzip.GzipFile(fileobj=plain),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}


class LineStream(Protocol):
    """Binary stream that is read line by line."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line, or at most `size` bytes of it; nothing at the end."""
        ...


class CorpusFile(Config):
    """Base class of corpora that are one file."""

    kind: str  # first, because the order of keys is part of the file format
    path: Path
    """The file."""


@dataclass
class ReadWarnings:
    """Repairs, blank lines, skipped answers and the content of files. A reader fills the object it is given."""

    found: dict[tuple[Path, WarningKind], tuple[int, int]] = field(default_factory=dict)
    """(count, first line) by file and kind, in order of appearance."""
    skipped_answers: list[str] = field(default_factory=list)
    """Locations of answers that were not at their offsets."""
    fingerprints: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each file, by path: known before, or of the bytes that were read up to its end."""
    report: Callable[[str], None] | None = field(default=None, compare=False)
    """Function that receives a message after each million lines."""

    def record_content(self, path: Path, fingerprint: str) -> None:
        """Record the fingerprint of what was read. Raises DataError if the file was recorded with another content."""
        if self.fingerprints.setdefault(str(path), fingerprint) != fingerprint:
            raise changed_file_error(path)

    def record(self, path: Path, kind: WarningKind, line: int) -> None:
        """Count one occurrence."""
        count, first = self.found.get((path, kind), (0, line))
        self.found[path, kind] = (count + 1, first)

    def count(self, kind: WarningKind) -> int:
        """Return the number of occurrences in all files."""
        return sum(count for (_, found), (count, _) in self.found.items() if found == kind)

    def to_json(self) -> list[Any]:
        """Return the warnings as JSON values."""
        return [[str(path), kind, *numbers] for (path, kind), numbers in self.found.items()]

    def update(self, tree: list[Any]) -> None:
        """Add the warnings of other files, converted by `to_json`."""
        self.found.update({(Path(path), kind): (count, first) for path, kind, count, first in tree})

    def messages(self, *, blank: bool = True) -> list[str]:
        """Return one line per file and kind, such as `train.de: 29,000 x Windows line end ... (first: line 1)`."""
        repairs = [
            f"{path}: {count:,} x {_MESSAGES[kind]} (first: line {first})"
            for (path, kind), (count, first) in self.found.items()
            if blank or kind != "blank"
        ]
        if not self.skipped_answers:
            return repairs
        count, first = len(self.skipped_answers), self.skipped_answers[0]
        return [*repairs, f"skipped {counted(count, 'answers')} not at their offsets (first: {first})"]


def read_lines(
    path: Path, warnings: ReadWarnings | None = None, *, encoding: Encoding = "utf-8"
) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of each line, split at line feeds only.

    A byte order mark and carriage returns before line feeds are removed and counted in `warnings`; blank lines are
    counted. Raises DataError, with file and line, if the file is unreadable, damaged, not UTF-8 or holds NUL, and at
    its end if its content is not the one in `warnings`.
    """
    with open_binary(path, warnings) as stream:
        yield from read_stream_lines(stream, path, warnings, encoding=encoding)


def read_stream_lines(
    stream: LineStream, name: Path, warnings: ReadWarnings | None = None, *, encoding: Encoding = "utf-8"
) -> Iterator[tuple[int, str]]:
    """Yield what `read_lines` yields from an open stream, which messages call `name`."""
    warnings = ReadWarnings() if warnings is None else warnings
    for number, raw in enumerate(_raw_lines(stream, name), start=1):
        if warnings.report is not None and not number % LINES_PER_REPORT:
            warnings.report(f"reading {name}: {number:,} lines")
        yield number, _decode(raw, name, number, warnings, encoding)


def tabs_note(name: Path | str, lines: Iterable[str]) -> str | None:
    """Describe a text whose first lines nearly all contain a tab, such as a file with several columns."""
    with_tab = ["\t" in line for line in lines]
    if not sum(with_tab) > MOST * len(with_tab):
        return None
    return f"{name}: {sum(with_tab):,} of the first {len(with_tab):,} lines contain a tab, and are read as one text"


def split_columns(line: str, needed: int, *, where: str, keys: tuple[str, str]) -> list[str]:
    """Split a line at tabs. Raises DataError, which names the configuration `keys`, if it has too few columns."""
    columns = line.split("\t")
    require_columns(columns, needed, where=where, remedy=f"separate the columns by tabs, or set {' and '.join(keys)}")
    return columns


def require_columns(columns: Sequence[str], needed: int, *, where: str, remedy: str) -> None:
    """Raise DataError if a line has fewer columns than needed."""
    if len(columns) < needed:
        has = counted(len(columns), "columns")
        raise DataError(f"{where}: {has} where column {needed} is needed; {remedy}")


def check_columns_differ(corpus: _C) -> _C:
    """Return a corpus of several columns. Raises ValueError if two of them are one."""
    names = [name for name in type(corpus).model_fields if name.endswith("_column")]
    for (first, one), (second, other) in combinations([(name, getattr(corpus, name)) for name in names], 2):
        if one is not None and one == other:
            raise ValueError(f"{first} and {second} are both {one}; they must differ")
    return corpus


def open_binary(path: Path, warnings: ReadWarnings | None = None) -> BinaryIO:
    """Open a file, plain or .gz, .bz2, .xz or .zst, as uncompressed bytes.

    Reading its end records its fingerprint in `warnings`, and raises DataError if another one is recorded.
    """
    try:
        plain = io.BufferedReader(io.FileIO(path) if warnings is None else _HashedFile(path, warnings), _BUFFER)
        head = plain.peek(10)[:10]
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; give a file") from error
    except OSError as error:
        raise DataError(describe_unreadable(path, error)) from error
    compression = next((suffix for suffix, magic in _MAGIC.items() if magic.match(head)), None)
    if head and path.suffix in _MAGIC and compression != path.suffix:
        plain.close()
        raise DataError(f"{path}: is not compressed as its name says ({path.suffix}); rename it or compress it again")
    if compression is None:
        return plain
    stream = _STREAMS.get(compression)
    blocks = _decompress_zstandard(plain) if stream is None else _decompress(stream(plain))
    return cast(BinaryIO, io.BufferedReader(_BlockStream(blocks, plain), _BUFFER))


class _HashedFile(io.RawIOBase):
    """File that is hashed while it is read from its beginning to its end."""

    def __init__(self, path: Path, warnings: ReadWarnings) -> None:
        self._file, self._hash = io.FileIO(path), hashlib.sha256()
        self._path, self._warnings = path, warnings

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        size = self._file.readinto(buffer)
        self._hash.update(memoryview(buffer)[:size])
        if not size:
            self._warnings.record_content(self._path, self._hash.hexdigest())
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def _decompress(stream: _Stream) -> Iterator[bytes]:
    """Yield decompressed blocks. Raises EOFError if the data are damaged."""
    try:
        while block := stream.read(_BUFFER):
            yield block
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise EOFError(str(error)) from error
    except OSError as error:
        if error.errno is not None:  # an error of the disk; bz2 raises an OSError without number for damaged data
            raise
        raise EOFError(str(error)) from error


def _decompress_zstandard(plain: BinaryIO) -> Iterator[bytes]:
    """Decompress frame by frame: the stream of the library accepts truncated files."""
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtraError(feature="reading .zst files", extra="zstd") from error
    frames = zstandard.ZstdDecompressor(max_window_size=_ZSTANDARD_WINDOW)
    frame, inside = frames.decompressobj(), False
    while read := plain.read(_ZSTANDARD_PIECE):
        while read:
            try:
                yield frame.decompress(read)
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from error
            inside, read = not frame.eof, frame.unused_data
            if frame.eof:
                frame = frames.decompressobj()
    if inside:
        raise EOFError("the last frame has no end")


class _BlockStream(io.RawIOBase):
    """Stream of blocks that also closes the compressed file, which decompressors leave open."""

    def __init__(self, blocks: Iterator[bytes], file: BinaryIO) -> None:
        self._blocks, self._file, self._rest = blocks, file, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def read_error(where: str, error: EOFError | OSError) -> DataError:
    """Return the error for a failed read of an open file."""
    if isinstance(error, EOFError):
        return DataError(f"{where}: the compressed file is cut off or damaged ({error}); copy or download it again")
    if error.errno == errno.EBADF:
        return DataError(f"{where.rpartition(':')[0]}: is closed. Give a file, or leave the stream open.")
    return DataError(f"{where}: reading failed ({error.strerror}); check the disk")


def _raw_lines(stream: LineStream, path: Path) -> Iterator[bytes]:
    number = 0
    while True:
        number += 1
        try:
            raw = stream.readline(MAX_LINE_BYTES + 1)
        except (EOFError, OSError) as error:
            raise read_error(f"{path}:{number}", error) from error
        if not raw:
            return
        if len(raw) > MAX_LINE_BYTES:
            raise DataError(
                f"{path}:{number}: line longer than {MAX_LINE_BYTES:,} bytes; give a text file with one text per line"
            )
        yield raw


def _decode(raw: bytes, path: Path, number: int, warnings: ReadWarnings, encoding: Encoding) -> str:
    raw = raw.removesuffix(b"\n")
    if raw.endswith(b"\r"):
        raw = raw[:-1]
        warnings.record(path, "crlf", number)
    if raw.startswith(_BOM):
        raw = raw[len(_BOM) :]
        warnings.record(path, "bom", number)
    if number == 1:
        _check_beginning(raw, path)
    if b"\x00" in raw:
        raise DataError(
            f"{path}:{number}: contains a NUL byte, so it is not text; remove it, or convert the file if it is UTF-16"
        )
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        place = f"byte {raw[error.start]:#04x} at position {error.start + 1}"
        remedy = "convert the file from its encoding; Western European text: iconv -f CP1252 -t UTF-8"
        raise DataError(f"{path}:{number}: not UTF-8 ({place}); {remedy}") from error
    if not raw.isascii() and _C1[encoding].search(raw):
        warnings.record(path, "c1", number)
    if not text or text.isspace():
        warnings.record(path, "blank", number)
    return text


def _check_beginning(raw: bytes, path: Path) -> None:
    """Raise DataError if the first line is that of UTF-16 text or of a document."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}:1: UTF-16, not UTF-8; convert the file: iconv -f UTF-16 -t UTF-8")
    if (kind := next((kind for magic, kind in _FOREIGN.items() if magic.match(raw)), None)) is not None:
        raise DataError(
            f"{path}: is {kind}, not a text file. Save a table as tab-separated text (TSV), and other text as plain "
            "text, in UTF-8."
        )


def ending_of(path: Path) -> str:
    """Return the ending of a file name without that of its compression."""
    return (path.with_suffix("") if path.suffix in _MAGIC else path).suffix.lower()


def refuse_other_formats(path: Path) -> None:
    """Raise DataError for a file that is named as XML or PO, whose markup would be read as text."""
    ending = ending_of(path)
    if ending in OTHER_FORMATS and ending != ".csv":  # which may have tabs
        raise other_format(path, OTHER_FORMATS[ending])


def other_format(path: Path, formats: str) -> DataError:
    """Return the error for a file of these formats."""
    return DataError(f"{path}: {formats} are not read here. Save or export it as tab-separated text (TSV).")
