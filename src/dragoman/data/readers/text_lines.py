"""Lines of a text file, plain or compressed, as UTF-8 without surprises; Latin-1 where it is asked for."""

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, cast

from dragoman.data.readers.repairs import Repairs
from dragoman.errors import DataError, MissingExtraError

LONGEST_LINE = 64 * 2**20
"""Bytes of a line above which a file is refused: it is no text in lines."""

Encoding = Literal["utf-8", "latin-1"]

_BUFFER = 2**20
_BOM = b"\xef\xbb\xbf"
_MAGIC = {
    ".gz": re.compile(rb"\x1f\x8b"),
    ".bz2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),  # or the end at once, of nothing
    ".xz": re.compile(rb"\xfd7zXZ\x00"),
    ".zst": re.compile(rb"\x28\xb5\x2f\xfd"),
}


def lines(path: Path, repairs: Repairs | None = None, *, encoding: Encoding = "utf-8") -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each line, split at line feeds and nowhere else.

    A byte order mark and carriage returns before line feeds are removed and counted in `repairs`, blank lines counted.
    Raises DataError, with file and line, where the file cannot be read, is damaged, is not UTF-8 or holds NUL.
    """
    with open_binary(path) as stream:
        yield from lines_of(stream, path, repairs, encoding=encoding)


def lines_of(
    stream: BinaryIO, name: Path, repairs: Repairs | None = None, *, encoding: Encoding = "utf-8"
) -> Iterator[tuple[int, str]]:
    """What `lines` yields, from an open stream such as standard input, which messages call `name`."""
    repairs = Repairs() if repairs is None else repairs
    for number, raw in enumerate(_raw_lines(stream, name), start=1):
        yield number, _text(raw, name, number, repairs, encoding)


def open_binary(path: Path) -> BinaryIO:
    """The uncompressed bytes of a file that may be .gz, .bz2, .xz or .zst."""
    try:
        plain = io.BufferedReader(io.FileIO(path), _BUFFER)
        head = plain.peek(10)[:10]
    except IsADirectoryError as error:
        raise DataError(f"{path}: is a folder; give a file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    compression = next((suffix for suffix, magic in _MAGIC.items() if magic.match(head)), None)
    if head and path.suffix in _MAGIC and compression != path.suffix:
        plain.close()
        raise DataError(f"{path}: is not compressed as its name says ({path.suffix}); rename it or compress it again")
    return _uncompressed(plain, compression)


def _uncompressed(plain: BinaryIO, compression: str | None) -> BinaryIO:
    match compression:
        case ".gz":
            chunks = _chunks(gzip.GzipFile(fileobj=plain))
        case ".bz2":
            chunks = _chunks(bz2.BZ2File(plain))
        case ".xz":
            chunks = _chunks(lzma.LZMAFile(plain))  # noqa: SIM115, it holds nothing open itself
        case ".zst":
            chunks = _zstandard_chunks(plain)
        case _:
            return plain
    return cast(BinaryIO, io.BufferedReader(_Chunks(chunks, plain), _BUFFER))


def _chunks(stream: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile) -> Iterator[bytes]:
    """What a decompressing stream gives. Raises EOFError where it is damaged."""
    try:
        while chunk := stream.read(_BUFFER):
            yield chunk
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise EOFError(str(error)) from error
    except OSError as error:
        if error.errno is not None:  # the disk's, and not that of bz2, which has no error of its own
            raise
        raise EOFError(str(error)) from error


def _zstandard_chunks(plain: BinaryIO) -> Iterator[bytes]:
    """Frame after frame; the library's own stream takes a file that is cut off for one that ends."""
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtraError(feature="reading .zst files", extra="zstd") from error
    frame = zstandard.ZstdDecompressor().decompressobj()
    inside = False
    while read := plain.read(_BUFFER // 8):
        while read:
            try:
                yield frame.decompress(read)
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from error
            inside, read = not frame.eof, frame.unused_data
            if frame.eof:
                frame = zstandard.ZstdDecompressor().decompressobj()
    if inside:
        raise EOFError("the last frame has no end")


class _Chunks(io.RawIOBase):
    """A stream of chunks that closes the file below it, which decompressors leave open."""

    def __init__(self, chunks: Iterator[bytes], below: BinaryIO) -> None:
        self._chunks, self._below, self._rest = chunks, below, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def close(self) -> None:
        self._below.close()
        super().close()


def _raw_lines(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    number = 0
    while True:
        number += 1
        try:
            raw = stream.readline(LONGEST_LINE + 1)
        except EOFError as error:
            raise DataError(
                f"{path}:{number}: the compressed file is cut off or damaged ({error}); copy or download it again"
            ) from error
        except OSError as error:
            raise DataError(f"{path}:{number}: cannot be read further ({error.strerror}); check the disk") from error
        if not raw:
            return
        if len(raw) > LONGEST_LINE:
            raise DataError(f"{path}:{number}: longer than {LONGEST_LINE:,} bytes; give a text file with a line a text")
        yield raw


def _text(raw: bytes, path: Path, number: int, repairs: Repairs, encoding: Encoding) -> str:
    raw = raw.removesuffix(b"\n")
    if raw.endswith(b"\r"):
        raw = raw[:-1]
        repairs.note(path, "crlf", number)
    if raw.startswith(_BOM):
        raw = raw[len(_BOM) :]
        repairs.note(path, "bom", number)
    if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}:1: is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8")
    if b"\x00" in raw:
        raise DataError(
            f"{path}:{number}: holds a NUL byte, so it is no text; remove it, or convert it if it is UTF-16"
        )
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        place = f"byte {raw[error.start]:#04x} at position {error.start + 1}"
        remedy = "convert the file, for example: iconv -f ISO-8859-1 -t UTF-8"
        raise DataError(f"{path}:{number}: not UTF-8 ({place}); {remedy}") from error
    if not text or text.isspace():
        repairs.note(path, "blank", number)
    return text
