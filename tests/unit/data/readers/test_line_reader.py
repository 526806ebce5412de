"""Lines of plain and compressed files: repairs and errors."""

import bz2
import gzip
import io
import lzma
import sys
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from dragoman.data.readers import line_reader
from dragoman.data.readers.line_reader import MAX_LINE_BYTES, ReadWarnings, read_lines, read_stream_lines
from dragoman.errors import DataError, MissingExtraError

TEXT = "Zwei Hunde\nspielen\n"
COMPRESS = {
    ".txt": lambda content: content,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def texts(path: Path, warnings: ReadWarnings | None = None) -> list[str]:
    return [text for _, text in read_lines(path, warnings)]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_every_compression_gives_the_same_lines(tmp_path, suffix):
    path = written(tmp_path, f"a{suffix}", COMPRESS[suffix](TEXT.encode()))
    assert list(read_lines(path)) == [(1, "Zwei Hunde"), (2, "spielen")]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_concatenated_streams_are_one_text(tmp_path, suffix):
    path = written(tmp_path, f"a{suffix}", COMPRESS[suffix](b"a\nb") + COMPRESS[suffix](b"c\nd\n"))
    assert texts(path) == ["a", "bc", "d"]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_truncated_file_is_refused(tmp_path, suffix):
    content = COMPRESS[suffix]("".join(f"line {n * n}\n" for n in range(5000)).encode())
    path = written(tmp_path, f"a{suffix}", content[: len(content) // 2])
    with pytest.raises(DataError, match=rf"a\{suffix}:\d+: the compressed file is cut off or damaged .* again"):
        texts(path)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_damaged_file_is_refused(tmp_path, suffix):
    content = bytearray(COMPRESS[suffix]("".join(f"line {n * n}\n" for n in range(5000)).encode()))
    middle = len(content) // 2
    content[middle : middle + 40] = bytes(40)
    with pytest.raises(DataError, match="cut off or damaged"):
        texts(written(tmp_path, f"a{suffix}", bytes(content)))


def test_text_that_starts_like_bz2_is_a_text(tmp_path):
    assert texts(written(tmp_path, "a.txt", b"BZh9 is how bzip2 begins\n")) == ["BZh9 is how bzip2 begins"]
    assert texts(written(tmp_path, "b.bz2", bz2.compress(b""))) == []


def test_plain_text_named_as_compressed_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"a\.gz: is not compressed as its name says"):
        texts(written(tmp_path, "a.gz", TEXT.encode()))


def test_missing_zstandard_names_the_extra(tmp_path, monkeypatch):
    path = written(tmp_path, "a.zst", COMPRESS[".zst"](b"a\n"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"dragoman\[zstd\]"):
        texts(path)


def test_only_line_feeds_end_lines(tmp_path):
    content = "a\u2028b\x85c\x0bd\x0ce\x1cf\rg\nh".encode()
    assert texts(written(tmp_path, "a.txt", content)) == ["a\u2028b\x85c\x0bd\x0ce\x1cf\rg", "h"]


def test_crlf_and_byte_order_mark_are_repaired(tmp_path):
    warnings = ReadWarnings()
    path = written(tmp_path, "a.txt", b"\xef\xbb\xbfone\r\ntwo\n\r\nthree\r\n")
    assert texts(path, warnings) == ["one", "two", "", "three"]
    assert {kind: warnings.count(kind) for kind in ("bom", "crlf", "blank")} == {"bom": 1, "crlf": 3, "blank": 1}
    crlf, bom, blank = warnings.messages()
    assert bom.startswith(f"{path}: 1 x byte order mark")
    assert crlf.startswith(f"{path}: 3 x Windows line end")
    assert crlf.endswith("(first: line 1)")
    assert blank.startswith(f"{path}: 1 x blank line")
    assert blank.endswith("(first: line 3)")


def test_latin_1_is_refused_with_line_byte_and_remedy(tmp_path):
    path = written(tmp_path, "a.de", "gut\nschön\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.de:2: not UTF-8 \(byte 0xf6 at position 4\); .*iconv"):
        texts(path)


def test_remedy_for_windows_text_keeps_its_quotation_marks(tmp_path):
    path = written(tmp_path, "a.fr", "l’été".encode("cp1252"))
    with pytest.raises(DataError, match=r"byte 0x92 at position 2\); .*iconv -f CP1252 -t UTF-8"):
        texts(path)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_control_characters_of_a_wrong_conversion_are_counted(tmp_path, encoding):
    warnings = ReadWarnings()
    path = written(tmp_path, "a.fr", "l\x92été\nété\n\x93oui\x94\n".encode(encoding))
    list(read_lines(path, warnings, encoding=encoding))
    (message,) = warnings.messages()
    assert message.startswith(f"{path}: 2 x line with a control character (U+0080 to U+009F)")
    assert message.endswith("iconv -f CP1252 -t UTF-8 (first: line 1)")


@pytest.mark.parametrize(
    ("beginning", "kind"),
    [
        (b"PK\x03\x04\x14\x00\x06\x00", "a ZIP archive or an office document"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00", "an office document"),
        (b"%PDF-1.7\n", "a PDF document"),
    ],
)
def test_documents_are_no_text_files(tmp_path, beginning, kind):
    with pytest.raises(DataError, match=rf"real\.dat: is {kind}.*Save a table as tab-separated text \(TSV\)"):
        texts(written(tmp_path, "real.dat", beginning + b"\x93\n"))


def test_real_latin_1_is_refused(shared_data):
    with pytest.raises(DataError, match=r"TREC\.train\.all\.gz:\d+: not UTF-8"):
        texts(shared_data / "classification" / "TREC.train.all.gz")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_recognized(tmp_path, encoding):
    path = written(tmp_path, "a.txt", ("\ufeff" + TEXT).encode(encoding))
    with pytest.raises(DataError, match=r"a\.txt:1: UTF-16.*iconv -f UTF-16"):
        texts(path)


def test_nul_is_refused_with_its_line(tmp_path):
    with pytest.raises(DataError, match=r"a\.txt:2: contains a NUL byte"):
        texts(written(tmp_path, "a.txt", b"one\ntw\x00o\n"))


def test_missing_file_and_folder_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"none\.txt: cannot be read \(No such file"):
        texts(tmp_path / "none.txt")
    with pytest.raises(DataError, match="is a folder"):
        texts(tmp_path)


def test_empty_file_has_no_line(tmp_path):
    assert texts(written(tmp_path, "a.txt", b"")) == []
    assert texts(written(tmp_path, "a.gz", b"")) == []


def test_line_of_100_000_words_is_read(tmp_path):
    long = " ".join(["word"] * 100_000)
    assert texts(written(tmp_path, "a.gz", gzip.compress(f"{long}\nend\n".encode()))) == [long, "end"]


def test_endless_line_is_refused(tmp_path):
    path = tmp_path / "a.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"short\n")
        for _ in range(MAX_LINE_BYTES // 2**20 + 1):
            file.write(b"x" * 2**20)
    with pytest.raises(DataError, match=r"a\.gz:2: line longer than 16,777,216 bytes"):
        texts(path)


def test_small_file_of_much_text_is_read_in_little_memory(tmp_path):
    """A .zst file of 18 KB holds 128 MB."""
    path, writer = tmp_path / "a.zst", zstandard.ZstdCompressor(level=1)
    with path.open("wb") as file, writer.stream_writer(file) as stream:
        for _ in range(128):
            stream.write((b"x" * (2**16 - 1) + b"\n") * 16)
    assert path.stat().st_size < 2**15
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_lines(path)) == 2048
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * 2**20


def test_progress_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(line_reader, "LINES_PER_REPORT", 7)
    path, reports = written(tmp_path, "a.gz", gzip.compress(b"\n" * 23)), list[str]()
    assert len(texts(path, ReadWarnings(report=reports.append))) == 23
    assert reports == [f"reading {path}: {number} lines" for number in (7, 14, 21)]


def test_file_is_closed_when_reading_stops(tmp_path, monkeypatch):
    path, opened = written(tmp_path, "a.gz", gzip.compress(TEXT.encode())), []
    original = io.FileIO

    def remembering(*arguments):
        opened.append(original(*arguments))
        return opened[-1]

    monkeypatch.setattr(io, "FileIO", remembering)
    reading = read_lines(path)
    next(reading)
    reading.close()
    assert [file.closed for file in opened] == [True]


def test_open_stream_is_read_like_a_file():
    warnings = ReadWarnings()
    stream = io.BytesIO("Hund\r\ngrün\n".encode())
    assert list(read_stream_lines(stream, Path("standard input"), warnings)) == [(1, "Hund"), (2, "grün")]
    assert warnings.messages() == ["standard input: 1 x Windows line end (CRLF) read as LF (first: line 1)"]
    with pytest.raises(DataError, match="standard input:1: contains a NUL byte"):
        list(read_stream_lines(io.BytesIO(b"\x00"), Path("standard input")))
